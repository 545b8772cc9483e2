"""State of joins: rows leave when no partner can come, and parts are few however many batches there were."""

from __future__ import annotations

import pyarrow as pa
import pytest

from lowwater.joins import combinations, side
from lowwater.joins.condition import Condition
from lowwater.joins.oa_join import OAJoin
from lowwater.joins.side import FANOUT
from lowwater.joins.spec import JoinSide, WindowJoin
from lowwater.operators.base import Batch, taken
from tests.compare import multiset
from tests.join_oracle import HOWS, band_join, flatten
from tests.join_queries import Row, held, in_memory, parts, plain


@pytest.mark.parametrize("how", HOWS)
@pytest.mark.parametrize("options", [{"within": 10}, {"window": 10}, {"window": 20, "slide": 5}])
def test_quiet_keys_leave_nothing_behind(how: str, options: Row) -> None:
    """Without an end: rows of one other key on both sides let go all others."""
    query = plain("l").join(plain("r"), on="k", how=how, **options).start(shards=2)
    for port in (0, 1):
        query.push([{"ts": n % 7, "k": f"{port} {n}"} for n in range(100)], port)
    assert query.metrics().state_rows >= 200
    for port in (0, 1):
        query.push([{"ts": 1000, "k": "loud"}], port)
    windows = 4 if "slide" in options else 1
    rest = {"semi": [0, windows], "anti": [0, windows]}.get(how, [windows, windows])
    assert held(query) == rest, "the loud key's own rows"
    assert in_memory(query) <= 2 * sum(rest)


def test_the_number_of_parts_grows_with_the_logarithm_of_the_rows() -> None:
    query = plain("l").join(plain("r"), on="k", within=1000, how="full").start()
    most = 0
    for n in range(200):
        for port in (0, 1):
            query.push([{"ts": n, "k": f"{n % 5}"}] * (1 + n % 4), port)
        most = max(most, parts(query))
        assert query.metrics().state_rows == 2 * sum(1 + i % 4 for i in range(n + 1))
    assert most <= 3 * (FANOUT - 1), "of 500 rows"
    query.push([{"ts": 5000, "k": "0"}])
    query.push([{"ts": 5000, "k": "0"}], port=1)
    assert (held(query), parts(query)) == ([1, 1], 1)


@pytest.mark.parametrize("how", ["semi", "anti"])
def test_rows_that_are_decided_leave_no_part_behind(how: str) -> None:
    """Decided rows are crossed out though no time passes, so a part may be empty when parts are merged."""
    query = plain("l", 50).join(plain("r", 50), on="k", within=5, how=how).start()
    first, *others, last = [f"k{n}" for n in range(FANOUT)]
    query.push([{"ts": 0, "k": "none"}], port=1)
    for name in (first, *others):
        query.push([{"ts": 0, "k": name}])
    query.push([{"ts": 0, "k": first}], port=1)
    assert (held(query), parts(query)) == ([FANOUT - 2, 2], FANOUT - 1)
    query.push([{"ts": 0, "k": last}])
    assert (held(query), parts(query)) == ([FANOUT - 1, 2], 2), "merged, but for the one that is empty"
    query.push([{"ts": 0, "k": name} for name in (*others, last)], port=1)
    query.restart()
    query.push([{"ts": 0, "k": "more"}])
    assert (held(query), parts(query)) == ([1, FANOUT + 1], 3)


def test_a_row_that_the_other_side_has_passed_is_joined_and_not_kept() -> None:
    query = plain("l", 100).join(plain("r"), on="k", within=(0, 5)).start()
    query.push([{"ts": 20, "k": "a"}], port=1)
    assert query.push([{"ts": 15, "k": "a"}, {"ts": 14, "k": "a"}]).to_pylist() == [{"k": "a", "l_ts": 15, "r_ts": 20}]
    assert held(query) == [1, 1], "14 waits until 19, and the right has come to 20"


@pytest.mark.parametrize("how", HOWS)
@pytest.mark.parametrize("within", [0, 3, 2**61 - 1])
def test_times_may_be_as_far_apart_as_ticks_go(how: str, within: int) -> None:
    """Where key and time do not fit one number, times are searched by their rank."""
    spread = [sign * 2**61 + near for sign in (-1, 0, 1) for near in (-3, 0, 2)]
    left, right = ([{"ts": t, "k": k} for t in spread for k in "abc"[part : part + 2]] for part in (0, 1))
    query = plain("l", 2**62).join(plain("r", 2**62), on="k", within=within, how=how).start()
    for at in range(0, len(left), 5):
        query.push(left[at : at + 5])
        query.push(right[at : at + 5], port=1)
    query.finish()
    columns = (["ts", "k"], [] if how in ("semi", "anti") else ["ts", "k"])
    told = flatten(band_join(left, right, [("k", "k")], -within, within, how), [("k", "k")], columns=columns)
    assert multiset(query.result().to_pylist()) == multiset(told)


def test_results_come_in_pieces_where_text_would_not_fit_one_array(monkeypatch: pytest.MonkeyPatch) -> None:
    def answer() -> list[pa.Table]:
        schema = pa.schema({"ts": pa.int64(), "k": pa.string(), "long": pa.string()})
        sides = tuple(JoinSide(name, schema, "ts", ("k",)) for name in "ab")
        pairs = pa.schema({"a_long": pa.string(), "b_long": pa.string()})
        join = OAJoin(WindowJoin(sides, (9, 9), condition=Condition.of("a_long <> b_long", pairs)))
        for port in (0, 1):
            rows = {"ts": range(20), "k": ["x"] * 20, "long": ["text" * (port + n % 3) for n in range(20)]}
            out = taken(join, port, Batch(pa.table(rows, schema=schema)))
        return [message.rows for message in out if isinstance(message, Batch)]

    (whole,) = answer()
    monkeypatch.setattr(combinations, "TEXT", 120)
    pieces = answer()
    assert max(piece.num_rows for piece in pieces) <= 10
    assert pa.concat_tables(pieces).combine_chunks().equals(whole.combine_chunks())


def test_large_parts_are_not_merged(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(side, "LARGEST", 200)
    query = plain("l").join(plain("r"), on="k", within=1000).start()
    for n in range(5 * FANOUT):
        query.push([{"ts": n, "k": "a"}] * 3)
        query.push([{"ts": n, "k": "a"}] * (n == 7), port=1)
    assert parts(query) >= 5
    assert query.result().num_rows == 3 * 5 * FANOUT
