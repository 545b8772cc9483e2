"""The four laws of operators/base.py, for every operator of the package; a new one without a recipe fails here.

A recipe says how to open an operator. Hypothesis writes what happens to it: batches, punctuations and, where the
operator guards itself, rows that an earlier punctuation excludes. Window aggregation is one operator with several
tactics of keeping state, and each of them is a recipe of its own.
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import lowwater.joins
import lowwater.operators
from lowwater.model.progress import NULL
from lowwater.model.punctuation import ALL, Constant, Punctuation
from lowwater.model.ticks import END, NEVER
from lowwater.operators.base import Batch, Ended, Held, Late, Message, Operator, ended, taken
from lowwater.operators.bins import Bins
from lowwater.operators.group_lows import GroupLows
from lowwater.operators.ordered import InOrder, Merge, Sort
from lowwater.operators.window_aggregate import Keeping, WindowAggregate
from lowwater.state.store import Changes, segment_sizes
from lowwater.windows.context_free import Landmark, Sliding
from lowwater.windows.spec import Tuples
from tests.compare import difference, multiset
from tests.laws.recipes import ORACLE, RECIPES, SCHEMA, Recipe, Row, Window
from tests.oracle import aggregate
from tests.soak import examples
from tests.stored import committed, reopened

every = pytest.mark.parametrize("recipe", RECIPES, ids=lambda recipe: recipe.name)
bounded = pytest.mark.parametrize("recipe", [pytest.param(r, id=r.name) for r in RECIPES])
grid = [r for r in RECIPES if r.keeping and not issubclass(r.keeping, Bins)]  # windows that no tuple defines
guarding = pytest.mark.parametrize("recipe", grid, ids=lambda recipe: recipe.name)
ordering = pytest.mark.parametrize(
    "recipe", [r for r in RECIPES if issubclass(r.operator, InOrder)], ids=lambda recipe: recipe.name
)
some = examples(10)


def concrete(base: type) -> Iterator[type]:
    """The subclasses in lowwater.operators and lowwater.joins that can be opened."""
    packages = (lowwater.operators, lowwater.joins)
    for package in packages:
        for module in pkgutil.iter_modules(package.__path__, package.__name__ + "."):
            importlib.import_module(module.name)
    for below in base.__subclasses__():
        if below.__module__.startswith(tuple(p.__name__ for p in packages)) and not inspect.isabstract(below):
            yield below
        yield from concrete(below)


def test_every_operator_and_every_keeping_has_a_recipe() -> None:
    assert {recipe.operator for recipe in RECIPES} == set(concrete(Operator))
    assert {recipe.keeping for recipe in RECIPES if recipe.keeping} == set(concrete(Keeping))


# -- what happens to an operator ------------------------------------------------------------------------------------

Event = tuple[int, list[Row] | Punctuation | GroupLows]
"""A batch, a punctuation or the progress of sources, on a port."""

row = st.fixed_dictionaries(
    {"ts": st.integers(-20, 40), "k": st.sampled_from(["a", "b", None]), "v": st.none() | st.integers(-9, 9)}
)
linear = st.builds(lambda low: Punctuation.linear("ts", low), st.integers(-25, 50))
groupwise = st.builds(
    lambda low, k: Punctuation.linear("ts", low, {"k": Constant(k)}), st.integers(-25, 50), st.sampled_from(["a", "b"])
)
ends = st.builds(lambda k: Punctuation({"k": Constant(k)}), st.sampled_from(["a", "b"]))
lows = st.builds(
    lambda each: GroupLows("ts", "k", pa.array(list(each), pa.string()), np.array(list(each.values()), np.int64)),
    st.dictionaries(st.sampled_from(["a", "b", "<null>"]), st.integers(-25, 50) | st.sampled_from([NEVER, END])),
)
batch = st.lists(row, max_size=8)
near = st.sampled_from([0, -1, 1]) | st.integers(-9, 9)
content = st.one_of(batch, batch, linear, groupwise, ends, lows)


def promises(what: Punctuation | GroupLows) -> list[Punctuation]:
    """A punctuation, or those that the progress of sources stands for."""
    if isinstance(what, Punctuation):
        return [what]
    each = [
        (None if name == NULL else name, int(low)) for name, low in zip(what.names.to_pylist(), what.lows, strict=True)
    ]
    everything = [Punctuation({"k": Constant(k)}) for k, low in each if low == END]
    return everything + [Punctuation.linear("ts", low, {"k": Constant(k)}) for k, low in each if NEVER < low < END]


@dataclass(frozen=True)
class Story:
    """What comes to an operator, its end included."""

    window: Any
    events: list[Event]

    @property
    def rows(self) -> list[Row]:
        return [row for _, what in self.events if isinstance(what, list) for row in what]


@st.composite
def stories(draw: st.DrawFn, recipe: Recipe) -> Story:
    """Rows that break an earlier promise come only to operators that guard against them.

    Where time has passed, rows just there may follow on all ports: promises that say too much are broken by them.
    """
    events: list[Event] = []
    promised: list[list[Punctuation]] = [[] for _ in range(recipe.ports)]

    def arrive(port: int, rows: list[Row]) -> None:
        allowed = [row for row in rows if recipe.guards or not any(p.match(row) for p in promised[port])]
        events.append((port, allowed))

    for port, what in draw(st.lists(st.tuples(st.integers(0, recipe.ports - 1), content), max_size=10)):
        if isinstance(what, list):
            arrive(port, what)
            continue
        events.append((port, what))
        promised[port] += promises(what)
        low = what.low_watermark("ts") if isinstance(what, Punctuation) else None
        for each in draw(st.permutations(range(recipe.ports))) if low is not None and draw(st.booleans()) else ():
            assert low is not None
            arrive(each, [{"ts": low + draw(near), "k": "a", "v": 1} for _ in range(draw(st.integers(1, 2)))])
    events += [(port, ALL) for port in range(recipe.ports)]
    return Story(draw(recipe.windows), events)


def give(operator: Operator, event: Event) -> list[Message]:
    """What comes of an event; a punctuation ends its micro-batch."""
    port, what = event
    if not isinstance(what, list):
        return [*taken(operator, port, what), *ended(operator)]
    return taken(operator, port, Batch(pa.Table.from_pylist(what, schema=SCHEMA)))


def run(operator: Operator, events: Sequence[Event]) -> list[Message]:
    return [message for event in events for message in give(operator, event)]


@bounded
@some
@given(data=st.data())
def test_state_is_never_in_excess_of_its_bound(recipe: Recipe, data: st.DataObject) -> None:
    story = data.draw(stories(recipe))
    operator = recipe.open(story.window)
    for port, what in story.events:
        message = Batch(pa.Table.from_pylist(what, schema=SCHEMA)) if isinstance(what, list) else what
        taken(operator, port, message)
        assert operator.excess() is None
        if not isinstance(what, list):
            ended(operator)
            assert operator.excess() is None
            other = recipe.open(story.window, reopened(operator))
            assert other.excess() is None


def results(messages: Sequence[Message]) -> list[Row]:
    return [row for message in messages if isinstance(message, Batch) for row in message.rows.to_pylist()]


def late(messages: Sequence[Message]) -> list[Row]:
    return [row for message in messages if isinstance(message, Late) for row in message.rows.to_pylist()]


def punctuations(messages: Sequence[Message]) -> list[Punctuation]:
    return [p for message in messages if isinstance(message, Punctuation | GroupLows) for p in promises(message)]


def outcome(messages: Sequence[Message]) -> tuple[list[str], list[str], list[Punctuation]]:
    """All that came out, rows without their order."""
    return multiset(results(messages)), multiset(late(messages)), punctuations(messages)


# -- the four laws --------------------------------------------------------------------------------------------------


@every
@some
@given(data=st.data())
def test_nothing_is_emitted_that_an_earlier_emitted_punctuation_excludes(recipe: Recipe, data: st.DataObject) -> None:
    story = data.draw(stories(recipe))
    excluded: list[Punctuation] = []
    for message in run(recipe.open(story.window), story.events):
        if isinstance(message, Punctuation | GroupLows):
            excluded += promises(message)
        elif isinstance(message, Ended):
            excluded += [Punctuation({n: Constant(v) for n, v in row.items()}) for row in message.values.to_pylist()]
        elif isinstance(message, Batch):
            for row in message.rows.to_pylist():
                assert not [p for p in excluded if p.match(row | recipe.derived(row))]


@every
@some
@given(data=st.data())
def test_cutting_batches_anew_changes_nothing(recipe: Recipe, data: st.DataObject) -> None:
    story = data.draw(stories(recipe))
    recut: list[Event] = []
    for port, what in story.events:
        if not isinstance(what, list):
            recut.append((port, what))
            continue
        if recut and recut[-1][0] == port and isinstance(recut[-1][1], list) and data.draw(st.booleans()):
            recut[-1] = (port, recut[-1][1] + what)
            continue
        at = data.draw(st.integers(0, len(what)))
        recut += [(port, what[:at]), (port, what[at:])]
    before, after = (run(recipe.open(story.window), events) for events in (story.events, recut))
    assert outcome(before) == outcome(after)


@every
@some
@given(data=st.data())
def test_another_operator_on_the_committed_state_goes_on_as_the_first(recipe: Recipe, data: st.DataObject) -> None:
    """Also when the operator that made the state has gone on since; once more in the middle of what is left."""
    story = data.draw(stories(recipe))
    at, then = sorted(data.draw(st.tuples(*[st.integers(0, len(story.events))] * 2)))
    operator = recipe.open(story.window)
    run(operator, story.events[:at])
    store = reopened(operator)
    held = operator.held()
    rest = run(operator, story.events[at:])
    other = recipe.open(story.window, store)
    assert other.held() == held
    found = run(other, story.events[at:then])
    third = recipe.open(story.window, reopened(other))
    assert outcome(found + run(third, story.events[then:])) == outcome(rest)
    assert contents(third) == contents(operator)


def contents(operator: Operator) -> list[str]:
    """The records and segments of a state. Numbers of parts depend on when they were committed."""
    saved = committed(operator)
    return sorted(text for path, text in saved.entries.items() if '"at": ' not in text)


@every
@some
@given(data=st.data())
def test_what_is_committed_is_what_is_held(recipe: Recipe, data: st.DataObject) -> None:
    """A commit after every event: segments are written once, and none is left that no entry names."""
    story = data.draw(stories(recipe))
    operator = recipe.open(story.window)
    for event in story.events:
        give(operator, event)
        saved = committed(operator)
        named = segment_sizes(saved.entries)
        assert named == {key: len(data) for key, data in saved.segments.items()}
        assert operator.held().bytes == sum(named.values())
        assert operator.store.commit() == Changes()


@every
@some
@given(data=st.data())
def test_after_the_end_nothing_is_held(recipe: Recipe, data: st.DataObject) -> None:
    story = data.draw(stories(recipe))
    operator = recipe.open(story.window)
    run(operator, story.events)
    assert operator.held() == Held(0, 0)
    assert committed(operator).segments == {}


# -- rows that break a promise --------------------------------------------------------------------------------------


def ids(story: Story) -> range:
    """Windows that are ever answered: those of the rows, and for a landmark without period those that time passed."""
    window, times = story.window, np.array([row["ts"] for row in story.rows], np.int64)
    found = window.windows(Tuples(times))
    if not len(found):
        return range(0)
    last = int(found[-1])
    if isinstance(window, Landmark) and window.period is None:
        lows = [what.low_watermark("ts") for _, what in story.events if isinstance(what, Punctuation) and what != ALL]
        last = max([last, *((low - window.origin) // window.slide - 1 for low in lows if low is not None)])
    return range(int(found[0]), last + 1)


@dataclass(frozen=True)
class Reading:
    """A story read by the definition: what each window counts, and what each row missed and kept."""

    counted: dict[int, list[Row]]
    fates: list[tuple[Row, int, int]]

    @property
    def late(self) -> list[tuple[Row, int, int]]:
        return [fate for fate in self.fates if fate[1]]


def read(story: Story, by: str | None) -> Reading:
    """A row is counted in those of its windows that end after every low-watermark so far; with `by`, after those of its
    own source, too."""
    window, linear = story.window, -(10**9)
    own_lows: dict[str | None, int] = {}
    counted: dict[int, list[Row]] = {}
    fates = []
    for _, what in story.events:
        if isinstance(what, Punctuation):
            promised = what.low_watermark("ts")
            linear = linear if promised is None else max(linear, promised)
            continue
        if isinstance(what, GroupLows):
            for name, own_low in zip(what.names.to_pylist() if by else [], what.lows.tolist(), strict=False):
                k = None if name == NULL else name
                own_lows[k] = max(own_low, own_lows.get(k, own_low))
            continue
        for row in what:
            tuples = Tuples(np.array([row["ts"]], np.int64))
            low = max(linear, own_lows.get(row["k"], linear))
            own = [wid for wid in ids(story) if window.extent(wid, tuples)[0]]
            kept = [wid for wid in own if window.origin + (wid + 1) * window.slide > low]
            for wid in kept:
                counted.setdefault(wid, []).append(row)
            fates.append((row, len(own) - len(kept), len(kept)))
    return Reading(counted, fates)


def expected(reading: Reading, window: Window, names: Sequence[str]) -> list[Row]:
    found = []
    for wid, rows in reading.counted.items():
        start, end = window.interval(np.array([wid]))
        place = {"wid": wid, "window_start": None if start is None else int(start[0]), "window_end": int(end[0])}
        for k in {row["k"] for row in rows}:
            group = [row for row in rows if row["k"] == k]
            found.append({**place, "k": k, **{name: aggregate(group, "ts", ORACLE[name]) for name in names}})
    return found


@guarding
@some
@given(data=st.data())
def test_a_row_counts_in_exactly_those_of_its_windows_that_are_open(recipe: Recipe, data: st.DataObject) -> None:
    story = data.draw(stories(recipe))
    operator = recipe.open(story.window)
    assert isinstance(operator, WindowAggregate)
    got = results(run(operator, story.events))
    names = [name for name, _ in operator.what.aggregates]
    assert difference(got, expected(read(story, recipe.by), story.window, names), ["k"]) == ""


@guarding
@some
@given(data=st.data())
def test_late_rows_are_handed_out_with_what_they_missed_and_kept(recipe: Recipe, data: st.DataObject) -> None:
    story = data.draw(stories(recipe))
    messages = run(recipe.open(story.window), story.events)
    is_open = isinstance(story.window, Landmark) and story.window.period is None
    told = [
        {**row, "windows_missed": missed, "windows_kept": None if is_open else kept, "late_reason": reason}
        for row, missed, kept in read(story, recipe.by).late
        for reason in ["some of its windows are closed" if kept or is_open else "all its windows are closed"]
    ]
    assert multiset(late(messages)) == multiset(told)


@guarding
@some
@given(data=st.data())
def test_no_row_and_window_is_lost(recipe: Recipe, data: st.DataObject) -> None:
    """Pairs of a row and a window it is in: those counted and those missed are all there are."""
    story = data.draw(stories(recipe))
    messages = run(recipe.open(story.window), story.events)
    counted = sum(row["n"] for row in results(messages))
    missed = sum(row["windows_missed"] for row in late(messages))
    tuples = Tuples(np.array([row["ts"] for row in story.rows], np.int64))
    assert counted + missed == sum(int(story.window.extent(wid, tuples).sum()) for wid in ids(story))


@guarding
@some
@given(data=st.data())
def test_counters_equal_what_was_handed_out(recipe: Recipe, data: st.DataObject) -> None:
    story = data.draw(stories(recipe))
    operator = recipe.open(story.window)
    assert isinstance(operator, WindowAggregate)
    messages = run(operator, story.events)
    reasons = Counter(row["late_reason"] for row in late(messages))
    assert operator.counts.late == reasons.total()
    assert operator.counts.dropped == reasons["all its windows are closed"]
    assert operator.counts.results == len(results(messages))


@guarding
def test_all_rows_after_the_end_are_late(recipe: Recipe) -> None:
    windows: dict[str, Window] = {"landmark": Landmark(5), "landmark anew": Landmark(5, 0, 10)}
    operator = recipe.open(windows.get(recipe.name, Sliding(10, 5)))
    messages = run(operator, [(0, ALL), (0, [{"ts": 3, "k": "a", "v": 1}]), (0, ALL)])
    assert results(messages) == []
    assert [row["late_reason"] for row in late(messages)] == ["all its windows are closed"]
    assert operator.held() == Held(0, 0)


# -- order ----------------------------------------------------------------------------------------------------------


def in_order(operator: InOrder, story: Story) -> tuple[list[Row], list[Row]]:
    """A story read row by row: what goes out, in order, and what is late, since the order had gone further by then."""
    bounds, passed, most = [-(10**9)] * operator.ports, -(10**9), -(10**9)
    accepted: list[tuple[int, int, int, Row]] = []
    refused = []
    for port, what in story.events:
        if isinstance(what, Punctuation):
            promised = what.low_watermark("ts")
            bounds[port] = bounds[port] if promised is None else max(bounds[port], promised)
            passed = max(passed, min(bounds))
            continue
        if isinstance(what, GroupLows):
            continue
        for row in what:
            if row["ts"] < passed:
                refused.append(row)
            else:
                accepted.append((row["ts"], port, len(accepted), row))
            if isinstance(operator, Sort):
                most = max(most, row["ts"])
                passed = max(passed, most - operator.slack)
    return [row for *_, row in sorted(accepted, key=lambda one: one[:3])], refused


@ordering
@some
@given(data=st.data())
def test_rows_leave_in_order_or_are_late(recipe: Recipe, data: st.DataObject) -> None:
    """By time, then by port, then as they came; a batch cut in the midst of a tie changes nothing."""
    story = data.draw(stories(recipe))
    operator = recipe.open(None)
    assert isinstance(operator, InOrder)
    messages = run(operator, story.events)
    sent, refused = in_order(operator, story)
    assert results(messages) == sent
    unknown = {"late_reason": "its place in the order has passed", "windows_missed": None, "windows_kept": 0}
    assert late(messages) == [row | unknown for row in refused]
    lows = [low for p in punctuations(messages) if (low := p.low_watermark("ts")) is not None]
    assert lows == sorted(set(lows)), "punctuation goes out when it says more, and not otherwise"


def test_merge_holds_what_the_faster_input_is_ahead_by() -> None:
    merge = Merge(SCHEMA, "ts", 2)
    for ts in range(10):
        run(merge, [(0, [{"ts": ts, "k": "a", "v": ts}]), (0, Punctuation.linear("ts", ts + 1))])
    assert merge.held().rows == 10
    run(merge, [(1, Punctuation.linear("ts", 7))])
    assert merge.held().rows == 3
