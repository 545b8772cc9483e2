"""The spec of an operator: what the planner places, EXPLAIN prints, the checkpoint pins and workers open.

A spec is frozen, picklable and has no state. The running operator (base.py) has the state and knows no plan. A new
operator is one file with both, a node of the logical tree and a verb; CONTRIBUTING.md shows an example.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import pyarrow as pa

from lowwater.operators.base import Operator
from lowwater.operators.layout import Layout
from lowwater.state.store import Store


@dataclass(frozen=True)
class Need:
    """Where the rows of one port must be before the operator can run."""

    key: tuple[str, ...] | None
    """Rows that agree on these columns must meet in one shard. () means all rows in one shard, None any shard."""
    facts: str | None = None
    """Set if every shard must know facts about all rows of a batch before any of them, such as their span: the reason,
    as EXPLAIN prints it. Only a shuffle carries facts, so behind another operator this one starts a new stage."""


class OperatorSpec(ABC):
    """The description of an operator. Subclasses are frozen dataclasses; see the module text."""

    ports: int = 1
    loses: ClassVar[bool] = False
    """Whether the operator gives up rows that could have joined: then its metrics count what was lost."""

    @property
    def adapts(self) -> bool:
        """Whether the operator may keep sparse groups as rows: then its metrics count where it does."""
        return False

    @property
    @abstractmethod
    def name(self) -> str:
        """The operator as EXPLAIN and the metrics name it."""

    @property
    @abstractmethod
    def result(self) -> pa.Schema:
        """The columns of the results."""

    @property
    def counted(self) -> tuple[str, ...]:
        """The names of the inputs of which the metrics count the rows beyond an expected multiplicity."""
        return ()

    @abstractmethod
    def need(self, port: int) -> Need:
        """Which rows of a port must meet in one shard, and whether facts about all rows are needed."""

    @abstractmethod
    def layout(self, port: int, route: tuple[str, ...] | None) -> Layout:
        """How rows of a port travel to the shards if the columns `route` decide the shard.

        `route` can be any part of the key, because rows that agree on the key agree on its parts. None is any shard,
        for operators that need no key. Of an input, all columns of the port's schema travel if late rows are reported.
        """

    @abstractmethod
    def open(self, store: Store, shards: int) -> Operator:
        """The operator of one shard of `shards`, on new or committed state."""

    @abstractmethod
    def lines(self) -> list[tuple[str, str]]:
        """What EXPLAIN prints below the title: pairs of a word and a text, such as ("state", "at most 2 rows")."""

    @property
    def title(self) -> str:
        """The first line that EXPLAIN prints."""
        return self.name

    def closes_by(self, port: int) -> str | None:
        """The source column by whose own progress groups close (group_lows.py); None if the slowest source counts."""
        return None

    def timed_by(self, port: int) -> str | None:
        """The column in whose ticks `begin` gets the span of a port's rows; None if it is not needed."""
        return None

    def behind_shuffle(self) -> OperatorSpec:
        """The spec to use where rows of another operator come across a shuffle. By default the same."""
        return self

    def partitioned(self, routes: Sequence[tuple[str, ...] | None]) -> tuple[str, ...] | None:
        """The columns by which results lie in their shards, if the rows of each port were routed by `routes`.

        () means that all results are in one shard, None that they can be in any. A follower that needs rows to meet by
        these columns, or by more, runs in the same stage.
        """
        return None

    def choice(self) -> dict[str, Any]:
        """What the planner chose where it could have chosen otherwise, as plain values. The checkpoint pins it."""
        return {}

    def as_pinned(self, choice: Mapping[str, Any]) -> OperatorSpec:
        """The same operator with the choices that a checkpoint was made with."""
        return self

    @property
    def order(self) -> list[tuple[str, str]]:
        """The sort order of a finite result: pairs of a column and "ascending"."""
        return []


def carried(routes: Sequence[tuple[str, ...] | None], columns: Sequence[str]) -> tuple[str, ...] | None:
    """The partitioning of a row-wise operator's results: that of its input, if its columns are kept."""
    first = routes[0]
    same = first is not None and all(route == first for route in routes)
    return first if same and set(first or ()) <= set(columns) else None
