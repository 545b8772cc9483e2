"""The parts of the testing kit: the comparison of answers, and rows in an order of arrival."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

import lowwater as lw
from lowwater.generate import lateness
from lowwater.testing import Band, disordered
from lowwater.testing.compare import difference, settled


def test_the_comparison_sees_what_is_wrong() -> None:
    right = pa.table({"wid": [0, 1], "k": ["a", None], "x": [0.5, float("nan")], "xs": [[0.1], None]})
    assert difference(right, right.take([1, 0]), 0.0) is None
    near = right.set_column(2, "x", pa.array([0.5 + 1e-12, float("nan")]))
    assert difference(right, near, 1e-9) is None
    assert difference(right, near, 0.0) is not None
    missing = difference(right, right.slice(1), 0.0)
    assert missing is not None
    assert missing.lines()[1:] == ["expected    0  a  0.5  [0.1]", "got       no such row"]
    extra = difference(right.slice(1), right, 0.0)
    assert extra is not None
    assert extra.lines()[1:] == ["got    0  a  0.5  [0.1]", "expected  no such row"]
    key = difference(right, right.set_column(1, "k", pa.array(["b", None])), 0.0, ["wid"])
    assert key is not None
    assert key.lines()[1:] == ["expected    0  a  0.5  [0.1]", "got         0  b  0.5  [0.1]"]
    other = difference(right, right.set_column(1, "k", pa.array(["b", None])), 0.0, ["wid", "k"])
    assert other is not None
    assert other.lines()[2] == "got       no such row"
    twice = difference(right, pa.concat_tables([right, right]), 0.0)
    assert twice is not None
    assert (len(twice.missing), len(twice.extra)) == (0, 2)
    assert twice.lines()[-1] == "and 1 more row"


def test_of_several_answers_the_last_revision_holds() -> None:
    answers = pa.table(
        {
            "wid": [0, 0, 1],
            "n": [2, 1, 7],
            "emitted": ["final", "early", "final"],
            "revision": [2, 1, 2],
        }
    )
    assert sorted(settled(answers, ["wid"], True)["n"].to_pylist()) == [2, 7]
    plain = answers.drop_columns(["emitted", "revision"])
    assert settled(plain, ["wid"], True) is plain
    assert settled(answers, [], False) is answers, "columns of the user that have these names"
    with pytest.raises(lw.LowwaterError, match="keep them in select"):
        settled(answers, [], True)


def test_disordered_keeps_its_bound_and_its_seed() -> None:
    rng = np.random.default_rng(1)
    rows = pa.table({"ts": pa.array(rng.integers(0, 200 * 10**6, 300), pa.timestamp("us", "UTC"))})
    one, two, other = (disordered(rows, by="5 seconds", seed=seed) for seed in (1, 1, 2))
    assert one.equals(two)
    assert not one.equals(other)
    late = lateness(one["ts"].cast(pa.int64()).to_numpy())
    assert 10**6 < int(late.max()) <= 5 * 10**6
    assert one.sort_by("ts")["ts"].equals(other.sort_by("ts")["ts"])
    banded = disordered(pa.table({"at": range(40)}), by=Band(3), seed=1, progress="at")["at"].to_pylist()
    assert sorted(banded) != banded
