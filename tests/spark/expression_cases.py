# ruff: noqa: E501
"""Rows at the edges of every type, and the expressions that are compared with Spark over them."""

from __future__ import annotations

import random
from datetime import date, datetime, timedelta
from decimal import Decimal
from itertools import product
from typing import Any

import pyarrow as pa

NAN, INF = float("nan"), float("inf")
UTC = pa.timestamp("us", "UTC")
NTZ = pa.timestamp("us")

LONGS = [None, 0, 1, -1, 2, -7, 10, 15, 25, -25, 2**31 - 1, -(2**31), 2**31, 2**62, 2**63 - 1, -(2**63), -(2**63) + 1]
INTS = [None, 0, 1, -1, 3, -7, 45, 46_341, 2**31 - 1, -(2**31)]
SHORTS = [None, 0, 1, -1, 3, 32767, -32768, 182]
BYTES = [None, 0, 1, -1, 5, 12, 127, -128]
DOUBLES = [
    None,
    0.0,
    -0.0,
    1.0,
    -1.0,
    0.5,
    2.5,
    -2.5,
    1.005,
    2.675,
    0.1,
    1e-300,
    5e-324,
    1e300,
    9.3e18,
    -9.3e18,
    2.0**53,
]
DOUBLES += [NAN, INF, -INF, 2147483647.5, 2147483648.0, 1234567.8949999, 4503599627370495.5, 70000000000000.125]
FLOATS = [None, 0.0, -0.0, 1.5, -2.5, 0.1, 3.4e38, NAN, INF, -INF, 16777216.0]
DECIMALS = [None, "0.00", "0.01", "-0.01", "2.50", "-2.50", "2.45", "9999.99", "-9999.99", "10.00", "3.00", "0.05"]
FINE = [None, "0.000", "1.000", "-3.000", "7.125", "0.005", "9999999.999", "-0.125"]


def numbers(seed: int = 1) -> pa.Table:
    """Pairs of numbers of every type: all edges with each other, cut to a few hundred rows, and random ones."""
    drawn = random.Random(seed)

    def pairs(edges: list[Any], draw: Any) -> tuple[list[Any], list[Any]]:
        both = [*product(edges, edges)]
        drawn.shuffle(both)
        both = (both * 250)[:250] + [(draw(), draw()) for _ in range(50)]
        return [a for a, _ in both], [b for _, b in both]

    columns: dict[str, pa.Array] = {}
    for names, type, edges, draw in [
        (("b", "c"), pa.int8(), BYTES, lambda: drawn.randint(-12, 12)),
        (("sh", "si"), pa.int16(), SHORTS, lambda: drawn.randint(-180, 180)),
        (("i", "j"), pa.int32(), INTS, lambda: drawn.randint(-40_000, 40_000)),
        (("l", "m"), pa.int64(), LONGS, lambda: drawn.randint(-(10**9), 10**9)),
        (("f", "g"), pa.float32(), FLOATS, lambda: round(drawn.uniform(-9, 9), 2)),
        (("d", "e"), pa.float64(), DOUBLES, lambda: round(drawn.uniform(-99, 99), drawn.randint(0, 9))),
    ]:
        for name, values in zip(names, pairs(edges, draw), strict=True):
            columns[name] = pa.array(values, type)
    first, _ = pairs(DECIMALS, lambda: f"{drawn.randint(-99999, 99999) / 100:.2f}")
    second, _ = pairs(FINE, lambda: f"{drawn.randint(-99999, 99999) / 1000:.3f}")
    columns["x"] = pa.array([None if v is None else Decimal(v) for v in first], pa.decimal128(6, 2))
    columns["y"] = pa.array([None if v is None else Decimal(v) for v in second], pa.decimal128(10, 3))
    columns["p"] = pa.array([drawn.choice([None, True, False]) for _ in first])
    columns["q"] = pa.array([drawn.choice([None, True, False]) for _ in first])
    columns["s"] = pa.array([drawn.choice(NUMERALS) for _ in first])
    return pa.table(columns)


