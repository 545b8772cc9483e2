"""The live choice: any schedule of switches between partials and AdaptWID has the same answers, and costs decide it.

Streams are those of test_adaptive.py: seeded, disordered, some rows too late, cut anywhere, with restarts in between.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import lowwater as lw
from lowwater.aggregates.grouped import Grouped
from lowwater.model.punctuation import ALL, Punctuation
from lowwater.operators import layout, live_choice
from lowwater.operators.aggregate import TACTICS
from lowwater.operators.base import Batch, PortFacts, Reduced, StreamProperties, ended, taken
from lowwater.operators.bucket import Bucket, WindowedAggregation
from lowwater.operators.density import DENSE, SPARSE, Density
from lowwater.operators.layout import PartialLayout
from lowwater.operators.live_choice import LiveChoice
from lowwater.operators.wid_aggregate import WindowPartials
from lowwater.operators.window_aggregate import WindowAggregate
from lowwater.query.bound import slots
from lowwater.query.statistics import ENOUGH
from lowwater.windows.context_free import Sliding
from tests.compare import difference, multiset
from tests.oracle import aggregate_windows
from tests.stored import reopened, segments
from tests.test_adaptive import AGGREGATES, SCHEMA, SETS, WINDOWS, Ran, Stream, asked, run, stream

SECOND = 1000


class Coin:
    """A judge without a reason: it has another opinion every so often."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)

    def __call__(self, panes: Grouped, tup: float, adaptive: bool) -> bool:
        return bool(self.rng.random() < 0.5) != adaptive


def tossed(what: WindowedAggregation, arriving: Stream, seed: int) -> tuple[Ran, int]:
    """A run that switches at random. Batches come as rows, as partials with their rows, or as partials alone."""
    rng = np.random.default_rng(seed)
    keeping = partial(LiveChoice, adaptive=bool(rng.random() < 0.5), judge=Coin(seed))
    bucket, spread = Bucket(what), spread_of(arriving)
    window = what.window
    assert isinstance(window, Sliding)
    limit = slots(window, "wid" if window.slide >= window.range else "panes", spread)
    operator, ran, rows = WindowAggregate(what, keeping, limit=limit), Ran([], set()), 0
    for i, (batch, low) in enumerate(arriving.batches):
        if i in arriving.restarts:
            before = operator.held(), operator.adapting
            operator = WindowAggregate(what, keeping, reopened(operator), limit=limit)
            assert (operator.held(), operator.adapting) == before
        rows += len(batch)
        high = np.array([max(row["ts"] for row in batch)])
        operator.begin([PortFacts(None, np.array([len(batch)]), StreamProperties(low, high, np.array([rows])))])
        table = pa.Table.from_pylist(batch, schema=SCHEMA)
        reduced = bucket.reduce(table)
        message = Reduced(reduced, table) if len(reduced) and rng.random() < 0.4 else Batch(table)
        ran.messages += taken(operator, 0, message)
        ran.messages += [*taken(operator, 0, Punctuation.linear("ts", low)), *ended(operator)]
        assert operator.excess() is None
    switches = operator.adapting.switches
    ran.messages += taken(operator, 0, ALL)
    assert segments(operator) == {}
    return ran, switches


def spread_of(arriving: Stream) -> int:
    """How far the newest row is ahead of the low-watermark, at most: after a batch, before or after its punctuation."""
    newest = np.maximum.accumulate([max(row["ts"] for row in batch) for batch, _ in arriving.batches])
    return int(max(high - low for high, (_, low) in zip(newest, arriving.batches, strict=True)))


@pytest.mark.parametrize("names", SETS.values(), ids=SETS)
@pytest.mark.parametrize("window", WINDOWS.values(), ids=WINDOWS)
def test_any_schedule_of_switches_has_the_answers_of_the_definition(window: Sliding, names: list[str]) -> None:
    switches = 0
    for seed in range(3):
        arriving = stream(seed, slack=30, lateness=30)
        ran, switched = tossed(asked(window, names), arriving, seed)
        aggregates = {name: AGGREGATES[name][1] for name in names}
        assert difference(ran.results, aggregate_windows(arriving.rows, "ts", window, ["k"], aggregates), ["k"]) == ""
        assert ran.late == []
        switches += switched
    assert switches > 5


@pytest.mark.parametrize("late", ["include", "drop"])
@pytest.mark.parametrize("names", [SETS["count"], SETS["sums"], SETS["choices"], SETS["holistic"]], ids=lambda n: n[0])
@pytest.mark.parametrize("window", WINDOWS.values(), ids=WINDOWS)
def test_any_schedule_has_the_answers_and_the_late_rows_of_wid(window: Sliding, names: list[str], late: str) -> None:
    """To the last bit: the values are such that no sum rounds."""
    found = 0
    for seed in range(10, 12):
        arriving = stream(seed, slack=5, lateness=25)
        what = asked(window, names)
        if late == "drop":
            what = WindowedAggregation(window, "ts", SCHEMA, ("k",), what.aggregates, late="drop")
        (ran, _), other = tossed(what, arriving, seed), run(what, WindowPartials, arriving)
        if late == "include":
            assert multiset(ran.results) == multiset(other.results)
        assert multiset(ran.late) == multiset(other.late)
        found += len(ran.late)
    assert found > 100


