"""Windows of a query: the papers' clause, Spark's functions and Flink's table functions become the same verbs."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from sqlglot import exp

from lowwater.grouped import Grouped
from lowwater.language import trees
from lowwater.language.names import Scope, about, refused
from lowwater.model.ticks import microseconds
from lowwater.query.logical import Join
from lowwater.query.window import rows_of
from lowwater.relation import Relation

FUNCTIONS = ("window", "session_window")
_INSTANT = exp.Interval(this=exp.Literal.string("1"), unit=exp.var("MICROSECOND"))
"""What lies between the last time of a window and its end, as in Spark."""


@dataclass(frozen=True)
class Window:
    """A window before its relation is complete: `open` makes it, `keys` are the columns that partition it."""

    tree: Any
    open: Callable[[Relation], Grouped]
    keys: tuple[str, ...] = ()
    shown: bool = False
    """Whether results begin with the bounds of the window, as in the Python API. So it is with the papers' clause."""


def of_clause(clause: trees.WindowClause, scope: Scope) -> Window:
    """`[RANGE r, SLIDE s, WA a, PA p]` or `[RANGE r, RATTR a, SLIDE s, SATTR row-num | rank(a)]`."""
    args = clause.args
    if args.get("range") is None and not args.get("all"):
        raise refused("The window of an aggregate needs RANGE and a length, as in [RANGE 10 minutes, WA ts].", clause)
    span: Any = "all" if args.get("all") else range_of(clause)
    slide = args["slide"].text if args.get("slide") is not None else None
    if args.get("tumbling") and slide is not None:
        raise refused("RANGE TUMBLING has no SLIDE; leave out TUMBLING or SLIDE.", clause)
    if not isinstance(args.get("wa"), exp.Column) and any(args.get(one) is not None for one in ("wa", "sattr")):
        slide = None if slide is None else _rows(slide)
    counts = rows_of(span) is not None or (slide is not None and rows_of(slide) is not None)
    order, over = None, None
    for attribute in (args.get("wa"), args.get("rattr")):
        if isinstance(attribute, exp.Column):
            over = scope.column(attribute)
        elif attribute is not None:
            order = _order(attribute, scope)
    if args.get("sattr") is not None:
        order = _order(args["sattr"], scope)
    keys = tuple(scope.column(one) for one in args.get("pa") or [])
    options: dict[str, Any] = {"over": over, "order": order if counts else None, "partition_by": keys}
    if args.get("origin") is not None:
        options["origin"] = origin_of(args["origin"])
    if args.get("period") is not None:
        options["period"] = args["period"].text
    return Window(clause, lambda relation: relation.window(span, slide, **options), keys, True)


def range_of(clause: trees.WindowClause) -> str:
    """The RANGE of a clause."""
    length: str = clause.args["range"].text
    over = [one for one in (clause.args.get("wa"), clause.args.get("rattr")) if one is not None]
    return length if all(isinstance(one, exp.Column) for one in over) else _rows(length)


def _rows(length: str) -> str:
    """A length over row-num or rank(ts): a number alone counts rows."""
    return f"{length} rows" if length.isdigit() else length


def _order(attribute: Any, scope: Scope) -> str:
    """How rows are counted: `row-num` in order of arrival, `rank(ts)` in order of time."""
    if isinstance(attribute, exp.Anonymous):
        of = scope.column(attribute.expressions[0])
        if of != scope.relation.progress:
            raise refused(
                f"rank() is of the column that progresses, {scope.relation.progress!r}, not of {of!r}.", attribute
            )
        return "time"
    if isinstance(attribute, exp.Column):
        raise refused("SATTR is row-num or rank(ts): rows are counted by arrival or by time.", attribute)
    return "arrival"


def origin_of(tree: Any) -> object:
    """The ORIGIN of a clause."""
    if isinstance(tree, exp.Var):
        return "first"
    if isinstance(tree, exp.Cast):
        tree = tree.this
    sign, number = (-1, tree.this) if isinstance(tree, exp.Neg) else (1, tree)
    if isinstance(number, exp.Literal) and not number.is_string:
        return sign * (int(number.this) if number.this.isdigit() else Decimal(number.this))
    if not isinstance(tree, exp.Literal):
        raise refused("ORIGIN is FIRST, a number or a timestamp as in '2020-01-01 00:00:00'.", tree)
    try:
        found = dt.datetime.fromisoformat(tree.this)
    except ValueError:
        raise refused("ORIGIN is FIRST, a number or a timestamp as in '2020-01-01 00:00:00'.", tree) from None
    return found if found.tzinfo is not None else found.replace(tzinfo=dt.UTC)


def is_function(tree: Any) -> bool:
    return isinstance(tree, exp.Anonymous) and str(tree.this).lower() in FUNCTIONS


