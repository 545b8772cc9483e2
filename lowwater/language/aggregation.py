"""Aggregates in a query: calls with FILTER, their arguments as columns, and the names of their results."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from sqlglot import exp

import lowwater.aggregates as aggregates
from lowwater.aggregates.base import Aggregate
from lowwater.errors import LowwaterError
from lowwater.language import trees
from lowwater.language.names import Scope, about, identifier, refused, text_of
from lowwater.query.called import CALLS
from lowwater.relation import Relation

OWN: dict[str, Callable[..., Aggregate]] = {
    "count": aggregates.count,
    "count_distinct": aggregates.count_distinct,
    "first": aggregates.first,
    "last": aggregates.last,
    "quantile": aggregates.quantile,
    "percentile": aggregates.quantile,
    "approx_quantile": aggregates.approx_quantile,
    "approx_percentile": aggregates.approx_quantile,
    "percentile_approx": aggregates.approx_quantile,
    "top_k": aggregates.top_k,
    "heavy_hitters": aggregates.heavy_hitters,
    "approx_heavy_hitters": aggregates.approx_heavy_hitters,
    "center_of_mass": aggregates.center_of_mass,
}
"""lowwater's own aggregates. `first` and `last` are by time, not by arrival as in Spark."""
INSTEAD = {
    "any_value": "min(x), or first(x) for the one with the smallest time",
    "first_value": "first(x), the one with the smallest time",
    "last_value": "last(x), the one with the largest time",
    "array_agg": "collect_list(x)",
    "count_if": "count(*) FILTER (WHERE ...)",
    **dict.fromkeys(("bool_or", "some"), "count(*) FILTER (WHERE ...) > 0"),
    **dict.fromkeys(("bool_and", "every"), "count(*) FILTER (WHERE NOT ...) = 0"),
    **dict.fromkeys(("string_agg", "listagg"), "collect_list(x), and array_join behind it"),
    **dict.fromkeys(("row_number", "rank", "dense_rank"), "count(*) OVER (... ROWS UNBOUNDED PRECEDING)"),
    **dict.fromkeys(("lag", "lead"), "an aggregate over the rows around each row, as in OVER (... ROWS 1 PRECEDING)"),
}
"""Aggregates of Spark that lowwater lacks, and what to write instead."""
KNOWN: dict[str, Callable[..., Aggregate]] = {**CALLS, **OWN}


def is_call(tree: Any) -> bool:
    return isinstance(tree, exp.Anonymous) and str(tree.this).lower() in (KNOWN | INSTEAD)


def calls(tree: Any) -> Iterator[Any]:
    """The aggregates of an expression, each with its FILTER and its window, without those that stand in OVER."""
    if isinstance(tree, exp.Window):
        return
    if isinstance(tree, exp.Filter | trees.Windowed) or is_call(tree):
        yield tree
        return
    if isinstance(tree, exp.Query):
        raise refused("A sub-query stands in FROM; write it there and join with it.", tree)
    if isinstance(tree, exp.Expression):
        for child in tree.iter_expressions():
            yield from calls(child)


def bare(tree: Any) -> tuple[Any, list[Any], list[trees.WindowClause]]:
    """The call inside FILTER and window, the conditions of FILTER, and the windows."""
    conditions, clauses = [], []
    while not is_call(tree):
        if isinstance(tree, exp.Filter):
            conditions.append(tree.expression.this)
        elif isinstance(tree, trees.Windowed):
            clauses.append(tree.args["clause"])
        else:
            raise refused(
                f"A window, FILTER or OVER stands behind an aggregate, and {text_of(tree)!r} is none; write one, as in "
                "count(*).",
                tree,
            )
        tree = tree.this
    return tree, conditions, clauses


def name_of(tree: Any) -> str:
    """The name of a result without an alias, as Spark gives it: `count(1)`, `max(len)`."""
    call, conditions, _ = bare(tree)
    shown = call.copy()
    for star in list(shown.find_all(exp.Star)):
        star.replace(exp.Literal.number(1))
    text = text_of(shown)
    return f"{text} FILTER (WHERE {text_of(conditions[0])})" if conditions else text


