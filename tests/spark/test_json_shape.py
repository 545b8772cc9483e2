"""Values of one shape are read as from_json reads them, and values that nearly have it are not taken for it.

The grammar of plain values is one judge, because test_plain_json.py compares it with from_json; from_json is another.
"""

from __future__ import annotations

import random
import zlib
from collections.abc import Callable, Iterator

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from lowwater.backends.spark import plain_json
from lowwater.backends.spark.json_shape import JsonShape
from lowwater.backends.spark.plain_json import LONGEST, PlainJson, PlainReader
from tests.soak import SOAKING
from tests.spark.test_plain_json import FIELDS, NUMBERS, RAW, TEXTS, assert_read_as_by_spark, bits, language, zoned

__all__ = ["zoned"]  # a fixture
pytestmark = pytest.mark.spark

SHAPES = {
    "spark": '{"ts":"2023-11-14T22:13:%02d.%03dZ","key":%d,"val":%r}',
    "python": '{"key": %d, "other": "%s", "ts": "2024-02-%02d %02d:13:20.123456", "val": %r, "more": -1.5e3}',
    "javascript": '{"user":null,"s":"%s","b":%s,"i":%d,"d":"2023-11-%02d","x":%d,"on":true}',
    "texts": ' {"s" : "%s" , "a b":"%s","größe":%d,"n":"1999-12-31T%02d:59:%02d","h":%d,"t":%d } ',
    "numbers": '{"i":%d,"val":%r,"ts":null,"h":%d,"t":%d,"key":%d,"x.y":%r}',
}
"""Values of some producers. Each placeholder is a part that differs among them."""
SPOILED = (
    *(one.encode() for one in (*NUMBERS, *(f'"{text}"' for text in TEXTS), *RAW)),
    *(b"007", b"-", b"--1", b"-.5", b"1.e5", b"1..5", b"1.5.", b"-01", b"-0", b"0x1f", b" 1", b"1 ", b"1_0", b"\xb2"),
    *(b"0." + b"1" * 20, b"0." + b"1" * 21, b"1" * 18 + b".5", b"1" * 19 + b".5", b"1" * 18, b"1" * 19, b"9" * 25),
    *(b"99", b"100", b"9999", b"10000", b"999999999", b"1000000000", b"-999999999999999999", b"1e-5", b"-1E5", b""),
    *(b"trueX", b"tru", b"truefalse", b"false", b"null", b"nul", b"\xff", b"\x00", b"\xc3\xa9", b"a\\", b'\\"', b'"'),
)


def drawn(sample: str, rng: random.Random) -> bytes:
    """A value of a shape."""
    kinds: dict[str, Callable[[], object]] = {
        "%03d": lambda: rng.randrange(1000),
        "%02d": lambda: rng.randrange(10, 20),
        "%d": lambda: rng.choice([0, 1, -1]) * rng.randrange(10 ** rng.randrange(1, 3)),
        "%r": lambda: rng.choice([rng.random(), rng.gauss(0, 1e-3), rng.gauss(0, 1e12), 0.0, -0.0, 1e22]),
        "%s": lambda: "".join(rng.choice("abc ,:{}äß𝄞'/") for _ in range(rng.choice([0, 1, 7, 8, 9, 30]))),
    }
    text = sample.replace('"b":%s', f'"b":{rng.choice(["true", "false"])}')
    while "%" in text:
        at = text.index("%")
        kind = next(kind for kind in kinds if text.startswith(kind, at))
        text = text[:at] + kind % kinds[kind]() + text[at + len(kind) :]
    return text.encode()


def spoiled(value: bytes, rng: random.Random) -> bytes:
    """The same value with a part in place of another, a byte changed, or a member repeated, added or gone."""
    start, end = sorted(rng.randrange(len(value) + 1) for _ in range(2))
    value = value or b"{}"
    tokens = [place for place, byte in enumerate(value) if byte in b',:}"']
    tokens += [len(value)] * 2
    first = rng.randrange(max(1, len(tokens) - 1))
    members = value.strip(b" {}").split(b",")
    changes: list[Callable[[], bytes]] = [
        lambda: value[: tokens[first] + 1] + rng.choice(SPOILED) + value[tokens[first + 1] :],
        lambda: value[:start] + rng.choice([b"", b"0", b".", b"-", b"e", b'"', b",", b" "]) + value[start:],
        lambda: value[:start] + value[start + 1 :],
        lambda: value[:start] + bytes([rng.randrange(256)]) + value[start + 1 :],
        lambda: value[:start] + value[end:],
        lambda: b"{" + b",".join([*members, rng.choice(members)]) + b"}",
        lambda: b"{" + b",".join(rng.sample(members, len(members))) + b"}",
        lambda: b"{" + b",".join(members[1:]) + b"}",
        lambda: value[:-1] + b',"further":1}',
    ]
    return rng.choice(changes)()


def mixed(sample: str, seed: int, number: int) -> Iterator[bytes | None]:
    """Values of a shape, with others among them that nearly have it."""
    rng = random.Random(seed)
    for _ in range(number):
        value = drawn(sample, rng)
        yield rng.choice([value, value, spoiled(value, rng), spoiled(spoiled(value, rng), rng), None])


def shape_of(value: bytes, plain: PlainJson) -> JsonShape:
    shape = JsonShape.of(value, plain.schema, dict(plain.grammar), plain_json._NUMBER)
    assert shape is not None
    return shape


