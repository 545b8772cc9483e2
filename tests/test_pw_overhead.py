"""What it costs to be able to exploit punctuation: nothing while there is none, two searches for one of no use.

Operations are counted as by `Side.operations`; at most 3 % more are allowed without punctuation, and there are none.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lowwater.experiments.punctuated.feed import Ran, arrivals, give, run, spec, ticks
from lowwater.generate import SECOND, START
from lowwater.generate.punctuated import Punctuated, punctuated, unpunctuated
from lowwater.joins.oa_join import OAJoin
from lowwater.joins.pwjoin import PWJoin
from tests.soak import examples

ALLOWED = 1.03


def done(ran: Ran) -> int:
    return ran.end.operations + ran.end.flags


@examples(15)
@given(st.integers(0, 2**32 - 2), st.integers(1, 300), st.sampled_from([0.0, 0.5, 2.0, None]))
def test_without_punctuation_no_operation_is_added(seed: int, values: int, window: float | None) -> None:
    streams = [unpunctuated(300, values, seed), unpunctuated(300, values, seed + 1)]
    ours, theirs = (run(join(spec(window, window)), streams, 3, 1, SECOND // 4) for join in (PWJoin, OAJoin))
    assert done(ours) <= ALLOWED * done(theirs)
    assert done(ours) == done(theirs) > 0
    assert np.array_equal(ours.pairs, theirs.pairs)


@pytest.mark.parametrize("how", ["left", "right", "full", "semi", "anti"])
def test_without_punctuation_other_joins_cost_the_same_too(how: str) -> None:
    streams = [unpunctuated(600, 50, seed) for seed in (1, 2)]
    ours, theirs = (join(replace(spec(1, 1), how=how)) for join in (PWJoin, OAJoin))
    assert sent(ours, streams) == sent(theirs, streams) > 0
    assert [side.operations for side in ours.sides] == [side.operations for side in theirs.sides]
    assert not any(ended.any for ended in ours.ended)


def sent(join: OAJoin, streams: Sequence[Punctuated]) -> int:
    """Lets the streams in; how many messages came out."""
    return sum(
        len(give(join, port, message)) for _, arrived in arrivals(streams, 4, SECOND // 4) for port, message in arrived
    )


@pytest.mark.parametrize("within", [None, 5])
def test_an_irrelevant_punctuation_costs_two_searches(within: int | None) -> None:
    """One for what it might purge, one for the value that it marks; nothing is purged and no result changes."""
    streams = [
        punctuated("punct-asc-30-40", 40, 1, irrelevant=True),
        punctuated("punct-random-30-40", 40, 2, irrelevant=True, within=within),
    ]
    ours, theirs = (run(join(spec(1, 1)), streams, 6, 1, SECOND // 4) for join in (PWJoin, OAJoin))
    assert np.array_equal(ours.pairs, theirs.pairs)
    came = sum(int(np.count_nonzero(ticks(s.punctuations) < (START + 6) * SECOND)) for s in streams)
    assert ours.end.operations - theirs.end.operations == 2 * came > 0
