"""Group-by without windows: a group is answered when punctuation says that no more of its rows come (TH 2.1, 7.2).

A punctuation p closes group g iff p has a wildcard on every attribute that is not grouped by, and its patterns on the
others match the values of g: only then can no row of g come any more (the rule of Tucker and Maier). A join in front
that passes punctuation on makes use of it: the bids of an auction are counted when it has ended, the pairs of two
timestamps when both are past.

    rows         are reduced to one partial per group, and join what is there of it
    punctuation  answers the groups that it closes and forgets them; then it goes on itself, since no answer that it
                 matches comes any more. One that says nothing of whole groups, or nothing new, ends here
    Ended        the same for a table of values, as many as a micro-batch ends, found by hashing

Punctuation speaks of progressing attributes (`times`) in ticks and of others in plain values; null is a value, that a
constant may name and no range contains.

A linear punctuation on a time that is grouped by is remembered as one number, and rows below it are late; after the end
all are. Anything else is not remembered, for it would be a list that grows for ever: that no row comes for a value that
has ended, for a group-wise bound or for a joint one is what the join in front has promised. Such a row would open its
group anew, and its answer would break the punctuation that went out.

State: one row for each open group, in hash buckets; a punctuation writes those in which it closes something. What is
asked for is punctuation on grouped attributes.

>>> from lowwater.aggregates import count, max
>>> from lowwater.model.punctuation import Constant
>>> from lowwater.operators.base import taken
>>> schema = pa.schema({"auction": pa.int64(), "price": pa.int64()})
>>> bids = GroupBy(Grouping(schema, ("auction",), (("bids", count()), ("top", max("price")))))
>>> taken(bids, 0, Batch(pa.table({"auction": [7, 8, 7, 9], "price": [10, 40, 30, 5]})))
[]
>>> answer, ended = taken(bids, 0, Punctuation({"auction": Constant(7)}))
>>> answer.rows.to_pylist(), str(ended), bids.held().rows
([{'auction': 7, 'bids': 2, 'top': 30}], '(auction: 7)', 2)
>>> answer, ended = taken(bids, 0, Ended(pa.table({"auction": [8, 9, 11]})))
>>> sorted(answer.rows["auction"].to_pylist()), len(ended), bids.held().rows
([8, 9], 3, 0)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lowwater.aggregates.base import Aggregate, Algebra
from lowwater.aggregates.grouped import Grouped, factorise, lift, matched, pick, without_columns
from lowwater.errors import LowwaterError, UnknownColumn
from lowwater.model.columns import whole
from lowwater.model.punctuation import ALL, Finite, Mask, Pattern, Punctuation, Range
from lowwater.model.ticks import END, NEVER, Ticks
from lowwater.operators.base import Batch, Emit, Ended, Operator, Payload, batch_of
from lowwater.operators.buckets import Buckets, Ints
from lowwater.operators.layout import Layout, RowLayout
from lowwater.operators.spec import Need, OperatorSpec
from lowwater.state.store import Store

LATE = "its group is closed"
ENDED = "the stream has ended"


@dataclass(frozen=True)
class Grouping:
    """What is computed: the aggregates of each group of a stream of this schema."""

    schema: pa.Schema
    group_by: tuple[str, ...]
    aggregates: tuple[tuple[str, Aggregate], ...]
    times: tuple[str, ...] = ()
    """The progressing attributes, grouped by or not. The first of them is what first, last and lists go by; a row that
    has none comes before all others, and without `times` all rows are of one time."""

    def __post_init__(self) -> None:
        for name in (*self.group_by, *self.times):
            if name not in self.schema.names:
                raise UnknownColumn(name, self.schema.names, "group_by()")
        for name in self.times:
            Ticks(self.schema.field(name).type)  # refuses a type without ticks
        names = [*self.group_by, *(name for name, _ in self.aggregates)]
        if not names or len(set(names)) < len(names):
            raise LowwaterError(f"A group-by needs result columns of different names, but has {names}; name them anew.")

    @property
    def distinct(self) -> tuple[Aggregate, ...]:
        """Each aggregate once."""
        return tuple(dict.fromkeys(aggregate for _, aggregate in self.aggregates))

    def algebras(self) -> list[Algebra]:
        return [aggregate.bind(self.schema) for aggregate in self.distinct]

    def keys_schema(self) -> pa.Schema:
        return pa.schema([pa.field(name, self.schema.field(name).type) for name in self.group_by])

    def result_schema(self) -> pa.Schema:
        distinct, algebras = self.distinct, self.algebras()
        results = [pa.field(name, algebras[distinct.index(aggregate)].result) for name, aggregate in self.aggregates]
        return pa.schema([*self.keys_schema(), *results])


@dataclass(frozen=True)
class GroupBySpec(OperatorSpec):
    """A group-by without windows. `why` says what closes a group, `until` how long its partial is kept."""

    what: Grouping
    why: str
    until: str
    name = "Group-by"

    @property
    def result(self) -> pa.Schema:
        return self.what.result_schema()

    def need(self, port: int) -> Need:
        return Need(self.what.group_by)

    def layout(self, port: int, route: tuple[str, ...] | None) -> Layout:
        return RowLayout(tuple(self.what.schema.names), route)

    def open(self, store: Store, shards: int) -> Operator:
        return GroupBy(self.what, store)

    def partitioned(self, routes: Sequence[tuple[str, ...] | None]) -> tuple[str, ...] | None:
        return routes[0]

    @property
    def order(self) -> list[tuple[str, str]]:
        return [(name, "ascending") for name in self.what.group_by]

    @property
    def title(self) -> str:
        return "Group-by  " + ", ".join(f"{name} = {aggregate}" for name, aggregate in self.what.aggregates)

    def lines(self) -> list[tuple[str, str]]:
        return [
            ("groups", ", ".join(self.what.group_by)),
            ("because", self.why),
            ("state", f"at most one partial for each group {self.until}"),
        ]


class Groups(Buckets):
    """Open groups, one row each and all of one slot; they leave by what their keys say."""

    def close(self, closed: Callable[[pa.Table], Mask]) -> list[Grouped]:
        """Takes out the groups whose keys are closed; buckets without any stay as they are written."""
        self.settle()
        found = []
        for b in sorted(int(entry.name) for entry in self._buckets):
            bucket = self._buckets[str(b)].value
            gone = closed(bucket.keys)[bucket.group]
            if gone.any():
                self._take(b)
                found.append(bucket.where(gone))
                if not gone.all():
                    self._put(b, bucket.where(~gone))
        return found


@dataclass
class Past:
    """The low-watermarks told, by grouped time, and whether all is over."""

    bounds: dict[str, int] = field(default_factory=dict)
    ended: bool = False


class GroupBy(Operator):
    """See the module text. `bounds` are the low-watermarks told, by grouped time; `ended` is whether all is over."""

    def __init__(self, what: Grouping, store: Store | None = None) -> None:
        super().__init__(store)
        self.what = what
        self._past = self.store.record("past", Past())
        self._times = [name for name in what.group_by if name in what.times]
        self._keys, self._results = what.keys_schema(), what.result_schema()
        self._algebras = what.algebras()
        self._groups = Groups(self._algebras, due=self._time_of, store=self.store.at("groups"))

    @property
    def bounds(self) -> dict[str, int]:
        return self._past.bounds

    @property
    def ended(self) -> bool:
        return self._past.ended

    @property
    def demands(self) -> tuple[str, ...]:
        return self.what.group_by

    def on_rows(self, port: int, rows: Payload, emit: Emit) -> None:
        given = batch_of(rows)
        late = np.full(given.num_rows, self.ended)
        for name, bound in self.bounds.items():
            late |= between(below(bound), ticks_of(given.column(name)))
        kept = self.without_late(given, late, ENDED if self.ended else LATE, emit)
        if kept.num_rows:
            self._groups.absorb(self._reduced(kept))

    def _reduced(self, rows: pa.Table) -> Grouped:
        """One partial a group. All are of one slot, so groups alone tell them apart."""
        n = rows.num_rows
        named = [rows.column(name) for name in self.what.group_by]
        keys = pa.table(named, schema=self._keys) if named else without_columns(n)
        slot = time = np.zeros(n, np.int64)
        if self.what.times:
            time = pc.fill_null(ticks_of(rows.column(self.what.times[0])), NEVER).to_numpy()
        return lift(keys, slot, [a.argument(rows) for a in self.what.distinct], time, self._algebras)

    def on_punctuation(self, port: int, punctuation: Punctuation, emit: Emit) -> None:
        of_groups = all(name in self.what.group_by for name, _ in punctuation.patterns)
        if not of_groups or punctuation.matches_nothing or self._is_known(punctuation):
            return
        closed = self._groups.close(self._matcher(punctuation))
        self._past.ended = punctuation == ALL
        lows = {name: punctuation.low_watermark(name) for name in self._times}
        self.bounds.update({name: low for name, low in lows.items() if low is not None})
        self._answers(closed, emit)
        emit(punctuation)

    def _is_known(self, punctuation: Punctuation) -> bool:
        """Whether what was remembered says as much: then all that it closes is closed, and was told."""
        lows = (Punctuation({name: below(bound)}) for name, bound in self.bounds.items())
        return self.ended or any(low.covers(punctuation) for low in lows)

    def _matcher(self, punctuation: Punctuation) -> Callable[[pa.Table], Mask]:
        """`punctuation.match` of every row of keys; what is listed is converted once, and not for each bucket."""
        none = self._keys.empty_table()
        tests = {name: within(pattern, self._spoken(none, name).type) for name, pattern in punctuation.patterns}
        return lambda keys: np.logical_and.reduce(
            [np.ones(keys.num_rows, np.bool_), *(test(self._spoken(keys, name)) for name, test in tests.items())]
        )

    def _spoken(self, keys: pa.Table, name: str) -> pa.Array:
        """A column as punctuation speaks of it: ticks or values."""
        return ticks_of(keys.column(name)) if name in self._times else whole(keys.column(name))

    def on_ended(self, port: int, ended: Ended, emit: Emit) -> None:
        """Closes all groups that match a row of the values, and passes on that these are over.

        Values of a column that is not grouped by end no whole group.
        """
        names = ended.values.column_names
        if not ended.values.num_rows or self.ended or not names or not set(names) <= set(self.what.group_by):
            return
        _, distinct = factorise(ended.values.cast(pa.schema([self._keys.field(name) for name in names])))
        self._answers(self._groups.close(lambda keys: among(keys.select(names), distinct)), emit)
        emit(Ended(distinct))

    def _answers(self, closed: list[Grouped], emit: Emit) -> None:
        if closed:
            rows = pa.concat_tables([self._lowered(groups) for groups in closed]).combine_chunks()
            self.counts.results += rows.num_rows
            emit(Batch(rows))

    def _lowered(self, groups: Grouped) -> pa.Table:
        results = [algebra.lower(partial) for algebra, partial in zip(self._algebras, groups.partials, strict=True)]
        of = dict(zip(self.what.distinct, results, strict=True))
        columns = pick(groups.keys, groups.group).columns
        return pa.table([*columns, *(of[a] for _, a in self.what.aggregates)], schema=self._results)

    def _time_of(self, groups: Grouped) -> Ints:
        """The first grouped time of each group, by which nothing leaves: it is what `excess` looks at."""
        if not self._times:
            return groups.slot
        ticks: Ints = pc.fill_null(ticks_of(groups.keys.column(self._times[0])), END).to_numpy()
        return ticks[groups.group]

    def excess(self) -> str | None:
        """No group is open that the low-watermark of its time has closed."""
        if self.ended:
            return f"{self.rows} groups are open after the end of the stream." if self.rows else None
        bound, least = (self.bounds.get(self._times[0]), self._groups.least) if self._times else (None, None)
        if bound is not None and least is not None and least < bound:
            return f"A group of {self._times[0]} = {least} is open below the low-watermark {bound}."
        return None

    @property
    def rows(self) -> int:
        return self._groups.rows


def ticks_of(column: pa.ChunkedArray) -> pa.Array:
    """The ticks of a progressing attribute; null stays null."""
    values = whole(column)
    null = values.is_null().to_numpy(zero_copy_only=False)
    ticks = np.zeros(len(values), np.int64)
    ticks[~null] = Ticks(values.type).encode(values.drop_null())
    return pa.array(ticks, mask=null)


def below(bound: int) -> Range:
    """The ticks below a low-watermark; below END are all, and a range with a bound would not cover the one without."""
    return Range(None, None if bound == END else bound)


def within(pattern: Pattern, type: pa.DataType) -> Callable[[pa.Array], Mask]:
    """`pattern.match` of every value of a column of this type. Keys hold 0.0 only, never -0.0."""
    if isinstance(pattern, Finite):
        values = fitting(pattern.listed(), type)
        return lambda column: as_mask(pc.is_in(column, value_set=values))
    assert isinstance(pattern, Range), "punctuation in normal form holds no other pattern"
    return lambda column: between(pattern, column)


def between(pattern: Range, column: pa.Array) -> Mask:
    mask = pc.and_(pc.is_valid(column), pc.equal(column, column))  # NaN, which equals nothing, is in no range
    if pattern.low is not None:
        above = pc.greater_equal if pattern.closed_low else pc.greater
        mask = pc.and_(mask, above(column, pa.scalar(pattern.low)))
    if pattern.high is not None:
        beneath = pc.less_equal if pattern.closed_high else pc.less
        mask = pc.and_(mask, beneath(column, pa.scalar(pattern.high)))
    return as_mask(mask)


def fitting(values: Iterable[Any], type: pa.DataType) -> pa.Array:
    """Those of the values that a column of this type can hold, as they are: none is rounded until it fits."""
    kept = []
    for value in values:
        with suppress(pa.ArrowException, OverflowError):  # a value of another type
            kept += [value] if pa.scalar(value, type).as_py() == value else []
    column = pa.array(kept, type)
    return pc.add(column, pa.scalar(0.0, type)) if pa.types.is_floating(type) else column  # -0.0 is 0.0


def among(keys: pa.Table, values: pa.Table) -> Mask:
    """Which rows of `keys` are rows of `values`. Only rows that agree column by column are compared as a whole."""
    mask = np.ones(keys.num_rows, np.bool_)
    for name in keys.column_names:
        mask &= as_mask(pc.is_in(whole(keys.column(name)), value_set=whole(values.column(name))))
    if keys.num_columns > 1 and mask.any():
        mask[mask] = matched(keys.filter(pa.array(mask)), values) >= 0
    return mask


def as_mask(column: pa.Array) -> Mask:
    """Null, where a value was compared with one that has no order, is false."""
    return np.asarray(pc.fill_null(column, False).to_numpy(zero_copy_only=False), np.bool_)
