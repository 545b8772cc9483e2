"""Punctuated streams: punctuations keep their promise, and the patterns have the means that their names state."""

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lowwater.generate import SECOND, START
from lowwater.generate.punctuated import Arrival, Punctuated, pattern, punctuated, unpunctuated

Ints = npt.NDArray[np.int64]
arrivals = st.builds(
    Arrival,
    st.sampled_from(["asc", "desc", "random"]),
    st.integers(1, 12),
    st.none() | st.integers(0, 100),
)


def ints(table: pa.Table, column: str) -> Ints:
    return np.asarray(table[column].cast(pa.int64()), np.int64)


def segments(stream: Punctuated) -> list[Ints]:
    """The keys of each segment, its punctuation last."""
    keys = ints(stream.rows, "key")
    ends = np.flatnonzero(ints(stream.rows, "ends")) + 1
    assert ends[-1] == len(keys)
    return np.split(keys, ends[:-1])


def sizes(stream: Punctuated) -> Ints:
    return np.array([len(keys) - 1 for keys in segments(stream)])


def match_percentages(stream: Punctuated) -> npt.NDArray[np.float64]:
    """Of all segments but the last, which has nothing else to carry."""
    return np.array([100 * np.mean(keys[:-1] == keys[-1]) for keys in segments(stream)[:-1]])


@given(arrivals, st.integers(1, 60), st.integers(0, 2**32 - 1), st.integers(1, 20), st.none() | st.integers(0, 9))
def test_no_tuple_follows_the_punctuation_of_its_value(
    arrival: Arrival, values: int, seed: int, ahead: int, within: int | None
) -> None:
    stream = punctuated(arrival, values, seed, ahead=ahead, within=within)
    assert sorted(ints(stream.punctuations, "key").tolist()) == list(range(values))
    ended: set[int] = set()
    for row in stream.rows.to_pylist():
        assert row["key"] not in ended
        if row["ends"]:
            ended.add(row["key"])


@given(arrivals, st.integers(2, 60), st.integers(0, 2**32 - 1), st.integers(1, 20))
def test_tuples_carry_one_of_the_next_values_to_be_punctuated(
    arrival: Arrival, values: int, seed: int, ahead: int
) -> None:
    found = segments(punctuated(arrival, values, seed, ahead=ahead))
    place = {int(keys[-1]): i for i, keys in enumerate(found)}
    for i, keys in enumerate(found):
        assert all(i <= place[int(key)] <= i + ahead for key in keys)
        if keys[-1] in keys[:-1]:
            assert keys[-2] == keys[-1]


@pytest.mark.parametrize("name", ["cluster-random-50", "punct-asc-100-40", "punct-random-30-40"])
def test_the_seed_decides_the_stream(name: str) -> None:
    assert punctuated(name, 50, seed=3).rows.equals(punctuated(name, 50, seed=3).rows)
    assert not punctuated(name, 50, seed=3).rows.equals(punctuated(name, 50, seed=4).rows)
    assert unpunctuated(50, 9, seed=3).rows.equals(unpunctuated(50, 9, seed=3).rows)


@pytest.mark.parametrize(("name", "size"), [("cluster-asc-2", 2), ("cluster-asc-50", 50), ("punct-asc-100-40", 100)])
def test_segments_have_the_mean_and_spread_of_poisson(name: str, size: int) -> None:
    found = sizes(punctuated(name, 4000, seed=1))
    assert found.min() >= 1
    assert found.mean() == pytest.approx(size, rel=0.02)
    assert found.var() == pytest.approx(size - 1, rel=0.1)


@pytest.mark.parametrize("name", ["punct-asc-100-40", "punct-random-30-40", "punct-desc-5-10"])
def test_match_percentage_has_the_mean_of_its_name(name: str) -> None:
    found = match_percentages(punctuated(name, 4000, seed=1))
    assert found.mean() == pytest.approx(pattern(name).match, rel=0.03)


def test_match_percentage_varies_as_poisson_and_stops_at_all() -> None:
    assert match_percentages(punctuated("punct-asc-1000-40", 500, seed=1)).var() == pytest.approx(40, rel=0.2)
    capped = match_percentages(punctuated("punct-asc-1000-100", 500, seed=1))
    assert 94 < capped.mean() < 98
    assert capped.max() == 100


def test_clusters_carry_one_value_each() -> None:
    assert all(len(set(keys.tolist())) == 1 for keys in segments(punctuated("cluster-random-20", 200, seed=1)))


def test_size_one_is_unique_arrival() -> None:
    for name in ("cluster-random-1", "punct-asc-1-100"):
        stream = punctuated(name, 100, seed=1)
        assert (sizes(stream) == 1).all()
    assert pc.count_distinct(punctuated("cluster-random-1", 100, seed=1).tuples["key"]).as_py() == 100


