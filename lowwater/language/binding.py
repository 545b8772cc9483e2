"""Binds a script to streams: views and queries become relations, with the sinks of their results and late rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from sqlglot import exp

from lowwater.errors import LowwaterError
from lowwater.language import trees
from lowwater.language.declaration import Declaration, Opener, Sink, declaration_of, sink_of
from lowwater.language.errors import BadQuery, start_of
from lowwater.language.formats import refuse_sink, refuse_source
from lowwater.language.names import Streams, about
from lowwater.language.queries import relation_of
from lowwater.language.script import (
    CreateStream,
    CreateView,
    Explain,
    InsertLate,
    Script,
    Statement,
    read,
)
from lowwater.language.wording import reworded
from lowwater.relation import Relation


@dataclass(frozen=True)
class BoundQuery:
    """A query of a script, ready to be run or explained."""

    name: str
    relation: Relation
    results: Sink | None
    late: Sink | None
    statement: Statement
    explain: Explain | None = None
    """The EXPLAIN that the query stands in. Such a query is explained and not run."""


def bind(
    script: Script,
    streams: Mapping[str, Relation] | None = None,
    open: Opener | None = None,
    check: Callable[[Sink], None] | None = None,
) -> list[BoundQuery]:
    """The queries of a script over streams that are given, and over those that it declares, which `open` opens.

    `check` refuses sinks that cannot be written to.
    A declared stream is opened once, when the first query names it, so that all queries share its scan.
    """
    names = Streams.of(streams or {})
    bound: list[BoundQuery] = []
    for statement in script:
        with_place = _Placed(script, statement)
        if isinstance(statement, CreateStream):
            declared = with_place(partial(declaration_of, statement.tree))
            with_place(partial(_checked, statement.tree.args["place"], partial(refuse_source, declared.format)))
            names.known.pop(statement.name.lower(), None)
            names.later[statement.name.lower()] = _opening(declared, open, statement.tree.args["place"])
        elif isinstance(statement, CreateView):
            made = with_place(partial(relation_of, statement.tree.expression, names))
            names.known[statement.name.lower()] = made.named(statement.name)
        elif isinstance(statement, InsertLate):
            if not bound:
                raise script.error("INSERT INTO LATE is for the query before it; write it behind one.", statement.start)
            bound[-1] = replace(bound[-1], late=with_place(partial(_sink, statement.tree.args["place"], check)))
        else:
            tree = statement.tree.this if isinstance(statement, Explain) else statement.tree
            into = tree.args["place"] if isinstance(tree, trees.InsertInto) else None
            results = None if into is None else with_place(partial(_sink, into, check))
            query = tree.expression if isinstance(tree, trees.InsertInto) else tree
            relation = with_place(partial(relation_of, query, names))
            explain = statement if isinstance(statement, Explain) else None
            bound.append(BoundQuery(f"query{len(bound) + 1}", relation, results, None, statement, explain))
    return bound


def _checked(place: trees.Place, check: Callable[[], None]) -> None:
    with about(place):
        check()


def _sink(place: trees.Place, check: Callable[[Sink], None] | None) -> Sink:
    sink = sink_of(place)
    with about(place):
        refuse_sink(sink.format)
        if check is not None:
            check(sink)
    return sink


def sql(text: str, streams: Mapping[str, Relation], open: Opener | None = None) -> Relation:
    """The relation of a text with one query. It may declare streams and views before the query."""
    columns = [name for one in streams.values() if isinstance(one, Relation) for name in one.schema.names]
    script = read(text, columns=columns)
    bound = bind(script, streams, open)
    if len(bound) != 1 or bound[0].results is not None or bound[0].explain is not None:
        raise script.error(
            "sql() takes one query; run a file with several, with INSERT or with EXPLAIN by `lowwater run`.",
            script.statements[-1].start,
        )
    return bound[0].relation


def _opening(declared: Declaration, open: Opener | None, place: trees.Place) -> Callable[[], Relation]:
    """Opens a stream. What fails is about its format and options, whichever query needs it first."""

    def placed() -> Relation:
        with about(place):
            return opened()

    def opened() -> Relation:
        if open is None:
            raise LowwaterError(f"Nothing opens the stream {declared.name!r} here; give it as an argument instead.")
        try:
            return open(declared)
        except LowwaterError as error:
            shown = declared.options.hidden(str(error))
            if shown != str(error):
                raise LowwaterError(shown) from None
            raise
        except Exception as error:
            kind = type(error).__name__
            raise LowwaterError(
                f"The stream {declared.name!r} cannot be opened from {declared.format}: {kind}: "
                f"{declared.options.hidden(str(error)).strip().splitlines()[0] if str(error).strip() else kind}."
            ) from None

    return placed


@dataclass(frozen=True)
class _Placed:
    """Runs a step of binding. A refusal gets the place of the tree that it is about, else that of the statement."""

    script: Script
    statement: Statement

    def __call__(self, step: Callable[[], Any]) -> Any:
        try:
            return step()
        except BadQuery:
            raise
        except LowwaterError as error:
            at = getattr(error, "tree", None)
            start = start_of(at) if isinstance(at, exp.Expression) else None
            raise self.script.error(reworded(str(error)), self.statement.start if start is None else start) from error
