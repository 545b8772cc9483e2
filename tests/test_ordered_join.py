"""The order-preserving joins give what OA-Join gives, in order of the first input's time, and obey the operator laws.

Stories are random: batches on any port in any order, rows that come late, inputs of which one runs ahead, keys that are
null, punctuation whenever it likes. Loops over the rows that were on time are the judge.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lowwater.errors import LowwaterError
from lowwater.joins.condition import Condition
from lowwater.joins.oa_join import OAJoin
from lowwater.joins.ordered_join import OPIBJoin, OPOBJoin, OrderedJoin
from lowwater.joins.spec import HOW, JoinSide, WindowJoin
from lowwater.model.punctuation import ALL, Punctuation
from lowwater.operators.base import Batch, Held, Late, Message, Operator, taken
from lowwater.windows.context_free import Sliding
from tests.compare import multiset
from tests.soak import examples
from tests.stored import committed, reopened, segments

Row = dict[str, Any]
Event = tuple[int, list[Row] | Punctuation]

KINDS = [OPOBJoin, OPIBJoin]
each = pytest.mark.parametrize("kind", KINDS)
some = examples(6)
NAMES = "abc"


def side(port: int) -> JoinSide:
    """Times and values of a port have names of their own, so that they are told apart in the result."""
    schema = pa.schema([(f"t{port}", pa.int64()), ("k", pa.string()), (f"v{port}", pa.int64())])
    return JoinSide(NAMES[port], schema, f"t{port}", ("k",))


def further(pairs: pa.Table) -> pa.Array:
    return pc.less_equal(pairs["v0"], pairs["v1"])


@dataclass(frozen=True)
class Story:
    """What is asked and what comes, the end included."""

    what: WindowJoin
    events: list[Event]

    def punctual(self) -> list[list[Row]]:
        """The rows of each port that come before progress has passed them."""
        rows: list[list[Row]] = [[] for _ in self.what.sides]
        low = [-(10**9)] * len(rows)
        for port, what in self.events:
            if isinstance(what, Punctuation):
                low[port] = max(low[port], what.low_watermark(f"t{port}") or 0)
            else:
                rows[port] += [row for row in what if row[f"t{port}"] >= low[port]]
        return rows


def told(seed: int) -> Story:
    """By seed and not piece by piece, since a story must be long for rows to find partners across punctuations."""
    random = Random(seed)
    ports = random.choice([2, 2, 3])
    grid = Sliding(random.randint(2, 9), random.randint(1, 9), random.randint(-3, 3)) if random.random() < 0.4 else None
    what = WindowJoin(
        tuple(side(port) for port in range(ports)),
        tuple(random.choice([None, -1, 0, 2, 5, 9]) if grid is None else 0 for _ in range(ports)),
        grid=grid,
        condition=Condition(further) if random.random() < 0.2 else None,
        null_safe=random.random() < 0.3,
    )
    events: list[Event] = []
    clock = [0] * ports
    pace = [random.randint(1, 4) for _ in range(ports)]  # one input may run ahead of another
    for _ in range(random.randint(10, 30)):
        port = random.randrange(ports)
        clock[port] += random.randint(0, pace[port])
        rows = [
            {
                f"t{port}": clock[port] + random.randint(-3, 3),
                "k": random.choice("xxxy"),
                f"v{port}": random.randint(0, 3),
            }
            for _ in range(random.randint(0, 4))
        ]
        events.append((port, [row | {"k": None} if random.random() < 0.1 else row for row in rows]))
        if random.random() < 0.5:
            events.append((port, Punctuation.linear(f"t{port}", clock[port] + random.randint(-4, -1))))
    ends = random.sample(range(ports), ports)
    return Story(what, [*events, *((port, ALL) for port in ends)])


stories = st.integers(0, 2**32).map(told)


def give(join: Operator, story: Story, event: Event) -> list[Message]:
    port, what = event
    if isinstance(what, Punctuation):
        return taken(join, port, what)
    return taken(join, port, Batch(pa.Table.from_pylist(what, schema=story.what.sides[port].schema)))


def run(join: Operator, story: Story, events: Sequence[Event] | None = None) -> list[Message]:
    return [message for event in (story.events if events is None else events) for message in give(join, story, event)]


def results(messages: Sequence[Message]) -> list[Row]:
    return [row for message in messages if isinstance(message, Batch) for row in message.rows.to_pylist()]


def late(messages: Sequence[Message]) -> list[Row]:
    return [row for message in messages if isinstance(message, Late) for row in message.rows.to_pylist()]


def outcome(messages: Sequence[Message]) -> tuple[list[str], list[str], list[Punctuation]]:
    promised = [message for message in messages if isinstance(message, Punctuation)]
    return multiset(results(messages)), multiset(late(messages)), promised


# -- results --------------------------------------------------------------------------------------------------------


def expected(story: Story) -> list[Row]:
    """By the definition: equal keys, every time within every other's window, or the same window of the grid."""
    what, found = story.what, []
    for rows in product(*story.punctual()):
        times = [row[f"t{port}"] for port, row in enumerate(rows)]
        if len({row["k"] for row in rows}) > 1 or (rows[0]["k"] is None and not what.null_safe):
            continue
        if what.condition is not None and rows[0]["v0"] > rows[1]["v1"]:
            continue
        one = {name: value for row in rows for name, value in row.items()}
        if (grid := what.grid) is None:
            pairs = [(i, j) for i in range(len(rows)) for j in range(len(rows)) if i != j]
            if all(what.waits[i] is None or times[j] - times[i] <= what.waits[i] for i, j in pairs):
                found.append(one)
            continue
        ends = range(grid.origin - 20 * grid.slide, 200, grid.slide)
        spans = [(end - grid.range, end) for end in ends]
        found += [
            {"window_start": start, "window_end": end, **one}
            for start, end in spans
            if all(start <= time < end for time in times)
        ]
    return found


