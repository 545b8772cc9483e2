"""Plain JSON: values that Arrow reads in bulk, with exactly the meaning of Spark's from_json.

Spark reads values one by one, and forgives much: single quotes, other tokens as texts, what follows behind the value.
Arrow reads all values of a batch at once. A value is plain if it is in a small language on which both agree:

    object         {} with the declared fields in any order, each at most once and perhaps absent
    other fields   names that are learned from values, with a text, a number, true, false or null
    BIGINT, ...    digits without a sign of plus, leading zeros, fraction or exponent, fewer than the type can have
    DOUBLE         at most 18 digits before and 20 behind the point, an exponent of at most two digits; no integer -0
    STRING         UTF-8 as it must be, with escapes that are no surrogates
    DATE           yyyy-MM-dd, a day that exists, from 1600 to 2999
    TIMESTAMP      such a date, T or a space, HH:mm:ss, at most six digits of a fraction, and Z or an offset; without
                   them only if the session's time zone is UTC. TIMESTAMP_NTZ never has them
    any            null

One regular expression decides it (RE2, in a time that grows with the bytes), and pyarrow.json reads the values. What is
not plain is left to Spark, so the language can be narrow, but must not be too wide: tests compare it with from_json.

Most values of a topic have one shape, or a few. Shapes are learned from values, and read in a third of the time
(json_shape.py). Only the values of no shape need the regular expression.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json
from pyspark.sql.types import (
    BooleanType,
    ByteType,
    DataType,
    DateType,
    DoubleType,
    IntegerType,
    LongType,
    ShortType,
    StringType,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from lowwater.backends.spark.json_shape import JsonShape
from lowwater.backends.spark.versions import arrow_schema

LONGEST = 1 << 20
"""Bytes of a plain value. Jackson bounds names and texts; these bounds are far above it."""
OTHERS = 64
"""Other fields that are learned, at most."""
SHAPES = 4
"""Shapes that are learned, at most: each looks at all values that the ones before it have left."""

_LEARNED_FROM = 64
"""Values in which the first shape is looked for."""
_WORTH_LEARNING = 0.1
"""Part of a batch whose values are plain and of no shape, from which another shape is learned."""

_LOOKED_AT = 3
"""Values that are not plain, from which names are learned at once."""

_TAIL = r"[\x80-\xbf]"
_UTF8 = (
    rf"[\xc2-\xdf]{_TAIL}|\xe0[\xa0-\xbf]{_TAIL}|[\xe1-\xec\xee\xef]{_TAIL}{_TAIL}|\xed[\x80-\x9f]{_TAIL}"
    rf"|\xf0[\x90-\xbf]{_TAIL}{_TAIL}|[\xf1-\xf3]{_TAIL}{_TAIL}{_TAIL}|\xf4[\x80-\x8f]{_TAIL}{_TAIL}"
)
_ESCAPE = r"\\(?:[\x22\\/bfnrt]|u(?:[0-9A-CE-Fa-ce-f][0-9A-Fa-f]|[dD][0-7])[0-9A-Fa-f]{2})"
_TEXT = rf"\x22(?:[ !#-\[\]-\x7f]|{_ESCAPE}|{_UTF8})*\x22"
_WHOLE = "(?:0|[1-9][0-9]{0,17})"
_EXPONENT = "[eE][-+]?[0-9]{1,2}"
_FRACTION = rf"\.[0-9]{{1,20}}(?:{_EXPONENT})?"
_NUMBER = rf"-?{_WHOLE}(?:{_FRACTION}|{_EXPONENT})?"
_DOUBLE = rf"(?:0|-?[1-9][0-9]{{0,17}}|-?{_WHOLE}(?:{_FRACTION}|{_EXPONENT}))"
_DAY = (
    r"(?:(?:1[6-9]|2[0-9])[0-9][0-9]-(?:(?:0[1-9]|1[0-2])-(?:0[1-9]|1[0-9]|2[0-8])"
    r"|(?:0[13-9]|1[0-2])-(?:29|30)|(?:0[13578]|1[02])-31)"
    r"|(?:(?:1[6-9]|2[0-9])(?:0[48]|[2468][048]|[13579][26])|(?:16|20|24|28)00)-02-29)"
)
_CLOCK = r"(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](?:\.[0-9]{1,6})?"
_OFFSET = r"(?:Z|[-+](?:0[0-9]|1[0-7]):[0-5][0-9])"
_TIMES = pa.timestamp("us", "UTC")


def _integer(digits: int) -> str:
    return f"(?:0|-?[1-9][0-9]{{0,{digits - 1}}})"


_GRAMMAR: Mapping[type[DataType], str] = {
    ByteType: _integer(2),
    ShortType: _integer(4),
    IntegerType: _integer(9),
    LongType: _integer(18),
    DoubleType: _DOUBLE,
    BooleanType: "(?:true|false)",
    StringType: _TEXT,
    DateType: rf"\x22{_DAY}\x22",
    TimestampType: rf"\x22{_DAY}[T ]{_CLOCK}{_OFFSET}\x22",
    TimestampNTZType: rf"\x22{_DAY}[T ]{_CLOCK}\x22",
}
_TIMESTAMP_IN_UTC = rf"\x22{_DAY}[T ]{_CLOCK}{_OFFSET}?\x22"


@dataclass(frozen=True)
class PlainJson:
    """The language of the plain values of a schema. With `utc`, times without a zone are in UTC."""

    schema: pa.Schema
    grammar: tuple[tuple[str, str], ...] = field(repr=False)

    @staticmethod
    def of(fields: StructType, utc: bool) -> PlainJson | str:
        """The language, or the reason why there is none."""
        grammar = []
        for one in fields.fields:
            kind = (
                _TIMESTAMP_IN_UTC if utc and type(one.dataType) is TimestampType else _GRAMMAR.get(type(one.dataType))
            )
            if kind is None or (type(one.dataType) is StringType and one.dataType != StringType()):
                return f"{one.name} is {one.dataType.simpleString()}"
            if "EXISTS_DEFAULT" in one.metadata:
                return f"{one.name} has a default for values without it"
            if not _is_plain(one.name):
                return f"the name {one.name!r} needs an escape in JSON"
            grammar.append((one.name, kind))
        if len(dict(grammar)) < len(grammar):
            return "two fields have the same name"
        return PlainJson(arrow_schema(fields), tuple(grammar))


class PlainReader:
    """Reads batches of values, and learns from them: the names of other fields, and the shapes of most values."""

    def __init__(self, plain: PlainJson) -> None:
        self._plain = plain
        self._others: frozenset[str] = frozenset()
        self._shapes: list[JsonShape] = []
        self._texts = pa.schema(
            [pa.field(f.name, pa.string() if pa.types.is_temporal(f.type) else f.type) for f in plain.schema]
        )

    def read(self, values: pa.BinaryArray) -> tuple[pa.BooleanArray, pa.Table]:
        """Which values are plain, and the rows of these, in their order."""
        if values.type != pa.binary():
            values = values.cast(pa.binary())
        if not len(values):
            return pa.array([], pa.bool_()), self._plain.schema.empty_table()
        if not self._shapes:
            head = values[:_LEARNED_FROM]
            self._learn(head.filter(self._by_grammar(head)[0]))
        found: list[tuple[npt.NDArray[np.int64], pa.Table]] = []
        left, places = values, np.arange(len(values))
        for shape in self._shapes:
            there, rows = shape.read(left, LONGEST)
            found.append((places[there], rows))
            places = places[~there]
            if not len(places):
                break
            left = left.filter(pa.array(~there))
        if len(places):
            is_plain, rows = self._by_grammar(left)
            there = is_plain.to_numpy(zero_copy_only=False)
            found.append((places[there], rows))
            if rows.num_rows > len(values) * _WORTH_LEARNING:
                self._learn(left.filter(is_plain))
        return self._together(len(values), [(places, rows) for places, rows in found if len(places)])

    def _learn(self, plain: pa.BinaryArray) -> None:
        if len(plain) and len(self._shapes) < SHAPES:
            shape = JsonShape.of(plain[0].as_py(), self._plain.schema, dict(self._plain.grammar), _NUMBER)
            self._shapes += [shape] if shape is not None and shape not in self._shapes else []

    def _together(
        self, number: int, found: Sequence[tuple[npt.NDArray[np.int64], pa.Table]]
    ) -> tuple[pa.BooleanArray, pa.Table]:
        """Rows of some places each, in the order of the places."""
        is_plain = np.zeros(number, np.bool_)
        for places, _ in found:
            is_plain[places] = True
        if len(found) == 1:
            return pa.array(is_plain), found[0][1]
        if not found:
            return pa.array(is_plain), self._plain.schema.empty_table()
        order = np.empty(number, np.int64)
        order[np.concatenate([places for places, _ in found])] = np.arange(np.count_nonzero(is_plain))
        rows = pa.concat_tables([rows for _, rows in found]).combine_chunks()
        return pa.array(is_plain), rows.take(pa.array(order[is_plain]))

    def _by_grammar(self, values: pa.BinaryArray) -> tuple[pa.BooleanArray, pa.Table]:
        """As `read`, by the regular expression and Arrow's reader of JSON."""
        is_plain = self._matching(values)
        plain = values if is_plain.true_count == len(values) else values.filter(is_plain)
        try:
            return is_plain, self._rows(plain)
        except pa.ArrowInvalid:  # a field that is there twice
            once = pc.and_(is_plain, self._without_repeats(values))
        try:
            return once, self._rows(values.filter(once))
        except pa.ArrowInvalid:
            return pa.repeat(False, len(values)), self._plain.schema.empty_table()

    def _matching(self, values: pa.BinaryArray) -> pa.BooleanArray:
        while True:
            found = pc.match_substring_regex(values, _language(self._plain.grammar, self._others))
            found = pc.fill_null(pc.and_(found, pc.less(pc.binary_length(values), LONGEST)), False)
            strange = values.filter(pc.and_(pc.invert(found), pc.is_valid(values)))[:_LOOKED_AT]
            others = self._others.union(*(_others_of(one.as_py(), self._plain.schema.names) for one in strange))
            if others == self._others or len(others) > OTHERS:
                return found
            self._others = others

    def _without_repeats(self, values: pa.BinaryArray) -> pa.BooleanArray:
        once = pa.repeat(True, len(values))
        for name in self._plain.schema.names:
            once = pc.and_(once, pc.less_equal(pc.count_substring(values, f'"{name}"'), 1))
        return pc.fill_null(once, False)

    def _rows(self, plain: pa.BinaryArray) -> pa.Table:
        if not len(plain):
            return self._plain.schema.empty_table()
        lists = pa.ListArray.from_arrays(pa.array([0, len(plain)], pa.int32()), plain)
        lines = pc.binary_join(lists, b"\n")[0].as_buffer()
        rows = pa.json.read_json(
            pa.BufferReader(lines),
            pa.json.ReadOptions(use_threads=False, block_size=lines.size + 1),
            pa.json.ParseOptions(explicit_schema=self._texts, unexpected_field_behavior="ignore"),
        )
        if rows.num_rows != len(plain):
            raise pa.ArrowInvalid("a value is not one line")
        columns = [_typed(rows.column(f.name), f.type) for f in self._plain.schema]
        return pa.table(columns, schema=self._plain.schema)


