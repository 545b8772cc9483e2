"""An operator: a state machine over batches and punctuations that knows neither clock nor backend.

Four verbs: take a batch on a port, take a punctuation on a port, give out its state, take its state back. Two facts:
what it holds, and what it demands of its input. The end of a stream is no fifth verb but the punctuation that matches
all.

Every operator obeys four laws, and tests find every operator to check them: (i) nothing is emitted that an earlier
emitted punctuation excludes; (ii) the result does not depend on how the input between two punctuations is cut into
batches; (iii) snapshot and restore change nothing; (iv) after the all-matching punctuation nothing is held.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lowwater.model.punctuation import Punctuation
from lowwater.state.segments import Segment


@dataclass(frozen=True)
class Batch:
    """Rows, in arrival order."""

    rows: pa.Table

    def __len__(self) -> int:
        return int(self.rows.num_rows)


@dataclass(frozen=True)
class Late:
    """Rows that violate an earlier punctuation, with the reason and what they missed, for the late output."""

    rows: pa.Table


@dataclass(frozen=True)
class Ended:
    """Single-value punctuations, one a row: no tuple with these values in these columns comes any more."""

    values: pa.Table

    def __len__(self) -> int:
        return int(self.values.num_rows)


Message = Batch | Late | Punctuation | Ended


@dataclass(frozen=True)
class Held:
    """What an operator keeps: rows, and bytes as encoded in segments."""

    rows: int
    bytes: int


@dataclass(frozen=True)
class Snapshot:
    """State: a small head that is always written, and immutable segments that are written once."""

    head: dict[str, Any] = field(default_factory=dict)
    segments: dict[str, Segment[Any]] = field(default_factory=dict)


@dataclass(frozen=True)
class StreamProperties:
    """How the sources of a stream stand: told after a batch's rows and before its punctuation (TH 6.3.1)."""

    low_watermark: int
    high_watermarks: npt.NDArray[np.int64]
    """The largest value seen of each source."""
    rows: npt.NDArray[np.int64]
    """The rows seen of each source; where there are none, its high-watermark says nothing."""


Load = Callable[[str], Segment[Any]]
"""Gives the segment of an id, from a cache or from the state store."""


class Operator(ABC):
    """See the module text. `ports` is the number of inputs."""

    ports: int = 1

    @abstractmethod
    def on_batch(self, port: int, batch: Batch) -> list[Message]: ...

    @abstractmethod
    def on_punctuation(self, port: int, punctuation: Punctuation) -> list[Message]: ...

    def on_ended(self, port: int, ended: Ended) -> list[Message]:
        """Many punctuations of single values at once. They promise and never ask: whoever has no use ignores them."""
        return []

    def settle(self) -> list[Message]:
        """A micro-batch is over: all its rows and punctuations have come. Only what is not exact anyway is emitted."""
        return []

    def snapshot(self) -> Snapshot:
        """The state; what is handed out does not change afterwards. Stateless operators have none."""
        return Snapshot()

    def restore(self, head: dict[str, Any], load: Load) -> None:
        """Takes state back into an operator just opened."""
        return None

    def decode(self, tables: dict[str, pa.Table]) -> object:
        """The value of a segment from its tables."""
        return tables

    def held(self) -> Held:
        return Held(0, 0)

    @property
    def demands(self) -> tuple[str, ...]:
        """Attributes on which the input must be punctuated for this operator to unblock and purge."""
        return ()