NUMERALS = [None, "12", " -7 ", "+3", "0", "1", "x", "", "1.5", "1e3", "NaN", "-inf", "Infinity", "9223372036854775808"]
NUMERALS += [
    "true",
    "F",
    "yes",
    "2.5d",
    ".5",
    "5.",
    "-128",
    "128",
    "\t9\n",
    "1 2",
    "00012",
    "--1",
    "1e400",
    "t",
    " No ",
]

NUMBERS = """
b + c | sh + si | i + j | l + m | f + g | d + e | x + y | x + 1 | x + i | l + x | f + i | d + x | b + i | i + 1L | f * 2
b - c | sh - si | i - j | l - m | f - g | d - e | x - y | 10 - x | x - b | l - i
b * c | sh * si | i * j | l * m | f * g | d * e | x * y | x * 3 | l * 0.5 | d * 0.5 | i * 1.50
i / j | l / m | f / g | d / e | x / 3 | x / 2.5 | l / 1000.0 | x / d | b / 2 | i / 0.5
l div m | i div j | b div 3 | b % c | sh % si | i % j | l % m | f % g | d % e | l % 10 | mod(i, j) | mod(d, 2)
pmod(b, c) | pmod(sh, si) | pmod(i, j) | pmod(l, m) | pmod(f, g) | pmod(d, e)
- b | - sh | - i | - l | - f | - d | - x | -(3) | -l + 1 | negative(i) | negative(d) | +i
abs(b) | abs(i) | abs(l) | abs(f) | abs(d) | abs(x) | sign(i) | sign(d) | signum(f) | sign(x) | signum(-0.0D)
round(d) | round(d, 2) | round(d, -1) | round(d, 5) | round(f, 1) | round(f) | round(i, -1) | round(l, -3) | round(b, -1)
round(x) | round(x, 1) | round(y, -2) | round(y, 2) | bround(d) | bround(d, 1) | bround(f) | bround(i, -1) | bround(x, 1)
bround(l, -1) | bround(x) | round(l) | round(2.5) | round(-2.5) | round(0.5) | bround(2.5) | round(l, -18) | round(l, -19)
round(x, 4) | round(d, 20) | round(d, -30) | bround(y, -1)
floor(d) | floor(f) | floor(l) | floor(i) | floor(x) | floor(y) | ceil(d) | ceil(f) | ceil(i) | ceiling(x) | ceil(y)
sqrt(d) | sqrt(i) | exp(d) | exp(f) | ln(d) | ln(l) | log(d) | log(2, d) | log(d, e) | pow(d, e) | power(i, 2) | pow(x, 0.5)
greatest(i, j) | greatest(d, e, f) | least(d, e) | least(l, i, 5) | greatest(f, g) | greatest(x, y) | least(x, 1) | least(p, q)
greatest(d, -0.0D, 0.0D) | greatest(null, i)
try_add(i, j) | try_add(l, m) | try_subtract(l, m) | try_multiply(l, m) | try_divide(d, e) | try_divide(i, j) | try_add(d, e)
try_multiply(b, c) | try_divide(l, 0)
d = 1 | i = j | l = m | d = e | d <> e | d < e | d <= e | d > e | d >= e | f = g | f < d | i < d | x < y | x >= 1 | i = l | l = d
x = d | y > 2 | l > 0.5 | b = 1.0 | p = q | p < q | d == e | i != j | d <=> e | i <=> j | p <=> null | x <=> y | i <=> null
i = null | l <=> d | f <> g | p <> q
p AND q | p OR q | NOT p | !p | p AND NULL | NULL OR q | p = (i > 0) | NOT (p AND q) OR d > 1 | p is true | q is not false
i IS NULL | d IS NOT NULL | isnull(x) | isnotnull(d) | isnan(d) | isnan(f) | isnan(i) | p IS NULL OR q
d BETWEEN -1 AND e | i NOT BETWEEN j AND 10 | l BETWEEN 0 AND 2.5 | d IN (1, 2.5, 0.0) | i IN (1, 3, null) | l NOT IN (1, 2)
d IN (double('NaN'), 1.0D) | b IN (1, 127) | x IN (2.5, 10) | p IN (true) | i NOT IN (3, null)
coalesce(i, j) | coalesce(i, l, 1) | coalesce(x, 1) | ifnull(d, i) | nvl(f, 1) | nvl2(i, l, d) | nullif(i, j) | nullif(d, e)
nullif(l, 1) | nanvl(d, e) | nanvl(f, g) | nanvl(f, 1) | if(p, i, l) | if(d > 1, x, 0) | coalesce(null, d)
CASE WHEN p THEN i WHEN q THEN l END | CASE i WHEN 1 THEN 'a' WHEN 3 THEN 'b' ELSE 'c' END | CASE WHEN j <> 0 THEN i / j END
CASE WHEN p THEN x ELSE y END | CASE WHEN d > 0 THEN ln(d) ELSE -1 END | p OR i / j > 1 | j <> 0 AND i div j > 1
if(j = 0, null, i % j) | coalesce(i, l div m) | i IS NOT NULL AND l + m > 0 | CASE WHEN p THEN 1 END
cast(d AS int) | cast(d AS bigint) | cast(f AS smallint) | cast(l AS int) | cast(i AS tinyint) | cast(i AS double)
cast(l AS float) | cast(d AS float) | cast(f AS double) | cast(p AS int) | cast(i AS boolean) | cast(d AS boolean)
cast(x AS int) | cast(x AS double) | cast(y AS float) | cast(i AS decimal(12,2)) | cast(l AS decimal(10,0)) | cast(x AS decimal(4,1))
cast(y AS decimal(38,18)) | cast(y AS tinyint) | cast(l AS string) | cast(b AS string) | cast(p AS string) | cast(x AS string)
cast(y AS string) | cast(p AS double) | cast(p AS bigint) | bigint(d) | double(x) | cast(l AS timestamp) | d::int | cast(d AS tinyint)
cast(cast(y AS decimal(20,3)) AS double)
cast(s AS int) | cast(s AS bigint) | cast(s AS double) | cast(s AS float) | cast(s AS boolean) | cast(s AS tinyint) | int(s)
s = i | s < d | s = p | s + 1 | s * d | - s | abs(s) | s IN (12, 0) | coalesce(i, s) | round(s) | floor(s) | s = 1.5
1 | 1.50 | 0.05 | 007.5 | 12345678901 | 123456789012345678901 | 1e3 | -128Y | -9223372036854775808 | 1.5F | 2S | 3BD | .5 | null
!p = q | NOT p = q | i + j % 3 | i % 3 * 2 | i * 2 % 3 | j div 2 * 3 | - i % 3 | i - j - 1 | -i::bigint | p AND q OR NOT p | NOT p AND q
(i < j) = p | i + 1 IS NULL | p OR q AND NOT q | i BETWEEN j - 1 AND j + 1 AND p | - - d | CASE WHEN i < j THEN 1 ELSE 2 END = 1
timestamp_seconds(i) | timestamp_seconds(l) | timestamp_millis(l) | timestamp_micros(l) | timestamp_seconds(d) | timestamp_millis(b)
"""

