"""Stages: where an operator runs, given where its inputs are.

A stage is a level. A shard runs all operators of a stage, so a new stage is needed only where rows must move:

    rows that must meet are in different shards    the input is partitioned by other columns than the operator needs
    shards must know something of all rows first   such as the span of a landmark window: only a shuffle carries that
    Spark evaluates an expression in between       rows leave the shard for it

An operator with several inputs needs all of them routed alike: by the same places of its key. An input that is already
partitioned by a part of the key decides for the others, which have not been routed yet.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from lowwater.operators.spec import OperatorSpec
from lowwater.plan.plan import Entry, OutsideStep

Key = tuple[str, ...] | None


@dataclass(frozen=True)
class Arrival:
    """Where the rows of a node are: at an input, in the shards of an operator, or (of a union) in several places."""

    entry: Entry | None = None
    operator: int | None = None
    stage: int = -1
    key: Key = None
    """The columns by which rows lie in their shards. () is all in one shard, None is not known."""
    outside: tuple[OutsideStep, ...] = ()
    members: tuple[Arrival, ...] = ()

    @property
    def flat(self) -> tuple[Arrival, ...]:
        return tuple(one for member in self.members for one in member.flat) if self.members else (self,)

    def crosses(self, stage: int) -> bool:
        """Whether rows of another operator come across a shuffle."""
        return all(one.entry is None for one in self.flat) and any(
            one.stage < stage or one.outside for one in self.flat
        )


@dataclass(frozen=True)
class Placement:
    """The stage of an operator, and the columns by which each of its ports is routed."""

    stage: int
    routes: tuple[Key, ...]
    why: str = ""


def placement(spec: OperatorSpec, arrivals: list[Arrival]) -> Placement:
    """The earliest stage in which the operator can run."""
    needs = [spec.need(port) for port in range(len(arrivals))]
    flat = [(port, one) for port, arrival in enumerate(arrivals) for one in arrival.flat]
    stage = max([0, *(one.stage for _, one in flat)])
    here = [(port, one) for port, one in flat if one.entry is None and one.stage == stage]
    routed = tuple(need.key for need in needs)
    joining = "another input of it is there" if any(one.entry is None and one.stage < stage for _, one in flat) else ""
    if not here:
        return Placement(stage, routed)
    outside = next((one for _, one in flat if one.outside), None)
    if outside is not None:
        later = 1 + max(one.stage for _, one in flat if one.outside)
        if later > stage:
            return Placement(later, routed, f"Spark evaluates {outside.outside[0]}")
    facts = next((needs[port].facts for port, _ in here if needs[port].facts), None)
    if facts is not None:
        return Placement(stage + 1, routed, facts)
    if all(need.key is None for need in needs):
        keys = {one.key for _, one in here}
        same = keys.pop() if len(keys) == 1 and len(here) == len(flat) else None
        return Placement(stage, (same,) * len(needs), joining)
    places = {_places(one.key, needs[port].key) for port, one in here}
    if len(places) > 1 or None in places:
        return Placement(stage + 1, routed, _moved(spec))
    (chosen,) = places
    assert chosen is not None
    routes = tuple(None if need.key is None else tuple(need.key[place] for place in chosen) for need in needs)
    return Placement(stage, routes, joining)


def pinned_placement(choice: Mapping[str, Any]) -> Placement:
    """Where an operator ran when the checkpoint was made."""
    routes = tuple(None if route is None else tuple(route) for route in choice["routes"])
    return Placement(choice["stage"], routes, "the checkpoint was made with it")


def _places(key: Key, needed: Key) -> tuple[int, ...] | None:
    """The places of the needed key by which rows are partitioned already; None if rows must move."""
    if key is None or needed is None:
        return None
    if not key:
        return ()  # all rows are in one shard, so they meet whatever the key
    return tuple(needed.index(name) for name in key) if set(key) <= set(needed) else None


def _moved(spec: OperatorSpec) -> str:
    key = spec.need(0).key
    return f"rows must meet by {', '.join(key)}" if key else "all rows must meet"
