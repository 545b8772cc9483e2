"""How to open every operator of the package over windows that Hypothesis draws; tests/laws judges all of them.

Window aggregation is one operator with several tactics of keeping state, and each of them is a recipe of its own.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from hypothesis import strategies as st

import lowwater as lw
from lowwater.expressions import Expression
from lowwater.joins.count_join import CountJoin
from lowwater.joins.mjoin import MJoin
from lowwater.joins.oa_join import OAJoin
from lowwater.joins.oblivious_cost import Expected
from lowwater.joins.ordered_join import OPIBJoin, OPOBJoin
from lowwater.joins.pwjoin import PWJoin, pjoin
from lowwater.joins.spec import JoinSide, WindowJoin
from lowwater.joins.strategy import DBF, HYBRID, MSF
from lowwater.operators.adaptive_aggregate import AdaptivePartials
from lowwater.operators.aggregation import Aggregation
from lowwater.operators.base import Operator
from lowwater.operators.bins import Bins, MarkedBins
from lowwater.operators.bucket import WindowedAggregation
from lowwater.operators.buffered_aggregate import RowBuffer
from lowwater.operators.distinct import Distinct, DropDuplicates
from lowwater.operators.final_rows import Progressing
from lowwater.operators.flush import Flush, lazy_flush, slow_flush
from lowwater.operators.flushing import Flushing
from lowwater.operators.group_by import GroupBy, Grouping
from lowwater.operators.live_choice import LiveChoice
from lowwater.operators.meld import Meld
from lowwater.operators.order import Order
from lowwater.operators.ordered import InOrder, Merge, Sort
from lowwater.operators.origin import FromFirst
from lowwater.operators.over_aggregate import OverAggregate
from lowwater.operators.paned_aggregate import LandmarkPartials, PanePartials
from lowwater.operators.partitioned_aggregate import PartitionedAggregate
from lowwater.operators.rowwise import Derive, Map, Project, Select, holding
from lowwater.operators.session_aggregate import SessionAggregate
from lowwater.operators.wid_aggregate import WindowPartials
from lowwater.operators.window_aggregate import Keeping, WindowAggregate
from lowwater.state.store import Store
from lowwater.windows.context_aware import Partitioned, Session, SlideByTuple
from lowwater.windows.context_free import Landmark, Sliding
from lowwater.windows.over import Over

SCHEMA = pa.schema([("ts", pa.int64()), ("k", pa.string()), ("v", pa.int64())])
TIME, LATER = SCHEMA.field("ts"), pa.field("later", pa.int64())
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
    open_on: Callable[[Any, Store | None], Operator]
    windows: st.SearchStrategy[Any] = st.none()  # noqa: RUF009
    ports: int = 1
    keeping: type[Keeping] | None = None
    derived: Callable[[Row], Row] = lambda row: {}
    """Attributes of a result that follow from its columns, and that punctuation may speak of."""
    late: bool = False
    """Whether the operator reports late rows. Those of the families in `guards` do anyway."""
    by: str | None = None
    """The source column, where groups close by the progress of their own source."""

    def open(self, window: Any, store: Store | None = None) -> Operator:
        return self.open_on(window, store)

    @property
    def guards(self) -> bool:
        """Whether rows that violate punctuation go to a late output; the others pass on what they get."""
        return self.late or issubclass(
            self.operator, Aggregation | InOrder | OAJoin | CountJoin | Flushing | FromFirst | Progressing
        )


def asked(window: Any, holistic: bool = True, anchored: bool = True) -> WindowedAggregation:
    aggregates = BOUNDED | (HOLISTIC if holistic else {})
    return WindowedAggregation(window, "ts", SCHEMA, ("k",), tuple(aggregates.items()), anchored)


def windowed(keeping: Callable[..., Keeping], holistic: bool) -> Callable[[Window, Store | None], Operator]:
    return lambda window, store: WindowAggregate(asked(window, holistic), keeping, store)


def alone(keeping: type[Keeping]) -> Callable[[Window, Store | None], Operator]:
    return lambda window, store: WindowAggregate(asked(window), keeping, store, by="k")


def flushing(policy: Flush, by: str | None = None) -> Callable[[Window, Store | None], Operator]:
    def open(window: Window, store: Store | None) -> Operator:
        store = store or Store()
        inner = WindowAggregate(asked(window), PanePartials, store.at("aggregation"), by=by)
        return Flushing(inner, policy, 1, store)

    return open


def from_first(window: Sliding, store: Store | None) -> Operator:
    what = asked(window, anchored=False)
    return FromFirst(what, lambda what, store: WindowAggregate(what, PanePartials, store), store)


def ends(row: Row) -> Row:
    """The last tick of a window that ends exclusively."""
    return {"window_time": row["window_end"] - 1}


def ends_inclusively(row: Row) -> Row:
    return {"window_time": row["window_end"]}


def extremes(*times: str) -> Callable[[Row], Row]:
    """The greatest and the least time of a result, without those that are missing."""

    def derived(row: Row) -> Row:
        known = [row[name] for name in times if row[name] is not None]
        return {OAJoin.GREATEST: max(known), OAJoin.LEAST: min(known)}

    return derived


def sessions(window: Session, store: Store | None) -> Operator:
    return SessionAggregate(asked(window), store)


def partitioned(window: Partitioned, store: Store | None) -> Operator:
    return PartitionedAggregate(asked(window), store)


def over(window: Over, store: Store | None) -> Operator:
    return OverAggregate(asked(window, window.preceding is not None), store)


def grouped(*by: str) -> Callable[[Any, Store | None], Operator]:
    aggregates = BOUNDED | HOLISTIC
    return lambda _, store: GroupBy(Grouping(SCHEMA, by, tuple(aggregates.items()), ("ts",)), store)


def dropping(*on: str) -> Callable[[Any, Store | None], Operator]:
    return lambda within, store: DropDuplicates(SCHEMA, on, "ts", within, store)


def joining(
    operator: Callable[..., Operator], how: str = "inner", sides: int = 2, **options: Any
) -> Callable[[Any, Store | None], Operator]:
    """A join of streams of the same schema on their key; `window` is a band's waits, or a grid."""

    def open(window: Any, store: Store | None) -> Operator:
        names = ("l", "r", "s")[:sides]
        grid, waits = (window, (0,) * sides) if isinstance(window, Sliding) else (None, window)
        what = WindowJoin(tuple(JoinSide(n, SCHEMA, "ts", ("k",)) for n in names), waits, how, grid)
        return operator(what, store=store, **options)

    return open


