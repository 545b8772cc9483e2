"""Plain values are read by Arrow exactly as from_json reads them: a large list of awkward ones, and random ones.

Spark reads every value, and is the judge. Two claims are tested: a value that is called plain has the same columns in
Spark, bit by bit, and a value that is called unreadable is unread there.
"""

from __future__ import annotations

import json
import random
import zlib
from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from lowwater.backends.spark.kafka_frame import UNREADABLE, KafkaFrame, MessageRun
from lowwater.backends.spark.message_values import reading_of
from lowwater.backends.spark.plain_json import PlainJson, PlainReader
from tests.soak import SOAKING

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("compiled")]

FIELDS = (
    "ts TIMESTAMP, key BIGINT, val DOUBLE, s STRING, b BOOLEAN, d DATE, n TIMESTAMP_NTZ, i INT, h SMALLINT, t TINYINT, "
    "`a b` STRING, `größe` BIGINT"
)
NAMES = ("ts", "key", "val", "s", "b", "d", "n", "i", "h", "t", "a b", "größe", "TS", "other", "x.y", "")
NUMBERS = (
    *(
        "0",
        "-0",
        "+1",
        "1",
        "-1",
        "01",
        "00",
        "1.",
        ".5",
        "0.1",
        "-0.0",
        "0.0",
        "1e5",
        "1E5",
        "-1e-5",
        "1e",
        "0e0",
        "-0e0",
    ),
    *("127", "128", "-128", "-129", "255", "256", "32767", "32768", "65536", "2147483647", "2147483648", "99", "999"),
    *("9223372036854775807", "9223372036854775808", "-9223372036854775808", "999999999999999999", "1" * 19, "1" * 400),
    *("4.9e-324", "1e-400", "1e400", "1.7976931348623157e308", "1e99", "1e-99", "9007199254740993", "0.1e1", "1.0"),
    *("0.30000000000000004", "123456789012345678.12345678901234567890", "2.2250738585072011e-308", "5e-1", "1e+5"),
    *("0.50000000000000011102230246251565", "8.41e21", "1_000", "0x10", "1e1.5", "--1", "NaN", "Infinity", "-Infinity"),
    *("+INF", "-INF", "INF", "nan", "true", "false", "null", "True", "nulL", "tru", "1 2", "1,2"),
)
TEXTS = (
    *(
        "",
        " ",
        "a",
        "é",
        "𝄞",
        "\u2028",
        "\x7f",
        "'",
        "/",
        "a,b",
        "}",
        "{",
        "null",
        "1",
        "1.5",
        "NaN",
        "true",
        "Infinity",
    ),
    *(
        "2023-11-14",
        "2023-11-14T22:13:20Z",
        "2023-11-14 22:13:20Z",
        "2023-11-14T22:13:20.123456Z",
        "2023-11-14T22:13:20",
    ),
    *(
        "2023-11-14 22:13:20.1",
        "2023-11-14T22:13:20.1234567Z",
        "2023-11-14T22:13:20+01:00",
        "2023-11-14T22:13:20-17:59",
    ),
    *("2023-11-14T22:13:20+18:00", "2023-11-14T22:13:20+0100", "2023-11-14T22:13:20+01", "2023-11-14T22:13:20 UTC"),
    *("2023-11-14T22:13:20Europe/Berlin", "2023-11-14T22:13", "2023-11-14T22:13Z", "2023-11-14T24:00:00Z", "2023-1-4"),
    *(
        "2023-11-14T23:59:60Z",
        "2023-02-29",
        "2024-02-29",
        "1900-02-29",
        "2000-02-29",
        "2024-02-29T00:00:00Z",
        "2023-11",
    ),
    *("2023-02-29T00:00:00Z", "2100-02-29 00:00:00Z", "1599-12-31", "1600-01-01T00:00:00Z", "2999-12-31T23:59:59.9Z"),
    *("3000-01-01", "0001-01-01T00:00:00Z", "9999-12-31", "10000-01-01", "-0001-01-01", "+2023-11-14", "2023", "now"),
    *(
        "epoch",
        "2023-11-14t22:13:20z",
        "2023-11-31",
        "2023-13-01",
        "2023-00-10",
        "2023-04-30",
        "2023-06-31",
        "2023-12-31",
    ),
    *(
        " 2023-11-14 ",
        "2023-11-14T22:13:20-00:00",
        "2023-11-14T22:13:20.Z",
        "2023-11-14T2:3:4Z",
        "1582-10-10",
        "1970-01-01",
    ),
    *("2023-03-12T02:30:00", "2023-03-12 02:30:00Z", "1883-11-18T12:00:00", "20231114", "T22:13:20", "22:13:20"),
)
RAW = (
    *(
        r'"\u0041"',
        r'"\n\t\"\\\/\b\f\r"',
        r'"\ud834\udd1e"',
        r'"\ud834"',
        r'"\u0000"',
        r'"\x41"',
        r'"\u00e9"',
        r'"\u12"',
    ),
    *(
        '"a\nb"',
        '"a\tb"',
        '"\x00"',
        "'a'",
        "'2023-11-14'",
        '"a',
        'a"',
        "[]",
        "[1]",
        "{}",
        '{"a":1}',
        "[null]",
        '["a"]',
        "",
    ),
)
WHOLE: tuple[bytes | None, ...] = (
    *(
        None,
        b"",
        b" ",
        b"\n",
        b"\t\r\n ",
        b"\x00",
        b"\x01 ",
        b"\xef\xbb\xbf{}",
        b"{}",
        b" {} ",
        b"{ }",
        b"\n{}\n",
        b"[]",
    ),
    *(
        b"[{}]",
        b'[{"key":1}]',
        b'[{"key":1},{"key":2}]',
        b"[[]]",
        b"null",
        b" null",
        b"true",
        b"1",
        b"1.5",
        b"NaN",
        b'"a"',
    ),
    *(
        b'"{}"',
        b"'a'",
        b"no JSON",
        b"{",
        b"}",
        b"{{",
        b"{}}",
        b"{}{}",
        b"{},",
        b'{"key":1}garbage',
        b'{"key":1} {"key":2}',
    ),
    *(b'{"key":1}\n{"key":2}', b'{"key":1,"key":2}', b'{"key":1,"key":null}', b'{"key":null,"key":1}', b'{"key":1,}'),
    *(b'{"key":1,"key":"x"}', b'{"key":"x","key":1}', b'{,"key":1}', b'{"key"}', b'{"key":}', b'{"key" 1}', b"{key:1}"),
    *(
        b"{'key':1}",
        b'{"KEY":1}',
        b'{"\\u006bey":1}',
        b'{"key":1/*c*/}',
        b'{"key":1}//c',
        b'// c\n{"key":1}',
        b'{"key":1',
    ),
    *(b'{"key":1,"other":[1,{"key":2}]}', b'{"other":{"key":2},"key":1}', b'{"other":1,"other":2,"key":3}', b'{"":1}'),
    *(
        b'{"s":"\xff"}',
        b'{"s":"\xc3"}',
        b'{"s":"\xc0\x80"}',
        b'{"s":"\xed\xa0\x80"}',
        b'{"s":"\xf4\x90\x80\x80"}',
        b"\xff",
    ),
    *(
        b'{"s":"\xc3\xa9\xe2\x82\xac\xf0\x9d\x84\x9e"}',
        b'{"\xff":1,"key":2}',
        b'{"other":"\xff","key":2}',
        b'\xa0{"key":1}',
    ),
    *(
        b'{\n  "key": 1,\n  "s": "a"\n}',
        b'{"key":\t1}',
        b'{"key":1 ,"s" :"a"}',
        b' { "key" : 1 , "s" : "a" } ',
        b'{"key":1}\x00',
    ),
    *(
        b'{"s":"\\"key\\":1","key":2}',
        b'{"key":1}' + b" " * 100,
        b'{"s":"' + b"a" * 100_000 + b'"}',
        "{}".encode("utf-16"),
    ),
    *(
        b'{"b":tru}',
        b'{"b":TRUE}',
        b'{"other":NaN,"key":1}',
        b'{"other":01,"key":1}',
        b'{"other":-,"key":1}',
        b"0{}",
        b'a{"key":1}',
    ),
)


