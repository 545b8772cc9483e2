"""Reproductions of the join without a window: what they measure agrees with the operators, and verdicts can be no."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import lowwater as lw
from lowwater.errors import LowwaterError
from lowwater.experiments.catalogue import CATALOGUE
from lowwater.experiments.oblivious import buffers, overhead, strategies, taxi, windows
from lowwater.experiments.oblivious.backtracked import Arrived, least
from lowwater.experiments.oblivious.virtual import Ran, joins, run
from lowwater.experiments.oblivious.workload import LEAVES, SECONDS, SIZES, Workload
from lowwater.generate.scrambled import scrambled
from lowwater.joins.oa_join import OAJoin
from lowwater.joins.spec import JoinSide, WindowJoin
from lowwater.model.lag import Ranks, lag
from lowwater.model.monitors import StreamMonitor, Summary
from lowwater.model.scrambling import Scrambling, multiplicity
from lowwater.operators.base import Batch, taken

TINY = SIZES["tiny"]


@pytest.fixture(scope="module")
def work() -> Workload:
    return Workload.of(1, 3, TINY)


def test_streams_are_those_of_the_paper(work: Workload) -> None:
    for name, stream in work.whole.items():
        assert Scrambling.of(stream.values).factor == work.factors[name] <= TINY.factor
        assert multiplicity(stream.values) == 2
        assert stream.at[-1] > SECONDS
    rates = {
        name: np.histogram(own.at, [0, 10, 40, 80, 90, 120])[0] / [10, 30, 40, 10, 30]
        for name, own in work.streams.items()
    }
    assert rates["S1"] == pytest.approx([10] * 5, rel=0.35)
    assert rates["S2"] == pytest.approx([10, 10 / 8, 10, 10, 10], rel=0.35)
    assert rates["S3"] == pytest.approx([10, 10, 10, 80, 10], rel=0.35)


@pytest.fixture(scope="module")
def known(work: Workload) -> Ran:
    """The run with factors known a priori."""
    return run(work.joined(apriori=True), work.streams, work.tables(), TINY.step)


def test_a_run_takes_all_tuples_and_holds_what_the_operator_holds(work: Workload, known: Ran) -> None:
    assert known.results == len(work.backtracked()["Query 1"])
    assert known.moments[-1] >= max(stream.at[-1] for stream in work.streams.values()) > known.moments[-2]
    for name, kept in known.kept.items():
        assert (known.held[name] >= kept).all()
        assert (kept >= known.in_memory[name]).all()
    assert (known.waited, known.reported) == (0, 0)
    assert known.bytes.max() > 24 * max(sum(own) for own in zip(*known.in_memory.values(), strict=True))


def test_a_second_has_the_most_of_its_micro_batches(known: Ran) -> None:
    halves = replace(known, held={"S1": np.array([1, 5, 3, 2, 4])}, moments=np.array([0.5, 1, 1.5, 2, 2.5]))
    assert halves.by_second("S1", 4).tolist() == [5, 3, 4, 0]


def test_a_run_takes_tuples_of_the_first_moment() -> None:
    one = Arrived(np.array([1, 2, 3]), np.array([0.0, 0.0, 5.0]))
    tables = {name: pa.table({"t": one.values, name: one.values}) for name in "ab"}
    each = [lw.stream(table, name=name, progress="t", disorder=lw.measured()) for name, table in tables.items()]
    assert run(lw.oblivious_join(each, on="t"), {"a": one, "b": one}, tables, 2.0).results == 3


def test_equation_8_is_that_of_the_definitions(work: Workload) -> None:
    """Equation 7 with the tuples that have come in the meantime for r_i k_j / r_j, and the lag of Definition 2.6."""
    moments = np.array([5.0, 30.0, 60.0, 85.0, 119.0])
    streams, factors = list(work.whole.values()), list(work.factors.values())
    ranks = [Ranks.of(stream.values) for stream in streams]
    for moment, bounds in zip(moments, buffers.equation(streams, factors, moments), strict=True):
        come = [int(np.searchsorted(stream.at, moment, "right")) for stream in streams]
        for i in range(3):
            found = []
            for j in range(3):
                settled = come[j] - factors[j]
                if j == i or settled <= 0:
                    found += [come[i]] * (j != i)
                    continue
                then = int(np.searchsorted(streams[i].at, streams[j].at[settled - 1], "right"))
                behind = lag(then, ranks[i], settled, ranks[j])
                found.append(max(1, factors[i] + (come[i] - then) + behind))
            assert bounds[i] == min(come[i], max(found))


def test_buffers_are_between_the_least_and_equation_8(work: Workload, known: Ran) -> None:
    truth = work.backtracked()["Query 1"]
    low = least(truth, known.moments)
    high = buffers.equation(list(work.whole.values()), list(work.factors.values()), known.moments)
    for i, name in enumerate(LEAVES[0]):
        assert (known.kept[name] >= low[:, i]).all()
        assert (known.kept[name] <= 1.05 * high[:, i] + 1).all(), "summaries round up by a few percent"


def test_the_definition_of_w_join_is_what_the_operator_does() -> None:
    """OA-Join over arrival times finds exactly the results whose tuples are young enough."""
    work = Workload.of(1, 5, TINY)
    seconds = 9
    at = [np.round(stream.at * 1e6).astype(np.int64) for stream in work.streams.values()]
    schema = pa.schema({"at": pa.int64(), "epoch": pa.int64()})
    sides = tuple(JoinSide(name, schema, "at", ("epoch",)) for name in LEAVES[0])
    join = OAJoin(WindowJoin(sides, (seconds * 1_000_000,) * 3))
    found = 0
    for port, (own, stream) in enumerate(zip(at, work.streams.values(), strict=True)):
        out = taken(join, port, Batch(pa.table({"at": own, "epoch": stream.values})))
        found += sum(len(one) for one in out if isinstance(one, Batch))
    assert found == len(work.backtracked()["Query 1"].lasting(seconds)) > 0


def test_windows_of_equal_memory_hold_what_the_join_holds() -> None:
    point = windows.measure(1, 0, "tiny")
    work = Workload.of(1, 0, TINY)
    truth = work.backtracked()["Query 1"]
    theirs = windows.Windowed(work, truth)
    assert theirs.memory(point.window - windows.TICK) < point.memory <= theirs.memory(point.window)
    assert theirs.accuracy(point.needed_window - windows.TICK) < windows.ENOUGH <= theirs.accuracy(point.needed_window)
    tuples = windows.tuples_of(truth.streams, point.memory)
    held = [
        sum(np.minimum(windows.come(own, windows.MOMENTS), w).mean() for own in truth.streams)
        for w in (tuples - 1, tuples)
    ]
    assert held[0] < point.memory <= held[1]
    assert len(truth.within([tuples] * 3)) == point.tuples_accuracy * len(truth)


# -- verdicts -------------------------------------------------------------------------------------------------------


def one_seed(names: tuple[str, ...], held: dict[str, float], results: dict[str, int], below: int = 0) -> buffers.Seeded:
    """A seed with 1,000 results and an optimal buffer of 100 tuples; `held` is by mode."""
    moments = np.arange(1.0, SECONDS + 1)

    def ran(mode: str) -> Ran:
        own = {name: np.full(SECONDS, held[mode]) for name in names}
        return Ran(results[mode], 0, own, own, own, np.zeros(SECONDS), 0.0, np.zeros(SECONDS), moments)

    optimal = {name: np.full(SECONDS, 100) for name in names}
    missed = {buffers.APRIORI: below, buffers.MONITORED: 5}
    return buffers.Seeded({mode: ran(mode) for mode in buffers.MODES}, 1000, optimal, {}, missed)


def modes(apriori: float, monitored: float) -> dict:
    return {buffers.APRIORI: apriori, buffers.MONITORED: monitored}


def test_the_claim_on_query_1_fails_if_results_or_tuples_are_missing_or_buffers_are_large() -> None:
    def holds(held: dict, results: dict, below: int = 0) -> bool:
        return buffers.one_holds([one_seed(LEAVES[0], held, results, below)])

    assert holds(modes(120, 140), modes(1000, 992))
    assert not holds(modes(120, 140), modes(999, 992))
    assert not holds(modes(120, 140), modes(1000, 991))
    assert not holds(modes(120, 140), modes(1000, 992), below=1)
    assert not holds(modes(151, 140), modes(1000, 992))
    assert not holds(modes(120, 151), modes(1000, 992))


def test_the_claims_on_query_2_fail_if_the_margin_is_no_wider_or_a_buffer_does_not_follow() -> None:
    single = [one_seed(LEAVES[0], modes(120, 140), modes(1000, 1000))]

    def seed(apriori: float, monitored: float) -> list[buffers.Seeded]:
        return [one_seed(("S7", "S8"), modes(apriori, monitored), modes(1000, 1000))]

    assert buffers.two_hold(seed(130, 125), single)
    assert not buffers.two_hold(seed(120, 110), single)
    assert not buffers.two_hold(seed(130, 130), single)
    assert buffers.follows(seed(200, 125))
    assert not buffers.follows(seed(201, 125))
    assert not buffers.shrinks(seed(130, 125)), "the buffer is constant"


def test_the_claim_on_windows_fails_if_they_find_enough_or_need_little() -> None:
    point = windows.Point(1, 0, 1000, 0.995, 20, 0.39, 60, 1501)
    both = [point, replace(point, query=2)]
    assert windows.holds(both)
    for change in ({"window_accuracy": 0.4}, {"needed_memory": 1500}, {"accuracy": 0.991}):
        assert not windows.holds([point, replace(both[1], **change)])
    assert windows.holds([replace(point, needed_memory=1001), both[1]])
    assert not windows.holds([replace(point, needed_memory=1000), both[1]])


def test_windows_of_query_2_are_on_inner_streams_too() -> None:
    work = Workload.of(2, 0, TINY)
    truth = work.backtracked()["Query 2"]
    theirs = windows.Windowed(work, truth)
    assert theirs.accuracy(SECONDS) == 1
    raw = sum(len(stream.values) for stream in work.streams.values())
    assert theirs.memory(SECONDS) > raw / 2, "it keeps everything, and results of the lower joins besides"
    results, inner = theirs.results(20)
    assert 0 < len(results) < len(truth)
    assert len(inner[0]) < len(theirs.leaves[0]), "S2 is suppressed"
    assert (
        results.at - np.stack([s.at[p] for s, p in zip(inner, results.place.T, strict=True)]).min(axis=0)
    ).max() <= 20


def buffer(before: float, after: float, share: float = 1.0) -> strategies.Buffer:
    """S3 with so many tuples until the burst, and behind it."""
    moments = np.arange(1.0, SECONDS + 1)
    return strategies.Buffer(np.where(moments <= 80, before, after), moments, share)


def test_the_claim_on_strategies_fails_if_one_grows_with_lag_saves_nothing_loses_results_or_breaks_the_limit() -> None:
    found = {"plain": buffer(300, 900), "MSF": buffer(290, 880), "DBF": buffer(100, 110), "Hybrid": buffer(90, 95)}
    limits = [strategies.Limited(1000, 1000, 1.0)]
    assert strategies.memory_holds(found, limits)
    for name, other in (
        ("DBF", buffer(100, 151)),
        ("plain", buffer(300, 590)),
        ("MSF", buffer(400, 1200)),
        ("Hybrid", buffer(300, 300)),
        ("MSF", buffer(290, 880, 0.991)),
    ):
        assert not strategies.memory_holds({**found, name: other}, limits)
    assert not strategies.memory_holds(found, [replace(limits[0], most=1001)])
    assert not strategies.memory_holds(found, [replace(limits[0], share=0.9999)])


def test_the_claim_on_averages_fails_if_hybrid_is_not_the_lowest() -> None:
    means = {(q, name): n for q in (1, 2) for name, n in zip(strategies.STRATEGIES, (900, 880, 300, 290), strict=True)}
    assert strategies.average_holds(means, 0.992)
    assert not strategies.average_holds(means, 0.991)
    assert not strategies.average_holds({**means, (2, "DBF"): 290}, 1)
    assert not strategies.average_holds({**means, (1, "MSF"): 299}, 1)
    assert strategies.average_holds({**means, (1, "Hybrid"): 330}, 1)
    assert not strategies.average_holds({**means, (1, "Hybrid"): 331}, 1)


def test_the_claim_on_latency_fails_if_a_result_waits_or_sorting_costs_little() -> None:
    at_once, sorted_first = strategies.Latency(0.0, 0.01), strategies.Latency(1.0, 0.01)
    found = {"W-Join": at_once, "plain": at_once, "DBF": at_once, "MSF": sorted_first, "Hybrid": sorted_first}
    assert strategies.latency_holds(found)
    for name, other in (("DBF", strategies.Latency(0.5, 0.01)), ("W-Join", sorted_first), ("MSF", at_once)):
        assert not strategies.latency_holds({**found, name: other})


def test_results_of_strategies_that_sort_wait_for_the_tuples_behind_them(work: Workload) -> None:
    """A tuple waits until k tuples have come behind one as large: k gaps at most, and the time of the micro-batch."""
    ran = run(work.joined(apriori=True, strategy="MSF"), work.streams, work.tables(), TINY.step)
    assert ran.results == len(work.backtracked()["Query 1"])
    assert 0 < ran.waited < 2 * TINY.mean_gap * max(work.factors.values()) + TINY.step


def test_w_join_of_the_latency_figure_is_the_definition() -> None:
    found = strategies.windowed(0, "tiny")
    work = Workload.of(1, 0, TINY)
    truth = work.backtracked()["Query 1"]
    memory = strategies.ran(1, 0, "tiny", "plain").mean_in_memory()
    theirs = windows.Windowed(work, truth)
    window = windows.first(lambda seconds: theirs.memory(seconds) >= memory, SECONDS)
    assert found.results == len(truth.lasting(window))
    assert (found.waited, found.held) == (0, {})


# -- monitors ---------------------------------------------------------------------------------------------------------


def test_the_claim_on_monitors_fails_if_they_take_a_tenth_of_the_join_or_3_percent_of_an_aggregation() -> None:
    assert overhead.holds({"join": 0.099, "sliding": 0.029})
    assert not overhead.holds({"join": 0.1, "sliding": 0.029})
    assert not overhead.holds({"join": 0.099, "sliding": 0.03})


def test_monitors_alone_do_what_they_do_in_the_query() -> None:
    """The same factors, ranks and rates: their time alone is the time that they take in the query."""
    values = [scrambled(4000, i, factor=50, multiplicity=2).values for i in range(2)]
    seen: list[Summary] = []

    def noted(own: np.ndarray) -> Summary:
        seen.append(Summary.of(own))
        return seen[-1]

    overhead.watch(values, 500, noted)
    assert [run.rows for run in seen] == [500] * 16
    again = StreamMonitor()
    again.read(seen[::2])
    each = [
        lw.stream(pa.table({"t": own, n: own}), name=n, progress="t", disorder=lw.measured())
        for n, own in zip("ab", values, strict=True)
    ]
    query = lw.oblivious_join(each, on="t").start()
    overhead.feed(query, {n: one.node.frame.table for n, one in zip("ab", each, strict=True)}, 500)
    (join,) = joins(query)
    assert (again.factor, again.multiplicity) == (
        join.streams.monitors[0].factor,
        join.streams.monitors[0].multiplicity,
    )


# -- taxi rides -----------------------------------------------------------------------------------------------------


def test_taxi_rides_that_are_absent_are_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv(taxi.VARIABLE, raising=False)
    with pytest.raises(LowwaterError, match=r"The taxi rides are not here; set LOWWATER_TAXI_RIDES"):
        taxi.reproduce("tiny", tmp_path)
    monkeypatch.setenv(taxi.VARIABLE, str(tmp_path / "absent.gz"))
    with pytest.raises(LowwaterError, match="The taxi rides are not here"):
        taxi.reproduce("tiny", tmp_path)


def test_the_claim_on_taxi_rides_fails_if_pairs_are_missing_or_a_window_does_as_well() -> None:
    monitored, once = taxi.Share(0.993, 1200, 900, 0.97, 90_000, 0.97), taxi.Share(1.0, 390, 200, 0.66, 29_000, 0.67)
    both = {taxi.MONITORED: monitored, taxi.ONCE: once}
    assert taxi.holds(both, 1000)
    assert not taxi.holds(both, 700)
    assert not taxi.holds({**both, taxi.MONITORED: replace(monitored, found=0.991)}, 1000)
    for change in ({"found": 0.999}, {"memory": 400}, {"bytes": 31_000}, {"windowed": 0.67}, {"windowed_bytes": 0.7}):
        assert not taxi.holds({**both, taxi.ONCE: replace(once, **change)}, 1000)


def test_taxi_rides_meet_without_a_window(monkeypatch: pytest.MonkeyPatch, shared: Path, tmp_path: Path) -> None:
    file = shared / "data" / "nyc_taxi_rides" / "nycTaxiRides.gz"
    if not file.is_file():
        pytest.skip("the taxi rides are not in the folder `shared`")
    monkeypatch.setenv(taxi.VARIABLE, str(file))
    outcome = CATALOGUE["WO-taxi"].judged("full", tmp_path)
    assert json.loads(json.dumps(outcome)) == outcome
    measured = outcome["measured"]
    assert outcome["holds"]
    assert (measured["pairs"], measured["starts_scrambling"]) == (46_450, 325)
    assert measured["monitored_share_found"] >= 0.992
    assert measured["once_found"] == 46_450
    assert measured["once_memory"] < 8_000, "rides that go on"
    assert measured["once_complete_keys"] == 46_450
