"""The definition of a window join: its inputs, the rows that join, and whether rows without a partner are results.

Rows of all inputs join if they are equal on the key and within each other's windows. The window of an input is the time
for which its tuples *wait* for the others (TH 5.2.1 with its erratum; PW 3.2; OA-Join): for all inputs i and j

    t_j - t_i <= wait_i,   so for two inputs   t_0 - wait_1 <= t_1 <= t_0 + wait_0.

Both ends are closed; in whole ticks, an open end equals a closed end one tick earlier. A wait can be negative: the
partner must then come before. A wait of None is unbounded: the join has no window.

Over a grid (tumbling or hopping windows) rows join if they are in the same window. It is the same join on another axis:
positions are window numbers, a row in n windows has n positions, and all waits are 0. `Axis` contains the whole
difference.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lowwater.aggregates.sorting import explode
from lowwater.joins.condition import Condition
from lowwater.model.ticks import END, NEVER, Ticks
from lowwater.windows.context_free import Sliding
from lowwater.windows.spec import Tuples

Ints = npt.NDArray[np.int64]
HOW = ("inner", "left", "right", "full", "semi", "anti")
WINDOW = ("window_start", "window_end")


@dataclass(frozen=True)
class JoinSide:
    """One input of a join: rows of `schema` that progress on `time`. The columns `on` are the key."""

    name: str
    schema: pa.Schema
    time: str
    on: tuple[str, ...]

    @cached_property
    def ticks(self) -> Ticks:
        return Ticks(self.schema.field(self.time).type)


@dataclass(frozen=True)
class Axis:
    """The positions by which rows are compared: ticks, or window numbers of a grid."""

    grid: Sliding | None = None

    def positions(self, time: Ints) -> tuple[Ints, Ints | None]:
        """The positions of rows. If a row can have several or none, also the index of the row of each position."""
        if self.grid is None:
            return time, None
        first, last = self.grid.wids(Tuples(time))
        assert last is not None
        if self.grid.range == self.grid.slide:
            return first, None
        return explode(first, last + 1), np.repeat(np.arange(len(time)), last + 1 - first)

    def reached(self, low: int) -> int:
        """The least position that a row at `low` or later can have."""
        if self.grid is None or low in (NEVER, END):
            return low
        return int(self.grid.wids(Tuples(np.array([low], np.int64)))[0][0])

    def since(self, position: int) -> int:
        """The least time that a row at this position can have."""
        if self.grid is None or position in (NEVER, END):
            return position
        start, _ = self.grid.interval(np.array([position], np.int64))
        assert start is not None
        return int(start[0])


@dataclass(frozen=True)
class Column:
    """A column of the result: from one side, or a key that all sides share (`side` is None)."""

    name: str
    side: int | None
    of: str


@dataclass(frozen=True)
class WindowJoin:
    """A join of two or more inputs; only inner joins can have more than two. With `null_safe`, null keys match."""

    sides: tuple[JoinSide, ...]
    waits: tuple[int | None, ...]
    how: str = "inner"
    grid: Sliding | None = None
    condition: Condition | None = None
    null_safe: bool = False
    rows: tuple[int | None, ...] | None = None
    """Tuple-count windows: the number of newest tuples in the window of each side; None for a window of time."""
    per_key: bool = True
    """Whether tuples are counted per key, or over the whole input."""
    emits: tuple[str, ...] | None = None
    """The columns of the result that later operators read; None means all."""

    @property
    def axis(self) -> Axis:
        return Axis(self.grid)

    @property
    def keeps(self) -> tuple[bool, ...]:
        """For each side, whether its rows without a partner are results."""
        return tuple(self.how in (("left", "full", "anti"), ("right", "full"))[i > 0] for i in range(len(self.sides)))

    @property
    def one_sided(self) -> bool:
        """Whether results are rows of the first side only: semi and anti joins."""
        return self.how in ("semi", "anti")

    def reads(self) -> list[set[str]]:
        """The columns of each input that the join needs: key, time, and those in the results or in the condition."""
        named = {c.name for c in self.columns} if self.emits is None else set(self.emits)
        if self.condition is not None:
            named |= set(self.condition.reads([c.name for c in self.paired]))
        columns = (*self.paired, *(self.columns if self.one_sided else ()))
        return [
            {*side.on, side.time, *(c.of for c in columns if c.name in named and c.side == i)}
            for i, side in enumerate(self.sides)
        ]

    @cached_property
    def paired(self) -> tuple[Column, ...]:
        """The columns of a pair.

        A key column with the same name on all sides appears once. Other columns with the same name are prefixed with
        the name of their input. Upper and lower case are alike, because Spark could not read the result otherwise.
        """
        names = [name for side in self.sides for name in {column.lower() for column in side.schema.names}]
        shared = [one for one in zip(*(side.on for side in self.sides), strict=True) if len(set(one)) == 1]
        keys = [one[0] for one in shared]
        columns = [Column(key, None, key) for key in keys]
        for i, side in enumerate(self.sides):
            for name in side.schema.names:
                if name not in keys:
                    alone = names.count(name.lower()) == 1
                    columns.append(Column(name if alone else f"{side.name}_{name}", i, name))
        return tuple(columns)

    @cached_property
    def columns(self) -> tuple[Column, ...]:
        """The columns of the result, without the columns of a window."""
        own = tuple(Column(name, 0, name) for name in self.sides[0].schema.names)
        columns = own if self.one_sided else self.paired
        return columns if self.emits is None else tuple(column for column in columns if column.name in self.emits)

    @cached_property
    def times(self) -> tuple[str, ...]:
        """The name that the time of each side has in the result, whether or not the result shows it."""
        named = {} if self.one_sided else {(c.side, c.of): c.name for c in self.paired}
        return tuple(named.get((i, side.time), side.time) for i, side in enumerate(self.sides))

    @cached_property
    def keys(self) -> tuple[str, ...]:
        """The names that the key columns of the first side have in the result."""
        named = {} if self.one_sided else {(c.side, c.of): c.name for c in self.paired}
        return tuple(named.get((0, name), name) for name in self.sides[0].on)

    def field(self, column: Column) -> pa.Field:
        return pa.field(column.name, self.sides[column.side or 0].schema.field(column.of).type)

    def result_schema(self) -> pa.Schema:
        window = [pa.field(name, self.sides[0].ticks.wide) for name in WINDOW if self.grid is not None]
        return pa.schema([*window, *(self.field(column) for column in self.columns)])

    def pairs(self, found: Sequence[tuple[pa.Table, Ints] | None], columns: Sequence[Column]) -> pa.Table:
        """A table of pairs. `found` has for each side its rows and the indices to take, or None if it is missing."""
        n = next(len(rows) for one in found if one is not None for rows in (one[1],))
        out = []
        for column in columns:
            field = self.field(column)
            side = column.side if column.side is not None else next(i for i, one in enumerate(found) if one is not None)
            one = found[side]
            name = column.of if column.side is not None else self.sides[side].on[self.sides[0].on.index(column.of)]
            out.append(pa.nulls(n, field.type) if one is None else one[0].column(name).take(pa.array(one[1])))
        return pa.table(out, schema=pa.schema([self.field(column) for column in columns]))

    def windowed(self, rows: pa.Table, position: Ints) -> pa.Table:
        """The rows with the columns of their window in front, if the join has a grid."""
        if self.grid is None:
            return rows
        start, end = self.grid.interval(position)
        assert start is not None
        ticks = self.sides[0].ticks
        return pa.table([ticks.decode(start), ticks.decode(end), *rows.columns], schema=self.result_schema())
