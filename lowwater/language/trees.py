"""The nodes that the language adds to trees of sqlglot: windows, unions of inputs, EMIT, statements of a file."""

from __future__ import annotations

from typing import ClassVar

from sqlglot import exp


class Length(exp.Expression):
    """A length as written: `10 minutes`, `1000 rows`, `10`."""

    arg_types: ClassVar[dict[str, bool]] = {"this": True}

    @property
    def text(self) -> str:  # type: ignore[override]
        return str(self.args["this"])


class WindowClause(exp.Expression):
    """`[RANGE r, SLIDE s, WA a, PA p]`: RANGE can be a length, ALL, UNBOUNDED or TUMBLING with a length."""

    arg_types: ClassVar[dict[str, bool]] = {
        "range": False,
        "all": False,
        "unbounded": False,
        "tumbling": False,
        "slide": False,
        "wa": False,
        "pa": False,
        "rattr": False,
        "sattr": False,
        "order": False,
        "origin": False,
        "period": False,
    }


class Windowed(exp.Expression, exp.Condition):
    """An aggregate with its window: `count(*) [RANGE 1 minute, WA ts]`."""

    arg_types: ClassVar[dict[str, bool]] = {"this": True, "clause": True}


class WindowedInput(exp.Expression):
    """An input of FROM with a window: `Main1 [RANGE 3 minutes, WA ts]`."""

    arg_types: ClassVar[dict[str, bool]] = {"this": True, "clause": True, "alias": False, "joins": False}


class InputUnion(exp.Expression):
    """`A UNION B AS M` in FROM: the rows of all inputs."""

    arg_types: ClassVar[dict[str, bool]] = {"expressions": True, "alias": False, "joins": False}


class TableFunction(exp.Expression):
    """`TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL 1 MINUTE)` in FROM, as in Flink; also HOP, CUMULATE and SESSION."""

    arg_types: ClassVar[dict[str, bool]] = {
        "this": True,
        "input": True,
        "time": True,
        "pa": False,
        "lengths": True,
        "alias": False,
    }


class WithinWindow(exp.Expression):
    """`WINDOW 1 min` behind a query: the window of IO and SH."""

    arg_types: ClassVar[dict[str, bool]] = {"this": True}


class Emit(exp.Expression):
    """`EMIT EARLY, ALLOWED LATENESS 1 minute, FLUSH LAZY 10, STRATEGY panes, LATE drop`."""

    arg_types: ClassVar[dict[str, bool]] = {
        "early": False,
        "lateness": False,
        "flush": False,
        "strategy": False,
        "late": False,
    }


class Flush(exp.Expression):
    """`SLOW(rows, windows)` or `LAZY(windows, entries)`: the arguments of lw.slow_flush() and lw.lazy_flush()."""

    arg_types: ClassVar[dict[str, bool]] = {"this": True, "expressions": False}


class Ordered(exp.Expression):
    """`ORDERED [BY ts]`: results in order of time."""

    arg_types: ClassVar[dict[str, bool]] = {"this": False}


class Disorder(exp.Expression):
    """How late rows can be: ORDERED, MEASURED, a length, LEARNED, or PUNCTUATED BY."""

    arg_types: ClassVar[dict[str, bool]] = {
        "kind": True,
        "this": False,
        "settings": False,
        "when": False,
        "upto": False,
        "flags": False,
    }


class Ends(exp.Expression):
    """`ENDS item WHEN closed [VALUE v | RANGE (a, b)]`, or `UNIQUE item`."""

    arg_types: ClassVar[dict[str, bool]] = {"this": True, "when": False, "value": False, "low": False, "high": False}


class Option(exp.Expression):
    """A name and a value in OPTIONS."""

    arg_types: ClassVar[dict[str, bool]] = {"this": True, "expression": True}


class Place(exp.Expression):
    """Where rows come from or go to: a format and its options."""

    arg_types: ClassVar[dict[str, bool]] = {"this": True, "options": False}


class StreamDefinition(exp.Expression):
    """CREATE STREAM."""

    arg_types: ClassVar[dict[str, bool]] = {
        "this": True,
        "columns": False,
        "progress": True,
        "disorder": False,
        "source": False,
        "sources": False,
        "after": False,
        "lag": False,
        "ends": False,
        "groups": False,
        "place": True,
    }


class ViewDefinition(exp.Expression):
    """CREATE VIEW name AS query."""

    arg_types: ClassVar[dict[str, bool]] = {"this": True, "expression": True}


class InsertInto(exp.Expression):
    """INSERT INTO format OPTIONS (...) query."""

    arg_types: ClassVar[dict[str, bool]] = {"place": True, "expression": True}


class InsertLateRows(exp.Expression):
    """INSERT INTO LATE format OPTIONS (...): where the late rows of the query before it go."""

    arg_types: ClassVar[dict[str, bool]] = {"place": True}


class Explained(exp.Expression):
    """EXPLAIN [ANALYZE] [FORMAT f] query."""

    arg_types: ClassVar[dict[str, bool]] = {"this": True, "analyze": False, "format": False}
