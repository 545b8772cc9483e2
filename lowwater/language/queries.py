"""Queries to relations: each clause becomes the verb that the Python API has for it."""

from __future__ import annotations

from typing import Any

from sqlglot import exp

from lowwater.language import over, trees, windows
from lowwater.language.aggregation import Prepared, bare, calls, key_of, name_of, replaced
from lowwater.language.inputs import Input
from lowwater.language.names import WINDOW, Field, Scope, Streams, about, refused, text_of
from lowwater.language.projection import Output, outputs_of, projected
from lowwater.language.sources import renamed, source_of
from lowwater.relation import Relation

READ = {"with_", "expressions", "from_", "joins", "where", "group", "having", "distinct", "within", "emit", "ordered"}
READ |= {"windows", "kind", "hint"}
NEXT = {
    "order": "ORDER BY stands in OVER (...); write ORDERED for results in order of time, or sort where they are read.",
    "limit": "LIMIT would depend on the order of results, which has no meaning; use top_k(x, 3) in a window.",
    "laterals": "LATERAL VIEW is not defined here; make the rows before the stream.",
}


def relation_of(tree: Any, streams: Streams) -> Relation:
    """The relation of a query over named streams."""
    made, ordered = _unordered(tree, streams), _ordered(tree)
    if ordered is None:
        return made
    column = ordered.this
    over = None if column is None else Scope.of(made, made.name).column(column)
    times = [p.attribute for p in made.node.properties.progress if p.attribute in made.schema.names]
    if over is not None and over not in times:
        known = " or ".join(times) or "none"
        raise refused(f"Results are in order of a column that progresses ({known}), not of {over!r}.", column)
    with about(ordered):
        return made.in_order(over)


def _ordered(tree: Any) -> trees.Ordered | None:
    """ORDERED of a query. Behind a union it is for the whole union, though it is read with the last SELECT."""
    own: trees.Ordered | None = tree.args.get("ordered")
    return _ordered(tree.expression) if own is None and isinstance(tree, exp.Union) else own


def _unordered(tree: Any, streams: Streams) -> Relation:
    with_ = tree.args.get("with_")
    if with_ is not None:
        if with_.args.get("recursive"):
            raise refused("WITH RECURSIVE is not defined here; name a query without itself.", with_)
        for one in with_.expressions:
            streams = streams.also(one.alias, renamed(relation_of(one.this, streams), one.args.get("alias")))
    for name, sentence in NEXT.items():
        if tree.args.get(name):
            raise refused(sentence, tree.args[name] if not isinstance(tree.args[name], list) else tree.args[name][0])
    if isinstance(tree, exp.Subquery):
        return relation_of(tree.this, streams)
    if isinstance(tree, exp.Union):
        return _union(tree, streams)
    if not isinstance(tree, exp.Select):
        raise refused(
            "A query is SELECT or UNION of queries; EXCEPT and INTERSECT are joins (LEFT ANTI, LEFT SEMI).", tree
        )
    unknown = [name for name, value in tree.args.items() if value and name not in READ]
    if unknown:
        raise refused(f"The query has a part ({unknown[0].strip('_')}) that is not defined here; leave it out.", tree)
    return _select(tree, streams)


def _union(tree: exp.Union, streams: Streams) -> Relation:
    if tree.args.get("emit") is not None:
        raise refused("EMIT belongs to one SELECT; write the union in FROM and aggregate it there.", tree.args["emit"])
    left, right = relation_of(tree.this, streams), _unordered(tree.expression, streams)
    names, others = left.schema.names, right.schema.names
    if len(names) != len(others):
        raise refused(f"UNION has {len(names)} columns on the left and {len(others)} on the right.", tree.expression)
    with about(tree.expression):
        outputs = [
            Output(name, exp.column(exp.to_identifier(other, quoted=True)))
            for name, other in zip(names, others, strict=True)
        ]
        made = left.union(projected(right, outputs))
    return made.distinct() if tree.args.get("distinct") else made