def _typed(column: pa.ChunkedArray, type: pa.DataType) -> pa.ChunkedArray:
    if type == _TIMES:
        zoned = pc.match_substring_regex(column, "(?:Z|[-+]..:..)$")
        if pc.any(pc.invert(zoned)).as_py():
            column = pc.if_else(zoned, column, pc.binary_join_element_wise(column, "Z", ""))
    return column.cast(type)


@lru_cache
def _language(grammar: tuple[tuple[str, str], ...], others: frozenset[str]) -> str:
    """The regular expression of whole values, of which RE2 looks at the bytes."""
    named = [*grammar, *((name, f"(?:{_TEXT}|{_NUMBER}|true|false)") for name in sorted(others))]
    member = "|".join(rf"\x22{_bytes(name)}\x22 *: *(?:null|{kind})" for name, kind in named)
    return rf"^ *\{{ *(?:(?:{member}) *(?:, *(?:{member}) *)*)?\}} *$" if named else r"^ *\{ *\} *$"


def _bytes(name: str) -> str:
    return "".join(rf"\x{byte:02x}" for byte in name.encode())


def _others_of(value: bytes, declared: Iterable[str]) -> frozenset[str]:
    """The names of other fields in a value."""
    try:
        found = json.loads(value)
    except (ValueError, RecursionError):
        return frozenset()
    names = found.keys() - set(declared) if isinstance(found, dict) else ()
    return frozenset(name for name in names if _is_plain(name))


def _is_plain(name: str) -> bool:
    """Whether a name is in JSON as it is."""
    return name.isprintable() and not {'"', "\\"} & set(name)
