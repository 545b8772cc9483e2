"""The spec of a join without windows, and the layout of its rows: sorted by key, with their places in the run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pyarrow as pa

from lowwater.joins.complete_keys import RECENT, WIDTH
from lowwater.joins.keyed import Ints, Keyed
from lowwater.joins.matching import MatchingSpec
from lowwater.joins.mjoin import AHEAD, MJoin
from lowwater.joins.oblivious_cost import Characteristics, Expected, buffer, memory
from lowwater.joins.part import INDEX
from lowwater.joins.positioned import PLACE, Positioned, laid
from lowwater.joins.spec import WindowJoin
from lowwater.joins.strategy import PLAIN, Strategy
from lowwater.joins.streams import MARGIN
from lowwater.model.monitors import Summary
from lowwater.model.routing import route as routed
from lowwater.model.words import listed, rows
from lowwater.operators.base import Message, Operator
from lowwater.operators.layout import Laying, Layout, Tables
from lowwater.operators.spec import Need
from lowwater.state.store import Store

LEAVES = "the rows of a key, when as many as expected have come on all inputs"
KEYS = (
    "keys whose rows have left, until further rows of them are late: no more than rows in the shortest buffer, "
    f"{WIDTH} bytes each, beyond {RECENT:,} on disk"
)
SUMMARY, NULLS = "of the run ", "rows without a key"


@dataclass(frozen=True)
class PositionedLayout(Layout):
    """Rows sorted by key, each with its place in the run. Every shard gets the summary of the run's disorder."""

    what: WindowJoin
    side: int
    columns: tuple[str, ...]
    route: tuple[str, ...] | None

    def open(self, shards: int, late: bool, home: int = 0) -> PositionedLaying:
        return PositionedLaying(self, shards, home)

    def messages(self, runs: Sequence[tuple[int, Tables]]) -> Iterator[Message]:
        summaries, parts, nulls = [], [self._none()], []
        for number, tables in runs:
            own = {name.removeprefix(SUMMARY): table for name, table in tables.items() if name.startswith(SUMMARY)}
            if own:
                summaries.append((number, Summary.of_tables(own)))
            if NULLS in tables:
                nulls.append(tables[NULLS])
            if "keyed" in tables:
                keyed = Keyed.of_tables(tables)
                parts.append(Keyed(keyed.rows, keyed.on, keyed.code, keyed.at + (number << PLACE)))
        if summaries:
            merged = Keyed.merged(parts[1:])[0] if len(parts) > 2 else parts[-1]
            yield Positioned(merged, tuple(summaries), pa.concat_tables(nulls) if nulls else None)

    def _none(self) -> Keyed:
        side = self.what.sides[self.side]
        return Keyed.of(side.schema.empty_table().select(list(self.columns)), side.on, np.empty(0, np.int64))


class PositionedLaying(Laying):
    """Collects the rows of a run and lays them out per shard."""

    def __init__(self, layout: PositionedLayout, shards: int, home: int) -> None:
        self._layout, self._shards, self._home = layout, shards, home
        self._rows: list[pa.Table] = []

    def take(self, rows: pa.Table, time: Ints | None = None) -> None:
        self._rows.append(rows.select(list(self._layout.columns)))

    def finish(self) -> list[Tables]:
        if not self._rows:
            return [{} for _ in range(self._shards)]
        layout = self._layout
        run = laid(layout.what, layout.side, pa.concat_tables(self._rows).combine_chunks())
        summary = {f"{SUMMARY}{name}": table for name, table in run.summary.tables().items()}
        found = [{**summary, **(part.tables() if len(part) else {})} for part in self._parts(run.rows, run.place)]
        if run.nulls is not None:
            found[self._home][NULLS] = run.nulls
        return found

    def _parts(self, rows: pa.Table, place: Ints) -> list[Keyed]:
        layout = self._layout
        on = layout.what.sides[layout.side].on
        if layout.route == on:
            return Keyed.by_shard(rows, on, place, self._shards)
        shard = routed(rows.select(list(layout.route or ())), self._shards)
        own = [shard == number for number in range(self._shards)]
        return [Keyed.of(rows.filter(pa.array(mask)), on, place[mask]) for mask in own]


