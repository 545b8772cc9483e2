"""Scenarios of joins: two streams or more, disordered and out of step, interleaved and cut into batches.

Times are small integers, so that ties are frequent, and so are keys. Every stream keeps its own bound of disorder, but
nothing is promised between the streams: any of them may lag behind. Drawn by Hypothesis.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

from tests.join_oracle import BOUNDS
from tests.oracle import Row
from tests.scenarios import KEYS, delayed

KEY_VALUES: dict[str, tuple[pa.DataType, st.SearchStrategy[Any]]] = {
    # The last two are the same double: keys must stay integers on their way.
    "number": (pa.int64(), st.sampled_from([-1, 0, 2**53, 2**53 + 1])),
    "text": (pa.string(), st.sampled_from(["a", "b", ""])),
    "double": (pa.float64(), KEYS["double"].filter(lambda value: value is not None)),
}
KEY_KINDS = {"number": ["number"], "text": ["text"], "pair": ["number", "text"], "double": ["double"], "none": []}
"""Kinds of keys and their columns; none is the join on time alone."""


@dataclass(frozen=True)
class JoinScenario:
    """What arrives, and how.

    Column ts is the time, v and the key columns are of every stream, own0, own1, ... of one. `keys` are the key columns
    of each stream; `disorder` is how far, at most, a row of each stream comes behind the largest time before it.
    """

    keys: list[list[str]]
    schemas: list[pa.Schema]
    disorder: list[int]
    pushes: list[tuple[int, pa.Table]]
    """(port, batch) in the order of arrival."""

    @property
    def on(self) -> list[tuple[str, ...]]:
        """One tuple of columns per equality."""
        return list(zip(*self.keys, strict=True))

    @property
    def columns(self) -> list[list[str]]:
        return [schema.names for schema in self.schemas]

    @property
    def streams(self) -> list[list[Row]]:
        """The rows of every stream in the order of arrival."""
        return [
            [row for port, table in self.pushes if port == stream for row in table.to_pylist()]
            for stream, _ in enumerate(self.schemas)
        ]


@st.composite
def join_scenarios(
    draw: st.DrawFn,
    ports: int = 2,
    kinds: Sequence[str] = ("number", "text", "pair"),
    least: int = 0,
    most: int = 25,
    timeless: bool = False,
) -> JoinScenario:
    """Streams of `least` to `most` rows, to join on one of these kinds of keys; if `timeless`, some have no time."""
    key = KEY_KINDS[draw(st.sampled_from(kinds))]
    renamed, nulls, spread = draw(st.booleans()), draw(st.booleans()), draw(st.sampled_from([4, 15, 40]))
    keys = [[f"{name}{port}" if renamed and port else name for name in key] for port in range(ports)]
    schemas, disorder, queues = [], [], []
    for port in range(ports):
        types = {name: KEY_VALUES[kind][0] for name, kind in zip(keys[port], key, strict=True)}
        schemas.append(pa.schema([("ts", pa.int64()), *types.items(), ("v", pa.int64()), (f"own{port}", pa.string())]))
        values = {name: sometimes(KEY_VALUES[kind][1], nulls) for name, kind in zip(keys[port], key, strict=True)}
        values |= {"v": sometimes(st.integers(-2, 2), nulls), f"own{port}": sometimes(KEY_VALUES["text"][1], nulls)}
        row = st.fixed_dictionaries({"ts": st.integers(-spread, spread), **values})
        # The number first: of lists drawn without one, most are too short for any two rows to join.
        number = draw(st.integers(least, most))
        rows = draw(st.lists(row, min_size=number, max_size=number))
        disorder.append(draw(st.sampled_from([0, 1, 5, 20])))
        order = delayed(disorder[port])(draw, [row["ts"] for row in rows])
        queues.append([rows[at] for at in order])
    arrived = draw(st.sampled_from(INTERLEAVED))(draw, queues)
    if timeless:
        # Only now: what orders the arrival is the time that the row had.
        arrived = [(port, row | {"ts": draw(sometimes(st.just(row["ts"]), True))}) for port, row in arrived]
    pushes = [(port, pa.Table.from_pylist(rows, schema=schemas[port])) for port, rows in cut(draw, arrived, ports)]
    return JoinScenario(keys, schemas, disorder, pushes)


def sometimes(values: st.SearchStrategy[Any], null: bool) -> st.SearchStrategy[Any]:
    """With nulls, if at all, in one place of six: with more, hardly two rows would share a key of two columns."""
    return st.integers(0, 5).flatmap(lambda n: values if n < 5 else st.none()) if null else values


Interleaving = Callable[[st.DrawFn, list[list[Row]]], list[tuple[int, Row]]]


def any_order(draw: st.DrawFn, queues: list[list[Row]]) -> list[tuple[int, Row]]:
    turns = draw(st.permutations([port for port, queue in enumerate(queues) for _ in queue]))
    return by_turns(turns, queues)


def skewed(draw: st.DrawFn, queues: list[list[Row]]) -> list[tuple[int, Row]]:
    """By time, each stream with a constant lag: none is in step, one longer than the streams is one after the other."""
    lag = [draw(st.sampled_from([0, 3, 10, 100])) for _ in queues]
    clocks = []
    for port, queue in enumerate(queues):
        newest = -(10**6)
        for row in queue:
            newest = max(newest, row["ts"])  # the wall clock does not go back with a late row
            clocks.append((newest + lag[port], port))
    return by_turns([port for _, port in sorted(clocks)], queues)


def by_turns(turns: list[int], queues: list[list[Row]]) -> list[tuple[int, Row]]:
    coming = [iter(queue) for queue in queues]
    return [(port, next(coming[port])) for port in turns]


INTERLEAVED: list[Interleaving] = [any_order, skewed]


def cut(draw: st.DrawFn, arrived: list[tuple[int, Row]], ports: int) -> list[tuple[int, list[Row]]]:
    """One batch per port for every piece of the arrival, some of them empty.

    Within a piece the ports come one after the other, in any order: as a backend gives them that reads all at once.
    """
    every = draw(st.sampled_from([30, 4, 1]))
    ends = draw(st.lists(st.integers(1, every), min_size=len(arrived), max_size=len(arrived)))
    pieces: list[list[tuple[int, Row]]] = [[]]
    for (port, row), end in zip(arrived, ends, strict=True):
        pieces[-1].append((port, row))
        if end == every:
            pieces.append([])
    batches = []
    for piece in pieces:
        idle = draw(st.booleans())
        for port in draw(st.permutations(range(ports))):
            rows = [row for at, row in piece if at == port]
            if rows or idle:
                batches.append((port, rows))
    return batches


@st.composite
def bands(draw: st.DrawFn, bounded: bool = False) -> tuple[int | None, int | None, str]:
    """(lower, upper, bounds): around zero or not, one point or more, and unless `bounded` also without an end."""
    lower = draw(st.integers(-15, 5))
    width = draw(st.integers(0, 25))
    ends = sometimes(st.just(lower), not bounded), sometimes(st.just(lower + width), not bounded)
    return draw(ends[0]), draw(ends[1]), draw(st.sampled_from(BOUNDS))


@st.composite
def grids(draw: st.DrawFn) -> tuple[int, int, int]:
    """(range, slide, origin): tumbling, overlapping, uneven or with gaps."""
    slide = draw(st.integers(1, 10))
    range = draw(st.just(slide) | st.integers(1, 25))
    return range, slide, draw(st.integers(-12, 12))


CONDITIONS: dict[str, Callable[[Row, Row], bool | None]] = {
    "less": lambda a, b: None if a["v"] is None or b["v"] is None else a["v"] < b["v"],
    "near": lambda a, b: None if a["v"] is None or b["v"] is None else abs(a["v"] - b["v"]) <= 1,
    "own": lambda a, b: None if a["own0"] is None or b["own1"] is None else a["own0"] != b["own1"],
}
"""Predicates beyond the key, of a left and a right row; null, as in SQL, where one of the values is."""