def _select(tree: exp.Select, streams: Streams) -> Relation:
    source, conditions = source_of(tree, streams, relation_of)
    scope = source.scope
    for one in conditions:
        with about(one):
            scope = scope.over(scope.relation.where(scope.text(one)))
    source.scope = scope
    items = list(tree.expressions)
    found = [call for one in items for call in calls(one)]
    having = tree.args["having"].this if tree.args.get("having") is not None else None
    if having is not None:
        found += list(calls(having))
    if found or tree.args.get("group") is not None:
        return _aggregated(tree, source, found, having)
    if having is not None:
        raise refused("HAVING is about groups; write WHERE.", having)
    emit = tree.args.get("emit")
    if emit is not None:
        raise refused("EMIT is for windows that are aggregated; leave it out.", emit)
    if source.function is not None and tree.args.get("distinct") is not None:
        scope = Scope(scope.relation, (*scope.fields, *(Field("", name, name) for name in WINDOW)))
    if any(one.find(exp.Window) for one in items):
        scope = over.rows(tree, scope)
        items = over.items(items, scope)
    outputs = outputs_of(items, scope)
    if tree.args.get("distinct") is not None:
        return _distinct(tree, source, outputs)
    _refuse_window(source)
    return projected(scope.relation, outputs)


def _refuse_window(source: Input) -> None:
    if source.clause is not None or source.function is not None:
        raise refused(
            "The window of FROM has nothing to window: aggregate its rows, or join it with another input.",
            source.clause or source.function,
        )


def _distinct(tree: exp.Select, source: Input, outputs: list[Output]) -> Relation:
    if tree.args["distinct"].args.get("on") is not None:
        raise refused("DISTINCT ON is not defined here; use min_by or max_by in a window.", tree)
    window = _window(tree, source, [], ())
    if window is None:
        return projected(source.scope.relation, outputs).distinct()
    own = [one for one in outputs if one.name not in WINDOW]
    names = [one.name for one in own]
    time = source.scope.relation.progress
    kept = names if time is None or time in names else [*names, time]
    wanted = [*own, *(Output(name, exp.column(name)) for name in kept if name not in names)]
    shown = [*(name for name in WINDOW if window.shown and len(own) == len(outputs)), *(one.name for one in outputs)]
    with about(window.tree):
        return window.open(projected(source.scope.relation, wanted)).distinct(names).select(shown)


def _aggregated(tree: exp.Select, source: Input, found: list[Any], having: Any) -> Relation:
    scope = source.scope
    prepared = Prepared(scope)
    keys, functions = _keys(tree, source, prepared)
    window = _window(tree, source, [clause for one in found for clause in bare(one)[2]] + functions, keys)
    _opened(window, prepared, keys, tree, found)  # an error of the window comes before those of the aggregates
    names = _names(tree.expressions, found)
    made = {names[key_of(one)]: prepared.aggregate(one) for one in found}
    grouped = _opened(window, prepared, keys, tree, found)  # over the columns that the aggregates need
    grouped, options = windows.emitted(grouped, tree.args.get("emit"))
    with about(found[0] if found else tree.args["group"]):
        every: dict[str, Any] = {**made, **options}
        relation = grouped.agg(**every) if made else grouped.distinct() if window else grouped.agg()
    fields = [Field(f.of, f.name, f.column) for f in scope.fields if f.column in keys]
    fields += [Field("", name, name) for name in relation.schema.names if name not in {f.column for f in fields}]
    after = Scope(relation, tuple(fields))
    derived = {prepared.scope.text(one): name for one, name in prepared.groups}
    if having is not None:
        with about(having):
            relation = relation.where(after.text(_over_results(having, names, derived, scope)))
    results = [_over_results(one, names, derived, scope) for one in tree.expressions]
    for one in results:
        _refuse_ungrouped(one, after, scope)
    outputs = outputs_of(results, after)
    if window is not None and window.shown:
        wanted = {one.name for one in outputs}
        shown = [name for name in WINDOW if name in relation.schema.names and name not in wanted]
        outputs = [*(Output(name, exp.column(name)) for name in shown), *outputs]
    made_rows = projected(relation, outputs)
    return made_rows.distinct() if tree.args.get("distinct") is not None else made_rows


def _refuse_ungrouped(tree: Any, after: Scope, before: Scope) -> None:
    """Refuses a column of the rows that is neither grouped by nor aggregated, as Spark does."""
    if windows.is_function(tree.unalias()) and tree.unalias() is not tree:
        raise refused("A window is two columns; write window.start and window.end, each with its name.", tree)
    for column in tree.find_all(exp.Column):
        known = after.find(column) or column.name.lower() in {name.lower() for name in after.relation.schema.names}
        if before.find(column) and not known:
            raise refused(
                f"{text_of(column)!r} is neither in GROUP BY nor in an aggregate; add it to GROUP BY, or write "
                f"max({text_of(column)}).",
                column,
            )