@dataclass(frozen=True)
class ObliviousSpec(MatchingSpec):
    """A join without windows. `expected` has the characteristics of each input, None where they are monitored."""

    loses: ClassVar[bool] = True
    what: WindowJoin
    expected: tuple[Expected | None, ...]
    derived: tuple[bool, ...]
    kept: tuple[tuple[str, ...], ...]
    """The columns of each side that are shuffled and kept."""
    memory: int | None = None
    """The bytes that rows may take in memory, over all shards."""
    strategy: Strategy | None = None
    """The strategy that the user asks for; None: the cost model chooses if there is a memory limit."""
    ahead: int | None = None
    name = "MJoin"

    @property
    def counted(self) -> tuple[str, ...]:
        return tuple(side.name for side in self.what.sides)

    def need(self, port: int) -> Need:
        return Need(self.what.sides[port].on, facts="positions count the rows of all shards")

    def layout(self, port: int, route: tuple[str, ...] | None) -> Layout:
        return PositionedLayout(self.what, port, self.kept[port], route)

    def open(self, store: Store, shards: int) -> Operator:
        return MJoin(
            self.what,
            self.expected,
            self.derived,
            strategy=self.strategy,
            memory=None if self.memory is None else self.memory // shards,
            ahead=self.ahead,
            shards=shards,
            store=store,
        )

    @property
    def title(self) -> str:
        return f"MJoin  {self.what.how}, without a window, of {listed([side.name for side in self.what.sides])}"

    def lines(self) -> list[tuple[str, str]]:
        what = self.what
        columns = zip(*(side.on for side in what.sides), strict=True)
        on = [" = ".join(f"{s.name}.{n}" for s, n in zip(what.sides, names, strict=True)) for names in columns]
        once = all(one is not None and one.multiplicity is not None for one in self.expected)
        return [
            ("on", ", ".join(on)),
            (
                "because",
                f"{what.sides[0].time} progresses on all inputs, so tuples without a partner to come can leave",
            ),
            *(("assumes", self._assumed(i)) for i in range(self.ports)),
            *([("leaves", LEAVES)] if once else []),
            *(("state", f"{side.name}: {self._bound(i)}") for i, side in enumerate(what.sides)),
            *([("state", KEYS)] if once else []),
            *self._limits(),
        ]

    def _assumed(self, i: int) -> str:
        name, expected = self.what.sides[i].name, self.expected[i]
        if expected is None:
            return f"{name}: scrambling factor as monitored, times {MARGIN:g}"
        whence = "by Theorem 3.1" if self.derived[i] else "as expected"
        return f"{name}: scrambling factor at most {expected.scrambling:,}, {whence}"

    def _known(self) -> list[Characteristics]:
        """The characteristics of all inputs, if they are expected; an empty list otherwise."""
        known = [one.assumed for one in self.expected if one is not None]
        return known if len(known) == self.ports else []

    def _bound(self, i: int) -> str:
        """The expected buffer: Equation 8 without lag, if all inputs have expected characteristics."""
        kept = "the tuples behind the first that a partner to come can have"
        known = self._known()
        if not known:
            return kept
        most = rows(round(buffer(known, i, [0] * self.ports)))
        return f"{kept}: at most {most} and the lag, if rates are as expected"

    def _limits(self) -> list[tuple[str, str]]:
        """The expected memory, the limit, and how the join keeps to it."""
        found = []
        known, widths = self._known(), [width(side.schema, self.kept[i]) for i, side in enumerate(self.what.sides)]
        if known:
            strategy = (self.strategy or PLAIN).name
            each = [memory(strategy, known, i, [0] * self.ports, self.ahead or AHEAD).total for i in range(self.ports)]
            size = sum(n * of for n, of in zip(each, widths, strict=True))
            if all(one is not None and one.multiplicity is not None for one in self.expected):
                size += WIDTH * min(RECENT, *each)
            found.append(("memory", f"about {_size(size)} are expected, if the streams are in step"))
        else:
            found.append(
                ("memory", "as the disorder and the lags that are measured need; metrics() shows both and the bytes")
            )
        if self.strategy is not None:
            found.append(("strategy", f"{self.strategy.name}, as asked for: {EXPLAINED[self.strategy.name]}"))
        if self.memory is not None:
            found.append(("limit", f"{_size(self.memory)} of rows in memory, divided by the shards"))
            if self.strategy is None:
                found.append(("strategy", "plain while it fits, else DBF, MSF or Hybrid, by the cost model"))
            found.append(("loses", "the oldest rows if no strategy fits; they are counted and go to the late output"))
        return found


EXPLAINED = {
    "plain": "rows join when they come",
    "MSF": "rows join in order, when no smaller one can come",
    "DBF": "rows of a leading stream wait on disk for the others",
    "Hybrid": "rows are sorted first, and those of a leading stream wait on disk for the others",
}


def width(schema: pa.Schema, columns: Sequence[str]) -> int:
    """The bytes of a row in memory, index included; texts and nested values count as 32 bytes."""
    types = [schema.field(name).type for name in columns]
    return INDEX + sum(-(-type.bit_width // 8) if is_fixed(type) else 32 for type in types)


def is_fixed(type: pa.DataType) -> bool:
    return bool(pa.types.is_primitive(type) or pa.types.is_decimal(type))


def _size(bytes: float) -> str:
    for unit, size in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if bytes >= size:
            return f"{bytes / size:.3g} {unit}"
    return f"{bytes:.0f} bytes"
