"""CREATE STREAM as a declaration: the format, options, columns and progress of an input. A backend opens it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
from sqlglot import exp

from lowwater.declare import open_stream
from lowwater.errors import LowwaterError
from lowwater.language import trees
from lowwater.language.secrets import VARIABLE, is_secret
from lowwater.model.columns import spelled
from lowwater.query.disorder import Disorder, delay, delay_rows, idle, learned, measured, ordered, punctuated
from lowwater.query.frame import Frame
from lowwater.query.window import rows_of
from lowwater.relation import Relation


@dataclass(frozen=True)
class Options(Mapping[str, str]):
    """Options as written. `${NAME}` in a value comes from the environment when it is used, and is never shown."""

    written: tuple[tuple[str, str], ...] = ()

    def __repr__(self) -> str:
        shown = ", ".join(
            f"{key} {'***' if self._in_the_text(key, value) else repr(value)}" for key, value in self.written
        )
        return f"OPTIONS ({shown})"

    @staticmethod
    def _in_the_text(key: str, value: str) -> bool:
        """Whether a value is a secret that the text itself contains."""
        return is_secret(key) and not VARIABLE.fullmatch(value)

    def __getitem__(self, name: str) -> str:
        for key, value in self.written:
            if key.lower() == name.lower():
                return value
        raise KeyError(name)

    def __iter__(self) -> Any:
        return iter([name for name, _ in self.written])

    def __len__(self) -> int:
        return len(self.written)

    @property
    def secrets(self) -> tuple[str, ...]:
        """The variables of the environment that the values name."""
        return tuple(name for _, value in self.written for name in VARIABLE.findall(value))

    def resolved(self) -> dict[str, str]:
        """The values with the variables of the environment in them."""
        for name in self.secrets:
            if name not in os.environ:
                raise LowwaterError(f"The environment has no variable {name}, which OPTIONS names; set it first.")
        return {key: VARIABLE.sub(lambda found: os.environ[found[1]], value) for key, value in self.written}

    def hidden(self, text: str) -> str:
        """A text without the values of the secrets, for errors and logs."""
        for name in self.secrets:
            value = os.environ.get(name)
            if value:
                text = text.replace(value, f"${{{name}}}")
        for key, value in self.written:
            if value and self._in_the_text(key, value):
                text = text.replace(value, "***")
        return text


Ending = Callable[[Relation, Callable[[str], str]], Relation]
"""Declares what ends on a stream. The second argument finds a column without regard to case."""


@dataclass(frozen=True)
class Sink:
    """Where rows go: a format and its options."""

    format: str
    options: Options


@dataclass(frozen=True)
class Declaration:
    """What CREATE STREAM says. `schema` is None if the format knows its columns itself."""

    name: str
    format: str
    options: Options
    schema: pa.Schema | None
    progress: str
    disorder: Disorder | None
    source: str | None = None
    sources: tuple[str, ...] = ()
    idle: idle | None = None
    groups: str | None = None
    ends: Ending | None = None

    def found_in(self, names: Sequence[str], exactly: bool = False) -> list[str]:
        """The declared columns as rows with these names call them, all of them if none are declared."""
        if self.schema is None:
            return list(names)
        found = []
        for declared in self.schema.names:
            own = spelled(declared, names, exactly)
            if own is None:
                raise LowwaterError(
                    f"CREATE STREAM {self.name} declares the column {declared!r}, but the rows have only: "
                    f"{', '.join(names)}."
                )
            found.append(own)
        return found

    def relation(self, frame: Frame) -> Relation:
        """The stream over the frame of a backend, with the columns that were declared."""
        exactly = frame.backend.exact_names
        self.found_in(frame.schema.names, exactly)

        def column(name: str) -> str:
            return spelled(name, frame.schema.names, exactly) or name

        how = self.disorder
        if how is not None and how.punctuation is not None:
            marks = how.punctuation
            how = replace(how, punctuation=replace(marks, when=column(marks.when), upto=column(marks.upto)))
        source = None if self.source is None else column(self.source)
        made = open_stream(frame, self.name, column(self.progress), how, source, self.sources, self.idle, self.groups)
        return made if self.ends is None else self.ends(made, column)


Opener = Callable[[Declaration], Relation]


def options_of(place: trees.Place) -> Options:
    return Options(tuple((one.this, one.expression.this) for one in place.args.get("options") or []))


def places_of(script: Iterable[Any]) -> list[Options]:
    """The options of all inputs and sinks of a script."""
    return [options_of(place) for one in script for place in one.tree.find_all(trees.Place)]


def sink_of(place: trees.Place) -> Sink:
    return Sink(place.this.name, options_of(place))


def declaration_of(tree: trees.StreamDefinition) -> Declaration:
    """The declaration that a CREATE STREAM makes."""
    args = tree.args
    place = args["place"]
    columns = args.get("columns")
    return Declaration(
        tree.this.name,
        place.this.name,
        options_of(place),
        None if not columns else pa.schema([(one.this.name, type_of(one.args["kind"])) for one in columns]),
        args["progress"].name,
        _disorder(args.get("disorder")),
        args["source"].name if args.get("source") is not None else None,
        tuple(one.this for one in args.get("sources") or []),
        idle(args["after"].text, args["lag"].text) if args.get("after") is not None else None,
        args.get("groups"),
        _ends(args.get("ends")),
    )


def _disorder(tree: trees.Disorder | None) -> Disorder | None:
    if tree is None:
        return None
    kind = tree.args["kind"]
    if kind == "ordered":
        return ordered()
    if kind == "measured":
        return measured()
    if kind == "learned":
        return learned(*(_number(one.this) for one in tree.args.get("settings") or []))
    if kind == "punctuated":
        flags = tree.args.get("flags") or []
        return punctuated(tree.args["when"].name, tree.args["upto"].name, "open" not in flags, "data" in flags)
    length = tree.this.text
    rows = rows_of(length)
    return delay(length) if rows is None else delay_rows(rows)


def _number(text: str) -> Any:
    return float(text) if "." in text else int(text)


def _ends(tree: trees.Ends | None) -> Ending | None:
    if tree is None:
        return None
    of, args = tree.this.name, tree.args
    if args.get("when") is None:
        return lambda made, column: made.unique(column(of))

    def ends(made: Relation, column: Callable[[str], str]) -> Relation:
        when, value, low, high = (
            None if args.get(one) is None else column(args[one].name) for one in ("when", "value", "low", "high")
        )
        return made.ends(column(of), str(when), value, (low, high) if low and high else None)

    return ends


TYPES = {
    "BOOLEAN": pa.bool_(),
    "TINYINT": pa.int8(),
    "SMALLINT": pa.int16(),
    "INT": pa.int32(),
    "BIGINT": pa.int64(),
    "FLOAT": pa.float32(),
    "DOUBLE": pa.float64(),
    "TEXT": pa.string(),
    "VARCHAR": pa.string(),
    "CHAR": pa.string(),
    "BINARY": pa.binary(),
    "DATE": pa.date32(),
    "TIMESTAMP": pa.timestamp("us", "UTC"),
    "TIMESTAMPTZ": pa.timestamp("us", "UTC"),
    "TIMESTAMPLTZ": pa.timestamp("us", "UTC"),
    "TIMESTAMPNTZ": pa.timestamp("us"),
}


def type_of(parsed: exp.DataType) -> pa.DataType:
    """The Arrow type of a type of Spark SQL."""
    name = parsed.this.name if hasattr(parsed.this, "name") else str(parsed.this)
    if name == "DECIMAL":
        digits = [int(one.name) for one in parsed.expressions]
        return pa.decimal128(*(digits or [10, 0]))
    if name == "ARRAY" and parsed.expressions:
        return pa.list_(type_of(parsed.expressions[0]))
    if name not in TYPES:
        raise LowwaterError(
            f"The type {parsed.sql('spark')} has no column in a stream; use one of Spark's plain types."
        )
    return TYPES[name]
