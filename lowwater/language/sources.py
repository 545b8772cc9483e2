"""FROM: tables, sub-queries, unions of inputs and joins, as one relation with its names."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sqlglot import exp

from lowwater.language import trees
from lowwater.language.inputs import Input
from lowwater.language.joining import conjuncts, joined
from lowwater.language.names import Scope, Streams, about, identifier, refused
from lowwater.language.projection import Output, projected
from lowwater.relation import Relation

HOW = {
    ("", ""): "inner",
    ("", "INNER"): "inner",
    ("", "CROSS"): "inner",
    ("LEFT", ""): "left",
    ("LEFT", "OUTER"): "left",
    ("RIGHT", ""): "right",
    ("RIGHT", "OUTER"): "right",
    ("FULL", ""): "full",
    ("FULL", "OUTER"): "full",
    ("LEFT", "SEMI"): "semi",
    ("", "SEMI"): "semi",
    ("LEFT", "ANTI"): "anti",
    ("", "ANTI"): "anti",
}
Queries = Callable[[Any, Streams], Relation]


def source_of(tree: exp.Select, streams: Streams, query: Queries) -> tuple[Input, list[Any]]:
    """The input of a query, and the conjuncts of WHERE that are left. `query` makes relations of sub-queries."""
    if tree.args.get("from_") is None:
        raise refused("The query has no FROM; name a stream, as in SELECT * FROM Main.", tree)
    first = tree.args["from_"].this
    conditions = conjuncts(tree.args["where"].this) if tree.args.get("where") is not None else []
    within = tree.args.get("within")
    inputs = [_input(first, streams, query)]
    joins = [*(tree.args.get("joins") or [])]
    for nested in _nested(first):
        joins.insert(0, nested)
    pending: list[Any] = []
    for join in joins:
        how = _how(join)
        inputs.append(_input(join.this, streams, query))
        _refuse_same_name(inputs, join.this)
        on = conjuncts(join.args.get("on"))
        on += [_using(name, inputs[-2:]) for name in join.args.get("using") or []]
        if how == "inner":
            pending += on
        else:
            inputs = [_outer(inputs, how, on, pending, join, _named(tree, join), within)]
            pending = []
    if len(inputs) == 1:
        return inputs[0], [*pending, *conditions]
    with about(tree.args["from_"]):
        scope, rest = joined(inputs, "inner", [*pending, *conditions], within)
    return Input(scope), rest


def _refuse_same_name(inputs: list[Input], tree: Any) -> None:
    """Refuses an input with the name of another one: no column of theirs could be told apart."""
    *before, last = ({field.of.lower(): field.of for field in one.scope.fields} for one in inputs)
    for known in before:
        for name in known.keys() & last.keys():
            raise refused(f"Two inputs of FROM are named {last[name]!r}; give one another name by AS.", tree)


def _named(tree: exp.Select, join: exp.Join) -> set[tuple[str, str]]:
    """The columns that a query names with their inputs, outside the condition of a join."""
    inside = {id(one) for one in join.args["on"].find_all(exp.Column)} if join.args.get("on") is not None else set()
    found = {
        (one.table.lower(), one.name.lower())
        for one in tree.find_all(exp.Column)
        if one.table and id(one) not in inside
    }
    return found


def _outer(
    inputs: list[Input],
    how: str,
    on: list[Any],
    pending: list[Any],
    join: exp.Join,
    named: set[tuple[str, str]],
    within: trees.WithinWindow | None,
) -> Input:
    *before, right = inputs
    left = before[0]
    with about(join.this):
        if len(before) > 1:
            scope, rest = joined(before, "inner", pending, within)
            left = Input(_filtered(scope, rest))
        elif pending:
            left = Input(_filtered(left.scope, pending), left.clause)
        scope, rest = joined((left, right), how, on, within, named)
    return Input(_filtered(scope, rest))


def _filtered(scope: Scope, conditions: list[Any]) -> Scope:
    for one in conditions:
        with about(one):
            scope = scope.over(scope.relation.where(scope.text(one)))
    return scope


def _nested(tree: Any) -> list[Any]:
    found = tree.args.get("joins") or []
    return list(reversed(found))


def _how(join: exp.Join) -> str:
    if join.args.get("method"):
        raise refused(f"{join.args['method']} joins are not defined here; write the key in ON.", join.this)
    how = HOW.get((str(join.args.get("side") or "").upper(), str(join.args.get("kind") or "").upper()))
    if how is None:
        raise refused("The join is none of INNER, LEFT, RIGHT, FULL, LEFT SEMI and LEFT ANTI.", join.this)
    return how


def _using(name: Any, inputs: list[Input]) -> Any:
    column = name.this if isinstance(name, exp.Column) else name
    ends = []
    for one in inputs:
        of = next((f.of for f in one.scope.fields if f.name.lower() == column.name.lower()), one.scope.relation.name)
        ends.append(exp.Column(this=column.copy(), table=exp.to_identifier(of, quoted=True)))
    return exp.EQ(this=ends[0], expression=ends[1])


def _plain(tree: Any, streams: Streams, query: Queries) -> Input:
    """An input inside another one, which has the window."""
    found = _input(tree, streams, query)
    if found.clause is not None or found.function is not None:
        raise refused("A union or a table function takes inputs without windows; write one window behind it.", tree)
    return found


def renamed(relation: Relation, alias: Any) -> Relation:
    """The relation with the names of columns that stand behind an alias, as in `AS q (a, b)`."""
    named = [] if alias is None else alias.args.get("columns") or []
    if not named:
        return relation
    known = relation.schema.names
    if len(named) != len(known):
        raise refused(f"There are {len(named)} names for {len(known)} columns: {', '.join(known)}.", named[0])
    old = [exp.Column(this=identifier(name)) for name in known]
    with about(named[0]):
        return projected(relation, [Output(new.name, column) for new, column in zip(named, old, strict=True)])


def _input(tree: Any, streams: Streams, query: Queries) -> Input:
    alias = tree.args.get("alias")
    name = alias.name if alias is not None else None
    if alias is not None and alias.args.get("columns") and not isinstance(tree, exp.Subquery | exp.Table):
        raise refused("Names of columns stand behind a stream or a sub-query; write AS in a sub-query.", alias)
    if isinstance(tree, trees.WindowedInput):
        inner = _input(tree.this, streams, query)
        scope = inner.scope if name is None else Scope.of(inner.scope.relation, name)
        return Input(scope, tree.args["clause"], inner.function)
    if isinstance(tree, trees.TableFunction):
        inner = _plain(tree.args["input"], streams, query)
        return Input(inner.scope if name is None else Scope.of(inner.scope.relation, name), None, tree)
    if isinstance(tree, trees.InputUnion):
        each = [_plain(one, streams, query).scope.relation for one in tree.expressions]
        with about(tree):
            made = each[0].union(*each[1:])
        return Input(Scope.of(made, name or made.name))
    if isinstance(tree, exp.Subquery):
        made = renamed(query(tree.this, streams), alias)
        return Input(Scope.of(made, name or made.name))
    if isinstance(tree, exp.Table) and isinstance(tree.this, exp.Identifier):
        for part, word in (("sample", "TABLESAMPLE"), ("pivots", "PIVOT"), ("version", "a version")):
            if tree.args.get(part):
                raise refused(f"A stream has no {word}; leave it out.", tree)
        found = renamed(streams.named(tree), alias)
        return Input(Scope.of(found, name or tree.name))
    if isinstance(tree, exp.Select):  # sqlglot reads FROM FROM t as FROM (SELECT * FROM t)
        raise refused("FROM stands twice; quote a column of this name, as in `from`.", tree)
    raise refused("An input of FROM is a stream, a view, a sub-query, or a union of these.", tree)
