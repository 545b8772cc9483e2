"""What the specs of all joins share: results, their order, where they lie, and the columns that a checkpoint pins."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Self

import pyarrow as pa

from lowwater.errors import CheckpointMismatch
from lowwater.joins.spec import WindowJoin
from lowwater.model.words import listed
from lowwater.operators.spec import OperatorSpec


class MatchingSpec(OperatorSpec):
    """The spec of a join, whatever computes it. Subclasses are dataclasses and have these fields."""

    what: WindowJoin
    kept: tuple[tuple[str, ...], ...]
    """The columns of each side that are shuffled and kept."""

    @property
    def ports(self) -> int:  # type: ignore[override]
        return len(self.what.sides)

    @property
    def result(self) -> pa.Schema:
        return self.what.result_schema()

    def partitioned(self, routes: Sequence[tuple[str, ...] | None]) -> tuple[str, ...] | None:
        """The routing columns under the names of the results; None if rows without a partner lack these columns."""
        first, on = routes[0], self.what.sides[0].on
        if not first:
            return first
        places = [on.index(name) for name in first]
        named_twice = any(len({side.on[place] for side in self.what.sides}) > 1 for place in places)
        if self.what.how in ("right", "full") and named_twice:
            return None
        names = tuple(self.what.keys[place] for place in places)
        return names if set(names) <= set(self.result.names) else None

    def choice(self) -> dict[str, Any]:
        return {"kept": [list(columns) for columns in self.kept]}

    def as_pinned(self, choice: Mapping[str, Any]) -> Self:
        return replace(self, kept=pinned_columns(self.what, self.kept, choice))  # type: ignore[type-var]

    @property
    def order(self) -> list[tuple[str, str]]:
        return sorted_by(self.what)


def pinned_columns(
    what: WindowJoin, kept: Sequence[Sequence[str]], choice: Mapping[str, Any]
) -> tuple[tuple[str, ...], ...]:
    """The columns of each side that a checkpoint keeps. Refuses a query that reads other columns."""
    pinned = tuple(tuple(columns) for columns in choice["kept"])
    for side, old, new, read in zip(what.sides, pinned, kept, what.reads(), strict=True):
        if not read <= set(old) <= set(new):
            raise CheckpointMismatch(
                f"This checkpoint keeps the columns {listed(old)} of {side.name!r}, but the query now reads "
                f"{listed(new)}; use a new checkpoint directory, or read the columns that it was made with."
            )
    return pinned


def sorted_by(what: WindowJoin) -> list[tuple[str, str]]:
    """The order of finite results: by times, then by key."""
    known = what.result_schema().names
    return [(name, "ascending") for name in dict.fromkeys([*what.times, *what.keys]) if name in known]
