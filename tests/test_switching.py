"""How groups of AdaptWID switch: states and volumes step by step, the threshold by hand, and what a switch rewrites."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from lowwater.model.punctuation import ALL, Punctuation
from lowwater.operators import lazy_rows
from lowwater.operators.adaptive_aggregate import AdaptivePartials
from lowwater.operators.base import Batch, StreamProperties, taken
from lowwater.operators.group_states import EAGER, LAZY, TRANSITIONAL
from lowwater.operators.threshold import RETURN, Threshold
from lowwater.operators.window_aggregate import WindowAggregate
from lowwater.windows.context_free import Sliding
from tests.compare import difference
from tests.oracle import aggregate_windows
from tests.stored import segments
from tests.test_adaptive import SCHEMA, Row, asked, restarted, states


class Told:
    """An operator that counts by group, told what comes in a few words. It remembers all it was given and answered."""

    def __init__(self, window: Sliding) -> None:
        self.window = window
        self.operator = WindowAggregate(asked(window), AdaptivePartials)
        self.rows: list[Row] = []
        self.answers: list[Row] = []

    def rows_of(self, **times: Sequence[int]) -> Told:
        rows = [dict.fromkeys(SCHEMA.names) | {"ts": t, "k": k} for k, of in times.items() for t in of]
        self.rows += rows
        taken(self.operator, 0, Batch(pa.Table.from_pylist(rows, schema=SCHEMA)))
        return self

    def upto(self, low: int) -> Told:
        self._answer(Punctuation.linear("ts", low))
        return self

    def end(self) -> None:
        self._answer(ALL)
        expected = aggregate_windows(self.rows, "ts", self.window, ["k"], {"n": ("count", None)})
        assert difference(self.answers, expected, ["k"]) == ""

    def _answer(self, punctuation: Punctuation) -> None:
        messages = taken(self.operator, 0, punctuation)
        self.answers += [row for m in messages if isinstance(m, Batch) for row in m.rows.to_pylist()]

    @property
    def keeping(self) -> AdaptivePartials:
        assert isinstance(self.operator.keeping, AdaptivePartials)
        return self.operator.keeping

    @property
    def states(self) -> dict[Any, tuple[int, int]]:
        return states(self.operator)


WINDOW = Sliding(10, 1)
EVERY = range(10)
"""All panes of a window."""


def test_a_group_is_lazy_until_its_volume_passes_the_threshold() -> None:
    told = Told(WINDOW).rows_of(a=[3], b=[4])
    assert told.states == {"a": (LAZY, 1), "b": (LAZY, 1)}
    assert (told.keeping.rows, told.keeping.partials) == (2, 0)
    upper = told.keeping.threshold.upper
    assert 10 < upper < 40
    below = int(upper) - 1
    assert told.rows_of(a=[t % 10 for t in range(below)]).states["a"] == (LAZY, below + 1)
    assert told.rows_of(a=[0, 1]).states["a"] == (EAGER, below + 3)
    told.end()


def test_a_group_that_becomes_eager_takes_its_buffered_rows_along() -> None:
    told = Told(WINDOW).rows_of(a=EVERY, b=[4])
    assert (told.keeping.rows, told.keeping.partials) == (11, 0)
    told.rows_of(a=[*EVERY] * 5)
    assert told.states == {"a": (EAGER, 60), "b": (LAZY, 1)}
    assert (told.keeping.rows, told.keeping.partials) == (11, 10)  # ten panes of a, one row of b
    told.end()


def test_a_dense_batch_of_a_new_group_is_never_buffered() -> None:
    told = Told(WINDOW).rows_of(a=[*EVERY] * 5)
    assert (told.keeping.rows, told.keeping.partials) == (10, 10)


def test_a_group_that_thins_out_is_transitional_until_its_partials_are_answered() -> None:
    """Both its old partials and its new rows are in every answer meanwhile."""
    told = Told(WINDOW).rows_of(a=[*EVERY] * 5).upto(15)
    assert told.states["a"] == (EAGER, 20)  # panes 6 to 9 are still read
    told.upto(18)
    assert told.states["a"] == (TRANSITIONAL, 5)
    told.rows_of(a=[18, 19])
    assert told.states["a"] == (TRANSITIONAL, 7)
    assert (told.keeping.rows, told.keeping.partials) == (3, 1)
    told.upto(19)
    assert told.states["a"] == (LAZY, 2)
    last = [row for row in told.answers if row["wid"] == 18]
    assert [(row["k"], row["n"]) for row in last] == [("a", 6)]  # [9, 19): five tuples in a partial, one in a row
    told.end()


def test_a_transitional_group_may_become_eager_again() -> None:
    told = Told(WINDOW).rows_of(a=[*EVERY] * 5).upto(18).rows_of(a=[18])
    assert told.states["a"] == (TRANSITIONAL, 6)
    told.rows_of(a=[*range(18, 28)] * 5)
    assert told.states["a"] == (EAGER, 56)
    told.upto(30)
    told.end()


def test_a_group_that_fluctuates_between_the_thresholds_stays_what_it_is() -> None:
    """Six tuples come in five ticks and six go, a volume between the two: a comes there from above, b from below."""
    told = Told(Sliding(40, 1)).rows_of(a=[*range(40)] * 3, b=range(40))
    threshold = told.keeping.threshold
    volumes = set()
    for now in range(40, 160):
        told.rows_of(**dict.fromkeys(("a", "b"), [now] * (2 if now % 5 == 0 else 1)))
        volumes.add(told.states["b"][1])
        assert told.states["b"][1] < threshold.upper
        told.upto(now + 1)
        volumes.add(told.states["a"][1])
        assert told.states["a"][1] > threshold.lower
        assert (told.states["a"][0], told.states["b"][0]) == (EAGER, LAZY)
    assert told.states["a"][1] == told.states["b"][1] in volumes
    assert len(volumes) > 3
    told.end()


def test_a_group_without_active_tuples_is_forgotten() -> None:
    told = Told(WINDOW).rows_of(a=[*EVERY] * 5, b=[3], c=[30]).upto(30)
    assert told.states == {"c": (LAZY, 1)}
    assert told.upto(50).states == {}
    assert told.keeping.rows == 0
    told.end()
    assert segments(told.operator) == {}


def test_states_and_volumes_come_back_from_segments() -> None:
    told = Told(WINDOW).rows_of(a=[*EVERY] * 5, b=[12]).upto(18).rows_of(a=[18], c=[*range(18, 28)] * 5)
    assert {k: state for k, (state, _) in told.states.items()} == {"a": TRANSITIONAL, "b": LAZY, "c": EAGER}
    fresh = restarted(told.operator, asked(WINDOW), AdaptivePartials)
    assert states(fresh) == told.states
    assert isinstance(fresh.keeping, AdaptivePartials)
    assert fresh.keeping.threshold.upper == told.keeping.threshold.upper


# -- the threshold --------------------------------------------------------------------------------------------------


def weighed(window: Sliding, tup: float, aggr: float, grown: float = 0) -> Threshold:
    threshold = Threshold(window, window.range, sharing=16)
    threshold.tup, threshold.aggr, threshold.grown = tup, aggr, grown
    return threshold


def test_the_threshold_is_where_both_alternatives_cost_the_same() -> None:
    assert weighed(Sliding(10), tup=20, aggr=56).upper == pytest.approx(2.8)
    panes = weighed(Sliding(10, 1), tup=16, aggr=24)
    filled = 10 * (1 - 0.9**panes.upper)
    assert 24 * filled == pytest.approx(16 * panes.upper)
    assert panes.upper < 24 * 10 / 16
    assert panes.lower == RETURN * panes.upper
    assert weighed(Sliding(10, 1), tup=24, aggr=24).upper == 0
    assert weighed(Sliding(10), tup=24, aggr=24, grown=8).upper == pytest.approx(1.5)
    assert weighed(Sliding(10), tup=24, aggr=24, grown=24).upper == np.inf


def test_offsets_between_sources_raise_the_threshold_and_at_most_double_it() -> None:
    def apart(by: int, rows: Sequence[int]) -> float:
        threshold = weighed(Sliding(10), tup=20, aggr=60)
        threshold.hear(StreamProperties(0, np.array([100, 100 - by, 7]), np.array([*rows, 0])))
        return threshold.upper

    assert apart(0, [50, 50]) == pytest.approx(3)
    assert apart(4, [50, 50]) == pytest.approx(3 / 0.8)
    assert apart(4, [75, 25]) == pytest.approx(3 / 0.9)
    assert apart(400, [50, 50]) == pytest.approx(6)


def test_the_life_of_an_extent_is_that_of_the_last_one_closed() -> None:
    """RANGE at first; then from the low-watermark at its first tuple to the high-watermark when it was closed."""
    threshold = weighed(Sliding(10), tup=20, aggr=60)
    rows = pa.table({"ts": [0]})

    def comes(ts: int, low: int) -> None:
        threshold.arrived(rows, np.array([ts]))
        threshold.hear(StreamProperties(low, np.array([ts]), np.array([1])))

    comes(3, low=1)  # nobody knew a low-watermark when [0, 10) began
    comes(12, low=8)
    comes(21, low=10)
    threshold.closed(1)
    assert threshold.wed == 10
    comes(27, low=20)
    threshold.closed(2)
    assert threshold.wed == 27 - 1
    comes(35, low=33)
    threshold.closed(3)
    assert threshold.wed == 35 - 8
    assert threshold.panes == 2.7


# -- the buffer -----------------------------------------------------------------------------------------------------


def many(groups: Sequence[str], times: Sequence[int]) -> pa.Table:
    rows = pa.table({"ts": pa.array(times, pa.int64()), "k": pa.array(groups, pa.string())})
    for name in ("j", "v", "x"):
        rows = rows.append_column(SCHEMA.field(name), pa.nulls(len(rows), SCHEMA.field(name).type))
    return rows


def test_a_group_that_becomes_eager_does_not_rewrite_the_buffer() -> None:
    """Its rows lie in every part, a few in each; parts are left as they are until an eighth of one has become eager."""
    operator = WindowAggregate(asked(Sliding(1000, 100)), AdaptivePartials)
    size = 2 * lazy_rows.SMALL
    rising = [f"rising {i}" for i in range(size // 6)]
    for batch in range(4):
        others = [f"{batch} {i}" for i in range(size - 1)]
        taken(operator, 0, Batch(many([*others, "a"], [*range(size - 1), 0])))
    before = segments(operator).keys()
    taken(operator, 0, Batch(many(["a"] * 50, [*range(0, 1000, 20)])))
    assert states(operator)["a"] == (EAGER, 54)
    written = segments(operator).keys() - before
    assert len(written) == 2  # a's partials, and the numbers of the threshold
    taken(operator, 0, Batch(many([*rising, *(f"4 {i}" for i in range(size - len(rising)))], [*range(size)])))
    parts = len(segments(operator))
    assert isinstance(operator.keeping, AdaptivePartials)
    held = operator.keeping.rows
    taken(operator, 0, Batch(many(rising * 30, [(17 * i) % 1000 for i in range(30 * len(rising))])))
    assert states(operator)[rising[0]] == (EAGER, 31)
    assert len(segments(operator)) == parts
    assert operator.keeping.rows - operator.keeping.partials < held - len(rising)  # that part was cleared


def test_small_batches_share_a_segment() -> None:
    operator = WindowAggregate(asked(Sliding(1000, 100)), AdaptivePartials)
    for batch in range(40):
        taken(operator, 0, Batch(many([f"{batch} {i}" for i in range(20)], [*range(20)])))
        operator.held()
    assert sorted(path.split("/")[1] for path, _ in segments(operator)) == ["lazy", "watch"]
