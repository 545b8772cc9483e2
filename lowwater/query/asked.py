"""A query that is planned: what all kinds share, so that a join is run as an aggregation is."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from lowwater.query.explain import Branch
from lowwater.query.frame import Backend, Frame
from lowwater.query.plan import Planned


@dataclass(frozen=True)
class Asked(ABC):
    """A plan and the frames it is over; run by the backend that these belong to."""

    plan: Planned
    _frames: tuple[Frame, ...]
    _branches: tuple[Branch, ...]

    @property
    def schema(self) -> pa.Schema:
        return self.plan.result_schema

    @abstractmethod
    def explain(self) -> str:
        """The plan as text: what is done, why so, and how much state it will hold."""

    def collect(self, **options: Any) -> pa.Table:
        """All results of a finite input: of windows sorted by window and group, of a join by time and key."""
        return self._backend.collect(self.plan, self._frames, **options)

    def to_spark(self, **options: Any) -> Any:
        """The results as a (streaming) Spark DataFrame."""
        return self._backend.to_spark(self.plan, self._frames, **options)

    def start(self, **options: Any) -> Any:
        """Starts a streaming query with separate outputs for results, late rows and progress."""
        return self._backend.start(self.plan, self._frames, **options)

    @property
    def _backend(self) -> Backend:
        return self._frames[0].backend
