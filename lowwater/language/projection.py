"""SELECT lists: each item becomes a column under its name, and the others are dropped."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sqlglot import exp

from lowwater.language.names import Scope, about, identifier, refused, text_of
from lowwater.language.windows import is_function
from lowwater.relation import Relation


@dataclass(frozen=True)
class Output:
    """A column of the result: its name, and an expression over columns of the relation."""

    name: str
    tree: Any


def outputs_of(items: list[Any], scope: Scope) -> list[Output]:
    """The columns that a SELECT list asks for. A name that two inputs have gets that of its input in front."""
    outputs: list[tuple[str, str, Any]] = []
    for item in items:
        if isinstance(item, exp.Star) or (isinstance(item, exp.Column) and isinstance(item.this, exp.Star)):
            outputs += _star(item, scope)
            continue
        tree = item.this if isinstance(item, exp.Alias) else item
        if is_function(tree) or (
            isinstance(tree, exp.Column) and tree.name.lower() == "window" and not scope.find(tree)
        ):
            outputs += [(name, name, exp.column(name)) for name in ("window_start", "window_end")]
            continue
        bound = scope.bound(tree)
        if isinstance(item, exp.Alias):
            outputs.append((item.alias, item.alias, bound))
        elif isinstance(tree, exp.Column):
            outputs.append((_own_name(tree, scope), bound.name, bound))
        else:
            outputs.append((text_of(tree), text_of(tree), bound))
    names = [name.lower() for name, _, _ in outputs]
    found = [Output(name if names.count(name.lower()) == 1 else other, tree) for name, other, tree in outputs]
    twice = sorted({one.name for one in found if [o.name for o in found].count(one.name) > 1})
    if twice:
        raise refused(f"The result would have two columns named {twice[0]!r}; give one another name by AS.", items[0])
    return found


def _own_name(tree: exp.Column, scope: Scope) -> str:
    found = scope.find(tree)
    if found:
        return found[0].name
    return scope.column(tree)


def _star(item: Any, scope: Scope) -> list[tuple[str, str, Any]]:
    star = item.this if isinstance(item, exp.Column) else item
    if any(star.args.get(part) for part in ("replace", "rename", "ilike")):
        raise refused("SELECT * takes EXCEPT (...) alone here; name the columns.", item)
    if isinstance(item, exp.Column):
        of = [one for one in scope.fields if one.of.lower() == item.table.lower()]
        if not of:
            raise refused(f"There is no input {item.table!r} in FROM.", item)
        found = [(one.name, one.column, _column(one.column)) for one in of]
    else:
        copies = {one.column for one in scope.fields if one.copied}
        found = [(name, name, _column(name)) for name in scope.relation.schema.names if name not in copies]
    dropped = {_dropped(one, scope) for one in star.args.get("except_") or []}
    return [one for one in found if one[2].name not in dropped]


def _dropped(tree: Any, scope: Scope) -> str:
    """The column that EXCEPT names."""
    return scope.column(tree if isinstance(tree, exp.Column) else exp.Column(this=tree))


def _column(name: str) -> exp.Column:
    return exp.Column(this=identifier(name))


def projected(relation: Relation, outputs: list[Output]) -> Relation:
    """The relation with these columns alone, by with_column() and select() where they are needed."""
    wanted = [one.name for one in outputs]
    made = [one for one in outputs if not (isinstance(one.tree, exp.Column) and one.tree.name == one.name)]
    taken = {column.name for one in outputs for column in one.tree.find_all(exp.Column)}
    moved: list[tuple[str, str]] = []
    for one in made:
        name = one.name
        if name in taken:  # another column is computed from the old values of this name
            name = f"{name}'"
            moved.append((one.name, name))
        with about(one.tree):
            relation = relation.with_column(name, text_of(one.tree))
    for name, other in moved:
        relation = relation.with_column(name, text_of(_column(other)))
    if wanted != relation.schema.names:
        with about(outputs[0].tree if outputs else None):
            relation = relation.select(wanted)
    return relation
