"""Rows of a join without windows with their arrival positions, and the summaries of the runs that they came in.

The position of a row counts the rows of its stream over all shards. A row knows its place in its run; where the run
begins follows from counts, which every shard has before the rows of a micro-batch.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from lowwater.joins.keyed import Ints, Keyed
from lowwater.joins.spec import WindowJoin
from lowwater.model.columns import whole
from lowwater.model.monitors import Summary
from lowwater.model.ticks import checked
from lowwater.operators.base import Payload

PLACE = 40
"""Bits of the place in a run; the number of the run is above them."""


@dataclass(frozen=True)
class Positioned(Payload):
    """Rows of several runs, with positions `run << PLACE | place in the run`, and the summaries of these runs.

    `nulls` are rows with a null in their key, where rows without a partner are results.
    """

    keyed: Keyed
    runs: tuple[tuple[int, Summary], ...]
    nulls: pa.Table | None = None

    def in_stream(self, starts: Ints) -> Keyed:
        """The rows with their positions in the stream, where the runs begin at `starts`."""
        keyed = self.keyed
        at = starts[keyed.at >> PLACE] + (keyed.at & ((1 << PLACE) - 1))
        return Keyed(keyed.rows, keyed.on, keyed.code, at)


@dataclass(frozen=True)
class Laid:
    """A run in order of arrival: rows with a key, their places in the run, rows with a null in their key, a summary."""

    rows: pa.Table
    place: Ints
    nulls: pa.Table | None
    summary: Summary

    def positioned(self, on: tuple[str, ...], number: int) -> Positioned:
        keyed = Keyed.of(self.rows, on, self.place + (number << PLACE))
        return Positioned(keyed, ((number, self.summary),), self.nulls)


def laid(what: WindowJoin, port: int, rows: pa.Table) -> Laid:
    """Lays out a run. Rows with a null in their key join nothing, but they have a place."""
    side = what.sides[port]
    time = checked(side.ticks.encode(whole(rows.column(side.time))), side.time)
    place = np.arange(rows.num_rows)
    known = np.ones(rows.num_rows, np.bool_)
    for name in side.on:
        if rows.column(name).null_count:
            known &= whole(rows.column(name)).is_valid().to_numpy(zero_copy_only=False)
    nulls = None
    if not known.all():
        nulls = rows.filter(pa.array(~known)) if what.keeps[port] else None
        rows, place = rows.filter(pa.array(known)), place[known]
    return Laid(rows, place, nulls, Summary.of(time))
