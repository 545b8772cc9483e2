"""The query under test: a function from streams to a relation, with its inputs as tables.

The function is called again for each run and for each restart, as a new process would call it. So whatever it keeps in
Python variables of its own is lost at a restart, as it is in production.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

import lowwater as lw
from lowwater.backends.local import LocalQuery
from lowwater.backends.tables import table_of
from lowwater.errors import LowwaterError

Function = Callable[..., lw.Relation]


@dataclass(frozen=True)
class Declared:
    """Rows, or their schema alone, and how a stream of them is declared."""

    rows: Any
    options: Mapping[str, Any]


def stream(
    rows: Any,
    *,
    progress: str,
    disorder: Any,
    source: str | None = None,
    sources: Sequence[str] = (),
    idle: lw.idle | None = None,
    groups: str | None = None,
) -> Declared:
    """A stream for a test, declared as by `lowwater.stream`. Its name is that of the query's parameter.

    Rows are an Arrow table, a list of dicts, or a pandas or Polars frame. A script needs only their schema.
    """
    options = {"progress": progress, "disorder": disorder, "source": source, "sources": sources, "idle": idle}
    return Declared(rows, options | {"groups": groups})


@dataclass(frozen=True)
class Query:
    """A function and its arguments. An argument without a declaration is passed to the function as a table."""

    function: Function
    tables: Mapping[str, pa.Table]
    declared: Mapping[str, Mapping[str, Any] | None]

    @staticmethod
    def of(function: Function, rows: Any, inputs: Mapping[str, Any]) -> Query:
        """From the rows of a query with one parameter, or from the rows of each parameter by name."""
        given = _arguments(function, rows, inputs)
        options = {name: one.options if isinstance(one, Declared) else None for name, one in given.items()}
        tables = {name: _table(name, one) for name, one in given.items()}
        return Query(function, tables, options)

    def built(self, tables: Mapping[str, pa.Table] | None = None) -> lw.Relation:
        """The relation over these tables, or over the query's own."""
        found = self.function(**{name: self._argument(name, t) for name, t in (tables or self.tables).items()})
        if not isinstance(found, lw.Relation):
            raise LowwaterError(
                f"The query must return a relation, as agg(), join() and select() do, not {type(found).__name__}."
            )
        return found

    def _argument(self, name: str, table: pa.Table) -> Any:
        options = self.declared[name]
        return table if options is None else lw.stream(table, name=name, **options)

    def start(self, shards: int) -> LocalQuery:
        running = self.built().start(shards=shards)
        if not isinstance(running, LocalQuery):
            raise LowwaterError("The query under test must read the tables that it is given, not a Spark DataFrame.")
        return running

    def ports(self, running: LocalQuery) -> dict[str, list[int]]:
        """The inputs of the plan that read each argument. A function may declare two streams over one table."""
        of = [self._read(running, port) for port in range(len(running.plan.inputs))]
        return {name: [port for port, read in enumerate(of) if read == name] for name in self.tables}

    def _read(self, running: LocalQuery, port: int) -> str:
        for name, table in self.tables.items():
            if running.table(port) is table:
                return name
        raise LowwaterError(
            f"Input {running.plan.inputs[port].name!r} of the query reads rows that are none of its arguments; pass "
            "each argument to lw.stream() as it is."
        )


def _table(name: str, given: Any) -> pa.Table:
    if isinstance(given, lw.Relation):
        raise LowwaterError(
            f"{name} is a stream over fixed rows already; give testing.stream(rows, progress=, disorder=) instead, so "
            "that the rows can arrive in steps."
        )
    rows = given.rows if isinstance(given, Declared) else given
    # A slice is another object with the same rows: arguments are told apart by their tables.
    return table_of(rows, f"The rows of {name!r}").slice(0)


def _arguments(function: Function, rows: Any, inputs: Mapping[str, Any]) -> dict[str, Any]:
    parameters = list(inspect.signature(function).parameters)
    if rows is not None and inputs:
        raise LowwaterError("Give the rows of the only input, or those of each input by its name, not both.")
    if rows is not None:
        inputs = {parameters[0]: rows} if parameters else {}
    try:
        inspect.signature(function).bind(**inputs)
    except TypeError:
        takes = " and ".join(parameters) or "nothing"
        given = " and ".join(inputs) or "nothing"
        raise LowwaterError(f"The query takes {takes}, but {given} is given; give rows for each by its name.") from None
    if not inputs:
        raise LowwaterError("The query takes no streams; make it a function of its inputs, as in def query(clicks).")
    return dict(inputs)