WORDS = [
    None,
    "",
    " ",
    "a",
    "Spark",
    "  pad  ",
    "Straße",
    "İstanbul",
    "ΟΔΟΣ",
    "ΟΔΟΣ x",
    "ﬁne",
    "日本語",
    "a,b,,c,",
    ",",
    "ab",
    "%",
    "_",
]
WORDS += [
    "😀 smile",
    "a😀b",
    "e\u0301",
    "tab\t",
    "\u00a0nbsp\u00a0",
    "it's",
    "line\nend",
    "aaa",
    "ǅ",
    "ŉ",
    "user",
    "zz",
]


def words(seed: int = 2) -> pa.Table:
    drawn = random.Random(seed)
    pairs = [*product(WORDS, WORDS)]
    drawn.shuffle(pairs)
    pairs = pairs[:250]
    alphabet = "ab ,Aßé日😀"
    pairs += [tuple("".join(drawn.choices(alphabet, k=drawn.randint(0, 9))) for _ in "st") for _ in range(50)]
    number = [drawn.choice([None, 0, 1, 2, 3, -1, -2, -5, 100, -100, 2**31 - 1, -(2**31)]) for _ in pairs]
    other = [drawn.choice([None, 0, 1, 2, 4, -1, 100, 2**31 - 1]) for _ in pairs]
    return pa.table(
        {
            "s": pa.array([s for s, _ in pairs], pa.string()),
            "t": pa.array([t for _, t in pairs], pa.string()),
            "n": pa.array(number, pa.int32()),
            "k": pa.array(other, pa.int32()),
            "p": pa.array([drawn.choice([None, True, False]) for _ in pairs]),
            "z": pa.array([None if s is None else s.encode() for s, _ in pairs], pa.binary()),
            "w": pa.array([None if t is None else t.encode() for _, t in pairs], pa.binary()),
        }
    )


