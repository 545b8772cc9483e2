"""Joins without a window on a key that progresses: the node, and what of it is refused."""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import pyarrow as pa

from lowwater.errors import BadWindow, LowwaterError
from lowwater.joins.oblivious import ObliviousSpec
from lowwater.joins.oblivious_cost import Expected, joined
from lowwater.joins.spec import JoinSide, WindowJoin
from lowwater.joins.strategy import STRATEGIES
from lowwater.model.properties import Progressing, Properties
from lowwater.query.joining import refuse_names
from lowwater.query.logical.node import Node, Stateful
from lowwater.query.logical.rowwise import Derive, Filter, Project
from lowwater.query.promises import missing
from lowwater.query.refuse import refuse_key, refuse_revisions

VERB = "oblivious_join()"


@dataclass(frozen=True)
class Limits:
    """The memory of a join in bytes, over all shards, and how to keep to it; None where nothing is asked for."""

    memory: int | None = None
    strategy: str | None = None
    ahead: int | None = None


@dataclass(frozen=True, eq=False)
class ObliviousJoin(Stateful):
    """Rows of all inputs that are equal on the key. `place` is the column of the key that progresses."""

    inputs: tuple[Node, ...]
    schemas: tuple[pa.Schema, ...]
    names: tuple[str, ...]
    keys: tuple[tuple[str, ...], ...]
    place: int
    expect: tuple[Expected | None, ...]
    how: str = "inner"
    limits: Limits = Limits()
    emits: tuple[str, ...] | None = None

    @property
    def plain(self) -> WindowJoin:
        """The join; it has no further condition."""
        return self.what

    @cached_property
    def what(self) -> WindowJoin:
        sides = tuple(
            JoinSide(name, schema, key[self.place], key)
            for name, schema, key in zip(self.names, self.schemas, self.keys, strict=True)
        )
        return WindowJoin(sides, (None,) * len(sides), self.how, emits=self.emits)

    @cached_property
    def expected(self) -> tuple[Expected | None, ...]:
        """What is known of each input: as the user expects it, or of an inner join by Theorem 3.1."""
        places = (side.time for side in self.what.sides)
        return tuple(
            given if given is not None else _of_results(node, place)
            for given, node, place in zip(self.expect, self.inputs, places, strict=True)
        )

    @cached_property
    def properties(self) -> Properties:
        """Results progress on the key at the slowest input, if all inputs have promises."""
        what = self.what
        own = [one.properties.progressing(side.time) for one, side in zip(self.inputs, what.sides, strict=True)]
        names, lacked = tuple(dict.fromkeys(what.times)), missing(what)
        whole = [name for name in names if name in what.result_schema().names and name not in lacked]
        known = [one.behind for one in own if one is not None]
        behind = None if None in known else max((b for b in known if b is not None), default=None)
        silent = next((n.properties.silent for n, one in zip(self.inputs, own, strict=True) if one is None), None)
        return Properties(
            what.result_schema(),
            tuple(Progressing(name, behind, name in lacked) for name in names) if None not in own else (),
            apart=True,
            silent=silent,
            derived=True,
            measured=next(iter(whole), None),
        )

    def over(self, *inputs: Node) -> ObliviousJoin:
        return replace(self, inputs=tuple(inputs))

    def line(self) -> str:
        return f"MJoin  {self.how}, without a window, of {', '.join(self.names)}"

    def narrowed(self, needed: Set[str]) -> ObliviousJoin:
        return replace(self, emits=tuple(c.name for c in self.what.columns if c.name in needed))

    def reads(self, needed: Set[str]) -> Sequence[Set[str]]:
        return self.what.reads()

    def meaning(self) -> dict[str, Any]:
        what = self.what
        return {
            "operator": "oblivious join",
            "names": [side.name for side in what.sides],
            "on": [list(side.on) for side in what.sides],
            "time": [side.time for side in what.sides],
            "columns": [str(side.schema) for side in what.sides],
            **({} if what.how == "inner" else {"how": what.how}),
        }

    def spec(self) -> ObliviousSpec:
        what = self.what
        for side, node in zip(what.sides, self.inputs, strict=True):
            refuse_revisions(node.properties, VERB)
            refuse_key(side.on, node.properties, VERB)
            if node.properties.ends:
                raise LowwaterError(f"{VERB} has no use of ended values; use join(), or leave unique() and ends() out.")
        for columns in zip(*(side.on for side in what.sides), strict=True):
            types = {str(side.schema.field(name).type) for side, name in zip(what.sides, columns, strict=True)}
            if len(types) > 1:
                raise LowwaterError(
                    f"{VERB} compares {' with '.join(sorted(types))}; cast {', '.join(columns)} to one type."
                )
        if len(set(self.names)) < len(self.names):
            raise LowwaterError(
                f"{VERB} needs relations of different names, but has {list(self.names)}; name them by stream(name=) or "
                "named()."
            )
        refuse_names(what)
        kept = tuple(
            tuple(f.name for f in schema if f.name in one.schema.names)
            for schema, one in zip(self.schemas, self.inputs, strict=True)
        )
        derived = tuple(one.properties.derived for one in self.inputs)
        limits = self.limits
        if limits.strategy is not None and STRATEGIES[limits.strategy].sorts and any(derived):
            raise LowwaterError(
                f"{VERB} with strategy={limits.strategy!r} sorts streams, and "
                f"{self.names[derived.index(True)]!r} are results of another operator; ask for it in the join below."
            )
        strategy = None if limits.strategy is None else STRATEGIES[limits.strategy]
        return ObliviousSpec(what, self.expected, derived, kept, limits.memory, strategy, limits.ahead)


