"""Which queries of a file run together: those that share a stream, also through others. They share its scan.

A query stays alone if it shares no stream, or for a reason that EXPLAIN prints: the caller has one, or the queries
would read two streams of one name, and metrics, late rows and checkpoints need one stream per name.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
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
    """Why it does not run together with others that share a stream with it."""

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
        if len(self.queries) == 1:
            return None if self.why is None else f"{self.name} runs on its own, because {self.why}."
        read = [name for query in self.queries for name in {one.name for one in _inputs(query)}]
        shared = sorted({name for name in read if read.count(name) > 1}, key=read.index)
        told = f"{listed(self.names)} run together: {listed(shared)} {'is' if len(shared) == 1 else 'are'} read once."
        return told if self.why is None else f"{told} Other queries run apart from them, because {self.why}."


def grouped(
    queries: Sequence[BoundQuery],
    kept: Sequence[Sequence[str]] = (),
    alone: Mapping[str, str] | None = None,
) -> list[Group]:
    """The queries in groups. `kept` are groups that stay as they are, `alone` are queries that do, with the reasons."""
    known = {query.name: query for query in queries}
    order = {query.name: number for number, query in enumerate(queries)}
    fixed = [_group([known[name] for name in names]) for names in kept]
    fixed += [_group([known[name]], why) for name, why in (alone or {}).items()]
    settled = {name for group in fixed for name in group.names}
    found: list[Group] = []
    for query in queries:
        if query.name in settled:
            continue
        joined = own = _group([query])
        for group in [group for group in found if group.inputs.keys() & own.inputs.keys()]:
            clash = _clash(group, joined)
            if clash is not None:
                joined = replace(joined, why=joined.why or clash)
                continue
            found.remove(group)
            both = sorted([*group.queries, *joined.queries], key=lambda one: order[one.name])
            joined = _group(both, group.why or joined.why)
        found.append(joined)
    groups = sorted([*fixed, *found], key=lambda group: order[group.names[0]])
    return [group if _shares(group, groups) else replace(group, why=None) for group in groups]


def _shares(group: Group, groups: Sequence[Group]) -> bool:
    """Whether there is another query that it could run with; a reason not to do so is told only then."""
    return any(one is not group and one.inputs.keys() & group.inputs.keys() for one in groups)


def _group(queries: Sequence[BoundQuery], why: str | None = None) -> Group:
    return Group(tuple(queries), {id(one): one for query in queries for one in _inputs(query)}, why)


def _inputs(query: BoundQuery) -> list[Input]:
    """The streams that a query reads."""
    return [node.input for node in query.relation.node.walk() if isinstance(node, Scan)]


def _clash(group: Group, other: Group) -> str | None:
    """Why two groups cannot be one, if they cannot."""
    names = {one.name for key, one in other.inputs.items() if key not in group.inputs}
    twice = next((one.name for key, one in group.inputs.items() if one.name in names), None)
    if twice is None:
        return None
    reads = "reads" if len(group.names) == 1 else "read"
    return f"{listed(group.names)} {reads} another stream named {twice!r}; name the two apart to let them share"