def _opened(window: windows.Window | None, prepared: Prepared, keys: tuple[str, ...], tree: Any, found: Any) -> Any:
    if window is None:
        if not keys:
            raise refused(
                "The aggregate has neither a window nor a group; write a window behind it, as in "
                "[RANGE 1 minute, WA ts].",
                found[0] if found else tree,
            )
        with about(tree.args.get("group")):
            return prepared.relation.group_by(*keys)
    with about(window.tree):
        grouped = window.open(prepared.relation)
    rest = [one for one in keys if one not in grouped._groups]
    rest += [one for one in window.keys if one not in grouped._groups and one not in rest]
    with about(tree.args.get("group") or window.tree):
        return grouped.group_by(*rest) if rest else grouped


def _keys(tree: exp.Select, source: Input, prepared: Prepared) -> tuple[tuple[str, ...], list[Any]]:
    """The columns of GROUP BY, and the window functions in it."""
    group = tree.args.get("group")
    if group is None:
        return (), []
    for part in ("rollup", "cube", "grouping_sets", "totals"):
        if group.args.get(part) or any(one.key == part.replace("_", "") for one in group.expressions):
            word = part.upper().replace("_", " ")
            raise refused(f"GROUP BY {word} is not defined here; write one query for each grouping.", group)
    named = group.expressions
    if group.args.get("all"):
        named = [one.unalias() for one in tree.expressions if next(calls(one), None) is None]
    keys: list[str] = []
    functions: list[Any] = []
    aliases = {one.alias.lower(): one.this for one in tree.expressions if isinstance(one, exp.Alias)}
    for one in named:
        if isinstance(one, exp.Literal) and not one.is_string and one.this.isdigit():
            at = int(one.this)
            if not 1 <= at <= len(tree.expressions):
                raise refused(f"GROUP BY {at} names no column of the query.", one)
            one = tree.expressions[at - 1].unalias()
        elif isinstance(one, exp.Column) and not one.table and not prepared.scope.find(one):
            one = aliases.get(one.name.lower(), one)
        if windows.is_function(one):
            functions.append(one)
            continue
        bounds = source.function is not None and isinstance(one, exp.Column)
        if bounds and one.name.lower() in (*WINDOW, "window_time") and not prepared.scope.find(one):
            continue
        alias = next((a.alias for a in tree.expressions if isinstance(a, exp.Alias) and a.this == one), None)
        if next(calls(one), None) is not None:
            raise refused("GROUP BY names columns of rows, and no aggregates; write HAVING for a condition.", one)
        name = prepared.column(one, alias)
        prepared.groups.append((one, name))
        if name not in keys:
            keys.append(name)
    return tuple(keys), functions


def _window(tree: exp.Select, source: Input, found: list[Any], keys: tuple[str, ...]) -> windows.Window | None:
    """The one window of a query, wherever it stands."""
    clauses: list[Any] = []
    for one in [*found, source.clause, source.function, tree.args.get("within") if source else None]:
        if one is not None and one not in clauses:
            clauses.append(one)
    if isinstance(tree.args.get("within"), trees.WithinWindow) and tree.args.get("joins") and len(clauses) > 1:
        clauses.remove(tree.args["within"])  # it is the window of the join, and the aggregate has its own
    if not clauses:
        return None
    if len(clauses) > 1:
        raise refused("The query has two windows; aggregate over one of them in a sub-query.", clauses[1])
    (clause,) = clauses
    if isinstance(clause, trees.WindowClause):
        return windows.of_clause(clause, source.scope)
    if isinstance(clause, trees.TableFunction):
        return windows.of_table_function(clause, source.scope)
    if isinstance(clause, trees.WithinWindow):
        return windows.of_length(clause, source.scope, keys)
    return windows.of_function(clause, source.scope)


def _names(items: list[Any], found: list[Any]) -> dict[str, str]:
    """The name of each aggregate: its alias, or what Spark calls it."""
    names: dict[str, str] = {}
    for one in items:
        if isinstance(one, exp.Alias) and one.this in found:
            names.setdefault(key_of(one.this), one.alias)
    for one in found:
        names.setdefault(key_of(one), name_of(one))
    return names


def _over_results(tree: Any, names: dict[str, str], derived: dict[str, str], scope: Scope) -> Any:
    """An expression of SELECT or HAVING over the results: aggregates and groups are columns there."""
    tree = replaced(tree, names).transform(windows.bound_of)

    def group(node: Any) -> Any:
        if not isinstance(node, exp.Expression) or isinstance(
            node, exp.Alias | exp.Column | exp.Identifier | exp.Star | exp.Literal
        ):
            return node
        try:
            text = scope.text(node)
        except ValueError:
            return node
        return exp.column(exp.to_identifier(derived[text], quoted=True)) if text in derived else node

    return tree.transform(group)
