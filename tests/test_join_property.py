"""Window joins give what the definition gives, and as soon as it does, whatever arrives in whatever order and pieces.

A case is a join of streams and the arrival of their rows: each stream as disordered as it declares, out of step with
the others, cut into batches anywhere, on one shard or several, with restarts in between. The judge of results is
tests/join_oracle.py. Here are the judges of time and state, which know no more than the low-watermark of every stream:
the largest time seen, less the declared delay.
"""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import lowwater as lw
from lowwater.joins import keyed
from lowwater.joins.oa_join import LATE
from tests.compare import multiset
from tests.join_oracle import HOWS, flatten, n_way
from tests.join_queries import Grid, Row, cases, few, held, in_memory, late_row, low_watermark, plain_streams
from tests.join_scenarios import join_scenarios
from tests.soak import examples

EVERY = [(how, kind) for how in HOWS for kind in ("band", "grid")]


@pytest.mark.parametrize(("how", "kind"), EVERY)
@examples(10)
@given(data=st.data())
def test_local_join_is_the_definition(how: str, kind: str, data: st.DataObject) -> None:
    case = data.draw(cases(how, kind))
    query = case.run()
    streams = case.scenario.streams
    assert multiset(case.got(query.result())) == multiset(case.told(case.results(streams)))
    numbers = query.metrics()
    timeless = sum(row["ts"] is None for rows in streams for row in rows)
    assert (numbers.late_rows, numbers.null_rows, query.late_output().num_rows) == (0, timeless, timeless)
    assert (numbers.rows, numbers.result_rows) == (sum(map(len, streams)), query.result().num_rows)
    assert (numbers.state_rows, numbers.state_bytes) == (0, 0)


@pytest.mark.parametrize(("how", "kind"), EVERY)
@examples(5)
@given(data=st.data())
def test_after_each_push_all_is_out_that_progress_proves_and_no_row_is_kept_in_vain(
    how: str, kind: str, data: st.DataObject
) -> None:
    """Pairs at once; rows that stay alone as soon as no partner can come, and not before: none is ever taken back."""
    case = data.draw(cases(how, kind, most=14))
    query = case.joined().start(shards=case.shards)
    arrived: list[list[Row]] = [[], []]
    lows: list[int | None] = [None, None]
    for at, (port, rows) in enumerate(case.scenario.pushes):
        case.push(query, at)
        arrived[port] += rows.to_pylist()
        lows[port] = low_watermark(arrived[port], case.scenario.disorder[port])
        assert multiset(case.got(query.result())) == multiset(case.told(case.known(arrived, lows)))
        assert held(query) == case.needed(arrived, lows)
        assert query.metrics().state_rows == sum(held(query))
        if how not in ("semi", "anti"):  # they cross out rows at any time, and clear away when time passes
            assert in_memory(query) <= 2 * sum(held(query))
    query.finish()
    assert multiset(case.got(query.result())) == multiset(case.told(case.results(arrived)))
    assert (held(query), query.metrics().state_bytes) == ([0, 0], 0)


@pytest.mark.parametrize(("how", "kind"), EVERY)
@examples(4)
@given(data=st.data())
def test_results_do_not_depend_on_the_order_of_arrival(how: str, kind: str, data: st.DataObject) -> None:
    """Two arrivals of the same rows, in any order and any pieces, of streams that declare all of it."""
    case = data.draw(cases(how, kind))
    enough = [1000, 1000]
    found = []
    for _ in range(2):
        rows = [(port, row) for port, rows in enumerate(case.scenario.streams) for row in rows]
        arrival = data.draw(st.permutations(rows))
        query = case.joined(enough).start(shards=data.draw(st.integers(1, 3)))
        while arrival:
            some = data.draw(st.integers(1, len(arrival)))
            for port, schema in enumerate(case.scenario.schemas):
                own = [row for of, row in arrival[:some] if of == port]
                query.push(case.clocked(pa.Table.from_pylist(own, schema=schema)), port)
            arrival = arrival[some:]
        query.finish()
        found.append(multiset(case.got(query.result())))
    assert found[0] == found[1]


@pytest.mark.parametrize("how", HOWS)
@examples(6)
@given(data=st.data())
def test_rows_behind_their_own_low_watermark_are_told_and_take_no_part(how: str, data: st.DataObject) -> None:
    """Streams declare less disorder than they have. A batch is judged by what came before it.

    A null key has no partner in time either: of sides whose lonely rows nobody asks for it is never told.
    """
    case = data.draw(st.sampled_from(["band", "grid"]).flatmap(lambda kind: cases(how, kind)))
    if isinstance(case.window, Grid):
        assume(case.window.range >= case.window.slide)  # what lies in no window is not late for one
    declared = [data.draw(st.sampled_from([0, 2, 6])) for _ in range(2)]
    query = case.joined(declared).start(shards=case.shards)
    asked = how in ("left", "full", "anti"), how in ("right", "full")
    seen: list[list[Row]] = [[], []]
    on_time: list[list[Row]] = [[], []]
    late: list[Row] = []
    schemas = case.scenario.schemas
    for at, (port, table) in enumerate(case.scenario.pushes):
        low = low_watermark(seen[port], declared[port])
        for row in table.to_pylist():
            if row["ts"] is None or low is None or row["ts"] >= low:
                on_time[port].append(row)
            elif asked[port] or not case.keyless(port, row):
                late.append({"input": "lr"[port], "operator": "OA-Join"} | late_row("lr", schemas, port, row, LATE))
        seen[port] += table.to_pylist()
        case.push(query, at)
    query.finish()
    assert multiset(case.got(query.result())) == multiset(case.told(case.results(on_time)))
    told = [row for row in case.got(query.late_output()) if row["late_reason"] == LATE]
    assert multiset(told) == multiset(late)
    assert query.metrics().late_rows == len(late)


@pytest.mark.parametrize("how", HOWS)
@examples(5)
@given(data=st.data())
def test_keys_that_share_a_hash_are_still_told_apart(how: str, data: st.DataObject) -> None:
    kinds = ("text", "pair", "double")
    case = data.draw(st.sampled_from(["band", "grid"]).flatmap(lambda kind: cases(how, kind, kinds, most=20, shards=1)))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(keyed, "hashed", few)
        query = case.run()
    assert multiset(case.got(query.result())) == multiset(case.told(case.results(case.scenario.streams)))
    assert query.metrics().state_rows == 0


@examples(5)
@given(data=st.data())
def test_keys_of_several_streams_that_share_a_hash_are_still_told_apart(data: st.DataObject) -> None:
    scenario = data.draw(join_scenarios(ports=3, kinds=("text", "pair"), least=4, most=10))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(keyed, "hashed", few)
        query = lw.join(plain_streams(scenario), scenario.on, 15).start()
        for port, rows in scenario.pushes:
            query.push(rows, port)
        query.finish()
    told = flatten(n_way(scenario.streams, scenario.keys, [15] * 3), scenario.on, "abc", columns=scenario.columns)
    assert multiset(query.result().to_pylist()) == multiset(told)
