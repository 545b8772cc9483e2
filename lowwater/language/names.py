"""Names as in Spark: streams, views and columns are found without regard to case, and backticks quote."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from sqlglot import exp

from lowwater.errors import LowwaterError
from lowwater.expressions.reading import Names
from lowwater.model.columns import spelled
from lowwater.relation import Relation

_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
WINDOW = ("window_start", "window_end")


def refused(sentence: str, tree: Any) -> LowwaterError:
    """A refusal about a part of the query: its place goes into the message."""
    error = LowwaterError(sentence)
    error.tree = tree  # type: ignore[attr-defined]
    return error


@contextmanager
def about(tree: Any) -> Iterator[None]:
    """Refusals of the verbs inside are about this part of the query."""
    try:
        yield
    except LowwaterError as error:
        if getattr(error, "tree", None) is None:
            error.tree = tree  # type: ignore[attr-defined]
        raise


def text_of(tree: Any) -> str:
    """An expression as Spark SQL."""
    return str(tree.sql(Names, normalize_functions=False, comments=False))


def identifier(name: str, quoted: bool = False) -> exp.Identifier:
    return exp.Identifier(this=name, quoted=quoted or not _PLAIN.fullmatch(name))


@dataclass(frozen=True)
class Field:
    """A column that a query can name: the alias of its input, its name there, and its column in the relation."""

    of: str
    name: str
    column: str
    copied: bool = False
    """Whether the column is a copy of a key, which is null where its side of an outer join is missing."""


@dataclass(frozen=True)
class Scope:
    """A relation and the names by which a query reads its columns."""

    relation: Relation
    fields: tuple[Field, ...]

    @classmethod
    def of(cls, relation: Relation, alias: str) -> Scope:
        named = relation.named(alias)
        return cls(named, tuple(Field(alias, name, name) for name in named.schema.names))

    def over(self, relation: Relation) -> Scope:
        """The same names over a relation with more columns."""
        return Scope(relation, self.fields)

    def find(self, tree: exp.Column) -> list[Field]:
        name, of = tree.name, tree.table
        exactly = self.relation.node.backend.exact_names
        found = [one for one in self.fields if one.name == name or (one.name.lower() == name.lower() and not exactly)]
        if of:
            found = [one for one in found if one.of.lower() == of.lower()]
        elif not all(one.copied for one in found):
            found = [one for one in found if not one.copied]
        exact = [one for one in found if one.name == name]
        return exact or found

    def column(self, tree: exp.Column) -> str:
        """The column of the relation that a name means."""
        found = {one.column for one in self.find(tree)}
        if not found and tree.table.lower() in ("window", "session_window") and tree.name.lower() in ("start", "end"):
            return self.column(exp.column(f"window_{tree.name.lower()}"))
        if not found and not tree.table:
            own = spelled(tree.name, self.relation.node.schema.names, self.relation.node.backend.exact_names)
            found = set() if own is None else {own}
        if not found:
            known = ", ".join(dict.fromkeys(one.name for one in self.fields))
            raise refused(f"There is no column {text_of(tree)!r}; the columns are: {known}.", tree)
        if len(found) > 1:
            which = " or ".join(dict.fromkeys(f"{one.of}.{one.name}" for one in self.find(tree)))
            raise refused(f"The name {text_of(tree)!r} is ambiguous; write {which}.", tree)
        return found.pop()

    def bound(self, tree: Any) -> Any:
        """The expression over columns of the relation."""

        def replace(node: Any) -> Any:
            if isinstance(node, exp.Column) and not isinstance(node.this, exp.Star):
                return exp.Column(this=identifier(self.column(node), bool(node.this.args.get("quoted"))))
            return node

        return tree.copy().transform(replace)

    def text(self, tree: Any) -> str:
        return text_of(self.bound(tree))


@dataclass
class Streams:
    """The streams and views that a query can name. Those that are declared are opened when a query names them."""

    known: dict[str, Relation] = field(default_factory=dict)
    later: dict[str, Callable[[], Relation]] = field(default_factory=dict)

    @classmethod
    def of(cls, given: Mapping[str, Relation]) -> Streams:
        for name, one in given.items():
            if not isinstance(one, Relation):
                raise LowwaterError(f"{name}= is a stream, as lw.stream() makes it, not {type(one).__name__}.")
        return cls({name.lower(): one.named(name) for name, one in given.items()})

    def also(self, name: str, relation: Relation) -> Streams:
        return Streams({**self.known, name.lower(): relation.named(name)}, self.later)

    def named(self, table: exp.Table) -> Relation:
        name = ".".join(part.name for part in table.parts)
        key = name.lower()
        if key not in self.known and key in self.later:
            self.known[key] = self.later[key]()
        if key not in self.known:
            names = sorted({*self.known, *self.later})
            known = f"; known are: {', '.join(names)}" if names else ""
            raise refused(
                f"There is no stream {name!r}: declare it by CREATE STREAM, or give it to sql(){known}.", table
            )
        return self.known[key]
