"""`distinct` and `drop_duplicates`: the node, and what of it is refused."""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from lowwater.errors import BadWindow, LowwaterError
from lowwater.model.properties import Properties
from lowwater.model.ticks import NEVER
from lowwater.operators.distinct import DistinctSpec
from lowwater.query.logical.node import Stateful, Unary
from lowwater.query.refuse import refuse_key, refuse_nullable_time, refuse_own_names, refuse_revisions


@dataclass(frozen=True, eq=False)
class Distinct(Unary, Stateful):
    """DupElim. With `within`, a row is dropped if a survivor of its key is at most that much older."""

    on: tuple[str, ...]
    time: str
    within: int | None = None
    """None: each combination of the columns `on` once. The time is one of them, and results have no other columns."""

    @cached_property
    def properties(self) -> Properties:
        before = self.of.properties
        own = before.progressing(self.time)
        assert own is not None
        known = replace(before, ends=(), derived=True, identified=self.on)
        if self.within is None:
            return replace(known.keeping(self.on), progress=(own,), hidden=())
        own = replace(own, behind=0)  # rows leave when they are final
        return replace(known, progress=(own,), apart=before.closes_by(self.time, self.on) is not None)

    def line(self) -> str:
        if self.within is None:
            return f"Distinct  {', '.join(self.on)}"
        return f"Drop-duplicates  on {', '.join(self.on)}"

    def reads(self, needed: Set[str]) -> Sequence[Set[str]]:
        """All columns decide which of the rows with one key and time survives, whatever is read of it later."""
        return [set(self.on if self.within is None else self.of.schema.names)]

    def meaning(self) -> dict[str, Any]:
        own = {"on": list(self.on), "time": self.time, "within": self.within, "columns": str(self.schema)}
        return {"operator": "distinct", **own}

    def spec(self) -> DistinctSpec:
        before = self.of.properties
        verb = "distinct()" if self.within is None else "drop_duplicates()"
        refuse_revisions(before, verb)
        refuse_own_names(before.schema)
        if not self.on:
            raise LowwaterError("drop_duplicates() needs columns that make rows the same, as in on='id'.")
        refuse_key(self.on, before, verb)
        refuse_nullable_time(self.time, before, verb)
        if self.within is not None and self.within >= -NEVER:
            raise BadWindow("drop_duplicates(within=) is longer than 2^62 ticks; use a shorter length.")
        return DistinctSpec(before.schema, self.on, self.time, self.within, before.closes_by(self.time, self.on))
