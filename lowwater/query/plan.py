"""A physical plan: frozen, printable, the same for every backend, sent to workers as it is."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import blake2b

import pyarrow as pa

from lowwater.errors import LowwaterError
from lowwater.model.policy import Policy
from lowwater.model.progress import Idle, Progress
from lowwater.operators.adaptive_aggregate import AdaptivePartials
from lowwater.operators.aggregation import Aggregation, late_schema
from lowwater.operators.bins import Bins, MarkedBins
from lowwater.operators.bucket import Bucket, WindowedAggregation
from lowwater.operators.buffered_aggregate import RowBuffer
from lowwater.operators.flush import EAGER, Flush
from lowwater.operators.fragments import Fragments
from lowwater.operators.over_aggregate import OverAggregate
from lowwater.operators.paned_aggregate import LandmarkPartials, PanePartials
from lowwater.operators.partitioned_aggregate import PartitionedAggregate
from lowwater.operators.session_aggregate import SessionAggregate
from lowwater.operators.wid_aggregate import WindowPartials
from lowwater.operators.window_aggregate import Keeping, WindowAggregate
from lowwater.windows.context_free import TupleBased

TACTICS: dict[str, type[Keeping]] = {
    "wid": WindowPartials,
    "panes": PanePartials,
    "landmark": LandmarkPartials,
    "buffer": RowBuffer,
    "adaptive": AdaptivePartials,
    "bins": Bins,
    "marked-bins": MarkedBins,
}
"""What the driver of windows that close in order keeps."""

OPERATORS: dict[str, type[Aggregation]] = {
    "partitioned": PartitionedAggregate,
    "sessions": SessionAggregate,
    "over": OverAggregate,
}
"""Operators of windows that close group by group."""


@dataclass(frozen=True)
class PunctuatedBy:
    """Rows that are punctuations: `when` is true, `upto` says how far, `closed` whether that value itself is ended.

    With `data` these rows are data, too.
    """

    when: str
    upto: str
    closed: bool = True
    data: bool = False


@dataclass(frozen=True)
class Ends:
    """How an input tells that values of `attribute` have ended (PW 3.1).

    Rows for which column `when` is true are punctuations and no tuples: the value in column `value` has ended, or the
    values of the list in it, or those from column `low` up to column `high`, itself excluded. Without `when` the
    attribute is a unique key: every tuple is its own punctuation.
    """

    attribute: str
    when: str | None = None
    value: str | None = None
    low: str | None = None
    high: str | None = None

    @property
    def columns(self) -> tuple[str, ...]:
        return tuple(name for name in (self.when, self.value, self.low, self.high) if name is not None)

    def __str__(self) -> str:
        if self.when is None:
            return f"{self.attribute} is unique"
        what = self.value if self.value is not None else f"[{self.low}, {self.high})"
        ended = f"their {self.attribute}" if what == self.attribute else f"{self.attribute} = {what}"
        return f"rows with {self.when} end {ended}"


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
    skewed: bool = False
    """Whether most groups have few rows in a window."""
    ends: Ends | None = None
    """How it tells that values have ended."""

    @property
    def marks(self) -> tuple[str, ...]:
        """The columns that progress and punctuation are learned from, beside the progressing attribute."""
        promise = (self.punctuation.when, self.punctuation.upto) if self.punctuation else ()
        ended = self.ends.columns if self.ends else ()
        return tuple(name for name in (self.source, self.keep, *promise, *ended) if name)

    def progress(self) -> Progress:
        return Progress(self.policy, self.sources or (() if self.source else (self.name,)), self.idle)


@dataclass(frozen=True)
class Reason:
    """Why the planner chose what it chose, and what state it expects."""

    why: str
    bound: str


@dataclass(frozen=True)
class Planned(ABC):
    """What backends know of a plan of any kind: its inputs, what to read of them, and what comes out."""

    inputs: tuple[Input, ...]

    @property
    def name(self) -> str:
        """The query as errors name it."""
        return " + ".join(i.name for i in self.inputs)

    @property
    @abstractmethod
    def result_schema(self) -> pa.Schema: ...

    @property
    @abstractmethod
    def late_schema(self) -> pa.Schema: ...

    @property
    @abstractmethod
    def order(self) -> list[tuple[str, str]]:
        """What a finite result is sorted by."""

    @abstractmethod
    def read_by(self, port: int) -> list[str]:
        """The columns that must be read of an input; all others can be pruned."""

    @abstractmethod
    def meaning(self) -> list[object]:
        """All that results and state depend on."""

    @contextmanager
    def speaking(self) -> Iterator[None]:
        """Refusals raised while the query runs name it."""
        try:
            yield
        except LowwaterError as error:
            error.args = (f"Query over {self.name!r}: {error}",)
            raise

    def fingerprint(self, shards: int) -> dict[str, object]:
        """What must not change between two runs on one checkpoint; `query` covers all but the number of shards."""
        text = json.dumps(self.meaning(), default=str)
        return {"query": blake2b(text.encode(), digest_size=8).hexdigest(), "shards": shards, "meaning": text}


def told(i: Input) -> object:
    """What of an input its progress in the state depends on."""
    policy = (i.name, i.source, type(i.policy).__name__, list(i.policy.empty(0).shape[1:]), i.idle is not None)
    return policy, repr(i.punctuation)


@dataclass(frozen=True)
class Plan(Planned):
    """Inputs melded into one window aggregation, kept by one tactic."""

    what: WindowedAggregation
    tactic: str
    reason: Reason
    flush: Flush = EAGER
    """When the answers of closed windows leave."""
    table: int | None = None
    """Entries of the low-level table at the source; without it a run is reduced as a whole."""

    @property
    def result_schema(self) -> pa.Schema:
        return self.what.result_schema()

    @property
    def late_schema(self) -> pa.Schema:
        return late_schema(self.what.schema)

    @property
    def order(self) -> list[tuple[str, str]]:
        return self.what.order

    def open(self) -> Aggregation:
        operator = OPERATORS.get(self.tactic)
        return WindowAggregate(self.what, TACTICS[self.tactic]) if operator is None else operator(self.what)

    def reducer(self) -> Bucket:
        """What reduces rows where they are read."""
        return Fragments(self.what) if self.tactic == "sessions" else Bucket(self.what)

    @property
    def numbered(self) -> bool:
        """Whether windows are over row numbers, so that rows are counted over all shards."""
        return isinstance(self.what.window, TupleBased)

    @property
    def sends_rows(self) -> bool:
        """Whether rows travel unreduced to the shards."""
        if self.tactic in OPERATORS:
            return self.tactic != "sessions"
        return TACTICS[self.tactic].takes_rows or not self.what.anchored or self.numbered

    def read_by(self, port: int) -> list[str]:
        wanted = self.what.schema.names if self.tactic == "over" else self.what.columns  # OVER gives its rows back
        return list(dict.fromkeys([*wanted, *self.inputs[port].marks]))

    def meaning(self) -> list[object]:
        return [
            str(self.what.window),
            str(self.what.schema.field(self.what.time)),
            self.what.anchored,
            [str(self.what.schema.field(name)) for name in self.what.group_by],
            [(name, repr(aggregate)) for name, aggregate in self.what.aggregates],
            [self.what.late, self.what.early, self.what.lateness],
            self.tactic,
            [[str(field) for field in algebra.fields] for algebra in self.what.algebras()],
            [told(i) for i in self.inputs],
            str(self.what.schema) if self.tactic in ("over", "sessions") else None,  # whole rows are in their state
        ]