STRINGS = """
concat(s, t) | concat(s) | 1 + k || s | s || k * 1.5BD | s NOT LIKE '%a%' | concat(s, n, p) | s || t | s || '-' || n | concat_ws(',', s, t) | concat_ws(s, t, n, t) | concat_ws('-')
upper(s) | lower(s) | ucase(t) | lcase(t) | upper(n) | length(s) | char_length(s) | character_length(t) | len(s) | length(n)
trim(s) | ltrim(s) | rtrim(s) | substring(s, 2) | substring(s, 2, 2) | substring(s, -3, 2) | substring(s, 0, 2) | substr(s, n, k)
substr(s, n) | substring(s, -2) | substring(s, 3, -1) | substr(n, 1, 1) | substring(s, 1, k) | left(s, 2) | left(s, n) | right(s, 2)
right(s, n) | left(s, -1) | right(s, 0) | replace(s, 'a', 'xy') | replace(s, 'ß') | replace(s, '', 'x') | replace(s, 'aa', 'a')
startswith(s, 'a') | startswith(s, t) | endswith(s, t) | contains(s, t) | contains(s, '') | endswith(s, 'b') | contains(s, '日')
instr(s, 'b') | instr(s, '') | instr(s, '😀') | locate('b', s) | locate('é', s) | split(s, ',') | split(s, 'ab') | split(s, ' ')
s LIKE 'a%' | s LIKE '%b%' | s LIKE '_' | s LIKE '%' | s NOT LIKE '_b' | s LIKE 'a_b' | s LIKE '' | s LIKE '%,%,' | s LIKE '日%語'
s = t | s < t | s >= t | s <=> t | s <> 'user' | s = "user" | s IN ('a', 'ab', '') | s BETWEEN 'a' AND 'b' | greatest(s, t) | least(s, t)
s IS NULL | coalesce(s, t, 'none') | nullif(s, t) | if(s = t, s, 'no') | CASE WHEN p THEN s ELSE t END | nvl(s, '-') | 'it''s' | 'a' 'b'
s = 'it''s' | z = w | z < w | z <=> w | z IS NULL | coalesce(z, w) | 'x' | "say 'x'" | split(s, ',') IS NULL | nvl(s, n) = s
"""

