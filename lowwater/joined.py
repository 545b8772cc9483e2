"""The fluent API of joins: describes a join of streams and what follows it, runs nothing.

>>> import pyarrow as pa, lowwater as lw
>>> rides = pa.table({"ts": [0, 5], "ride": [1, 2]})
>>> fares = pa.table({"ts": [7, 90], "ride": [1, 2], "fare": [12, 9]})
>>> a = lw.stream(rides, name="rides", progress="ts", disorder=10)
>>> b = lw.stream(fares, name="fares", progress="ts", disorder=10)
>>> a.join(b, on="ride", within=(0, 60)).collect().to_pylist()
[{'ride': 1, 'rides_ts': 0, 'fares_ts': 7, 'fare': 12}]
>>> a.join(b, on="ride", within=(0, 60), how="anti").collect().to_pylist()
[{'ts': 5, 'ride': 2}]
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from lowwater.aggregates.base import Aggregate
from lowwater.errors import BadAggregate, BadWindow, LowwaterError, UnknownColumn
from lowwater.joins.condition import Condition
from lowwater.joins.spec import JoinSide, WindowJoin
from lowwater.model.ticks import Length, Ticks
from lowwater.operators.bucket import WindowedAggregation, WindowKind
from lowwater.query import planner
from lowwater.query.asked import Asked
from lowwater.query.explain import Branch
from lowwater.query.join_explain import explain_join
from lowwater.query.join_plan import JoinPlan
from lowwater.query.join_planner import behind, follow, grouping, plan_join, progress_behind
from lowwater.query.window import window_of
from lowwater.stream import Stream
from lowwater.windows.context_free import ContextFree, Sliding, TupleBased

On = str | Sequence[str | Sequence[str]]
Within = Length | tuple[Length | None, Length | None] | None
Predicate = str | Callable[[pa.Table], pa.Array]


@dataclass(frozen=True)
class Joined(Asked):
    """A planned join; an aggregation may follow it."""

    plan: JoinPlan

    def explain(self) -> str:
        return explain_join(self.plan, self._branches)

    def group_by(self, *columns: str) -> Grouped:
        """A group-by without window: a group is answered as soon as punctuation says that it is complete."""
        self._known(columns, "group_by()")
        return Grouped(self, columns)

    groupBy = group_by

    def window(
        self, range: Length, slide: Length | None = None, *, over: str | None = None, origin: object = None
    ) -> Grouped:
        """Windows over a timestamp of the results, by default the first one that every result has."""
        over = progress_behind(self.plan, over)
        ticks = Ticks(self.plan.joined_schema.field(over).type)
        window, anchored = window_of(ticks, range, slide, origin, None, False, None)
        if not anchored or not isinstance(window, ContextFree) or isinstance(window, TupleBased):
            raise BadWindow(
                "Windows behind a join are lengths of time from a known origin; leave out rows and 'first'."
            )
        return Grouped(self, (), window, over)

    def _known(self, columns: Sequence[str], where: str) -> None:
        for column in columns:
            if column not in self.plan.joined_schema.names:
                raise UnknownColumn(column, self.plan.joined_schema.names, where)


@dataclass(frozen=True)
class Grouped:
    """A join with a grouping, and perhaps a window, over its results."""

    _joined: Joined
    _groups: tuple[str, ...]
    _window: WindowKind | None = None
    _time: str | None = None

    def group_by(self, *columns: str) -> Grouped:
        self._joined._known(columns, "group_by()")
        return Grouped(self._joined, (*self._groups, *columns), self._window, self._time)

    groupBy = group_by

    def agg(self, strategy: str = "auto", **aggregates: Aggregate) -> Joined:
        """What to compute; the keyword is the name of the result column."""
        if not isinstance(strategy, str):
            raise BadAggregate(
                "agg() takes aggregates by name, as in agg(n=lw.count()), and 'strategy' is no such name."
            )
        for name, aggregate in aggregates.items():
            if not isinstance(aggregate, Aggregate):
                raise BadAggregate(
                    f"agg({name}=...) takes an aggregate such as lw.count() or lw.sum('len'), not {aggregate!r}."
                )
        if not aggregates:
            raise BadAggregate("agg() needs at least one aggregate, as in agg(n=lw.count()).")
        plan, schema = self._joined.plan, self._joined.plan.joined_schema
        if self._window is None:
            if strategy != "auto":
                raise LowwaterError(
                    f"strategy={strategy!r} is for windows; a group-by behind a join has one way only, so leave it out."
                )
            then = follow(plan, grouping(plan, self._groups, tuple(aggregates.items())))
        else:
            assert self._time is not None
            asked = WindowedAggregation(self._window, self._time, schema, self._groups, tuple(aggregates.items()), True)
            then = follow(plan, planner.plan(behind(plan, self._time), asked, strategy))
        return Joined(then, self._joined._frames, self._joined._branches)


def joined(
    streams: Sequence[Stream],
    on: On,
    within: Within | Sequence[Length | None] = None,
    how: str = "inner",
    *,
    window: Length | None = None,
    slide: Length | None = None,
    origin: object = None,
    bounds: str = "[]",
    rows: int | tuple[int | None, int | None] | None = None,
    per_key: bool = True,
    condition: Predicate | None = None,
    null_safe: bool = False,
) -> Joined:
    """See `Stream.join` and `lowwater.join`."""
    if len(streams) < 2:
        raise LowwaterError("join() needs two streams or more.")
    for stream in streams:
        if not isinstance(stream, Stream):
            raise LowwaterError(f"join() takes streams, as lw.stream() makes them, not {type(stream).__name__}.")
    keys = _keys(on, len(streams))
    sides = tuple(
        JoinSide(_name(stream), _rows_of(stream), stream.progress, key)
        for stream, key in zip(streams, keys, strict=True)
    )
    ticks = sides[0].ticks
    grid = None
    if window is None and (slide is not None or origin is not None):
        raise BadWindow("slide= and origin= of join() belong to window=, as in window='10 minutes', slide='1 minute'.")
    band = window is None and len(streams) == 2 and not isinstance(within, list)
    if bounds != "[]" and not band:
        raise BadWindow("bounds= of join() opens the ends of within= between two streams; leave it out here.")
    if window is not None:
        if within is not None:
            raise BadWindow("join() takes within= (a band) or window= (a grid), not both.")
        made, anchored = window_of(ticks, window, slide, origin, None, False, None)
        if not isinstance(made, Sliding) or isinstance(made, TupleBased) or not anchored:
            raise BadWindow("join(window=) is a length of time from a known origin, as in window='10 minutes'.")
        grid = made
        waits: tuple[int | None, ...] = (0,) * len(streams)
    elif band:
        waits = _band(ticks, within, bounds)
    else:
        each: list[Any] = list(within) if isinstance(within, list | tuple) else [within] * len(streams)
        if len(each) != len(streams):
            raise BadWindow(f"join(within=) gives {len(each)} windows for {len(streams)} streams.")
        waits = tuple(_length(ticks, one) for one in each)
    kept = None if condition is None else Condition(condition)
    what = WindowJoin(sides, waits, how, grid, kept, null_safe, _counts(rows), per_key)
    branches = [(side, branch) for side, stream in enumerate(streams) for branch in stream._branches]
    inputs = [branch.input for _, branch in branches]
    plan = plan_join(inputs, [side for side, _ in branches], what)
    frames = tuple(branch.frame for _, branch in branches)
    return Joined(plan, frames, tuple(Branch(branch.input.name, branch.steps) for _, branch in branches))


def _name(stream: Stream) -> str:
    return "_".join(branch.input.name for branch in stream._branches)


def _rows_of(stream: Stream) -> pa.Schema:
    """The columns of tuples: without those that only punctuations use."""
    marks = {
        name for b in stream._branches if (ends := b.input.ends) for name in ends.columns if name != ends.attribute
    }
    return pa.schema([field for field in stream.schema if field.name not in marks])


def _keys(on: On, n: int) -> list[tuple[str, ...]]:
    """The key columns of each stream: a name is that of all, a pair names one of each."""
    columns = [on] if isinstance(on, str) else on
    if not isinstance(columns, Sequence) or not all(isinstance(one, str | tuple | list) for one in columns):
        raise LowwaterError(f"join(on=) is a column, several, or pairs of them as in [('id', 'seller')], not {on!r}.")
    each = [(one,) * n if isinstance(one, str) else tuple(one) for one in columns]
    for one in each:
        if len(one) != n:
            raise LowwaterError(f"join(on=) names {len(one)} columns, {list(one)}, for {n} streams.")
    return [tuple(one[i] for one in each) for i in range(n)]


def _counts(rows: Any) -> tuple[int | None, int | None] | None:
    if rows is None:
        return None
    counts = rows if isinstance(rows, tuple) else (rows, rows)
    if len(counts) != 2 or not all(n is None or (isinstance(n, int) and not isinstance(n, bool)) for n in counts):
        raise BadWindow(f"join(rows=) is a number of rows, or one of each side as in rows=(100, None), not {rows!r}.")
    return counts


def _length(ticks: Ticks, length: Length | None) -> int | None:
    if length is None:
        return None
    found = ticks.length(length, "WITHIN")
    if abs(found) >= 1 << 61:
        raise BadWindow(f"WITHIN must be below 2^61 ticks, but is {found}; longer windows would overflow.")
    return found


def _band(ticks: Ticks, within: Any, bounds: str) -> tuple[int | None, int | None]:
    """(wait of the left, wait of the right) of left.t + low <= right.t <= left.t + high; an open end is a tick less."""
    if bounds not in ("[]", "[)", "(]", "()"):
        raise BadWindow(f"join(bounds=) is one of '[]', '[)', '(]', '()', not {bounds!r}.")
    if isinstance(within, tuple):
        if len(within) != 2:
            raise BadWindow(
                "join(within=) is a length, or a lower and an upper end, as in ('-2 minutes', '3 minutes')."
            )
        low, high = (_length(ticks, end) for end in within)
    else:
        high = _length(ticks, within)
        low = None if high is None else -high
        if high is not None and high < 0:
            raise BadWindow("join(within=) must not be negative; give a lower and an upper end for a band.")
    open_low, open_high = bounds[0] == "(", bounds[1] == ")"
    return None if high is None else high - open_high, None if low is None else -(low + open_low)
