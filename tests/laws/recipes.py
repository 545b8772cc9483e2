"""How to open every operator of the package over windows that Hypothesis draws; tests/laws judges all of them.

Window aggregation is one operator with several tactics of keeping state, and each of them is a recipe of its own.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from hypothesis import strategies as st

import lowwater as lw
from lowwater.joins.count_join import CountJoin
from lowwater.joins.oa_join import OAJoin
from lowwater.joins.ordered_join import OPIBJoin, OPOBJoin
from lowwater.joins.pwjoin import PWJoin, pjoin
from lowwater.joins.spec import JoinSide, WindowJoin
from lowwater.operators.adaptive_aggregate import AdaptivePartials
from lowwater.operators.aggregation import Aggregation
from lowwater.operators.base import Operator
from lowwater.operators.bins import Bins, MarkedBins
from lowwater.operators.bucket import WindowedAggregation
from lowwater.operators.buffered_aggregate import RowBuffer
from lowwater.operators.group_by import GroupBy, Grouping
from lowwater.operators.meld import Meld
from lowwater.operators.ordered import InOrder, Merge, Sort
from lowwater.operators.over_aggregate import OverAggregate
from lowwater.operators.paned_aggregate import LandmarkPartials, PanePartials
from lowwater.operators.partitioned_aggregate import PartitionedAggregate
from lowwater.operators.session_aggregate import SessionAggregate
from lowwater.operators.stateless import Apply, Project, Select
from lowwater.operators.wid_aggregate import WindowPartials
from lowwater.operators.window_aggregate import Keeping, WindowAggregate
from lowwater.windows.context_aware import Partitioned, Session, SlideByTuple
from lowwater.windows.context_free import Landmark, Sliding
from lowwater.windows.over import Over

SCHEMA = pa.schema([("ts", pa.int64()), ("k", pa.string()), ("v", pa.int64())])
Row = dict[str, Any]
Window = Sliding | Landmark

BOUNDED = {"n": lw.count(), "s": lw.sum("v"), "low": lw.min("v"), "f": lw.first("v"), "a": lw.avg("v")}
HOLISTIC = {"m": lw.median("v"), "d": lw.count_distinct("v")}
ORACLE: dict[str, tuple[Any, ...]] = {
    "n": ("count", None),
    "s": ("sum", "v"),
    "low": ("min", "v"),
    "f": ("first", "v"),
    "a": ("avg", "v"),
    "m": ("median", "v"),
    "d": ("count_distinct", "v"),
}


@dataclass(frozen=True)
class Recipe:
    """How to open an operator over a window (none for those that know no windows)."""

    name: str
    operator: type[Operator]
    open: Callable[[Any], Operator]
    windows: st.SearchStrategy[Any] = st.none()  # noqa: RUF009
    ports: int = 1
    keeping: type[Keeping] | None = None

    @property
    def guards(self) -> bool:
        """Whether rows that violate punctuation go to a late output; the others pass on what they get."""
        return issubclass(self.operator, Aggregation | InOrder | OAJoin | CountJoin)


def windowed(keeping: type[Keeping], holistic: bool) -> Callable[[Window], Operator]:
    def open(window: Window) -> Operator:
        aggregates = BOUNDED | (HOLISTIC if holistic else {})
        return WindowAggregate(WindowedAggregation(window, "ts", SCHEMA, ("k",), tuple(aggregates.items())), keeping)

    return open


def sessions(window: Session) -> Operator:
    aggregates = BOUNDED | HOLISTIC
    return SessionAggregate(WindowedAggregation(window, "ts", SCHEMA, ("k",), tuple(aggregates.items())))


def partitioned(window: Partitioned) -> Operator:
    aggregates = BOUNDED | HOLISTIC
    return PartitionedAggregate(WindowedAggregation(window, "ts", SCHEMA, ("k",), tuple(aggregates.items())))


def over(window: Over) -> Operator:
    aggregates = BOUNDED | (HOLISTIC if window.preceding is not None else {})
    return OverAggregate(WindowedAggregation(window, "ts", SCHEMA, ("k",), tuple(aggregates.items())))


def grouped(*by: str) -> Callable[[Any], Operator]:
    aggregates = BOUNDED | HOLISTIC
    return lambda _: GroupBy(Grouping(SCHEMA, by, tuple(aggregates.items()), ("ts",)))


def joining(
    operator: Callable[[WindowJoin], Operator], how: str = "inner", sides: int = 2
) -> Callable[[Any], Operator]:
    """A join of streams of the same schema on their key; `window` is a band's waits, or a grid."""

    def open(window: Any) -> Operator:
        names = ("l", "r", "s")[:sides]
        grid, waits = (window, (0,) * sides) if isinstance(window, Sliding) else (None, window)
        return operator(WindowJoin(tuple(JoinSide(n, SCHEMA, "ts", ("k",)) for n in names), waits, how, grid))

    return open


def counting(window: tuple[Any, Any]) -> Operator:
    rows, waits = window
    sides = tuple(JoinSide(n, SCHEMA, "ts", ("k",)) for n in ("l", "r"))
    return CountJoin(WindowJoin(sides, waits, rows=rows))