def of_function(tree: exp.Anonymous, scope: Scope) -> Window:
    """Spark's `window(ts, '10 minutes', '1 minute', '0 seconds')` and `session_window(ts, '5 minutes')`."""
    name = str(tree.this).lower()
    most = 4 if name == "window" else 2
    if not 2 <= len(tree.expressions) <= most or not isinstance(tree.expressions[0], exp.Column):
        raise refused(f"{name}() takes a column and lengths, as in {name}(ts, '10 minutes').", tree)
    over = scope.column(tree.expressions[0])
    lengths = [_length(one) for one in tree.expressions[1:]]
    if name == "session_window":
        return Window(tree, lambda relation: relation.session(lengths[0], over=over))
    return _sliding(tree, over, lengths)


def bound_of(tree: Any) -> Any:
    """A bound of the window in an expression over results: `window(ts, '1 minute').start`, `window_time(window)`."""
    if isinstance(tree, exp.Dot) and is_function(tree.this) and tree.name.lower() in ("start", "end"):
        return exp.column(f"window_{tree.name.lower()}")
    if isinstance(tree, exp.Anonymous) and str(tree.this).lower() == "window_time" and len(tree.expressions) == 1:
        of = tree.expressions[0]
        if is_function(of) or (isinstance(of, exp.Column) and of.name.lower() in FUNCTIONS):
            return exp.Sub(this=exp.column("window_end"), expression=_INSTANT.copy())
    return tree


def _sliding(tree: Any, over: str, lengths: list[str]) -> Window:
    slide = lengths[1] if len(lengths) > 1 else None
    origin: Any = None
    if len(lengths) > 2:
        origin = dt.datetime(1970, 1, 1, tzinfo=dt.UTC) + dt.timedelta(
            microseconds=microseconds(lengths[2], "startTime")
        )
    return Window(tree, lambda relation: relation.window(lengths[0], slide, over=over, origin=origin))


def _length(tree: Any) -> str:
    if isinstance(tree, exp.Literal):
        return str(tree.this)
    if isinstance(tree, exp.Interval) and isinstance(tree.this, exp.Literal):
        unit = tree.args.get("unit")
        return f"{tree.this.this} {unit.name.lower()}" if unit is not None else str(tree.this.this)
    raise refused("A length of a window is a literal, as in '10 minutes'.", tree)


def of_table_function(tree: trees.TableFunction, scope: Scope) -> Window:
    """Flink's TUMBLE, HOP (slide, size), CUMULATE (step, size) and SESSION."""
    name = tree.this
    lengths = [one.text for one in tree.args["lengths"]]
    needed = {"tumble": (1, 2), "hop": (2, 3), "cumulate": (2, 2), "session": (1, 1)}[name]
    if not needed[0] <= len(lengths) <= needed[1]:
        raise refused(f"{name.upper()} takes {needed[0]} to {needed[1]} lengths, as INTERVAL '10' MINUTES.", tree)
    over = scope.column(tree.args["time"])
    keys = tuple(scope.column(one) for one in tree.args.get("pa") or [])
    if name == "session":
        return Window(tree, lambda relation: relation.session(lengths[0], over=over), keys)
    if name == "cumulate":
        return Window(tree, lambda relation: relation.window("all", lengths[0], over=over, period=lengths[1]), keys)
    size = [lengths[0], lengths[0], *lengths[1:]] if name == "tumble" else [lengths[1], lengths[0], *lengths[2:]]
    return _sliding(tree, over, size)


def of_length(tree: trees.WithinWindow, scope: Scope, keys: tuple[str, ...]) -> Window:
    """`WINDOW 1 min` of IO and SH: the window slides with each row and ends there, per group.

    The time of a row of a join is the later one of those that it was joined by: then the pair is there.
    """
    span = tree.this.text
    joins = [one for one in scope.relation.node.walk() if isinstance(one, Join)]
    times = ", ".join(f"`{name}`" for name in joins[0].plain.times) if joins else None

    def open(relation: Relation) -> Grouped:
        with about(tree):
            over = None
            if times is not None:
                relation, over = relation.with_column("pair_time", f"greatest({times})"), "pair_time"
            return relation.window(span, "1 row", over=over, order="time", partition_by=keys)

    return Window(tree, open, keys, True)


def emitted(grouped: Grouped, tree: trees.Emit | None) -> tuple[Grouped, dict[str, Any]]:
    """The window with EMIT, and the options of the aggregation that EMIT sets."""
    if tree is None:
        return grouped, {}
    from lowwater.operators.flush import lazy_flush, slow_flush

    args = tree.args
    flush = None
    if args.get("flush") is not None:
        numbers = [int(one.this) for one in args["flush"].expressions]
        slow = args["flush"].this == "slow"
        if not (1 if slow else 0) <= len(numbers) <= 2:
            raise refused("FLUSH is SLOW(rows, windows) or LAZY(windows, entries), as in FLUSH SLOW(1000).", tree)
        flush = slow_flush(*numbers) if slow else lazy_flush(*numbers)
    lateness = args["lateness"].text if args.get("lateness") is not None else None
    with about(tree):
        if args.get("early") or lateness is not None or flush is not None:
            grouped = grouped.emit(early=args.get("early") or None, allowed_lateness=lateness, flush=flush)
    return grouped, {name: args[name].name.lower() for name in ("strategy", "late") if args.get(name) is not None}
