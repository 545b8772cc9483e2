"""The operator spec of all joins: the definition of the join, the tactic that computes it, and its bounds on state.

oa      OA-Join: joins rows on arrival, and removes them when the progress of the other inputs rules out a partner
pw      PWJoin: also removes rows whose value has ended
count   tuple-count join: counts rows in order of time, once they are final
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from lowwater.joins.count_join import CountJoin
from lowwater.joins.layout import KeyedLayout
from lowwater.joins.matching import MatchingSpec
from lowwater.joins.oa_join import OAJoin
from lowwater.joins.pwjoin import PWJoin
from lowwater.joins.spec import WindowJoin
from lowwater.model.words import length, listed, rows
from lowwater.operators.base import Operator
from lowwater.operators.layout import Layout, RowLayout
from lowwater.operators.spec import Need
from lowwater.state.store import Store
from lowwater.windows.describe import describe

NAMES = {"oa": "OA-Join", "pw": "PWJoin", "count": "Tuple-count join"}


@dataclass(frozen=True)
class JoinSpec(MatchingSpec):
    """A join under a tactic. See the module text."""

    what: WindowJoin
    tactic: str
    why: str
    bounds: tuple[str, ...]
    """The bound on the state of each side, in words."""
    kept: tuple[tuple[str, ...], ...]
    """The columns of each side that are shuffled and kept."""
    joint: bool = False
    """Whether a later operator groups by both times, so that joint punctuation completes its groups earlier."""
    extremes: bool = False
    """Whether a later operator needs progress on the greatest or the least of the times."""
    expects: tuple[str, ...] = ()
    """The state that the rates of the sides let expect, in words, where rates are known."""

    @property
    def name(self) -> str:
        return NAMES[self.tactic]

    def need(self, port: int) -> Need:
        if self._counts_all:
            return Need(())
        return Need(self.what.sides[port].on)

    @property
    def _counts_all(self) -> bool:
        return self.what.rows is not None and not self.what.per_key

    def layout(self, port: int, route: tuple[str, ...] | None) -> Layout:
        if self._counts_all:
            return RowLayout(self.kept[port], ())
        nulls = self.what.keeps[port] or self.tactic == "count"
        return KeyedLayout(self.what, port, self.kept[port], route, nulls)

    def open(self, store: Store, shards: int) -> Operator:
        if self.tactic == "count":
            return CountJoin(self.what, self.extremes, store, self.kept)
        kind = PWJoin if self.tactic == "pw" else OAJoin
        return kind(self.what, joint=self.joint, extremes=self.extremes, store=store)

    def choice(self) -> dict[str, Any]:
        return {"tactic": self.tactic, **super().choice()}

    @property
    def title(self) -> str:
        return f"{self.name}  {self.what.how}, of {listed([side.name for side in self.what.sides])}"

    def lines(self) -> list[tuple[str, str]]:
        what = self.what
        return [
            ("on", _on(what)),
            ("window", _window(what)),
            *([] if what.condition is None else [("where", what.condition.text)]),
            ("because", self.why),
            *(("alone", text) for text in _alone(what)),
            *(("state", f"{side.name}: at most {text}") for side, text in zip(what.sides, self.bounds, strict=True)),
            *(("expects", text) for text in self.expects),
            ("ingest", f"rows are sorted by (key, time) and sent to {self._shard()}"),
        ]

    def _shard(self) -> str:
        if not self.what.sides[0].on:
            return "one shard, since there is no key"
        return (
            "one shard, since rows of all keys are counted together" if self._counts_all else "the shard of their key"
        )


def _on(what: WindowJoin) -> str:
    columns = zip(*(side.on for side in what.sides), strict=True)
    pairs = [" = ".join(f"{s.name}.{n}" for s, n in zip(what.sides, names, strict=True)) for names in columns]
    return (", ".join(pairs) or "no key: every row of the window") + (", nulls match" if what.null_safe else "")


def _window(what: WindowJoin) -> str:
    ticks = what.sides[0].ticks
    if what.grid is not None:
        start = what.grid.origin - what.grid.range % what.grid.slide
        origin = f", from {ticks.decode(np.array([start]))[0]} on" if start else ""
        all_of = "both" if len(what.sides) == 2 else "all"
        return f"{all_of} in the same window of {describe(what.grid, ticks)}{origin}"
    if len(what.sides) > 2 or what.rows is not None:
        return ", ".join(_wait(what, i) for i in range(len(what.sides)))
    a, b = what.sides
    low, high = what.waits[1], what.waits[0]
    if (low, high) == (0, 0):
        return f"{b.name}.{b.time} = {a.name}.{a.time}"
    parts = [
        *([] if low is None else [f"{_signed(-low, what)} <= "]),
        f"{b.name}.{b.time} - {a.name}.{a.time}",
        *([] if high is None else [f" <= {_signed(high, what)}"]),
    ]
    return "".join(parts) if len(parts) > 1 else "none: rows wait until their value has ended"


def _wait(what: WindowJoin, i: int) -> str:
    side, wait, count = what.sides[i], what.waits[i], None if what.rows is None else what.rows[i]
    if count is not None:
        return f"{side.name} [last {rows(count)}{' of its key' if what.per_key else ''}]"
    return f"{side.name} [{'unbounded' if wait is None else _signed(wait, what)}]"


def _signed(ticks: int, what: WindowJoin) -> str:
    text = length(abs(ticks), what.sides[0].ticks)
    return f"-{text}" if ticks < 0 else text if ticks else "0"


def _alone(what: WindowJoin) -> list[str]:
    """The line of EXPLAIN about rows without a partner, if such rows are results."""
    kept = [side.name for side, keeps in zip(what.sides, what.keeps, strict=True) if keeps]
    return [f"rows of {listed(kept)} that find no partner are results as soon as none can come"] if kept else []
