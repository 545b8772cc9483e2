"""A shape of plain JSON: the same fields in the same order, as one producer writes them.

    {"ts":"2023-11-14T22:13:20.003Z","key":37,"val":-0.6}
    ---------------------------------------^^-------^^^^-      a template (-), a span (^), and so on

A shape is learned from a plain value, and all values of a batch that have it are read at once. Templates are the bytes
that all values share: names, punctuation, null, true and false of other fields, and times, whose digits vary in place.
Spans lie between templates: numbers, texts and booleans. A span ends at the byte that the next template begins with.
Values with other fields, in another order, with an escape in a text, or with a time of another length do not have the
shape.

Every value that is read here is plain (plain_json.py): each of its bytes is compared with the template, or checked in
its span. Arrow converts the spans where they are, and refuses days and hours that do not exist.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lowwater.backends.spark.byte_words import Marks, Places, Template, Text

_DIGITS = {pa.int8(): 2, pa.int16(): 4, pa.int32(): 9, pa.int64(): 18}
"""Digits of a plain integer, at most."""
_WHOLE = 18
"""Digits of other plain numbers before the point, at most."""
_NUMBER = pa.null()
"""The type of numbers in fields that nobody declared. They are checked, and become no column."""
_BEGIN = re.compile(rb" *\{")
_MEMBER = re.compile(rb' *"([^"\\]*)" *: *("[^"\\]*"|[^ ",{}\[\]]+) *[,}]')
_TIME = re.compile(rb'"[0-9]{2}([-0-9]{8}(?:[T ][0-9:]{8}(?:\.[0-9]+)?)?)(|Z|[-+][0-9:]{5})"')
_STRANGE = r"[\x00-\x1f\\]"
"""Bytes of an escape, or that need one."""


@dataclass(frozen=True)
class Span:
    """A part that varies in length: its type, and the column that it becomes, if there is one."""

    column: str | None
    type: pa.DataType


@dataclass(frozen=True)
class Time:
    """A time in a template: in which one, where in it, and the type in which Arrow reads it."""

    template: int
    start: int
    length: int
    type: pa.DataType


@dataclass(frozen=True)
class JsonShape:
    """What the values of a shape share. `grammar` has the expression of each field, `number` that of others."""

    schema: pa.Schema
    grammar: Mapping[str, str]
    number: str
    templates: tuple[Template, ...]
    spans: tuple[Span, ...]
    """Behind each template but the last."""
    times: Mapping[str, Time]

    @staticmethod
    def of(value: bytes, schema: pa.Schema, grammar: Mapping[str, str], number: str) -> JsonShape | None:
        """The shape of a plain value, or None if a text in it has escapes, or it has no fields."""
        begin = _BEGIN.match(value)
        at = begin.end() if begin else len(value)
        fixed, varying = 0, set[int]()
        templates, spans, times = list[Template](), list[Span](), dict[str, Time]()

        def until(end: int) -> Template:
            return Template.of(value[fixed:end], [place in varying for place in range(fixed, end)])

        while member := _MEMBER.match(value, at):
            name, text, (start, end) = member[1].decode(), member[2], member.span(2)
            type = schema.field(name).type if name in schema.names else None
            at = member.end()
            if text == b"null" or (type is None and text in (b"true", b"false")):
                continue
            if type is not None and pa.types.is_temporal(type):
                time = _TIME.match(value, start)
                if time is None:
                    return None
                # The century stays as it is, and so does an offset: not all of them are plain.
                varying |= {place for place in range(*time.span(1)) if value[place] in b"0123456789"}
                read_as = type if time[2] or pa.types.is_date(type) else pa.timestamp("us")
                times[name] = Time(len(templates), start + 1 - fixed, len(text) - 2, read_as)
                continue
            quotes = text.startswith(b'"')
            templates.append(until(start + quotes))
            spans.append(Span(name if type is not None else None, pa.string() if quotes else type or _NUMBER))
            fixed = end - quotes
        if not (templates or times) or value[at - 1 :].rstrip(b" ") != b"}":
            return None
        return JsonShape(schema, grammar, number, (*templates, until(len(value))), tuple(spans), times)

    @cached_property
    def _has_texts(self) -> bool:
        return any(span.type == pa.string() for span in self.spans)

    def read(self, values: pa.BinaryArray, longest: int) -> tuple[Marks, pa.Table]:
        """Which values are of this shape and shorter than `longest` bytes, and the rows of these.

        It is none if one of them has a time that does not exist, or is not in UTF-8.
        """
        try:
            return self._read(values, longest)
        except pa.ArrowInvalid:
            return np.zeros(len(values), np.bool_), self.schema.empty_table()

    def _read(self, values: pa.BinaryArray, longest: int) -> tuple[Marks, pa.Table]:
        text = Text.of(values, max(template.length for template in self.templates))
        good = self._usable(values, text) & (text.end - text.start < longest)
        places, ends = [text.start], list[Places]()
        for n, template in enumerate(self.templates):
            good &= template.matches(text, places[n])
            ends.append(places[n] + template.length)
            if n < len(self.spans):
                places.append(self._end(n, text, ends[n]))
                good &= self._plain(self.spans[n], text, ends[n], places[-1], good)
        good &= ends[-1] == text.end
        whole = bool(good.all())

        def column(start: Places, end: Places, type: pa.DataType) -> pa.Array:
            return text.spans(*((start, end) if whole else (start[good], end[good]))).cast(type).drop_null()

        found = {}
        for n, span in enumerate(self.spans):
            if span.column is not None:
                found[span.column] = column(ends[n], places[n + 1], span.type)
        for name, time in self.times.items():
            start = places[time.template] + time.start
            found[name] = column(start, start + time.length, time.type).cast(self.schema.field(name).type)
        rows = int(good.sum())
        columns = [found[f.name] if f.name in found else pa.nulls(rows, f.type) for f in self.schema]
        return good, pa.table(columns, schema=self.schema)

    def _usable(self, values: pa.BinaryArray, text: Text) -> Marks:
        """Values that are not null, and have no escape if there are texts. Raises if texts are not in UTF-8."""
        usable = np.ones(len(values), np.bool_)
        if values.null_count:
            usable &= values.is_valid().to_numpy(zero_copy_only=False)
        if self._has_texts:
            values.cast(pa.string())
            if text.has_controls_or(ord("\\")):
                usable &= ~_matches(values, _STRANGE)
        return usable

    def _end(self, n: int, text: Text, start: Places) -> Places:
        """Where the span behind a template ends. The last one ends where the value does, but a text at its quote."""
        behind = self.templates[n + 1]
        if n + 1 == len(self.spans) and self.spans[n].type != pa.string():
            return text.end - behind.length
        return text.found(behind.first, start)

    def _plain(self, span: Span, text: Text, start: Places, end: Places, good: Marks) -> Marks:
        """Which of the good rows have a plain value in a span."""
        if span.type == pa.string():
            return good
        if span.type == pa.bool_():
            return text.is_one_of(start, end, (b"true", b"false"))
        if span.type in _DIGITS:
            return text.is_number(start, end, _DIGITS[span.type], fraction=False)
        found = text.is_number(start, end, _WHOLE, fraction=True)
        others = np.flatnonzero(good & ~found & (start < end))
        if len(others):  # numbers with an exponent
            grammar = self.number if span.column is None else self.grammar[span.column]
            found[others] = _matches(text.spans(start[others], end[others]).drop_null(), f"^(?:{grammar})$")
        return found


def _matches(texts: pa.Array, expression: str) -> Marks:
    found = pc.fill_null(pc.match_substring_regex(texts, expression), False)
    return found.to_numpy(zero_copy_only=False)  # type: ignore[no-any-return]