def oblivious(sides: int, how: str = "inner", **options: Any) -> Callable[[int, Store | None], Operator]:
    """A join without a window. The laws draw any order of arrival, so the expected factor is above any of theirs."""

    def open(place: int, store: Store | None) -> Operator:
        on = (("ts",), ("k", "ts"))[place]
        names = ("l", "r", "s")[:sides]
        what = WindowJoin(tuple(JoinSide(n, SCHEMA, "ts", on) for n in names), (None,) * sides, how)
        return MJoin(what, (Expected(10**6),) * sides, store=store, **options)

    return open


def counting(window: tuple[Any, Any], store: Store | None) -> Operator:
    rows, waits = window
    sides = tuple(JoinSide(n, SCHEMA, "ts", ("k",)) for n in ("l", "r"))
    return CountJoin(WindowJoin(sides, waits, rows=rows), extremes=True, store=store)


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

both = extremes("l_ts", "r_ts")

BY_SOURCE = [
    Recipe("wid", WindowAggregate, alone(WindowPartials), sliding, keeping=WindowPartials, derived=ends),
    Recipe("panes", WindowAggregate, alone(PanePartials), sliding, keeping=PanePartials, derived=ends),
    Recipe("slow flush", Flushing, flushing(slow_flush(2, windows=2), "k"), sliding, derived=ends),
    Recipe("distinct", Distinct, lambda _, store: Distinct(SCHEMA, SCHEMA.names, "ts", store, "k")),
    Recipe(
        "drop duplicates", DropDuplicates, lambda n, store: DropDuplicates(SCHEMA, ("k",), "ts", n, store, "k"), wait
    ),
    Recipe("over", OverAggregate, lambda w, s: OverAggregate(asked(w, w.preceding is not None), s, "k"), frames),
    Recipe("partitioned", PartitionedAggregate, lambda w, s: PartitionedAggregate(asked(w), s, "k"), counts),
    Recipe(
        "session",
        SessionAggregate,
        lambda w, s: SessionAggregate(asked(w), s, "k"),
        st.builds(Session, length),
        derived=ends,
    ),
]
"""Operators whose groups close by the progress of their own sources."""