def test_orders_of_punctuations() -> None:
    closed = {
        order: ints(punctuated(f"punct-{order}-10-40", 300, seed=1).punctuations, "key")
        for order in ("asc", "desc", "random")
    }
    assert closed["asc"].tolist() == list(range(300))
    assert closed["desc"].tolist() == list(range(299, -1, -1))
    assert 0.4 < np.mean(np.diff(closed["random"]) > 0) < 0.6
    assert np.abs(closed["random"] - np.arange(300)).max() > 150
    near = ints(punctuated("punct-random-10-40", 300, seed=1, within=5).punctuations, "key")
    assert 1 < np.abs(near - np.arange(300)).max() <= 5


@pytest.mark.parametrize("order", ["asc", "desc"])
def test_two_streams_have_values_open_at_the_same_time(order: str) -> None:
    """Of all pairs with the same value, most are made of tuples that arrive within a window of 15 seconds."""
    a, b = (punctuated(f"punct-{order}-100-40", 100, seed=seed).tuples for seed in (1, 2))
    pairs = a.join(b, "key", join_type="inner", left_suffix="_a", right_suffix="_b")
    apart = np.abs(ints(pairs, "ts_a") - ints(pairs, "ts_b"))
    assert np.mean(apart <= 15 * SECOND) > 0.9


def test_arrivals_are_a_poisson_process_in_strict_order() -> None:
    stream = punctuated("punct-asc-100-40", 500, seed=1, every=0.010)
    ts = ints(stream.tuples, "ts")
    gaps = np.diff(ts, prepend=START * SECOND) / SECOND
    assert gaps.min() > 0
    assert gaps.mean() == pytest.approx(0.010, rel=0.02)
    assert gaps.std() == pytest.approx(0.010, rel=0.02)
    assert (np.diff(ints(punctuated("cluster-asc-9", 500, seed=1, every=1e-6).tuples, "ts")) > 0).all()


def test_a_punctuation_has_the_time_of_the_tuple_before_it_and_no_number() -> None:
    stream = punctuated("punct-random-30-40", 100, seed=1)
    ts, ends = ints(stream.rows, "ts"), np.flatnonzero(ints(stream.rows, "ends"))
    assert (ts[ends] == ts[ends - 1]).all()
    assert stream.rows["id"].null_count == len(ends) == stream.punctuations.num_rows
    assert ints(stream.tuples, "id").tolist() == list(range(stream.rows.num_rows - len(ends)))


@pytest.mark.parametrize("name", ["cluster-asc-30", "punct-asc-30-40", "punct-random-30-40"])
def test_irrelevant_punctuations_change_nothing_but_their_values(name: str) -> None:
    relevant, moved = punctuated(name, 100, seed=1), punctuated(name, 100, seed=1, irrelevant=True)
    assert moved.tuples.equals(relevant.tuples)
    assert moved.punctuations["ts"].equals(relevant.punctuations["ts"])
    assert (ints(moved.punctuations, "key") < 0).all()
    assert ints(moved.tuples, "key").min() >= 0
    assert (
        np.argsort(ints(moved.punctuations, "key")).tolist() == np.argsort(ints(relevant.punctuations, "key")).tolist()
    )


def test_unpunctuated_values_are_uniform_and_never_end() -> None:
    stream = unpunctuated(20_000, 10, seed=1)
    assert stream.rows.schema == punctuated("cluster-asc-2", 2, seed=1).rows.schema
    assert stream.punctuations.num_rows == 0
    assert np.bincount(ints(stream.tuples, "key"), minlength=10) == pytest.approx(np.full(10, 2000), rel=0.1)
    assert unpunctuated(0, 10, seed=1).rows.num_rows == 0


@given(arrivals)
def test_a_pattern_is_read_back_from_its_name(arrival: Arrival) -> None:
    assert pattern(str(arrival)) == arrival


def test_the_long_form_of_the_paper_is_the_same_pattern() -> None:
    assert pattern("punctuation-asc-30-40") == pattern("punct-asc-30-40") == Arrival("asc", 30, 40)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("", "named like"),
        ("punct-asc-100", "named like"),
        ("cluster-asc-50-40", "named like"),
        ("cluster-asc-5.5", "named like"),
        ("cluster-asc-50\n", "named like"),
        ("cluster-up-50", "asc, desc, random"),
        ("cluster-asc-0", "one tuple or more"),
        ("punct-asc-100-101", "0 to 100"),
    ],
)
def test_other_names_are_refused_in_one_sentence(name: str, words: str) -> None:
    with pytest.raises(ValueError, match=words) as refusal:
        pattern(name)
    assert str(refusal.value).endswith(".")


def test_streams_that_cannot_be_are_refused() -> None:
    with pytest.raises(ValueError, match="values = 1 or more"):
        punctuated("cluster-asc-5", 0, seed=1)
    with pytest.raises(ValueError, match="ahead = 1 or more"):
        punctuated("punct-asc-5-40", 5, seed=1, ahead=0)
    with pytest.raises(ValueError, match="at least a microsecond"):
        punctuated("cluster-asc-5", 5, seed=1, every=1e-9)
    with pytest.raises(ValueError, match="values = 1 or more"):
        unpunctuated(5, 0, seed=1)