def _of_results(node: Node, place: str) -> Expected | None:
    """The characteristics of an inner join's results by Theorem 3.1, if those of all its inputs are known.

    A join that sorts first has results in order, so that only equal values scramble them; but with a memory limit, rows
    can have to join before they are sorted. Row-wise steps behind it change nothing: rows that a filter drops make the
    distances between others smaller. Only the column `place`, on which the results are joined, must be as it was.
    """
    while isinstance(node, Filter | Project) or (isinstance(node, Derive) and node.name != place):
        node = node.of
    if isinstance(node, ObliviousJoin) and place not in node.what.times:
        return None
    if not isinstance(node, ObliviousJoin) or node.how != "inner":
        return None
    known = [found for one in node.expected if one is not None and (found := one.known) is not None]
    if len(known) < len(node.inputs):
        return None
    found = joined(known)
    limits = node.limits
    sorts = limits.memory is None and limits.strategy is not None and STRATEGIES[limits.strategy].sorts
    return Expected(found.multiplicity if sorts else found.scrambling, found.rate, found.multiplicity)


def progressing_place(names: Sequence[str], nodes: Sequence[Node], keys: Sequence[tuple[str, ...]]) -> int:
    """The column of the key that progresses on all inputs; or a refusal."""

    def grows(node: Node, column: str) -> bool:
        own = node.properties.progressing(column)
        return node.properties.measured == column or (own is not None and not own.nullable)

    for place in range(len(keys[0])):
        if all(grows(node, key[place]) for node, key in zip(nodes, keys, strict=True)):
            return place
    name, key, node = next(
        (name, key, node)
        for name, key, node in zip(names, keys, nodes, strict=True)
        if not any(grows(node, column) for column in key) or node is nodes[-1]
    )
    grown = next((c for c in (node.properties.measured, node.properties.attribute) if c and grows(node, c)), None)
    raise BadWindow(
        f"Rows of {name!r} would be kept without end: {', '.join(key) or 'no column'} does not progress, "
        f"{'and neither does another column' if grown is None else f'but {grown!r} does'}; put a column that "
        "progresses on all inputs into on=, or use join(within=)."
    )