def awkward() -> list[bytes | None]:
    """Every literal in every field, and whole values."""
    literals = (*NUMBERS, *(json.dumps(text, ensure_ascii=False) for text in TEXTS), *RAW)
    return [*WHOLE, *(f'{{"{name}":{one}}}'.encode() for name in NAMES for one in literals)]


def drawn(seed: int, number: int) -> Iterator[bytes]:
    """Random objects, half of them with some bytes changed."""
    rng = random.Random(seed)

    def two(below: int, least: int = 0) -> str:
        return f"{rng.randrange(below) + least:02}"

    good = {
        "ts": lambda: (
            f'"20{two(100)}-{two(12, 1)}-{two(31, 1)}T10:{two(60)}:00.{rng.randrange(10 ** rng.randrange(1, 7))}'
            f'{rng.choice(["Z", "", "+05:30"])}"'
        ),
        "key": lambda: str(rng.randrange(-(10 ** rng.randrange(1, 20)), 10 ** rng.randrange(1, 20))),
        "val": lambda: repr(rng.choice([rng.random(), rng.uniform(-1e9, 1e9), 10 ** rng.uniform(-120, 120)])),
        "s": lambda: json.dumps(
            "".join(
                chr(rng.choice([rng.randrange(32, 127), rng.randrange(0xD7FF), 0x1D11E]))
                for _ in range(rng.randrange(6))
            ),
            ensure_ascii=rng.random() < 0.5,
        ),
        "b": lambda: rng.choice(["true", "false"]),
        "d": lambda: f'"{rng.randrange(1500, 3100)}-{rng.randrange(1, 13):02}-{rng.randrange(1, 32):02}"',
        "i": lambda: str(rng.randrange(-(2**31), 2**31)),
    }
    literals = (*NUMBERS, *map(json.dumps, TEXTS), *RAW)
    alphabet = [bytes([one]) for one in b"{}[]\",:\\ \n'-+.0159eEtnuZT/\x00\x7f\x80\xc3\xff"] + [
        b"null",
        b'"key":1',
        b"\\u00",
        b"\xe2",
    ]
    for _ in range(number):
        members = []
        for name in rng.sample(NAMES, rng.randrange(6)):
            value = rng.choice(literals) if name not in good or rng.random() < 0.1 else good[name]()
            members.append(f'"{name}":{rng.choice(["", "", " "])}{value}')
        text = ("{" + rng.choice([",", ",", ", "]).join(members) + "}").encode(errors="surrogatepass")
        for _ in range(rng.choice([0, 0, 1, 2])):
            at, cut = rng.randrange(len(text) + 1), rng.randrange(3)
            text = text[:at] + (rng.choice(alphabet) if rng.random() < 0.7 else b"") + text[at + cut :]
        yield text