# -- the judge -------------------------------------------------------------------------------------------------------


def run_of(groups: int, each: int) -> pa.Table:
    """Rows of one window, of so many groups with so many tuples each."""
    rows = pa.table({"ts": [0] * groups * each, "k": [str(i) for i in range(groups)] * each})
    for name in ("j", "v", "x"):
        rows = rows.append_column(SCHEMA.field(name), pa.nulls(len(rows), SCHEMA.field(name).type))
    return rows


def told(groups: int, each: int) -> Grouped:
    return Bucket(asked(Sliding(10))).reduce(run_of(groups, each))


def test_the_density_is_that_of_the_cost_formulas() -> None:
    """count(*) of 2000 groups: a partial takes 16 bytes for its place, 8 for the count, and the key."""
    once = told(2000, 1)
    key = once.keys.nbytes / 2000
    assert Density.of(once, 12) == Density(pytest.approx(2000 * (24 + key)), 2000 * 12)
    thrice = Density.of(told(2000, 3), 12)
    assert thrice == Density(pytest.approx(2000 * (24 + key)), pytest.approx(min(36, 24 + key) * 2000))


def test_the_choice_has_a_band_in_which_nothing_changes() -> None:
    panes = told(2000, 1)
    whole = Density.of(panes, 1e9).partials / 2000
    for part, kept in ((SPARSE - 0.01, {True}), (0.5 * (SPARSE + DENSE), {True, False}), (DENSE + 0.01, {False})):
        assert {live_choice.by_cost(panes, part * whole, adaptive) for adaptive in (True, False)} == kept
    few = told(live_choice.LEAST - 1, 1)
    assert [live_choice.by_cost(few, 0.1, adaptive) for adaptive in (True, False)] == [True, False]
    assert not live_choice.by_cost(few, 1e9, True)


# -- how rows travel -------------------------------------------------------------------------------------------------