def turns(panes: object, tup: float, adaptive: bool) -> bool:
    """A judge that switches whenever windows close."""
    return not adaptive


TURNING = partial(LiveChoice, judge=turns)

RECIPES = [
    Recipe("oa-join", OAJoin, joining(OAJoin), band | st.just((9, -2)), ports=2),
    Recipe("oa-join, extremes", OAJoin, joining(OAJoin, extremes=True), band | sliding, 2, derived=both),
    Recipe("oa-join, left, extremes", OAJoin, joining(OAJoin, "left", extremes=True), band | sliding, 2, derived=both),
    Recipe("oa-join, full, extremes", OAJoin, joining(OAJoin, "full", extremes=True), band | sliding, 2, derived=both),
    Recipe("oa-join, anti, extremes", OAJoin, joining(OAJoin, "anti", extremes=True), band, 2, derived=extremes("ts")),
    Recipe("pwjoin, right, extremes", PWJoin, joining(PWJoin, "right", extremes=True), band, 2, derived=both),
    Recipe("oa-join, joint", OAJoin, joining(OAJoin, joint=True), band, ports=2),
    Recipe("oa-join, left", OAJoin, joining(OAJoin, "left"), band | sliding, ports=2),
    Recipe("oa-join, full", OAJoin, joining(OAJoin, "full"), band | sliding, ports=2),
    Recipe("oa-join, semi", OAJoin, joining(OAJoin, "semi"), band, ports=2),
    Recipe("oa-join, anti", OAJoin, joining(OAJoin, "anti"), band, ports=2),
    Recipe("oa-join of three", OAJoin, joining(OAJoin, sides=3), st.tuples(wait, wait, wait), ports=3),
    Recipe("mjoin", MJoin, oblivious(2), st.integers(0, 1), ports=2),
    Recipe("mjoin, MSF", MJoin, oblivious(2, strategy=MSF), st.integers(0, 1), ports=2),
    Recipe("mjoin, DBF", MJoin, oblivious(2, strategy=DBF, ahead=1), st.integers(0, 1), ports=2),
    Recipe("mjoin, Hybrid of three", MJoin, oblivious(3, strategy=HYBRID, ahead=1), st.integers(0, 1), ports=3),
    Recipe("mjoin, full", MJoin, oblivious(2, "full"), st.integers(0, 1), ports=2),
    Recipe("mjoin of three", MJoin, oblivious(3), st.integers(0, 1), ports=3),
    Recipe("pwjoin", PWJoin, joining(PWJoin), band | sliding, ports=2),
    Recipe("pwjoin, full", PWJoin, joining(PWJoin, "full"), band, ports=2),
    Recipe("pwjoin of three", PWJoin, joining(PWJoin, sides=3), st.tuples(wait, wait, wait), ports=3),
    Recipe("pjoin", PWJoin, joining(pjoin), st.just((None, None)), ports=2),
    Recipe("count join", CountJoin, counting, tuple_counts, ports=2, derived=both),
    Recipe("opob", OPOBJoin, joining(OPOBJoin), band, ports=2),
    Recipe("opib", OPIBJoin, joining(OPIBJoin), band, ports=2),
    Recipe("select", Select, lambda _, store: Select(holding(Expression.condition("v > 0", SCHEMA)), store)),
    Recipe("derive", Derive, lambda _, store: Derive(LATER, Expression.of("ts + 1", SCHEMA), [("ts", 1)], store)),
    Recipe("derive over", Derive, lambda _, store: Derive(TIME, Expression.of("v", SCHEMA), (), store)),
    Recipe("project", Project, lambda _, store: Project(["ts", "v"], store)),
    Recipe("project without progress", Project, lambda _, store: Project(["k"], store)),
    Recipe(
        "map",
        Map,
        lambda _, store: Map(lambda rows: rows.append_column("w", pc.add(rows["ts"], 1)), ["ts", "k", "v"], store),
    ),
    Recipe("meld of one", Meld, lambda _, store: Meld(("ts",), 1, store)),
    Recipe("meld of three", Meld, lambda _, store: Meld(("ts",), 3, store), ports=3),
    Recipe("meld on two attributes", Meld, lambda _, store: Meld(("v", "ts"), 2, store), ports=2),
    Recipe("group by nothing", GroupBy, grouped()),
    Recipe("group by key", GroupBy, grouped("k")),
    Recipe("group by time", GroupBy, grouped("ts")),
    Recipe("group by key and time", GroupBy, grouped("k", "ts")),
    Recipe("distinct", Distinct, lambda _, store: Distinct(SCHEMA, SCHEMA.names, "ts", store)),
    Recipe("distinct key and time", Distinct, lambda _, store: Distinct(SCHEMA, ("k", "ts"), "ts", store)),
    Recipe("drop duplicates", DropDuplicates, dropping("k"), wait),
    Recipe("drop duplicates of one time", DropDuplicates, dropping("v"), st.just(0)),
    Recipe("over", OverAggregate, over, frames),
    Recipe("merge of one", Merge, lambda _, store: Merge(SCHEMA, "ts", 1, store)),
    Recipe("merge of three", Merge, lambda _, store: Merge(SCHEMA, "ts", 3, store), ports=3),
    Recipe("order", Order, lambda _, store: Order(SCHEMA, "ts", store)),
    Recipe("sort", Sort, lambda _, store: Sort(SCHEMA, "ts", slack=7, store=store)),
    Recipe("sort without slack", Sort, lambda _, store: Sort(SCHEMA, "ts", slack=0, store=store)),
    Recipe("wid", WindowAggregate, windowed(WindowPartials, True), sliding, keeping=WindowPartials, derived=ends),
    Recipe("panes", WindowAggregate, windowed(PanePartials, True), sliding, keeping=PanePartials, derived=ends),
    Recipe(
        "landmark", WindowAggregate, windowed(LandmarkPartials, False), landmark, keeping=LandmarkPartials, derived=ends
    ),
    Recipe(
        "landmark anew",
        WindowAggregate,
        windowed(LandmarkPartials, True),
        periodic,
        keeping=LandmarkPartials,
        derived=ends,
    ),
    Recipe(
        "adaptive", WindowAggregate, windowed(AdaptivePartials, True), sliding, keeping=AdaptivePartials, derived=ends
    ),
    Recipe(
        "live",
        WindowAggregate,
        windowed(TURNING, True),
        sliding,
        keeping=LiveChoice,
        derived=ends,
    ),
    Recipe(
        "buffer",
        WindowAggregate,
        windowed(RowBuffer, False),
        sliding | landmark | periodic,
        keeping=RowBuffer,
        derived=ends,
    ),
    Recipe("bins", WindowAggregate, windowed(Bins, True), by_rank, keeping=Bins, derived=ends_inclusively),
    Recipe(
        "marked bins",
        WindowAggregate,
        windowed(MarkedBins, True),
        by_arrival,
        keeping=MarkedBins,
        derived=ends_inclusively,
    ),
    Recipe("from the first row", FromFirst, from_first, sliding, derived=ends),
    Recipe("slow flush", Flushing, flushing(slow_flush(2, windows=2)), sliding, derived=ends),
    Recipe("lazy flush", Flushing, flushing(lazy_flush(2, entries=2)), sliding, derived=ends),
    Recipe("partitioned", PartitionedAggregate, partitioned, counts),
    Recipe("session", SessionAggregate, sessions, st.builds(Session, length), derived=ends),
    *(replace(recipe, name=f"{recipe.name}, by source", by="k") for recipe in BY_SOURCE),
]