def by_spark(spark: SparkSession, values: Sequence[bytes | None], fields: str) -> pa.Table:
    """What from_json makes of values, and whether it has failed, in their order."""
    reading = reading_of(spark, fields, None, {}, list)
    rows = spark.createDataFrame(pa.table({"place": range(len(values)), "value": pa.array(values, pa.binary())}))
    rows = rows.select("place", reading.read(F.col("value")).alias("read"))
    columns = [F.col("read").getField(name).alias(f"c{i}") for i, name in enumerate(reading.names)]
    found = rows.select("place", *columns, F.coalesce(reading.failed(F.col("read")), F.lit(True)).alias("failed"))
    return found.toArrow().sort_by("place")


def language(spark: SparkSession, fields: str) -> PlainJson:
    plain = reading_of(spark, fields, None, {}, list).plain
    assert isinstance(plain, PlainJson)
    return plain


def bits(column: pa.ChunkedArray) -> list[object]:
    """Values that are equal only if they are the same: -0.0 is not 0.0 here, and times are numbers."""
    whole = column.combine_chunks()
    whole = whole.chunk(0) if isinstance(whole, pa.ChunkedArray) else whole
    if pa.types.is_floating(whole.type) or pa.types.is_timestamp(whole.type):
        whole = whole.view(pa.int64())
    return list(whole.to_pylist())


def assert_read_as_by_spark(spark: SparkSession, values: Sequence[bytes | None], fields: str, batch: int) -> int:
    """The number of plain values."""
    plain, spark_read = language(spark, fields), by_spark(spark, values, fields)
    failed = spark_read["failed"].to_pylist()
    reader, found = PlainReader(plain), 0
    for start in range(0, len(values), batch):
        some = pa.array(values[start : start + batch], pa.binary())
        is_plain, rows = reader.read(some)
        own = spark_read.slice(start, batch).filter(is_plain)
        kept = [value for value, yes in zip(some.to_pylist(), is_plain.to_pylist(), strict=True) if yes]
        assert rows.num_rows == len(kept)
        assert [value for value, no in zip(kept, own["failed"].to_pylist(), strict=True) if no] == []
        for i, name in enumerate(plain.schema.names):
            ours, theirs = bits(rows[name]), bits(own[f"c{i}"].cast(rows[name].type))
            differ = [(value, a, b) for value, a, b in zip(kept, ours, theirs, strict=True) if a != b]
            assert differ == [], name
        unreadable = pc.fill_null(pc.match_substring_regex(some, UNREADABLE), True).to_pylist()
        read_after_all = [
            value
            for value, never, no in zip(some.to_pylist(), unreadable, failed[start : start + batch], strict=True)
            if never and not no
        ]
        assert read_after_all == []
        found += len(kept)
    return found