class Prepared:
    """A relation that gets the columns which aggregates and groups need: each expression becomes a column, once."""

    def __init__(self, scope: Scope) -> None:
        self.scope = scope
        self.relation: Relation = scope.relation
        self.groups: list[tuple[Any, str]] = []
        """The expressions of GROUP BY, each with its column."""
        self._made: dict[str, str] = {}

    def column(self, tree: Any, name: str | None = None) -> str:
        while isinstance(tree, exp.Paren):
            tree = tree.this
        if isinstance(tree, exp.Column):
            return self.scope.column(tree)
        return self.derived(self.scope.text(tree), tree, name)

    def derived(self, text: str, tree: Any, name: str | None = None) -> str:
        if text not in self._made:
            known = {one.lower() for one in self.relation.node.schema.names}
            made = name if name is not None and name.lower() not in known else text
            with about(tree):
                self.relation = self.relation.with_column(made, text)
            self._made[text] = made
        return self._made[text]

    def aggregate(self, tree: Any) -> Aggregate:
        call, conditions, _ = bare(tree)
        name = str(call.this).lower()
        if name in INSTEAD:
            raise refused(f"There is no aggregate {name}(); write {INSTEAD[name]}.", call)
        given = list(call.expressions)
        inner = next((found for one in (*given, *conditions) for found in calls(one)), None)
        if inner is not None:
            raise refused("An aggregate stands inside another one; write the inner one in a sub-query.", inner)
        if len(given) == 1 and isinstance(given[0], exp.Distinct):
            distinct = given[0].expressions
            if name == "count" and len(distinct) == 1:
                name, given = "count_distinct", distinct
            elif name in ("min", "max", "collect_set") and len(distinct) == 1:
                given = distinct
            else:
                raise refused(f"{text_of(call)!r} is not defined here; count(DISTINCT x) counts one column.", tree)
        if name == "count" and len(given) == 1 and isinstance(given[0], exp.Star | exp.Literal):
            given = []
        arguments = [self._argument(one, conditions, first=not at) for at, one in enumerate(given)]
        if conditions and not arguments:
            arguments = [self._filtered(exp.Literal.number(1), conditions)]
        with about(tree):
            try:
                return KNOWN[name](*arguments)
            except TypeError as error:
                raise LowwaterError(f"{text_of(call)!r} has the wrong number of arguments.") from error

    def _argument(self, tree: Any, conditions: list[Any], first: bool) -> Any:
        if not first:
            sign = -1 if isinstance(tree, exp.Neg) else 1
            literal = tree.this if isinstance(tree, exp.Neg) else tree
            if isinstance(literal, exp.Literal) and not literal.is_string:
                number = literal.this
                return sign * (int(number) if number.isdigit() else float(number))
            return self.column(tree)
        return self._filtered(tree, conditions) if conditions else self.column(tree)

    def _filtered(self, tree: Any, conditions: list[Any]) -> str:
        """The argument where the conditions hold, else null, which no aggregate counts."""
        condition = exp.and_(*(self.scope.bound(one) for one in conditions))
        return self.derived(text_of(exp.Case(ifs=[exp.If(this=condition, true=self.scope.bound(tree))])), tree)


def replaced(tree: Any, columns: dict[str, str]) -> Any:
    """An expression over results: each aggregate becomes the column of its result."""

    def replace(node: Any) -> Any:
        if isinstance(node, exp.Filter | trees.Windowed) or is_call(node):
            return exp.Column(this=identifier(columns[key_of(node)]))
        return node

    return tree.copy().transform(replace)


def key_of(tree: Any) -> str:
    """What makes two aggregates of a query the same."""
    call, conditions, _ = bare(tree)
    return "; ".join(text_of(one).lower() for one in (call, *conditions))
