"""Statistics of rows that are there when a query is planned, and the costs that follow from them (X4).

Planning looks at the first rows of a table in arrival order. It counts them by group and window, and weighs them as
rows and as partials (TH 6.3.1, Cond. 6.9). For joins it takes the rates of the sides (PW 5.2). A table with few rows
proves nothing, and a stream that is yet to come has no rows to look at: such queries are planned by their declarations
alone. A stream of a query file on Spark has rows to look at if it is generated, or read from files of this machine.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lowwater.aggregates.grouped import factorise
from lowwater.joins.cost import punctuated_state, window_state
from lowwater.joins.spec import WindowJoin
from lowwater.model.ticks import Ticks
from lowwater.operators.blocks import BLOCKS, LEAST
from lowwater.operators.bucket import Bucket, WindowedAggregation
from lowwater.operators.density import SPARSE
from lowwater.operators.threshold import Threshold
from lowwater.query.logical.node import Node
from lowwater.query.logical.rowwise import Project
from lowwater.query.logical.scan import Ending, Scan
from lowwater.windows.context_free import Sliding, TupleBased

ENOUGH = 20_000
"""Fewer rows than this decide nothing."""


def sample_of(node: Node, asked: bool = True) -> pa.Table | None:
    """The first rows of a stream, if there are enough of them and no step changes them in between.

    With `asked`, only of a stream whose declaration leaves the choice open.
    """
    while isinstance(node, Project | Ending):
        node = node.of
    if not isinstance(node, Scan) or (asked and not node.input.open):
        return None
    rows = node.frame.first_rows(ENOUGH)
    if rows is None or rows.num_rows < ENOUGH:
        return None
    return rows.filter(pc.is_valid(rows.column(node.time)))


@dataclass(frozen=True)
class GroupStatistics:
    """Rows per group and window in a sample, and what they cost as rows and as partials."""

    what: WindowedAggregation
    rows: pa.Table

    @cached_property
    def _time(self) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
        return Bucket(self.what).ticks(self.rows)

    @cached_property
    def volumes(self) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
        """The rows that each group has in a window that it has rows in, on average."""
        window = self.what.window
        assert isinstance(window, Sliding)
        code, keys = factorise(self.rows.select(list(self.what.group_by)))
        span = max(1, int(self._time.max()) - int(self._time.min()))
        volumes = np.bincount(code, minlength=keys.num_rows) * min(1.0, window.range / span)
        # a group with fewer rows than windows has one row in those that it is in
        return np.asarray(np.maximum(1.0, volumes), np.float64)

    @property
    def _sharing(self) -> int:
        """The panes of a group that share its key in the state."""
        window = self.what.window
        assert isinstance(window, Sliding)
        return max(LEAST, window.panes_per_window // BLOCKS)

    @cached_property
    def _threshold(self) -> Threshold:
        window = self.what.window
        assert isinstance(window, Sliding)
        found = Threshold(window, window.range, self._sharing)
        rows = self.rows.select(list(self.what.columns)).combine_chunks()
        found.arrived(rows, self._time)
        found.weigh(Bucket(self.what).reduce(rows, self._time))
        return found

    @cached_property
    def costs(self) -> tuple[float, float]:
        """Bytes of a window as partials alone, and as AdaptWID keeps it."""
        of, volumes = self._threshold, self.volumes
        partial = of.aggr + of.key / min(of.panes, self._sharing)
        filled = of.panes * (1 - (1 - 1 / of.panes) ** volumes) if of.panes > 1 else np.ones(len(volumes))
        eager = partial * filled + of.grown * volumes
        lazy = of.tup * volumes
        return float(eager.sum()), float(np.minimum(eager, lazy).sum())

    @property
    def sparse(self) -> bool:
        """Whether AdaptWID keeps clearly less than partials alone."""
        partials, adaptive = self.costs
        return adaptive < SPARSE * partials

    def __str__(self) -> str:
        partials, adaptive = self.costs
        return (
            f"of the first {self.rows.num_rows:,} rows, a group has {float(self.volumes.mean()):.1f} per window: "
            f"{adaptive / partials:.0%} of the bytes of partials alone"
        )


def group_statistics(what: WindowedAggregation, node: Node) -> GroupStatistics | None:
    """The statistics for windows that AdaptWID can keep; None where there is nothing to choose or to look at."""
    if type(what.window) is not Sliding or isinstance(what.window, TupleBased) or not what.group_by:
        return None
    if what.revises or not what.anchored:
        return None
    rows = sample_of(node)
    return GroupStatistics(what, rows) if rows is not None and rows.num_rows >= 2 else None


# -- joins -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Rate:
    """The rows, values and ended values of one side of a join, per tick."""

    rows: float
    ended: float
    values: int
    span: int


def expected_state(what: WindowJoin, nodes: Sequence[Node]) -> tuple[str, ...]:
    """The rows that each side of a join is expected to hold, from the rates of both; empty if they are not known."""
    if len(nodes) != 2 or what.grid is not None or what.rows is not None:
        return ()
    rates = [_rate(side.time, side.on, node) for side, node in zip(what.sides, nodes, strict=True)]
    texts = []
    for side, own, other, wait in zip(what.sides, rates, rates[::-1], what.waits, strict=True):
        if own is None or other is None or wait is None:
            return ()
        if other.ended:
            held = punctuated_state(own.rows, wait, other.ended, own.span, own.values)
            texts.append(f"{side.name}: about {held:,.0f} rows, by Equation (1) of PW 5.2")
        else:
            texts.append(f"{side.name}: about {window_state(own.rows, wait):,.0f} rows, by rate times window")
    return tuple(texts)


def _rate(time: str, on: Sequence[str], node: Node) -> Rate | None:
    rows = sample_of(node, asked=False)
    if rows is None or not on:
        return None
    ticks = Ticks(rows.schema.field(time).type).encode(rows.column(time).combine_chunks())
    span = max(1, int(ticks.max()) - int(ticks.min()))
    _, keys = factorise(rows.select(list(on)))
    ended = 0.0
    if isinstance(node, Ending):
        when = node.ends.when
        ended = rows.num_rows if when is None else pc.sum(rows.column(when)).as_py() or 0
    return Rate(rows.num_rows / span, ended / span, keys.num_rows, span)
