"""Reproductions of the punctuated join: arrivals are let in as they came, and verdicts can be no."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from lowwater.experiments.punctuated import propagation, state, work
from lowwater.experiments.punctuated.feed import Ran, Sample, arrivals, run, spec, ticks
from lowwater.generate import SECOND, START
from lowwater.generate.punctuated import Punctuated, punctuated
from lowwater.joins.oa_join import OAJoin
from lowwater.joins.pwjoin import PWJoin, pjoin
from lowwater.model.punctuation import Punctuation
from lowwater.operators.base import Batch, Ended

SAMPLE = Sample(0, 10, 0, 5, 3, 100, 0, 50, 1.0)


def streams() -> list[Punctuated]:
    return [punctuated("punct-asc-30-40", 20, 1), punctuated("punct-random-30-40", 20, 2, within=3)]


@pytest.mark.parametrize("alone", [True, False])
def test_all_that_arrives_is_let_in_once_and_in_its_order(alone: bool) -> None:
    both = streams()
    rows: list[list[pa.Table]] = [[], []]
    ended: list[list[int]] = [[], []]
    low = [0, 0]
    for until, messages in arrivals(both, 5, SECOND // 10, alone):
        promises = 0
        for port, message in messages:
            if isinstance(message, Batch):
                assert ticks(message.rows).min() >= low[port]
                assert not set(message.rows["key"].to_pylist()) & set(ended[port]), "before its punctuation"
                rows[port].append(message.rows)
            elif isinstance(message, Ended):
                ended[port] += message.values["key"].to_pylist()
                promises += len(message)
            else:
                assert isinstance(message, Punctuation)
                assert message.low_watermark("ts") == START * SECOND + until
                low[port] = START * SECOND + until
        assert promises <= 1 or not alone
    for port, stream in enumerate(both):
        within = ticks(stream.tuples) < (START + 5) * SECOND
        assert pa.concat_tables(rows[port]).equals(stream.tuples.filter(pa.array(within)))
        within = ticks(stream.punctuations) < (START + 5) * SECOND
        assert ended[port] == stream.punctuations.filter(pa.array(within))["key"].to_pylist()


def test_pairs_and_operations_do_not_depend_on_the_cuts() -> None:
    """But for when rows leave: what is removed in the end is the same, too."""
    for join in (PWJoin, OAJoin):
        fine, coarse = (run(join(spec(2, 2)), streams(), 4, 1, SECOND // n) for n in (20, 2))
        assert np.array_equal(fine.pairs, coarse.pairs)
        assert [one.results for one in fine.samples] == [one.results for one in coarse.samples]
        assert [one.rows for one in fine.samples] == [one.rows for one in coarse.samples]
        if join is OAJoin:
            assert fine.end.operations == coarse.end.operations
        else:  # which tuples come after their value is propagated, and are not searched for, is a matter of the cut
            assert fine.end.operations == pytest.approx(coarse.end.operations, rel=0.01)


def test_a_run_ends_with_nothing_held() -> None:
    for join in (PWJoin(spec(2, 2)), OAJoin(spec(2, 2)), pjoin(spec(None, None))):
        ran = run(join, streams(), 5, 1, SECOND // 2)
        assert (ran.end.rows, ran.end.promises) == (0, 0)
        assert len(ran.pairs) == ran.end.results > 0
        assert ran.samples[-1].reported == len(ran.reported) == ran.end.reported


# -- verdicts -------------------------------------------------------------------------------------------------------


def ran(**numbers: float) -> Ran:
    sample = replace(SAMPLE, **numbers)  # type: ignore[arg-type]
    return Ran([sample], sample)


def test_no_claim_on_memory_holds_of_joins_that_are_alike() -> None:
    def points(saved: dict[int, int]) -> list[state.Point]:
        return [state.Point(w, at, 100, 100 + saved[w], 1, 0.0) for w in state.WINDOWS for at in (2, 4)]

    near, far = [state.Even(5, 500, 490.0)], [state.Even(5, 500, 400.0)]
    assert state.holds(points({1: 5, 5: 10, 15: 20}), near, 5)
    assert not state.holds(points({1: 0, 5: 0, 15: 0}), near, 5)
    assert not state.holds(points({1: 5, 5: 20, 15: 10}), near, 5)
    assert not state.holds(points({1: 5, 5: 10, 15: 20}), far, 5)


def test_a_claim_on_work_fails_if_work_is_not_less_or_the_saving_is_not_the_same() -> None:
    def runs(ours: tuple[float, float], scanned: tuple[float, float]) -> work.Runs:
        found = {}
        for case, operations, looked in zip(("5s", "15s"), ours, scanned, strict=True):
            found[case, "PWJoin"] = ran(operations=operations, scanned=looked)
            found[case, "WJoin"] = ran(operations=1000, scanned=100)
        return found

    assert work.output_holds(runs((995, 995), (50, 30)))
    assert not work.output_holds(runs((1000, 1000), (50, 30)))
    assert not work.output_holds(runs((999, 992), (50, 30)))
    assert not work.output_holds(runs((1005, 1005), (50, 30)))
    assert not work.output_holds(runs((995, 995), (50, 50)))


def test_a_claim_on_irrelevant_punctuation_fails_if_they_cost_much_or_the_lack_of_them_anything() -> None:
    def runs(operations: float, none: float, flags: float) -> work.Runs:
        base = {(case, "WJoin"): ran(operations=1000) for case in ("any", "near", "none")}
        ours = {(case, "PWJoin"): ran(operations=operations) for case in ("any", "near")}
        return base | ours | {("none", "PWJoin"): ran(operations=none, flags=flags)}

    assert work.irrelevant_holds(runs(1020, 1000, 0))
    assert not work.irrelevant_holds(runs(1030, 1000, 0))
    assert not work.irrelevant_holds(runs(1020, 1001, 0))
    assert not work.irrelevant_holds(runs(1020, 1000, 1))


def test_a_claim_on_propagation_fails_of_joins_that_tell_the_same() -> None:
    def points(pwjoin: int, pjoin: int) -> list[propagation.Point]:
        return [propagation.Point(case, at, at * pwjoin, at * pjoin, 9) for case in propagation.ORDERS for at in (1, 2)]

    assert propagation.both_hold(points(2, 1))
    assert not propagation.both_hold(points(1, 1))
    assert not propagation.both_hold(points(1, 2))
    assert propagation.one_holds(points(2, 0), [4.9, 5.0], 5.1)
    assert not propagation.one_holds(points(2, 1), [4.9, 5.0], 5.1)
    assert not propagation.one_holds(points(2, 0), [4.9, 5.2], 5.1)
    early, late = Ran(reported={1: 2.0, 2: 3.0}), Ran(reported={1: 2.0})
    assert propagation.no_later(early, late)
    assert not propagation.no_later(late, early)


def test_a_claim_on_propagation_fails_if_a_value_is_reported_more_often_than_it_is_ended() -> None:
    both = streams()
    value = both[0].punctuations["key"][0].as_py()
    assert value in both[1].punctuations["key"].to_pylist()
    for times, holds in ((1, True), (2, True), (3, False)):
        ran = Ran([replace(SAMPLE, at=1000.0)], times=Counter({value: times}))
        assert propagation.not_repeated(ran, both) is holds
    assert not propagation.not_repeated(Ran([replace(SAMPLE, at=1000.0)], times=Counter({-1: 1})), both)
    assert not propagation.not_repeated(Ran([SAMPLE], times=Counter({value: 1})), both), "it is ended later"


def test_a_run_counts_every_report_of_a_value() -> None:
    """A short window, so that a value that one stream has ended is forgotten before the other ends it."""
    both = streams()
    ran = run(PWJoin(spec(0.1, 0.1)), both, 5, 1, SECOND // 10)
    assert ran.again > 0
    assert set(ran.times) == set(ran.reported)
    assert propagation.not_repeated(ran, both)
