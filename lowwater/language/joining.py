"""Joins of a query: conditions become keys and a band of time, and windows of the inputs become their waits.

l.k = r.k                                 a key                  r.ts BETWEEN l.ts AND l.ts + INTERVAL 1 HOUR   a band
L [RANGE 3 minutes], R [RANGE 2 minutes]  a band                 L, R [RANGE TUMBLING 5 minutes]                a grid
L [RANGE 100 rows], R [RANGE 50 rows]     counts of rows         WINDOW 1 min                                   a band
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import dataclass, field, replace
from typing import Any

from sqlglot import exp

from lowwater.language import trees
from lowwater.language.bands import Band, band_of
from lowwater.language.inputs import Input, join_windows, waits_of
from lowwater.language.names import Field, Scope, about, identifier, refused, text_of
from lowwater.query.logical import Join
from lowwater.query.logical.oblivious_join import ObliviousJoin
from lowwater.relation import Relation, joined_relation


@dataclass
class Condition:
    """The conjuncts of ON and WHERE, sorted by what a join makes of them."""

    keys: list[tuple[str, ...]] = field(default_factory=list)
    null_safe: bool = False
    band: Band = field(default_factory=Band)
    rest: list[Any] = field(default_factory=list)


def conjuncts(tree: Any) -> list[Any]:
    while isinstance(tree, exp.Paren):
        tree = tree.this
    if isinstance(tree, exp.And):
        return [*conjuncts(tree.this), *conjuncts(tree.expression)]
    return [] if tree is None else [tree]


def sides_of(tree: Any, scopes: Sequence[Scope]) -> set[int]:
    """Which inputs an expression reads. Unknown and ambiguous names are refused."""
    found = set()
    for column in tree.find_all(exp.Column):
        own = [i for i, scope in enumerate(scopes) if scope.find(column)]
        if len(own) > 1:
            which = " or ".join(f"{scopes[i].find(column)[0].of}.{column.name}" for i in own)
            raise refused(f"The name {text_of(column)!r} is ambiguous; write {which}.", column)
        if not own:
            Scope(scopes[0].relation, tuple(f for scope in scopes for f in scope.fields)).column(column)
        found.update(own)
    return found


def sorted_out(trees_: Sequence[Any], left: Scope, right: Scope) -> Condition:
    """What a join of two makes of each conjunct."""
    found = Condition()
    for tree in trees_:
        both = sides_of(tree, (left, right)) == {0, 1}
        if both and isinstance(tree, exp.EQ | exp.NullSafeEQ):
            a, b = tree.this, tree.expression
            if isinstance(a, exp.Column) and isinstance(b, exp.Column):
                if not left.find(a):
                    a, b = b, a
                found.keys.append((left.column(a), right.column(b)))
                found.null_safe |= isinstance(tree, exp.NullSafeEQ)
                continue
        if both and found.band.take(band_of(tree, left, right)):
            continue
        found.rest.append(tree)
    return found


MISSING = {"left": (1,), "right": (0,), "full": (0, 1)}
"""The sides of a result of an outer join that can be missing."""


def joined(
    inputs: Sequence[Input],
    how: str,
    on: Sequence[Any],
    within: trees.WithinWindow | None,
    named: Set[tuple[str, str]] = frozenset(),
) -> tuple[Scope, list[Any]]:
    """Joins two inputs, or several on one key. Returns the conjuncts that are still to be tested, too.

    `named` are the columns, each with its input, that the query names: a key of a missing side is null there.
    """
    if len(inputs) > 2:
        return several(inputs, on, within)
    left, right = inputs
    found = sorted_out(on, left.scope, right.scope)
    options = join_windows(inputs, found.band, within)
    if found.null_safe:
        options["null_safe"] = True
    if how != "inner" and found.rest:
        paired = _pairs(inputs, found, options, how)
        options["condition"] = " AND ".join(_wrapped(paired.text(one)) for one in found.rest)
        found.rest = []
    keys = [one[0] if len(set(one)) == 1 else one for one in found.keys]
    if not keys:
        raise refused(
            f"The join of {left.scope.relation.name!r} and {right.scope.relation.name!r} has no key; compare columns "
            "of both, as in ON l.k = r.k.",
            on[0] if on else None,
        )
    sides = [
        _with_copies(one.scope, {key[side] for key in found.keys}, named) if side in MISSING.get(how, ()) else one.scope
        for side, one in enumerate(inputs)
    ]
    relation = sides[0].relation.join(sides[1].relation, on=keys, how=how, **options)
    scope = _scope(relation, [Input(one) for one in sides])
    shared = [Field("", one, one) for one in keys if isinstance(one, str) and len(MISSING.get(how, ())) == 2]
    return Scope(scope.relation, (*scope.fields, *shared)), found.rest


def _with_copies(scope: Scope, keys: Set[str], named: Set[tuple[str, str]]) -> Scope:
    """A side that can be missing, with copies of the keys that the query names: the join has one column for both."""
    fields = []
    relation = scope.relation
    for one in scope.fields:
        if one.column in keys and named & {(one.of.lower(), one.name.lower()), (one.of.lower(), "*")}:
            copy = f"{one.of}.{one.name}"
            relation = relation.with_column(copy, text_of(exp.Column(this=identifier(one.column))))
            one = Field(one.of, one.name, copy, copied=True)
        fields.append(one)
    return Scope(relation, tuple(fields))


def several(inputs: Sequence[Input], on: Sequence[Any], within: trees.WithinWindow | None) -> tuple[Scope, list[Any]]:
    """An inner join of several: in one operator if one key equates all, else one after the other."""
    scopes = [one.scope for one in inputs]
    classes: list[dict[int, str]] = []
    rest = []
    for tree in on:
        columns = (
            [one for one in (tree.this, tree.expression) if isinstance(one, exp.Column)]
            if isinstance(tree, exp.EQ)
            else []
        )
        ends = {next(iter(sides_of(one, scopes))): one for one in columns}
        if len(ends) < 2:
            rest.append(tree)
            continue
        own = {i: scopes[i].column(column) for i, column in ends.items()}
        touching = [c for c in classes if any(c.get(i) == name for i, name in own.items())]
        merged = dict(own)
        for one in touching:
            merged |= one
            classes.remove(one)
        classes.append(merged)
    complete = [one for one in classes if len(one) == len(inputs)]
    if len(complete) == len(classes) == 1 and not any(
        sides_of(one, scopes) - {0} and len(sides_of(one, scopes)) > 1 and band_of(one, *_two(one, scopes))
        for one in rest
    ):
        (keys,) = complete
        waits = waits_of(inputs, within)
        key = tuple(keys[i] for i in range(len(inputs)))
        relation = joined_relation(
            [one.relation for one in scopes], [key if len(set(key)) > 1 else key[0]], waits, "inner"
        )
        return _scope(relation, inputs), rest
    return _folded(inputs, on, within)


def _two(tree: Any, scopes: Sequence[Scope]) -> tuple[Scope, Scope]:
    a, b = sorted(sides_of(tree, scopes))[:2]
    return scopes[a], scopes[b]


def _folded(inputs: Sequence[Input], on: Sequence[Any], within: trees.WithinWindow | None) -> tuple[Scope, list[Any]]:
    left, left_on = inputs[0], list(on)
    for right in inputs[1:]:
        known = (left.scope, right.scope)
        names = {one.of.lower() for scope in known for one in scope.fields}
        ready: list[Any] = []
        later: list[Any] = []
        for tree in left_on:
            mine = all(
                (not c.table and any(s.find(c) for s in known)) or c.table.lower() in names
                for c in tree.find_all(exp.Column)
            )
            (ready if mine else later).append(tree)
        scope, rest = joined((left, right), "inner", ready, within)
        left, left_on = Input(scope), [*later, *rest]
    return left.scope, left_on


def _wrapped(text: str) -> str:
    return f"({text})" if " OR " in text else text


def _scope(relation: Relation, inputs: Sequence[Input]) -> Scope:
    """The names behind a join: each input's columns, under the names that the join gives them."""
    node = relation.node
    assert isinstance(node, Join | ObliviousJoin)
    what = node.plain
    columns = what.columns
    fields = []
    for side, one in enumerate(inputs):
        if what.one_sided and side:
            continue
        made = {c.of: c.name for c in columns if c.side in (None, side)}
        fields += [replace(f, column=made[f.column]) for f in one.scope.fields if f.column in made]
    if what.grid is not None:
        fields += [Field("", name, name) for name in ("window_start", "window_end")]
    return Scope(relation, tuple(fields))


def _pairs(inputs: Sequence[Input], found: Condition, options: dict[str, Any], how: str) -> Scope:
    """The names inside a condition: those of an inner join of the same inputs."""
    left, right = (one.scope.relation for one in inputs)
    keys = [one[0] if len(set(one)) == 1 else one for one in found.keys]
    with about(found.rest[0]):
        pairs = left.join(right, on=keys, **options)
    return _scope(pairs, inputs)
