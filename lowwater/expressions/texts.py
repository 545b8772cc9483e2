"""Text read as numbers, booleans, dates and timestamps. What Spark cannot read raises, as in ANSI mode.

Dates and timestamps are read in their ISO forms. Spark reads a few more (years of five digits, names of time zones, a
time without a date); those raise here too, with a sentence, and are never read as another value.

>>> to_date(pa.array(["2020-2-9", "2020", "2020-02-29T10:00"])).to_pylist()
[datetime.date(2020, 2, 9), datetime.date(2020, 1, 1), datetime.date(2020, 2, 29)]
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lowwater.expressions import times
from lowwater.expressions.kernels import Mask, raising, refuse
from lowwater.expressions.types import is_instant, spark_name

BLANK = "".join(chr(c) for c in range(0x21)) + "\x7f"
"""The characters that Spark trims before it parses a text: whitespace and control characters of ASCII."""
WHOLE = r"^[+-]?[0-9]+$"
FLOATING = r"^[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?[dDfF]?$"
SPECIAL = {"inf": np.inf, "+inf": np.inf, "infinity": np.inf, "+infinity": np.inf, "-inf": -np.inf}
SPECIAL |= {"-infinity": -np.inf, "nan": np.nan}
TRUE, FALSE = ("t", "true", "y", "yes", "1"), ("f", "false", "n", "no", "0")
DATE = r"(?P<y>[0-9]{4})(?:-(?P<m>[0-9]{1,2})(?:-(?P<d>[0-9]{1,2})"
ONLY_DATE = rf"^{DATE}(?:[ T].*)?)?)?$"
CLOCK = r"(?P<h>[0-9]{1,2}):(?P<i>[0-9]{1,2})(?::(?P<s>[0-9]{1,2})(?:\.(?P<f>[0-9]{0,9}))?"
ZONE = r" ?(?P<z>Z|UTC|GMT)?(?P<o>[+-][0-9]{1,2}:[0-9]{2})?"
MOMENT = rf"^{DATE}(?:[ T]{CLOCK}{ZONE})?)?)?)?$"
UNREAD = "{!r} cannot be read as "


def _trimmed(s: pa.Array) -> pa.Array:
    return pc.utf8_trim(s, characters=BLANK)


def _true(mask: pa.Array) -> Mask:
    return np.asarray(mask.fill_null(True), np.bool_)


@raising
def to_integer(type: pa.DataType, s: pa.Array) -> pa.Array:
    text, unread = _trimmed(s), UNREAD + spark_name(type)
    refuse(~_true(pc.match_substring_regex(text, WHOLE)), (s,), unread)
    sign = pc.starts_with(text, pattern="-")
    digits = pc.utf8_ltrim(pc.utf8_ltrim(text, characters="+-"), characters="0")
    refuse(~_true(pc.less_equal(pc.utf8_length(digits), 19)), (s,), unread)
    digits = pc.if_else(pc.equal(digits, ""), "0", digits)
    wide = pc.if_else(sign, pc.binary_join_element_wise("-", digits, ""), digits).cast(pa.decimal128(38, 0))
    limit = np.iinfo(type.to_pandas_dtype())
    fits = pc.and_(
        pc.less_equal(wide, pa.scalar(int(limit.max), pa.decimal128(38, 0))),
        pc.greater_equal(wide, pa.scalar(int(limit.min), pa.decimal128(38, 0))),
    )
    refuse(~_true(fits), (s,), unread)
    return wide.cast(type)


@raising
def to_double(type: pa.DataType, s: pa.Array) -> pa.Array:
    text = _trimmed(s)
    special = pc.utf8_lower(text)
    word = pc.is_in(special, value_set=pa.array(list(SPECIAL)))
    plain = pc.match_substring_regex(text, FLOATING)
    refuse(~_true(pc.or_(word, plain)), (s,), UNREAD + spark_name(type))
    number = pc.utf8_ltrim(pc.utf8_rtrim(pc.if_else(word, "0", text), characters="dDfF"), characters="+")
    found = number.cast(type)
    values = pa.array(list(SPECIAL.values()), type).take(pc.index_in(special, value_set=pa.array(list(SPECIAL))))
    return pc.if_else(word, values, found)


@raising
def to_boolean(s: pa.Array) -> pa.Array:
    text = pc.ascii_lower(_trimmed(s))
    true, false = (pc.is_in(text, value_set=pa.array(words)) for words in (TRUE, FALSE))
    refuse(~(np.asarray(true) | np.asarray(false)), (s,), UNREAD + "boolean")
    return true


def _number(groups: pa.StructArray, name: str, absent: int) -> times.Ints:
    text = pc.struct_field(groups, name)
    text = pc.if_else(pc.equal(text, ""), str(absent), text).fill_null(str(absent))
    return np.asarray(text.cast(pa.int64()), np.int64)


def _days(groups: pa.StructArray, s: pa.Array, unread: str) -> times.Ints:
    year, month, day = _number(groups, "y", 1), _number(groups, "m", 1), _number(groups, "d", 1)
    good = (month >= 1) & (month <= 12)
    good &= (day >= 1) & (day <= times.month_length(year, np.where(good, month, 1)))
    refuse(~good, (s,), unread)
    return times.day_of(year, month, day)


@raising
def to_date(s: pa.Array) -> pa.Array:
    unread = UNREAD + "a date (yyyy-MM-dd)"
    groups = pc.extract_regex(_trimmed(s), pattern=ONLY_DATE)
    refuse(np.asarray(groups.is_null()), (s,), unread)
    return times.dates(_days(groups, s, unread))


@raising
def to_timestamp(type: pa.DataType, s: pa.Array) -> pa.Array:
    """Microseconds of a text. Without a zone it is in UTC, and without a time of day at midnight."""
    unread = UNREAD + "a timestamp (yyyy-MM-dd HH:mm:ss[.SSSSSS][zone])"
    groups = pc.extract_regex(_trimmed(s), pattern=MOMENT)
    refuse(np.asarray(groups.is_null()), (s,), unread)
    day = _days(groups, s, unread)
    hour, minute, second = (_number(groups, name, 0) for name in "his")
    refuse((hour > 23) | (minute > 59) | (second > 59), (s,), unread)
    fraction = pc.utf8_slice_codeunits(pc.utf8_rpad(pc.struct_field(groups, "f").fill_null(""), 6, "0"), 0, 6)
    at = day * times.DAY + (hour * 3600 + minute * 60 + second) * times.SECOND
    at = at + np.asarray(fraction.cast(pa.int64()), np.int64)
    if is_instant(type):
        at = at - _offset(groups, s, unread)
    return times.timestamps(at, type)


def _offset(groups: pa.StructArray, s: pa.Array, unread: str) -> times.Ints:
    text = pc.struct_field(groups, "o").fill_null("")
    parts = pc.extract_regex(pc.if_else(pc.equal(text, ""), "+0:00", text), pattern=r"^(?P<g>.)(?P<h>\d+):(?P<i>\d+)$")
    hour, minute = _number(parts, "h", 0), _number(parts, "i", 0)
    refuse((hour * 60 + minute > 18 * 60) | (minute > 59), (s,), unread)
    sign = np.where(np.asarray(pc.equal(pc.struct_field(parts, "g"), "-")), -1, 1)
    return np.asarray(sign * (hour * 3600 + minute * 60) * times.SECOND, np.int64)