def travelled(rows: pa.Table, late: bool, cuts: int = 1) -> list[set[str]]:
    """The tables that one run sends to each of two shards."""
    laying = PartialLayout(Bucket(asked(Sliding(10))), ("k",), live=True).open(2, late)
    step = -(-rows.num_rows // cuts)
    for at in range(0, rows.num_rows, step):
        laying.take(rows.slice(at, step))
    return [set(tables) for tables in laying.finish()]


@pytest.mark.parametrize("cuts", [1, 7])
def test_rows_travel_where_a_run_is_sparse_and_partials_where_it_is_dense(cuts: int) -> None:
    """A group that comes in every cut is dense, although no cut shows it."""
    partials = {"keys", "partials"}
    assert travelled(run_of(500, 1), False, cuts) == travelled(run_of(500, 1), True, cuts) == [{"rows"}] * 2
    assert travelled(run_of(500, 7), False, cuts) == [partials] * 2
    assert travelled(run_of(500, 7), True, cuts) == [{"rows", *partials}] * 2


def test_a_long_dense_run_does_not_keep_its_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(layout, "_JUDGE_AFTER", 2000)
    laying = PartialLayout(Bucket(asked(Sliding(10))), ("k",), live=True).open(2, late=False)
    assert isinstance(laying, layout.PartialLaying)
    held = []
    for _ in range(6):
        laying.take(run_of(500, 1))
        held.append(sum(rows.num_rows for rows in laying._rows))
    assert held == [500, 1000, 1500, 0, 0, 0]


# -- queries ---------------------------------------------------------------------------------------------------------


def packets(start: int, groups: int, n: int, seed: int) -> pa.Table:
    """Two minutes of rows from `start`, evenly over groups, up to a second out of order."""
    rng = np.random.default_rng(seed)
    ts = np.sort(rng.integers(start, start + 120 * SECOND, n))
    ts = ts[np.argsort(ts + rng.integers(0, SECOND, n), kind="stable")]
    return pa.table({"ts": ts, "k": rng.integers(0, groups, n), "v": rng.integers(-9, 9, n)})


def changing(n: int = ENOUGH, groups: Sequence[int] = (20, 20_000, 20)) -> pa.Table:
    """Dense groups, then sparse ones, then dense ones again."""
    parts = [packets(i * 120 * SECOND, many, n, seed=i) for i, many in enumerate(groups)]
    return pa.concat_tables(parts)


def query(rows: pa.Table, slide: int, strategy: str = "auto", groups: str | None = None) -> lw.Relation:
    stream = lw.stream(rows, name="rows", progress="ts", disorder=SECOND, groups=groups)
    return stream.window(30 * SECOND, slide).group_by("k").agg(strategy, n=lw.count(), total=lw.sum("v"))


def pushed(relation: lw.Relation, rows: pa.Table, step: int = 2000) -> tuple[pa.Table, list[Any]]:
    running = relation.start()
    results, metrics = [], []
    for at in range(0, rows.num_rows, step):
        results.append(running.push(rows.slice(at, step)))
        metrics.append(running.metrics())
    results.append(running.finish())
    return pa.concat_tables(results), metrics


@pytest.mark.parametrize("slide", [30 * SECOND, 10 * SECOND, 40 * SECOND], ids=["tumbling", "overlapping", "gaps"])
def test_adaptwid_is_chosen_and_left_while_a_query_runs(slide: int) -> None:
    rows = changing()
    found, metrics = pushed(query(rows, slide), rows)
    (fixed, partials), (lazy, adaptive) = (pushed(query(rows, slide, s), rows) for s in ("panes", "adaptive"))
    order = [("wid", "ascending"), ("k", "ascending")]
    assert found.sort_by(order).equals(fixed.sort_by(order))
    assert lazy.sort_by(order).equals(fixed.sort_by(order))
    used = [one.operators[0].adaptive_shards for one in metrics]
    assert used[0] == used[-1] == 0
    assert max(used) == 1
    assert metrics[-1].operators[0].switches == 2
    assert {one.operators[0].adaptive_shards for one in adaptive} == {1}
    third = len(metrics) // 3
    middle = slice(third + third // 2, 2 * third)
    held = [max(one.state_bytes for one in of[middle]) for of in (metrics, partials)]
    assert held[0] < 0.8 * held[1]


def test_adaptwid_is_left_for_groups_that_become_dense_and_come_reduced() -> None:
    """The statistics say sparse, so it begins with AdaptWID; later runs come as partials."""
    rows = changing(groups=(20_000, 20))
    relation = query(rows, 10 * SECOND)
    spec: Any = relation.plan.spec
    assert (spec.tactic, spec.live) == ("adaptive", True)
    found, metrics = pushed(relation, rows)
    assert found.equals(pushed(query(rows, 10 * SECOND, "panes"), rows)[0])
    used = [one.operators[0].adaptive_shards for one in metrics]
    assert (used[0], used[-1], metrics[-1].operators[0].switches) == (1, 0, 1)


def test_explain_says_that_the_choice_is_made_while_running() -> None:
    shown = query(changing(), 10 * SECOND).explain()
    assert "chosen   while running: AdaptWID from less than 75% of the bytes of partials on, until" in shown
    assert "panes x groups with rows in them, or the rows of sparse groups, where those take less" in shown
    analyzed = query(changing(), 10 * SECOND).explain(analyze=True)
    assert "adapted  AdaptWID in use by" in analyzed


@pytest.mark.parametrize(
    ("strategy", "groups", "tactic"),
    [
        ("panes", None, "panes"),
        ("wid", None, "wid"),
        ("adaptive", None, "adaptive"),
        ("auto", "dense", "panes"),
        ("auto", "skewed", "adaptive"),
    ],
)
def test_a_hint_pins_the_tactic(strategy: str, groups: str | None, tactic: str) -> None:
    rows = changing()
    relation = query(rows, 10 * SECOND, strategy, groups)
    spec: Any = relation.plan.spec
    assert (spec.tactic, spec.live) == (tactic, False)
    _, metrics = pushed(relation, rows)
    assert metrics[-1].operators[0].switches == 0


def test_what_cannot_switch_stays_fixed() -> None:
    """Answers that are revised, delayed or closed source by source; windows without groups, or over rows."""
    rows = changing(1000)
    stream = lw.stream(rows, name="rows", progress="ts", disorder=SECOND)
    grouped = stream.window(30 * SECOND, 10 * SECOND).group_by("k")
    fixed = [
        grouped.emit(early=True).agg(n=lw.count()),
        grouped.emit(allowed_lateness=SECOND).agg(n=lw.count()),
        grouped.emit(flush=lw.slow_flush(10)).agg(n=lw.count()),
        grouped.agg(n=lw.count(), table=100),
        stream.window(30 * SECOND).agg(n=lw.count()),
        stream.window(30 * SECOND, origin="first").group_by("k").agg(n=lw.count()),
    ]
    assert [relation.plan.spec.live for relation in fixed] == [False] * len(fixed)  # type: ignore[attr-defined]
    assert grouped.agg(n=lw.count()).plan.spec.live  # type: ignore[attr-defined]


def test_a_checkpoint_of_before_keeps_its_tactic() -> None:
    spec: Any = query(changing(1000), 10 * SECOND).plan.spec
    assert spec.choice() == {"tactic": "panes", "spread": False, "live": True}
    for tactic in ("panes", "adaptive"):
        pinned = spec.as_pinned({"tactic": tactic, "spread": False})
        assert (pinned.tactic, pinned.live) == (tactic, False)
        assert pinned.keeping is TACTICS[tactic]
    assert spec.as_pinned(spec.choice()) == spec
