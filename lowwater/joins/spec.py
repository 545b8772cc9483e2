"""What a window join is asked for: its inputs, which rows belong together, and what becomes of those that stay alone.

Rows of all inputs join if they are equal on the key and within each other's windows. A window on an input says how long
its tuples *wait* for the others (TH 5.2.1 with its erratum; PW 3.2; OA-Join): for all inputs i and j

    t_j - t_i <= wait_i,   so for two of them   t_0 - wait_1 <= t_1 <= t_0 + wait_0.

Both ends are closed; an open end of whole ticks is a closed one a tick earlier. A wait may be negative (the partner
must come before), and None is for ever: a join without window.

Over a grid (tumbling or hopping windows) rows join if they are in the same window. It is the same join on another axis:
positions are window numbers, a row in n windows has n of them, and nobody waits for another window. `Axis` is the
difference, and all there is of it.
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
    """One input: rows of `schema` that progress on `time`, and the columns `on` that make their key."""

    name: str
    schema: pa.Schema
    time: str
    on: tuple[str, ...]

    @cached_property
    def ticks(self) -> Ticks:
        return Ticks(self.schema.field(self.time).type)


@dataclass(frozen=True)
class Axis:
    """Positions on which rows are compared: the ticks themselves, or window numbers of a grid."""

    grid: Sliding | None = None

    def positions(self, time: Ints) -> tuple[Ints, Ints | None]:
        """The positions of rows, and which row each belongs to where a row has other than one."""
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
        """The least time that a row of this position can have."""
        if self.grid is None or position in (NEVER, END):
            return position
        start, _ = self.grid.interval(np.array([position], np.int64))
        assert start is not None
        return int(start[0])


@dataclass(frozen=True)
class Column:
    """A column of the result: of one side, or the key that all sides share, from the first that is there."""

    name: str
    side: int | None
    of: str


@dataclass(frozen=True)
class WindowJoin:
    """A join of two inputs or more. All but inner joins have two. `null_safe` lets null keys match each other."""

    sides: tuple[JoinSide, ...]
    waits: tuple[int | None, ...]
    how: str = "inner"
    grid: Sliding | None = None
    condition: Condition | None = None
    null_safe: bool = False
    rows: tuple[int | None, ...] | None = None
    """Tuple-count windows: how many of the newest tuples of a side (None: its wait) a tuple of the other meets."""
    per_key: bool = True
    """Whether tuples are counted for each key by itself, or over the whole input."""
    emits: tuple[str, ...] | None = None
    """The columns of the result that somebody reads; None is all."""

    @property
    def axis(self) -> Axis:
        return Axis(self.grid)

    @property
    def keeps(self) -> tuple[bool, ...]:
        """Whether rows of a side that stay alone are part of the result."""
        return tuple(self.how in (("left", "full", "anti"), ("right", "full"))[i > 0] for i in range(len(self.sides)))

    @property
    def one_sided(self) -> bool:
        """Whether the result is rows of the first side: those that match, or those that do not."""
        return self.how in ("semi", "anti")

    def reads(self) -> list[set[str]]:
        """The columns of each input that are needed: its key, its time, and what the results or the condition name."""
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
        """The columns of a pair. Key columns of one name appear once; others of one name are told apart by the input's
        name."""
        names = [name for side in self.sides for name in side.schema.names]
        shared = [one for one in zip(*(side.on for side in self.sides), strict=True) if len(set(one)) == 1]
        keys = [one[0] for one in shared]
        columns = [Column(key, None, key) for key in keys]
        for i, side in enumerate(self.sides):
            for name in side.schema.names:
                if name not in keys:
                    alone = names.count(name) == 1
                    columns.append(Column(name if alone else f"{side.name}_{name}", i, name))
        return tuple(columns)

    @cached_property
    def columns(self) -> tuple[Column, ...]:
        """The columns of the result, without those of a window."""
        own = tuple(Column(name, 0, name) for name in self.sides[0].schema.names)
        columns = own if self.one_sided else self.paired
        return columns if self.emits is None else tuple(column for column in columns if column.name in self.emits)

    @cached_property
    def times(self) -> tuple[str, ...]:
        """What the progressing attribute of each side is called in the result, whether or not it is shown."""
        named = {} if self.one_sided else {(c.side, c.of): c.name for c in self.paired}
        return tuple(named.get((i, side.time), side.time) for i, side in enumerate(self.sides))

    @cached_property
    def keys(self) -> tuple[str, ...]:
        """What the key columns are called in the result, by the names of the first side."""
        named = {} if self.one_sided else {(c.side, c.of): c.name for c in self.paired}
        return tuple(named.get((0, name), name) for name in self.sides[0].on)

    def field(self, column: Column) -> pa.Field:
        return pa.field(column.name, self.sides[column.side or 0].schema.field(column.of).type)

    def result_schema(self) -> pa.Schema:
        window = [pa.field(name, self.sides[0].ticks.wide) for name in WINDOW if self.grid is not None]
        return pa.schema([*window, *(self.field(column) for column in self.columns)])

    def pairs(self, found: Sequence[tuple[pa.Table, Ints] | None], columns: Sequence[Column]) -> pa.Table:
        """Rows side by side: for each side its rows and which of them, or None where it is missing."""
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
        """The result's columns of a window before those of the rows."""
        if self.grid is None:
            return rows
        start, end = self.grid.interval(position)
        assert start is not None
        ticks = self.sides[0].ticks
        return pa.table([ticks.decode(start), ticks.decode(end), *rows.columns], schema=self.result_schema())
