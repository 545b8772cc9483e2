"""AdaptWID: the answers of the other tactics, whatever its groups do, and no more memory than the better of them.

Answers are compared over seeded streams: disordered, some rows too late, cut into batches anywhere, with restarts in
between. The runs are checked to have had both lazy and eager groups, since one without switches shows
nothing. Rows come at integer times; `low` follows the newest by a slack, and the operator hears of it as from a shard.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import lowwater as lw
from lowwater.aggregates.base import Aggregate
from lowwater.experiments.thesis import adapt, skewed
from lowwater.generate import SECOND
from lowwater.model.punctuation import ALL, Punctuation
from lowwater.operators.adaptive_aggregate import AdaptivePartials
from lowwater.operators.base import Batch, Late, Message, PortFacts, StreamProperties, ended, taken
from lowwater.operators.bucket import WindowedAggregation
from lowwater.operators.buffered_aggregate import RowBuffer
from lowwater.operators.group_states import EAGER, LAZY, TRANSITIONAL
from lowwater.operators.wid_aggregate import WindowPartials
from lowwater.operators.window_aggregate import Keeping, WindowAggregate
from lowwater.state.store import Changes
from lowwater.windows.context_free import Sliding
from tests.compare import difference, multiset
from tests.oracle import Aggregation, aggregate_windows
from tests.stored import reopened, segments

Row = dict[str, Any]
SCHEMA = pa.schema([("ts", pa.int64()), ("k", pa.string()), ("j", pa.int64()), ("v", pa.int64()), ("x", pa.float64())])

WINDOWS = {
    "tumbling": Sliding(20),
    "overlapping": Sliding(40, 10),
    "uneven": Sliding(25, 10, 3),
    "many panes": Sliding(40, 4),
    "gaps": Sliding(6, 10),
}
AGGREGATES: dict[str, tuple[Aggregate, Aggregation]] = {
    "n": (lw.count(), ("count", None)),
    "nv": (lw.count("v"), ("count", "v")),
    "s": (lw.sum("v"), ("sum", "v")),
    "sx": (lw.sum("x"), ("sum", "x")),
    "a": (lw.avg("x"), ("avg", "x")),
    "low": (lw.min("x"), ("min", "x")),
    "high": (lw.max("v"), ("max", "v")),
    "f": (lw.first("v"), ("first", "v")),
    "l": (lw.last("x"), ("last", "x")),
    "m": (lw.median("v"), ("median", "v")),
    "q": (lw.quantile("x", 0.3), ("quantile", "x", 0.3)),
    "d": (lw.count_distinct("v"), ("count_distinct", "v")),
    "deviation": (lw.stddev("v"), ("stddev_samp", "v")),
}
SETS = {
    "count": ["n"],
    "sums": ["s", "sx", "a"],
    "choices": ["low", "high", "f", "l"],
    "holistic": ["m", "d"],
    "mixed": ["nv", "q", "deviation"],
}


def asked(window: Sliding, names: Sequence[str] = ("n",), group_by: tuple[str, ...] = ("k",)) -> WindowedAggregation:
    return WindowedAggregation(window, "ts", SCHEMA, group_by, tuple((name, AGGREGATES[name][0]) for name in names))


def restarted(operator: WindowAggregate, what: WindowedAggregation, keeping: type[Keeping]) -> WindowAggregate:
    """A fresh operator with the state of another, taken through bytes."""
    fresh = WindowAggregate(what, keeping, reopened(operator))
    assert fresh.held() == operator.held()
    assert fresh.store.commit() == Changes()
    return fresh


def states(operator: WindowAggregate) -> dict[Any, tuple[int, int]]:
    """State and volume by key; the first key column names the group."""
    assert isinstance(operator.keeping, AdaptivePartials)
    groups = operator.keeping.groups
    names = groups.keys.column(0).to_pylist() if groups.keys.num_columns else [None] * len(groups)
    return dict(zip(names, zip(groups.state.tolist(), groups.volume.tolist(), strict=True), strict=True))


# -- the same answers -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Stream:
    """Batches in arrival order, each with the low-watermark after it; before some of them the operator is restarted."""

    batches: list[tuple[list[Row], int]]
    restarts: frozenset[int]

    @property
    def rows(self) -> list[Row]:
        return [row for rows, _ in self.batches for row in rows]


def stream(seed: int, slack: int, lateness: int) -> Stream:
    """Dense and sparse groups that change places half way. Rows come up to `lateness` behind the newest."""
    rng = np.random.default_rng(seed)
    n = 600
    ts = np.sort(rng.integers(-40, 110, n))
    dense = np.where(ts < 35, 0, 5) + rng.integers(0, 2, n)
    group = np.where(rng.random(n) < 0.8, dense, rng.integers(0, 30, n))
    names = [None, "", *(f"g{i}" for i in range(40))]
    rows = [
        {
            "ts": int(ts[i]),
            "k": names[group[i]],
            "j": int(group[i] % 3),
            "v": None if rng.random() < 0.1 else int(rng.integers(-9, 9)),
            "x": None if rng.random() < 0.1 else int(rng.integers(-40, 40)) / 4,
        }
        for i in np.argsort(ts + rng.integers(0, lateness + 1, n), kind="stable")
    ]
    cuts = [0, *np.sort(rng.choice(np.arange(1, n), int(rng.integers(5, 60)), replace=False)).tolist(), n]
    batches = [rows[begin:stop] for begin, stop in pairwise(cuts)]
    newest = np.maximum.accumulate([max(row["ts"] for row in batch) for batch in batches])
    restarts = frozenset(np.flatnonzero(rng.random(len(batches)) < 0.2).tolist())
    return Stream([(batch, int(high) - slack) for batch, high in zip(batches, newest, strict=True)], restarts)


@dataclass
class Ran:
    messages: list[Message]
    seen: set[int]

    @property
    def results(self) -> list[Row]:
        return [row for message in self.messages if isinstance(message, Batch) for row in message.rows.to_pylist()]

    @property
    def late(self) -> list[Row]:
        return [row for message in self.messages if isinstance(message, Late) for row in message.rows.to_pylist()]


def run(what: WindowedAggregation, keeping: type[Keeping], arriving: Stream) -> Ran:
    operator, ran, rows = WindowAggregate(what, keeping), Ran([], set()), 0
    for i, (batch, low) in enumerate(arriving.batches):
        if i in arriving.restarts:
            fresh = restarted(operator, what, keeping)
            if keeping is AdaptivePartials:
                assert states(fresh) == states(operator)
            operator = fresh
        rows += len(batch)
        high = np.array([max(row["ts"] for row in batch)])
        operator.begin([PortFacts(None, np.array([len(batch)]), StreamProperties(low, high, np.array([rows])))])
        ran.messages += taken(operator, 0, Batch(pa.Table.from_pylist(batch, schema=SCHEMA)))
        if isinstance(operator.keeping, AdaptivePartials):
            ran.seen |= set(operator.keeping.groups.state.tolist())
        ran.messages += [*taken(operator, 0, Punctuation.linear("ts", low)), *ended(operator)]
        if isinstance(operator.keeping, AdaptivePartials):
            ran.seen |= set(operator.keeping.groups.state.tolist())
    ran.messages += taken(operator, 0, ALL)
    assert segments(operator) == {}
    return ran


@pytest.mark.parametrize("names", SETS.values(), ids=SETS)
@pytest.mark.parametrize("window", WINDOWS.values(), ids=WINDOWS)
def test_answers_are_those_of_the_definition(window: Sliding, names: list[str]) -> None:
    seen = set()
    for seed in range(2):
        arriving = stream(seed, slack=30, lateness=30)
        what = asked(window, names)
        ran = run(what, AdaptivePartials, arriving)
        seen |= ran.seen
        aggregates = {name: AGGREGATES[name][1] for name in names}
        assert difference(ran.results, aggregate_windows(arriving.rows, "ts", window, ["k"], aggregates), ["k"]) == ""
        assert ran.late == []
    assert {LAZY, EAGER} <= seen


@pytest.mark.parametrize("names", [SETS["count"], SETS["sums"], SETS["choices"], SETS["holistic"]], ids=lambda n: n[0])
@pytest.mark.parametrize("window", WINDOWS.values(), ids=WINDOWS)
def test_answers_and_late_rows_are_those_of_wid_and_of_buffering(window: Sliding, names: list[str]) -> None:
    """To the last bit: the values are such that no sum rounds. A third of the rows come too late for some window."""
    seen: set[int] = set()
    late = 0
    for seed in range(10, 12):
        arriving = stream(seed, slack=5, lateness=25)
        what = asked(window, names)
        ran, *others = (run(what, keeping, arriving) for keeping in (AdaptivePartials, WindowPartials, RowBuffer))
        for other in others:
            assert multiset(ran.results) == multiset(other.results)
            assert multiset(ran.late) == multiset(other.late)
        seen |= ran.seen
        late += len(ran.late)
    assert late > 100
    assert {LAZY, EAGER} <= seen


@pytest.mark.parametrize("group_by", [(), ("k", "j"), ("x",)], ids=["none", "two", "doubles"])
def test_answers_by_no_group_by_several_and_by_doubles(group_by: tuple[str, ...]) -> None:
    for seed in range(3):
        arriving = stream(seed, slack=30, lateness=30)
        what = asked(Sliding(40, 10), ["n", "s"], group_by)
        aggregates = {name: AGGREGATES[name][1] for name in ("n", "s")}
        expected = aggregate_windows(arriving.rows, "ts", Sliding(40, 10), list(group_by), aggregates)
        assert difference(run(what, AdaptivePartials, arriving).results, expected, list(group_by)) == ""


def test_all_three_states_occur_where_windows_overlap_or_several_are_open() -> None:
    """What the tests above rest on: their streams make groups switch in both directions."""
    for window in (Sliding(40, 10), Sliding(40, 4), Sliding(20)):
        seen = set()
        for seed in range(6):
            seen |= run(asked(window), AdaptivePartials, stream(seed, slack=30, lateness=30)).seen
        assert seen == {LAZY, EAGER, TRANSITIONAL}


# -- memory ---------------------------------------------------------------------------------------------------------


def test_the_data_sets_are_those_of_the_table() -> None:
    for name, printed in skewed.TABLE.items():
        rows = skewed.data_set(name, 40_000, 2, SECOND, seed=1)
        ts, group = rows.column("ts").to_numpy(), rows.column("srcIP").to_numpy()
        sizes = np.unique(group[ts < SECOND], return_counts=True)[1]
        small, large = sizes == 1, sizes >= skewed.LARGE[0]
        percent = [100 * np.mean(mask) for mask in (small, ~small & ~large, large)]
        assert np.abs(np.array(percent) - printed).max() <= 1
        assert sizes[small].sum() / sizes.sum() == pytest.approx(skewed.SMALL_SHARE[name], abs=0.005)
        assert sizes[~small & ~large].mean() == pytest.approx(15, abs=1)
        assert sizes[large].mean() == pytest.approx(300, abs=15)


def peaks(what: WindowedAggregation, steps: Sequence[adapt.Step]) -> dict[str, int]:
    return {name: adapt.held(WindowAggregate(what, keeping), steps)[0] for name, keeping in adapt.TACTICS.items()}


def sliding_steps(name: str) -> list[adapt.Step]:
    rows = skewed.data_set(name, 20_000, 3, 10 * SECOND, seed=2)
    return adapt.steps(rows, np.zeros(rows.num_rows, np.int64), 1000, 1)


@pytest.mark.parametrize("name", skewed.TABLE)
def test_memory_is_below_wid_and_within_a_twentieth_of_the_better_one(name: str) -> None:
    for what, steps in ((adapt.Q67, adapt.one_source(name, "tiny")), (adapt.Q68, sliding_steps(name))):
        peak = peaks(what, steps)
        assert peak["AdaptWID"] < peak["WID"]
        assert peak["AdaptWID"] <= 1.05 * min(peak.values())


@pytest.mark.parametrize("aggregate", [lw.median("len"), lw.count_distinct("len")], ids=str)
def test_holistic_aggregates_too_are_kept_the_cheaper_way(aggregate: Aggregate) -> None:
    """Their partials grow with their groups, so what counts is what a tuple costs in each."""
    what = WindowedAggregation(adapt.Q67.window, "ts", skewed.SCHEMA, ("srcIP",), (("m", aggregate),))
    for name in ("DS1", "DS5"):
        peak = peaks(what, adapt.one_source(name, "tiny"))
        assert peak["AdaptWID"] < peak["WID"]
        assert peak["AdaptWID"] <= 1.05 * min(peak.values())


def test_a_reproduction_that_fails_shows() -> None:
    """The judge must be able to say no: an AdaptWID that holds as much as WID refutes the figure."""

    def points(adaptive: int) -> list[adapt.Point]:
        held = {"WID": 100, "AdaptWID": adaptive, "buffering": 300}
        axes = [("Q6-7", name, 10 * i) for i, name in enumerate(skewed.TABLE)]
        axes += [("Q6-8", str(skew), 0) for skew in adapt.SKEWS]
        return [
            adapt.Point(query, at, tactic, bytes - (less if tactic == "AdaptWID" else 0), bytes, 1.0, 1.0)
            for query, at, less in axes
            for tactic, bytes in held.items()
        ]

    assert adapt.holds(points(90))
    assert not adapt.holds(points(100))
