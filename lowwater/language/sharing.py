"""Which queries of a file run together: those that share a stream, also through others. They share its scan.

A query stays alone if it shares no stream, or for a reason that is told: the caller has one, or the queries would read
two streams of one name, which metrics, late rows and checkpoints could not tell apart.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from lowwater.language.binding import BoundQuery
from lowwater.model.words import listed
from lowwater.plan.inputs import Input
from lowwater.query.logical import Scan
from lowwater.relation import Relation
from lowwater.several import Together, several


@dataclass(frozen=True)
class Group:
    """Queries that run as one; mostly a single one."""

    queries: tuple[BoundQuery, ...]
    inputs: Mapping[int, Input] = field(repr=False)
    why: str | None = None
    """Why a single query does not run together with others, although it shares a stream with them."""

    @property
    def names(self) -> list[str]:
        return [query.name for query in self.queries]

    @property
    def name(self) -> str:
        return " + ".join(self.names)

    @cached_property
    def asked(self) -> Relation | Together:
        if len(self.queries) == 1:
            return self.queries[0].relation
        return several({query.name: query.relation for query in self.queries})

    @property
    def sentence(self) -> str | None:
        """How its queries run, if there is something to tell."""
        if self.why is not None:
            return f"{self.name} runs on its own, because {self.why}."
        if len(self.queries) == 1:
            return None
        read: dict[str, int] = {}
        for query in self.queries:
            for declared in _inputs(query).values():
                read[declared.name] = read.get(declared.name, 0) + 1
        shared = [name for name, queries in read.items() if queries > 1]
        return f"{listed(self.names)} run together: {listed(shared)} {'is' if len(shared) == 1 else 'are'} read once."


def grouped(
    queries: Sequence[BoundQuery],
    kept: Sequence[Sequence[str]] = (),
    alone: Mapping[str, str] | None = None,
) -> list[Group]:
    """The queries in groups. `kept` are groups that stay as they are, `alone` are queries that do, with the reasons."""
    known = {query.name: query for query in queries}
    fixed = [_group([known[name] for name in names]) for names in kept]
    settled = {name for names in kept for name in names}
    found: list[Group] = []
    for query in queries:
        if query.name in settled:
            continue
        why = (alone or {}).get(query.name)
        if why is not None:
            fixed.append(_group([query], why))
            continue
        own = _group([query])
        others = [group for group in found if group.why is None and group.inputs.keys() & own.inputs.keys()]
        clash = _clash([*others, own])
        if clash is not None:
            found.append(_group([query], clash))
            continue
        found = [group for group in found if group not in others]
        found.append(_group([*(one for group in others for one in group.queries), query]))
    order = {query.name: number for number, query in enumerate(queries)}
    groups = sorted([*fixed, *found], key=lambda group: order[group.names[0]])
    return [group if _shares(group, groups) else _group(group.queries) for group in groups]


def _shares(group: Group, groups: Sequence[Group]) -> bool:
    """Whether there is another query that it could run with; a reason not to do so is told only then."""
    return any(one is not group and one.inputs.keys() & group.inputs.keys() for one in groups)


def _group(queries: Sequence[BoundQuery], why: str | None = None) -> Group:
    return Group(tuple(queries), {id(one): one for query in queries for one in _inputs(query).values()}, why)


def _inputs(query: BoundQuery) -> dict[str, Input]:
    """The streams that a query reads, by their names."""
    return {node.input.name: node.input for node in query.relation.node.walk() if isinstance(node, Scan)}


def _clash(groups: Sequence[Group]) -> str | None:
    """Why these groups cannot be one, if they cannot."""
    read = {key: one for group in groups for key, one in group.inputs.items()}
    names = [one.name for one in read.values()]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is None:
        return None
    others = listed([name for group in groups[:-1] for name in group.names])
    return f"{others} and it would read two streams named {twice!r}; name these apart to let them share"
