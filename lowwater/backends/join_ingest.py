"""Ingest of a join: rows are laid out by (key, time) where they are read, so that shards only search and append.

Rows of a run go to the shard of their key, sorted once; the facts of progress go to every shard. Values that the run
has ended go to the shard of the value, ranges to all. A row that comes behind the end of its own value in the same run
breaks the promise: it is set aside here, where the order of arrival is known.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lowwater.aggregates.sorting import parted
from lowwater.backends.arrivals import Arrivals, conformed, facts_of, facts_table
from lowwater.joins.keyed import Keyed, equal, pick
from lowwater.joins.oa_join import laid_out
from lowwater.joins.ranges import first_of
from lowwater.model.columns import whole
from lowwater.model.progress import Facts
from lowwater.model.routing import route
from lowwater.model.ticks import checked
from lowwater.query.join_plan import JoinPlan
from lowwater.query.plan import Ends
from lowwater.state.segments import pack, unpack

Ints = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]
POSITION = "__lw_position"
BROKEN, NULLS, MISSING, ENDED, RANGES, ALL_ROWS = "broken", "nulls", "missing", "ended", "ranges", "all rows"


@dataclass(frozen=True)
class JoinRun:
    """What one run sends to one shard. Tables that are absent were empty."""

    port: int
    facts: Facts
    counted: tuple[int, int, int]
    """Rows read, rows without a progress value and punctuations, of the whole run (the same in every shard)."""
    keyed: Keyed | None
    tables: dict[str, pa.Table]
    """Rows behind the end of their value, rows with a null key, rows without progress; ended values and ranges; all
    rows as they arrived, where they are counted over all keys."""
    marked: int | None = None
    """The largest time of the rows that end values, of the whole run."""


class JoinIngest:
    """One run of one input. `late` asks for rows that take no part to be handed out too."""

    def __init__(self, plan: JoinPlan, port: int, shards: int, late: bool) -> None:
        self._plan, self._port, self._shards, self._late = plan, port, shards, late
        self._side = plan.sides[port]
        self._what = plan.what
        self._schema = plan.what.sides[self._side].schema
        self._ends = plan.inputs[port].ends
        self._arrivals = Arrivals(plan.inputs[port], self._schema, plan.what.sides[self._side].time)
        self._spread = 1 if plan.single else shards
        self._rows: list[pa.Table] = []
        self._marks: list[pa.Table] = []
        self._seen = 0
        self._marked: int | None = None

    def run(self, batches: Iterable[pa.RecordBatch]) -> list[bytes]:
        """The packed message of every shard, or nothing if there was no row."""
        with self._plan.speaking():
            for batch in batches:
                if batch.num_rows:
                    self._take(pa.Table.from_batches([conformed(batch, self._schema)]))
            return self._messages() if self._arrivals.read else []

    def _take(self, table: pa.Table) -> None:
        if self._ends is not None:
            position = np.arange(table.num_rows) + self._seen
            self._seen += table.num_rows
            table = table.append_column(POSITION, pa.array(position))
            if self._ends.when is not None:
                is_mark = pc.fill_null(table.column(self._ends.when), False)
                marks = table.filter(is_mark)
                if marks.num_rows:
                    self._marks.append(marks)
                    self._mark(marks)
                    self._arrivals.promise(marks)  # a row may end a value and time at once
                    self._arrivals.read += marks.num_rows
                    self._arrivals.punctuations += marks.num_rows
                    table = table.filter(pc.invert(is_mark))
        found = self._arrivals.take(table)
        if found is not None:
            self._rows.append(self._arrivals.as_given(found[0], POSITION))

    def _mark(self, marks: pa.Table) -> None:
        side = self._what.sides[self._side]
        times = marks.column(side.time).drop_null()
        if len(times):
            most = int(checked(side.ticks.encode(whole(times)), side.time).max())
            self._marked = most if self._marked is None else max(most, self._marked)

    def _messages(self) -> list[bytes]:
        shards = range(self._shards)
        tables: list[dict[str, pa.Table]] = [{} for _ in shards]
        if self._rows:
            self._lay_out(pa.concat_tables(self._rows).combine_chunks(), tables)
        if self._marks and self._ends is not None:
            self._end(pa.concat_tables(self._marks).combine_chunks(), self._ends, tables)
        if self._late and self._arrivals.nulls is not None:  # what belongs to no key goes to the first shard
            tables[0][MISSING] = self._arrivals.nulls
        read, missing, punctuations = self._arrivals.counted
        counted = {"port": [self._port], "read": [read], "missing": [missing], "punctuations": [punctuations]}
        head = pa.table({**counted, "marked": pa.array([self._marked], pa.int64())})
        facts = facts_table(self._arrivals.facts())
        return [pack({"head": head, "facts": facts, **of_shard}) for of_shard in tables]

    def _lay_out(self, rows: pa.Table, tables: list[dict[str, pa.Table]]) -> None:
        if self._ends is not None:
            position = rows.column(POSITION).to_numpy()
            rows = rows.drop_columns([POSITION])
            broken = self._broken(rows, position, self._ends)
            if broken.any():
                self._split(BROKEN, rows.filter(pa.array(broken)), tables)
                rows = rows.filter(pa.array(~broken))
            if self._ends.when is None:
                self._split(ENDED, rows.select(list(self._what.sides[self._side].on)), tables)
        if self._what.rows is not None and not self._what.per_key:
            tables[0][ALL_ROWS] = rows
            return
        keyed, nulls = laid_out(self._what, self._side, rows, self._spread)
        for of_shard, part in zip(tables, keyed, strict=False):  # a join in one shard leaves the others empty
            if len(part):
                of_shard |= part.tables()
        if nulls is not None and (self._what.keeps[self._side] or self._plan.tactic == "count"):
            self._split(NULLS, nulls, tables)

    def _split(self, name: str, rows: pa.Table, tables: list[dict[str, pa.Table]]) -> None:
        """Rows to the shard of their key; ended values are named by the key's columns."""
        of_row = route(rows.select(list(self._what.sides[self._side].on)), self._spread)
        for of_shard, some in zip(tables, parted(rows, of_row, self._spread), strict=False):
            if some.num_rows:
                of_shard[name] = some

    def _end(self, marks: pa.Table, ends: Ends, tables: list[dict[str, pa.Table]]) -> None:
        if ends.value is not None:
            values, _ = self._values(marks, ends)
            self._split(ENDED, values, tables)
            return
        bounds = self._ranges(marks, ends).select(["low", "high"])
        for of_shard in tables:
            if bounds.num_rows:
                of_shard[RANGES] = bounds

    def _values(self, marks: pa.Table, ends: Ends) -> tuple[pa.Table, Ints]:
        """Single values as a table of the key, and the position of each; a list is as many of them."""
        assert ends.value is not None
        (on,) = self._what.sides[self._side].on
        column, position = whole(marks.column(ends.value)), marks.column(POSITION).to_numpy()
        if pa.types.is_list(column.type) or pa.types.is_large_list(column.type):
            position = position[pc.list_parent_indices(column).to_numpy()]
            column = pc.list_flatten(column)
        return pa.table({on: column.cast(self._schema.field(on).type)}), position

    def _ranges(self, marks: pa.Table, ends: Ends) -> pa.Table:
        """Half-open ranges, and the position of each; one without an end says nothing."""
        (on,) = self._what.sides[self._side].on
        type = self._schema.field(on).type
        columns = {name: marks.column(of).cast(type) for name, of in (("low", ends.low), ("high", ends.high))}
        table = pa.table({**columns, POSITION: marks.column(POSITION)})
        said = [pc.invert(pc.is_null(column, nan_is_null=True)) for column in columns.values()]
        return table.filter(pc.and_(*said))

    def _broken(self, rows: pa.Table, position: Ints, ends: Ends) -> Mask:
        """Which rows come behind the end of their own value, as this run tells it."""
        (on,) = self._what.sides[self._side].on
        keys = rows.select([on])
        if ends.when is None:
            values, at = keys, position
        elif not self._marks:
            return np.zeros(rows.num_rows, np.bool_)
        else:
            marks = pa.concat_tables(self._marks).combine_chunks()
            if ends.value is None:
                return self._behind_ranges(keys, position, self._ranges(marks, ends))
            values, at = self._values(marks, ends)
        present = np.asarray(pc.is_valid(values.column(0))) | self._what.null_safe
        ended = Keyed.of(values.filter(pa.array(present)), (on,), at[present])
        asked = Keyed.of(keys, (on,), np.arange(rows.num_rows))
        if ended.mixed:  # the first of a list need not be of the value that is asked for
            before = position[asked.at] - 1
            theirs, _ = ended.probe(asked, np.full(len(asked), -1), before)
            return np.isin(np.arange(rows.num_rows), asked.at[theirs])
        which, lists = ended.lists(asked.codes)
        of_row = np.full(len(asked), -1)
        of_row[asked.rows_of(which)] = np.repeat(ended.starts[lists], np.diff(asked.starts)[which])
        found = np.flatnonzero(of_row >= 0)
        same = equal(pick(asked.keys, found), pick(ended.keys, of_row[found]))
        found = found[same]
        broken = np.zeros(rows.num_rows, np.bool_)
        broken[asked.at[found]] = position[asked.at[found]] > ended.at[of_row[found]]
        return broken

    @staticmethod
    def _behind_ranges(keys: pa.Table, position: Ints, ranges: pa.Table) -> Mask:
        low, high, ended = (whole(ranges.column(name)) for name in ("low", "high", POSITION))
        return np.asarray(position > first_of(low, high, ended.to_numpy(), whole(keys.column(0))), np.bool_)


def decode_join(data: bytes, plan: JoinPlan) -> JoinRun:
    tables = unpack(data)
    head = tables["head"].to_pylist()[0]
    return JoinRun(
        head["port"],
        facts_of(tables["facts"], plan.inputs[head["port"]].policy),
        (head["read"], head["missing"], head["punctuations"]),
        Keyed.of_tables(tables) if "keyed" in tables else None,
        {name: tables[name] for name in (BROKEN, NULLS, MISSING, ENDED, RANGES, ALL_ROWS) if name in tables},
        head["marked"],
    )
