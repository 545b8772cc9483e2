"""Query files: read, bound to their streams, checked and explained. Nothing runs, but for EXPLAIN ANALYZE."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pyarrow.dataset as ds

from lowwater.backends import local, opened
from lowwater.errors import LowwaterError
from lowwater.expressions.errors import OutsideSubset
from lowwater.generate.named import GENERATORS
from lowwater.language import BoundQuery, CreateStream, Declaration, Group, Opener, Script, Sink, bind, grouped, read
from lowwater.language.declaration import declaration_of
from lowwater.language.formats import SINKS, SOURCES, WRITTEN
from lowwater.relation import Relation
from lowwater.shell.failures import sentences


class UnknownFormat(LowwaterError):
    """A format that only Spark can know."""


def script_of(file: Path) -> Script:
    """The statements of a file."""
    try:
        text = file.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise LowwaterError(f"{file} cannot be read: {error}; give the path of a text file with queries.") from error
    return read(text, str(file))


def columns_only(declared: Declaration, otherwise: Opener | None = None) -> Relation:
    """A stream with the columns of a declaration and no rows, for plans that are not run. `otherwise` opens streams of
    formats that this process does not know."""
    name = declared.format.lower()
    if name in GENERATORS:
        return declared.relation(local.frame(opened.columns_of(declared)))
    if name not in SOURCES:
        if otherwise is not None:
            return otherwise(declared)
        raise UnknownFormat(f"Whether there is a format {declared.format!r}, Spark alone knows; start Spark.")
    if declared.schema is not None:
        return declared.relation(local.frame(declared.schema))
    path = declared.options.resolved().get("path")
    if name in opened.FILES and path is not None:
        return declared.relation(local.frame(ds.dataset(path, format=name).schema))
    return opened.opened(declared)  # refuses with a sentence


@contextmanager
def bound_here_or_there(script: Script, here: Opener, streaming: bool) -> Iterator[list[BoundQuery]]:
    """The queries of a script, planned in this process where that is possible, else on Spark.

    Spark starts only for files that need it: for its sources, and for expressions that only Spark has. If Spark refuses
    too, its refusal counts.
    """
    try:
        found = bind(script, {}, here, _known)
    except LowwaterError as error:
        if not _spark_may_differ(script, error):
            raise
        found = None
    if found is not None:
        yield found
        return
    from lowwater.backends.spark import launch
    from lowwater.backends.spark.formats import writer
    from lowwater.backends.spark.opened import opener

    with launch.session(name="lowwater-explain") as spark:
        yield bind(script, {}, opener(spark, streaming), writer(spark))


def _known(sink: Sink) -> None:
    """Refuses sinks that this process does not know, so that Spark is asked."""
    if sink.format.lower() not in SINKS:
        raise UnknownFormat(f"Whether there is a format {sink.format!r}, Spark alone knows; start Spark.")


def _spark_may_differ(script: Script, error: BaseException | None) -> bool:
    """Whether a refusal of this process need not be Spark's: of an expression, or over a source that only Spark has."""
    declared = [declaration_of(one.tree).format.lower() for one in script if isinstance(one, CreateStream)]
    if any(format in WRITTEN for format in declared):
        return False
    if any(format not in (*GENERATORS, *opened.FILES) for format in declared):
        return True
    while error is not None:
        if isinstance(error, OutsideSubset | UnknownFormat):
            return True
        error = error.__cause__
    return False


def checked(script: Script) -> list[BoundQuery]:
    """The queries of a script, after all of them have been planned."""
    with bound_here_or_there(script, columns_only, True) as queries:
        for group in groups_of(queries):
            if len(group.queries) > 1:
                group.asked.plan  # noqa: B018  what they cannot do together is refused here
        return queries


def explained(script: Script, format: str | None, analyze: bool, seconds: float | None, only: str | None) -> str:
    """All queries of a script explained, or one of them."""
    asks = analyze or any(one.tree.args.get("analyze") for one in script)
    open = opened.opened if asks else columns_only
    with sentences(script), bound_here_or_there(script, open, seconds is not None) as queries:
        chosen = chosen_of(queries, only)
        form = format or next((q.explain.format for q in chosen if q.explain and q.explain.format), "text")
        parts = {}
        for group in groups_of(chosen):
            if len(group.queries) > 1:
                parts[group.name] = group.asked.explain(form, analyze, seconds)
            else:
                parts[group.name] = of_query(group.queries[0], form, analyze, seconds)
            if group.why is not None and form == "text":
                parts[group.name] += f"\n{group.sentence}"
    if len(parts) == 1:
        return next(iter(parts.values()))
    return TOGETHER.get(form, _refused)(parts)


def groups_of(queries: Sequence[BoundQuery]) -> list[Group]:
    """The queries as they run: those that share a stream together. What stands in an EXPLAIN does not run."""
    alone = {query.name: "it stands in an EXPLAIN" for query in queries if query.explain is not None}
    return grouped(queries, alone=alone)


def of_query(query: BoundQuery, format: str, analyze: bool = False, seconds: float | None = None) -> str:
    """One query explained. It runs if EXPLAIN ANALYZE or the caller asks for that."""
    run = analyze or (query.explain is not None and query.explain.analyze)
    return query.relation.explain(format, run, seconds)


def chosen_of(queries: Sequence[BoundQuery], only: str | None) -> list[BoundQuery]:
    chosen = [query for query in queries if only in (None, query.name)]
    if not chosen:
        names = ", ".join(query.name for query in queries) or "none"
        raise LowwaterError(
            f"The file has no query {only!r}; it has: {names}." if only else "The file has no query; write a SELECT."
        )
    return chosen


def _refused(parts: dict[str, str]) -> str:
    raise LowwaterError(f"A picture shows one query; choose one by --query: {', '.join(parts)}.")


TOGETHER: dict[str, Callable[[dict[str, str]], str]] = {
    "text": lambda parts: "\n\n".join(f"{name}:\n{text}" for name, text in parts.items()),
    "json": lambda parts: json.dumps({name: json.loads(text) for name, text in parts.items()}, indent=2),
}