@each
@examples(12)
@given(story=stories)
def test_results_are_those_of_oa_join_in_order_of_the_first_input(kind: type[OrderedJoin], story: Story) -> None:
    agnostic, ordered = run(OAJoin(story.what), story), run(kind(story.what), story)
    assert multiset(results(ordered)) == multiset(results(agnostic)) == multiset(expected(story))
    assert multiset(late(ordered)) == multiset(late(agnostic))
    times = [row["t0"] for row in results(ordered)]
    assert times == sorted(times)


@each
@some
@given(story=stories)
def test_results_leave_as_soon_as_their_order_is_known(kind: type[OrderedJoin], story: Story) -> None:
    """The first input's bound is that of OA-Join, message for message; all below it has left by then."""
    agnostic, ordered = OAJoin(story.what), kind(story.what)
    found: list[int] = []
    for event in story.events:
        found += [row["t0"] for row in results(give(agnostic, story, event))]
        low = ordered.promised[0]
        gone = give(ordered, story, event)
        assert ordered.promised[0] == agnostic.promised[0]
        assert [row["t0"] for row in results(gone)] == sorted(t for t in found if low <= t < ordered.promised[0])
    assert ordered.promised == [2**63 - 1] * ordered.ports


# -- the four laws --------------------------------------------------------------------------------------------------


@each
@some
@given(story=stories)
def test_nothing_is_emitted_that_an_earlier_emitted_punctuation_excludes(kind: type[OrderedJoin], story: Story) -> None:
    excluded: list[Punctuation] = []
    for message in run(kind(story.what), story):
        if isinstance(message, Punctuation):
            assert message not in excluded
            excluded.append(message)
        elif isinstance(message, Batch):
            assert not [row for row in message.rows.to_pylist() for p in excluded if p.match(row)]
    assert excluded[-1] == ALL


@each
@some
@given(story=stories, data=st.data())
def test_cutting_batches_anew_changes_nothing(kind: type[OrderedJoin], story: Story, data: st.DataObject) -> None:
    recut: list[Event] = []
    for port, what in story.events:
        if isinstance(what, Punctuation):
            recut.append((port, what))
            continue
        at = data.draw(st.integers(0, len(what)))
        recut += [(port, what[:at]), (port, what[at:])]
    assert outcome(run(kind(story.what), story, recut)) == outcome(run(kind(story.what), story))


def records(join: Operator) -> dict[str, str]:
    """The plain values of a state. Numbers of parts depend on when they were committed."""
    return {path: text for path, text in committed(join).entries.items() if '"at": ' not in text}


@each
@some
@given(story=stories, data=st.data())
def test_another_join_on_the_committed_state_goes_on_as_the_first(
    kind: type[OrderedJoin], story: Story, data: st.DataObject
) -> None:
    at = data.draw(st.integers(0, len(story.events)))
    join = kind(story.what)
    run(join, story, story.events[:at])
    store, held = reopened(join), join.held()
    rest = run(join, story, story.events[at:])
    other = kind(story.what, store)
    assert other.held() == held
    again = run(other, story, story.events[at:])
    assert (outcome(again), results(again)) == (outcome(rest), results(rest))
    assert records(other) == records(join)


@each
@some
@given(story=stories)
def test_after_the_end_nothing_is_held(kind: type[OrderedJoin], story: Story) -> None:
    join = kind(story.what)
    run(join, story)
    assert join.held() == Held(0, 0)
    assert segments(join) == {}


# -- what is kept, and what is refused ------------------------------------------------------------------------------


def test_what_waits_is_what_the_window_says() -> None:
    """Two inputs in step, a row a tick each; a row has one partner, at its own time."""
    held = {}
    for kind in (OAJoin, OPOBJoin, OPIBJoin):
        join = kind(WindowJoin((side(0), side(1)), (10, 10)))
        for t in range(100):
            for port in (0, 1):
                taken(join, port, Batch(pa.table({f"t{port}": [t], "k": [str(t)], f"v{port}": [0]})))
            for port in (0, 1):
                taken(join, port, Punctuation.linear(f"t{port}", t + 1))
        waiting = join._waiting.rows if isinstance(join, OrderedJoin) else 0
        held[kind] = [waiting, *(side.live_rows for side in join.sides)]
    assert held == {OAJoin: [0, 10, 10], OPOBJoin: [10, 10, 10], OPIBJoin: [10, 0, 20]}


@each
@pytest.mark.parametrize("how", [how for how in HOW if how != "inner"])
def test_other_joins_than_inner_are_refused_in_a_sentence(kind: type[OrderedJoin], how: str) -> None:
    with pytest.raises(LowwaterError, match=rf"^{kind.__name__} keeps the order of inner .* not of a {how} join\.$"):
        kind(WindowJoin((side(0), side(1)), (5, 5), how))


@each
def test_tuple_count_windows_are_refused_in_a_sentence(kind: type[OrderedJoin]) -> None:
    with pytest.raises(LowwaterError, match=r"not of a join over tuple-count windows\.$"):
        kind(WindowJoin((side(0), side(1)), (5, 5), rows=(3, None)))