length, origin = st.integers(1, 9), st.integers(-7, 7)
sliding = st.builds(Sliding, length, length, origin)
landmark = st.builds(Landmark, length, origin)
periodic = st.builds(lambda s, o, n: Landmark(s, o, s * n), length, origin, st.integers(1, 4))
by_rank = st.builds(SlideByTuple, length, st.integers(1, 3), st.just("rank"))
by_arrival = st.builds(SlideByTuple, length, st.integers(2, 3), st.just("row-num"))
counts = st.builds(Partitioned, st.integers(1, 5), st.integers(1, 4), st.sampled_from(["arrival", "time"]))
frames = st.builds(Over, st.sampled_from(["rows", "range"]), st.none() | st.integers(0, 9), st.integers(0, 4))
wait = st.integers(0, 9)
band = st.tuples(wait, wait)
tuple_counts = st.sampled_from([((2, 3), (None, None)), ((2, None), (None, 4)), ((None, 1), (3, None))])

RECIPES = [
    Recipe("oa-join", OAJoin, joining(OAJoin), band | st.just((9, -2)), ports=2),
    Recipe("oa-join, joint", OAJoin, joining(lambda what: OAJoin(what, joint=True)), band, ports=2),
    Recipe("oa-join, left", OAJoin, joining(OAJoin, "left"), band | sliding, ports=2),
    Recipe("oa-join, full", OAJoin, joining(OAJoin, "full"), band | sliding, ports=2),
    Recipe("oa-join, semi", OAJoin, joining(OAJoin, "semi"), band, ports=2),
    Recipe("oa-join, anti", OAJoin, joining(OAJoin, "anti"), band, ports=2),
    Recipe("oa-join of three", OAJoin, joining(OAJoin, sides=3), st.tuples(wait, wait, wait), ports=3),
    Recipe("pwjoin", PWJoin, joining(PWJoin), band | sliding, ports=2),
    Recipe("pwjoin, full", PWJoin, joining(PWJoin, "full"), band, ports=2),
    Recipe("pwjoin of three", PWJoin, joining(PWJoin, sides=3), st.tuples(wait, wait, wait), ports=3),
    Recipe("pjoin", PWJoin, joining(pjoin), st.just((None, None)), ports=2),
    Recipe("count join", CountJoin, counting, tuple_counts, ports=2),
    Recipe("opob", OPOBJoin, joining(OPOBJoin), band, ports=2),
    Recipe("opib", OPIBJoin, joining(OPIBJoin), band, ports=2),
    Recipe("select", Select, lambda _: Select(lambda rows: np.asarray(pc.greater(rows["v"].fill_null(0), 0)))),
    Recipe("project", Project, lambda _: Project(["ts", "v"])),
    Recipe("project without progress", Project, lambda _: Project(["k"])),
    Recipe(
        "apply",
        Apply,
        lambda _: Apply(lambda rows: rows.append_column("w", pc.add(rows["ts"], 1)), ["ts", "k", "v"]),
    ),
    Recipe("meld of one", Meld, lambda _: Meld("ts", 1)),
    Recipe("meld of three", Meld, lambda _: Meld("ts", 3), ports=3),
    Recipe("group by nothing", GroupBy, grouped()),
    Recipe("group by key", GroupBy, grouped("k")),
    Recipe("group by time", GroupBy, grouped("ts")),
    Recipe("group by key and time", GroupBy, grouped("k", "ts")),
    Recipe("over", OverAggregate, over, frames),
    Recipe("merge of one", Merge, lambda _: Merge(SCHEMA, "ts", 1)),
    Recipe("merge of three", Merge, lambda _: Merge(SCHEMA, "ts", 3), ports=3),
    Recipe("sort", Sort, lambda _: Sort(SCHEMA, "ts", slack=7)),
    Recipe("sort without slack", Sort, lambda _: Sort(SCHEMA, "ts", slack=0)),
    Recipe("wid", WindowAggregate, windowed(WindowPartials, True), sliding, keeping=WindowPartials),
    Recipe("panes", WindowAggregate, windowed(PanePartials, True), sliding, keeping=PanePartials),
    Recipe("landmark", WindowAggregate, windowed(LandmarkPartials, False), landmark, keeping=LandmarkPartials),
    Recipe("landmark anew", WindowAggregate, windowed(LandmarkPartials, True), periodic, keeping=LandmarkPartials),
    Recipe("adaptive", WindowAggregate, windowed(AdaptivePartials, True), sliding, keeping=AdaptivePartials),
    Recipe("buffer", WindowAggregate, windowed(RowBuffer, False), sliding | landmark | periodic, keeping=RowBuffer),
    Recipe("bins", WindowAggregate, windowed(Bins, True), by_rank, keeping=Bins),
    Recipe("marked bins", WindowAggregate, windowed(MarkedBins, True), by_arrival, keeping=MarkedBins),
    Recipe("partitioned", PartitionedAggregate, partitioned, counts),
    Recipe("session", SessionAggregate, sessions, st.builds(Session, length)),
]