TEXTS = [
    None,
    "2020-02-29",
    "2020-2-9",
    "2020",
    "2020-02",
    "2020-02-30",
    " 2020-02-29 ",
    "1582-10-10",
    "0001-01-01",
    "9999-12-31",
]
TEXTS += [
    "2020-02-29 12:34:56",
    "2020-02-29T12:34:56.789",
    "2020-02-29 12:34:56.123456789",
    "2020-02-29 23:59:59Z",
    "x",
    "",
]
TEXTS += [
    "2020-02-29 12:34:56+05:30",
    "2020-02-29 12:34",
    "2020-02-29 1:2:3",
    "2020-02-29 24:00:00",
    "2020-13-01",
    "1969-12-31",
]
TEXTS += [
    "2020-02-29 12:34:56 UTC",
    "2020-02-29 12:34:56-18:00",
    "2020-02-29 12:34:56.",
    "2020-02-29 ",
    "2020-02-29T",
    "20-01-01",
]
TEXTS += [
    "2020-02-29 12:34:56 +01:00",
    "2020-02-29 12",
    "2020-02-29 12:34:56.5 Z",
    "2020-00-01",
    "2019-02-29",
    "2020-02-29 12:60:00",
]
TEXTS += [
    "2020-02-29abc",
    "2020-02-29 abc",
    "2020-02-29 12:34Z",
    "2020-02-29 12:34:56GMT",
    "2020-02-29 12:34:56UTC+01:00",
    "2020-1",
]

DATES = ["1970-01-01", "1969-12-31", "2020-02-29", "2019-02-28", "2000-12-31", "1582-10-04", "1582-10-15", "0001-01-01"]
DATES += ["9999-12-31", "1900-03-01", "2024-01-31", "2023-03-31", "1600-02-29", "2021-01-03", "2021-01-04"]


def moments(seed: int = 3) -> pa.Table:
    drawn = random.Random(seed)
    days = [date.fromisoformat(d) for d in DATES]
    days += [date(1970, 1, 1) + timedelta(days=drawn.randint(-200_000, 200_000)) for _ in range(150)]
    others = [drawn.choice(days) for _ in days]

    def clock(day: date) -> datetime:
        parts = drawn.choice(
            [(0, 0, 0, 0), (23, 59, 59, 999_999), (12, 34, 56, 789_000), (1, 2, 3, drawn.randint(0, 999_999))]
        )
        return datetime(day.year, day.month, day.day, *parts)

    stamps = [clock(day) for day in days]
    texts = [TEXTS[i % len(TEXTS)] for i in range(len(days))]
    nulls = [drawn.random() < 0.1 for _ in days]
    number = [drawn.choice([None, 0, 1, -1, 31, 365, -366, 100_000]) for _ in days]
    return pa.table(
        {
            "dt": pa.array([None if null else d for d, null in zip(days, nulls, strict=True)], pa.date32()),
            "du": pa.array(others, pa.date32()),
            "ts": pa.array([None if null else s for s, null in zip(stamps, reversed(nulls), strict=True)], UTC),
            "tu": pa.array([clock(d) for d in others], UTC),
            "n": pa.array(stamps, NTZ),
            "i": pa.array(number, pa.int32()),
            "b": pa.array([None if v is None else v % 100 for v in number], pa.int8()),
            "s": pa.array(texts, pa.string()),
        }
    )