@pytest.mark.parametrize("name", SHAPES)
def test_what_has_a_shape_is_plain_and_has_the_same_columns(name: str, spark: SparkSession) -> None:
    plain = language(spark, FIELDS)
    rng = random.Random(zlib.crc32(name.encode()))
    shape, taken = shape_of(drawn(SHAPES[name], rng), plain), 0
    own = pa.array([drawn(SHAPES[name], rng) for _ in range(1000)], pa.binary())
    assert shape.read(own, LONGEST)[0].all()
    reader = PlainReader(plain)
    reader._others = frozenset(["other", "user", "more", "on", "x", "x.y", "further"])
    for number in range(4000 if SOAKING else 100):  # one value can spoil a batch, so batches are small
        values = pa.array(mixed(SHAPES[name], number, 10), pa.binary())
        values = pa.concat_arrays([pa.array([b"before"]).cast(pa.binary()), values])[1:]
        there, rows = shape.read(values, LONGEST)
        taken += rows.num_rows
        each = [reader._by_grammar(values[n : n + 1]) for n in np.flatnonzero(there)]
        assert [
            values[n] for n, (is_plain, _) in zip(np.flatnonzero(there), each, strict=True) if not is_plain[0].as_py()
        ] == []
        expected = pa.concat_tables([plain.schema.empty_table(), *(rows for _, rows in each)])
        for column in plain.schema.names:
            assert bits(rows[column]) == bits(expected[column]), column
    assert taken > 100


@pytest.mark.parametrize("name", SHAPES)
def test_values_that_nearly_have_a_shape(name: str, zoned: SparkSession) -> None:
    rng = random.Random(zlib.crc32(name.encode()))
    values = [*(drawn(SHAPES[name], rng) for _ in range(100)), *mixed(SHAPES[name], 1, 20_000 if SOAKING else 1000)]
    found = assert_read_as_by_spark(zoned, values, FIELDS, 500)
    zone = zoned.conf.get("spark.sql.session.timeZone")
    assert found > len(values) / 3 or (name == "python" and zone != "UTC")


def test_shapes_that_change_and_that_alternate(spark: SparkSession) -> None:
    """A producer that is replaced within a batch, and several that write to one topic, more than are learned."""
    rng = random.Random(1)
    changed = [drawn(SHAPES[name], rng) for name in SHAPES for _ in range(300)]
    assert assert_read_as_by_spark(spark, changed, FIELDS, 500) == len(changed)
    alternating = [drawn(SHAPES[rng.choice(list(SHAPES))], rng) for _ in range(1500)]
    assert assert_read_as_by_spark(spark, alternating, FIELDS, 500) == len(alternating)


TIMES = (
    *(
        "2023-11-14T22:13:20",
        "2023-11-14T23:59:60",
        "2023-11-14T24:00:00",
        "2023-02-29T00:00:00",
        "1999-11-14T22:13:20",
    ),
    *(
        "10000-01-01T00:00:0",
        "2023-13-14T22:13:20",
        "2023-11-31T22:13:20",
        "2023-11-14T22:60:20",
        "2023-11-14t22:13:20",
    ),
    *(
        "2023-11-1aT22:13:20",
        "2023-11-14T22.13.20",
        "2023/11/14T22:13:20",
        "2023-11-14T2213:200",
        "2099-12-31T23:59:59",
    ),
)
FRACTIONS = ("", *("." + "123456789"[:digits] for digits in range(10)), ",123")
ZONES = ("Z", "", "z", "+01:00", "-01:00", "+17:59", "+18:00", "+0100", "+01", " UTC", "+1:00")


@pytest.mark.parametrize("first", ["Z", "+01:00", ""])
def test_times(first: str, zoned: SparkSession) -> None:
    """Each batch begins with the value that the shape is learned from; one day that does not exist spoils a batch."""
    for fraction in ("", ".123", ".123456"):
        learned = [f'{{"ts":"2023-11-14T22:13:20{fraction}{first}","n":"2000-01-01 00:00:00{fraction}"}}'.encode()]
        for time in TIMES:
            values = [
                f'{{"ts":"{time}{other}{zone}","n":"{time.replace("T", " ")}{other}"}}'.encode()
                for other in FRACTIONS
                for zone in ZONES
            ]
            if fraction != ".123":
                values = values[:: len(ZONES) + 1]
            assert_read_as_by_spark(zoned, learned * 3 + values, "ts TIMESTAMP, n TIMESTAMP_NTZ", 1000)


def test_a_shape_is_learned_of_values_without_escapes_alone(spark: SparkSession) -> None:
    plain = language(spark, "s STRING, key BIGINT")
    for value in (b"{}", b'{"s":"\\u0041"}', b'{"s":"\\"","key":1}', b" ", b"{"):
        assert JsonShape.of(value, plain.schema, dict(plain.grammar), plain_json._NUMBER) is None
    values = pa.array([b'{"s":"a","key":%d}' % n for n in range(1000)] + [b'{"s":"\\u0041","key":1}'], pa.binary())
    is_plain, rows = PlainReader(plain).read(values)
    assert is_plain.true_count == rows.num_rows == 1001
    assert rows["s"].to_pylist() == ["a"] * 1000 + ["A"]
    assert rows["key"].to_pylist() == [*range(1000), 1]


def test_a_value_that_is_not_utf8_or_very_long_is_left_to_the_grammar(spark: SparkSession) -> None:
    plain = language(spark, "s STRING")
    shape = shape_of(b'{"s":"a"}', plain)
    values = [b'{"s":"b"}', b'{"s":"\xff"}', b'{"s":"' + b"c" * LONGEST + b'"}', None]
    assert not shape.read(pa.array(values, pa.binary()), LONGEST)[0].any()
    there, rows = shape.read(pa.array([values[0], *values[2:]], pa.binary()), LONGEST)
    assert (there.tolist(), rows["s"].to_pylist()) == ([True, False, False], ["b"])
    assert np.count_nonzero(shape.read(pa.array([], pa.binary()), LONGEST)[0]) == 0
