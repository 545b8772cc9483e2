"""A physical plan: frozen, printable, the same for every backend, sent to workers as it is."""

from __future__ import annotations

import json
from dataclasses import dataclass
from hashlib import blake2b

from lowwater.model.policy import Policy
from lowwater.model.progress import Idle, Progress
from lowwater.operators.bucket import WindowedAggregation
from lowwater.operators.buffered_aggregate import RowBuffer
from lowwater.operators.paned_aggregate import LandmarkPartials, PanePartials
from lowwater.operators.wid_aggregate import WindowPartials
from lowwater.operators.window_aggregate import Keeping, WindowAggregate

TACTICS: dict[str, type[Keeping]] = {
    "wid": WindowPartials,
    "panes": PanePartials,
    "landmark": LandmarkPartials,
    "buffer": RowBuffer,
}


@dataclass(frozen=True)
class PunctuatedBy:
    """Rows that are punctuations: `when` is true, `upto` says how far, `closed` whether that value itself is ended."""

    when: str
    upto: str
    closed: bool = True


@dataclass(frozen=True)
class Input:
    """One input: how its progress is known. `keep` names a boolean column of rows that a select lets through."""

    name: str
    policy: Policy
    source: str | None = None
    sources: tuple[str, ...] = ()
    idle: Idle | None = None
    punctuation: PunctuatedBy | None = None
    keep: str | None = None

    def progress(self) -> Progress:
        return Progress(self.policy, self.sources or (() if self.source else (self.name,)), self.idle)


@dataclass(frozen=True)
class Reason:
    """Why the planner chose what it chose, and what state it expects."""

    why: str
    bound: str


@dataclass(frozen=True)
class Plan:
    """Inputs melded into one window aggregation, kept by one tactic."""

    inputs: tuple[Input, ...]
    what: WindowedAggregation
    tactic: str
    reason: Reason

    def open(self) -> WindowAggregate:
        return WindowAggregate(self.what, TACTICS[self.tactic])

    @property
    def sends_rows(self) -> bool:
        """Whether rows travel unreduced to the shards."""
        return TACTICS[self.tactic].takes_rows or not self.what.anchored

    def read_by(self, port: int) -> list[str]:
        """The columns that must be read of an input; all others can be pruned."""
        i = self.inputs[port]
        extra = [i.source, i.keep, *((i.punctuation.when, i.punctuation.upto) if i.punctuation else ())]
        return list(dict.fromkeys([*self.what.columns, *(name for name in extra if name)]))

    def fingerprint(self, shards: int) -> dict[str, object]:
        """What must not change between two runs on one checkpoint; `query` covers all but the number of shards."""
        meaning = [
            str(self.what.window),
            str(self.what.schema.field(self.what.time)),
            self.what.anchored,
            [str(self.what.schema.field(name)) for name in self.what.group_by],
            [(name, repr(aggregate)) for name, aggregate in self.what.aggregates],
            self.tactic,
            [[str(field) for field in algebra.fields] for algebra in self.what.algebras()],
            [
                (i.name, i.source, type(i.policy).__name__, list(i.policy.empty(0).shape[1:]), i.idle is not None)
                for i in self.inputs
            ],
        ]
        text = json.dumps(meaning, default=str)
        return {"query": blake2b(text.encode(), digest_size=8).hexdigest(), "shards": shards, "meaning": text}