TIMES = """
year(dt) | year(ts) | year(n) | month(dt) | month(ts) | day(dt) | day(n) | dayofmonth(ts) | quarter(dt) | quarter(ts) | dayofyear(dt)
dayofyear(ts) | dayofweek(dt) | dayofweek(ts) | weekday(dt) | weekday(n) | hour(ts) | hour(n) | hour(dt) | minute(ts) | second(ts)
minute(n) | second(n) | year(s) | hour(s)
date_trunc('year', ts) | date_trunc('quarter', ts) | date_trunc('MONTH', ts) | date_trunc('week', ts) | date_trunc('day', ts)
date_trunc('hour', ts) | date_trunc('minute', ts) | date_trunc('second', ts) | date_trunc('millisecond', ts)
date_trunc('microsecond', ts) | date_trunc('hour', n) | date_trunc('mm', dt) | date_trunc('DD', ts) | date_trunc('yy', ts)
trunc(dt, 'year') | trunc(dt, 'quarter') | trunc(dt, 'MM') | trunc(dt, 'week') | trunc(ts, 'mon')
to_date(dt) | to_date(ts) | to_date(n) | to_date(s) | unix_timestamp(ts) | unix_timestamp(dt) | unix_seconds(ts) | unix_millis(ts)
unix_micros(ts) | unix_micros(n) | unix_timestamp(n)
timestamp_micros(unix_micros(ts)) = ts | timestamp_millis(unix_millis(ts)) | timestamp_seconds(unix_seconds(ts))
date_add(dt, i) | date_add(dt, 1) | date_sub(dt, i) | date_add(ts, b) | datediff(dt, du) | date_diff(ts, du) | datediff(n, tu)
dt + 1 | 1 + dt | dt - i | dt + b | try_add(i, 1)
ts + INTERVAL 10 MINUTES | ts - INTERVAL '10' MINUTE | ts + interval '1 day' | n + INTERVAL 36 HOURS | INTERVAL 1 WEEK + ts
ts + INTERVAL 1 DAY 2 HOURS | ts - INTERVAL '1 day 2 hours' | ts + INTERVAL 1.5 SECONDS | ts + INTERVAL -3 DAYS | ts + -INTERVAL 3 DAYS
dt + INTERVAL 1 DAY | dt - INTERVAL '2' DAY | dt + INTERVAL 24 HOURS | dt + INTERVAL 1 WEEK | dt + INTERVAL 1 MONTH | ts + INTERVAL 1 MONTH
ts - INTERVAL 13 MONTHS | dt - INTERVAL 1 YEAR | n + INTERVAL 2 YEARS | ts + INTERVAL 7 MILLISECONDS | ts + INTERVAL 7 MICROSECONDS
dt + INTERVAL 1 DAY 2 HOURS | ts + INTERVAL 1 YEAR 1 MONTH
dt = du | dt < du | ts < tu | ts >= tu | ts = dt | n < ts | n = dt | ts <=> tu | dt = DATE'2020-02-29' | ts > TIMESTAMP'2000-01-01 00:00:00'
n < TIMESTAMP_NTZ'2000-01-01' | ts BETWEEN '1900-01-01' AND tu | dt > '2000-01-01' | dt IN (DATE'1970-01-01', DATE'2020-02-29') | dt IS NULL
greatest(dt, du) | least(ts, tu) | greatest(ts, tu) | greatest(dt, ts) | coalesce(dt, du) | coalesce(dt, ts) | coalesce(ts, n) | nullif(dt, du)
CASE WHEN dt < du THEN dt ELSE du END | if(ts < tu, ts, tu) | CASE WHEN dt IS NULL THEN ts ELSE n END
cast(dt AS timestamp) | cast(ts AS date) | cast(n AS date) | cast(ts AS timestamp_ntz) | cast(n AS timestamp) | cast(dt AS timestamp_ntz)
cast(ts AS bigint) | cast(ts AS double) | cast(dt AS string) | cast(ts AS string) | cast(n AS string) | concat(dt, ' ', ts)
cast(s AS date) | cast(s AS timestamp) | cast(s AS timestamp_ntz) | date(s) | s = dt | s < ts | cast('2020-01-01' AS date) | DATE'1582-10-10'
TIMESTAMP'2020-02-29 12:34:56.789+01:00' | TIMESTAMP_NTZ'2020-02-29 12:34:56' | trunc(s, 'year')
"""

FAMILIES = {"numbers": (numbers, NUMBERS), "strings": (words, STRINGS), "times": (moments, TIMES)}


def listed(cases: str) -> list[str]:
    """The expressions of a family. `||` is an operator, so a bar between spaces separates only when it stands alone."""
    return [text.strip() for line in cases.strip().splitlines() for text in line.split(" | ") if text.strip()]