@pytest.fixture(params=["UTC", "America/New_York"])
def zoned(spark: SparkSession, request: pytest.FixtureRequest) -> Iterator[SparkSession]:
    before = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", request.param)
    yield spark
    spark.conf.set("spark.sql.session.timeZone", before)


@pytest.mark.parametrize("batch", [1, 1000])
def test_awkward_values(zoned: SparkSession, batch: int) -> None:
    """One by one, and in batches, where names of other fields are known from earlier values."""
    values = awkward()
    assert assert_read_as_by_spark(zoned, values, FIELDS, batch) > len(values) / 10


def test_random_values(zoned: SparkSession) -> None:
    number = 60_000 if SOAKING else 6_000
    values = list(drawn(zlib.crc32(str(zoned.conf.get("spark.sql.session.timeZone")).encode()), number))
    assert assert_read_as_by_spark(zoned, values, FIELDS, 500) > number / 10


def test_what_producers_send_is_plain(spark: SparkSession) -> None:
    """Values of Spark's to_json, of Python's json and of JavaScript."""
    rows = spark.range(1000).selectExpr(
        "timestamp_millis(id * 86399999) AS ts",
        "id * 10000000000 AS key",
        "rand(1) * id AS val",
        "'é' || id AS s",
        "id % 2 = 0 AS b",
        "date_from_unix_date(cast(id AS int)) AS d",
        "cast(id AS int) AS i",
    )
    values = [row[0].encode() for row in rows.select(F.to_json(F.struct("*"))).collect()]
    values.append(
        json.dumps({"key": 1, "s": 'ä"\n', "val": 1.5, "ts": "2026-01-01T00:00:00+00:00", "user": None}).encode()
    )
    values.append('{"ts":"2026-01-01T00:00:00.000Z","val":1,"s":"ä","agent":"x/1 (y)"}'.encode())
    assert assert_read_as_by_spark(spark, values, FIELDS, 100) == len(values)


class Read:
    """An ingest that notes what it reads, and has nothing to send."""

    def __init__(self) -> None:
        self.rows: list[dict[str, Any]] = []

    def opened(self) -> Read:
        return self

    def read(self, batches: Sequence[pa.RecordBatch]) -> None:
        self.rows += [row for batch in batches for row in batch.to_pylist()]

    def sent(self, ingest: Read) -> Iterator[pa.RecordBatch]:
        return iter(())


@pytest.mark.parametrize("batch", [1, 2, 9])
def test_no_value_overtakes_one_that_can_be_read(spark: SparkSession, batch: int) -> None:
    """Behind a value that only Spark reads, all go there; one that nobody reads is in no way."""
    values = [b'{"key":1}', None, b'{"key":2}', b"no JSON", b'{"key":3}', b"{'key':4}", b'{"key":5}', b"", b'{"key":6}']
    messages = spark.createDataFrame([], "value binary, topic string, partition int, offset bigint, key binary")
    reading = reading_of(spark, "key BIGINT", None, {}, list)
    assert isinstance(reading.plain, PlainJson)
    schema = pa.schema([("key", pa.int64()), ("kafka_source", pa.string()), ("kafka_offset", pa.int64())])
    frame = KafkaFrame(messages, reading, reading.plain, None, False, "t", schema)
    ingest, passes = Read(), {"value": "binary", "offset": "bigint"}
    run = MessageRun(ingest, frame, passes)  # type: ignore[arg-type]
    columns = {"value": pa.array(values, pa.binary()), "partition": pa.array([0] * 9, pa.int32()), "offset": range(9)}
    passed = [row for some in run(iter(pa.table(columns).to_batches(batch))) for row in some.to_pylist()]
    assert ingest.rows == [{"key": n, "kafka_source": "t-0", "kafka_offset": 2 * n - 2} for n in (1, 2, 3)]
    assert passed == [{"value": values[n], "offset": n} for n in (1, 3, 5, 6, 7, 8)]


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ("v DECIMAL(10, 2)", "v is decimal(10,2)"),
        ("v FLOAT", "v is float"),
        ("v ARRAY<INT>", "v is array<int>"),
        ("v STRUCT<a: INT>", "v is struct<a:int>"),
        ("v STRING COLLATE UNICODE_CI", "v is string collate UNICODE_CI"),
        ('`a"b` INT', "needs an escape"),
    ],
)
def test_other_types_are_left_to_spark(spark: SparkSession, fields: str, reason: str) -> None:
    plain = reading_of(spark, fields, None, {}, list).plain
    assert isinstance(plain, str)
    assert reason in plain
    assert isinstance(reading_of(spark, "v INT", None, {"dateFormat": "yyyy"}, list).plain, str)
