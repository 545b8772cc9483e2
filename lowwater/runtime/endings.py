"""Endings: the values that a run of rows has ended, and the rows that break such a promise.

Rows for which `ends.when` holds are punctuations. Each reports that a value, the values of a list, or a range of values
has ended. Without `when` the column is a unique key, and every row ends its own value. A row that comes after the end
of its own value in the same run breaks the promise. It is set aside here, because only ingest knows the order of
arrival.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lowwater.aggregates.sorting import parted
from lowwater.joins.keyed import Keyed, equal, pick
from lowwater.joins.ranges import first_of
from lowwater.model.columns import whole
from lowwater.model.routing import route
from lowwater.model.ticks import Ticks, checked
from lowwater.plan.inputs import Ends

Ints = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]
POSITION = "__lw_position"
BROKEN, ENDED, RANGES, MARKED = "broken", "ended", "ranges", "marked"


class Endings:
    """One run of rows that end values of a column."""

    def __init__(self, ends: Ends, type: pa.DataType, time: str, null_safe: bool) -> None:
        self._ends, self._type, self._time, self._null_safe = ends, type, time, null_safe
        self._marks: list[pa.Table] = []
        self._seen = 0
        self._marked: int | None = None

    def split(self, table: pa.Table) -> tuple[pa.Table, pa.Table | None]:
        """(rows that are data, each with its position; rows that are punctuations)."""
        position = np.arange(table.num_rows) + self._seen
        self._seen += table.num_rows
        table = table.append_column(POSITION, pa.array(position))
        if self._ends.when is None:
            return table, None
        is_mark = pc.fill_null(table.column(self._ends.when), False)
        marks = table.filter(is_mark)
        if not marks.num_rows:
            return table, None
        self._marks.append(marks)
        times = marks.column(self._time).drop_null()
        if len(times):
            most = int(checked(Ticks(times.type).encode(whole(times)), self._time).max())
            self._marked = most if self._marked is None else max(most, self._marked)
        return table.filter(pc.invert(is_mark)), marks

    def kept(self, rows: pa.Table) -> tuple[pa.Table, pa.Table | None]:
        """(rows that keep the promise, rows that break it), without their positions."""
        position = rows.column(POSITION).to_numpy()
        rows = rows.drop_columns([POSITION])
        broken = self._broken(rows, position)
        if not broken.any():
            return rows, None
        return rows.filter(pa.array(~broken)), rows.filter(pa.array(broken))

    def tables(self, rows: pa.Table | None, shards: int, route: tuple[str, ...] | None) -> list[dict[str, pa.Table]]:
        """The tables of every shard. An ended value goes to the shard of the value, a range to all shards."""
        out: list[dict[str, pa.Table]] = [{} for _ in range(shards)]
        if route == ():
            return [*self.tables(rows, 1, (self._ends.attribute,)), *out[1:]]
        on = self._ends.attribute
        if self._ends.when is None:
            if rows is not None:
                self._send(rows.select([on]), out)
        elif self._marks:
            marks = pa.concat_tables(self._marks).combine_chunks()
            if self._ends.value is not None:
                self._send(self._values(marks)[0], out)
            else:
                bounds = self._ranges(marks).select(["low", "high"])
                for tables in out if bounds.num_rows else []:
                    tables[RANGES] = bounds
        if self._marked is not None:
            for tables in out:
                tables[MARKED] = pa.table({"marked": [self._marked]})
        return out

    @staticmethod
    def _send(values: pa.Table, out: list[dict[str, pa.Table]]) -> None:
        for tables, some in zip(out, parted(values, route(values, len(out)), len(out)), strict=True):
            if some.num_rows:
                tables[ENDED] = some

    def _values(self, marks: pa.Table) -> tuple[pa.Table, Ints]:
        """The ended values as a table of one column, and the position of each. Lists are flattened."""
        assert self._ends.value is not None
        column, position = whole(marks.column(self._ends.value)), marks.column(POSITION).to_numpy()
        if pa.types.is_list(column.type) or pa.types.is_large_list(column.type):
            position = position[pc.list_parent_indices(column).to_numpy()]
            column = pc.list_flatten(column)
        return pa.table({self._ends.attribute: column.cast(self._type)}), position

    def _ranges(self, marks: pa.Table) -> pa.Table:
        """The ended ranges [low, high), and the position of each. A range with a null end promises nothing."""
        named = (("low", self._ends.low), ("high", self._ends.high))
        columns = {name: marks.column(of).cast(self._type) for name, of in named}
        table = pa.table({**columns, POSITION: marks.column(POSITION)})
        known = [pc.invert(pc.is_null(column, nan_is_null=True)) for column in columns.values()]
        return table.filter(pc.and_(*known))

    def _broken(self, rows: pa.Table, position: Ints) -> Mask:
        """A mask of the rows that follow the end of their own value."""
        on = self._ends.attribute
        keys = rows.select([on])
        if self._ends.when is None:
            values, at = keys, position
        elif not self._marks:
            return np.zeros(rows.num_rows, np.bool_)
        else:
            marks = pa.concat_tables(self._marks).combine_chunks()
            if self._ends.value is None:
                return _behind_ranges(keys, position, self._ranges(marks))
            values, at = self._values(marks)
        present = np.asarray(pc.is_valid(values.column(0))) | self._null_safe
        ended = Keyed.of(values.filter(pa.array(present)), (on,), at[present])
        probing = Keyed.of(keys, (on,), np.arange(rows.num_rows))
        if ended.mixed:  # the first row of a value list can have another key than the one that is looked up
            before = position[probing.at] - 1
            theirs, _ = ended.probe(probing, np.full(len(probing), -1), before)
            return np.isin(np.arange(rows.num_rows), probing.at[theirs])
        which, lists = ended.lists(probing.codes)
        of_row = np.full(len(probing), -1)
        of_row[probing.rows_of(which)] = np.repeat(ended.starts[lists], np.diff(probing.starts)[which])
        found = np.flatnonzero(of_row >= 0)
        same = equal(pick(probing.keys, found), pick(ended.keys, of_row[found]))
        found = found[same]
        broken = np.zeros(rows.num_rows, np.bool_)
        broken[probing.at[found]] = position[probing.at[found]] > ended.at[of_row[found]]
        return broken


def _behind_ranges(keys: pa.Table, position: Ints, ranges: pa.Table) -> Mask:
    low, high, ended = (whole(ranges.column(name)) for name in ("low", "high", POSITION))
    return np.asarray(position > first_of(low, high, ended.to_numpy(), whole(keys.column(0))), np.bool_)
