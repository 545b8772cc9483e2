"""OVER: a window per row. All aggregates of a query stand over one frame, and become columns of the rows."""

from __future__ import annotations

from typing import Any

from sqlglot import exp

from lowwater.language.aggregation import Prepared, name_of
from lowwater.language.names import WINDOW, Field, Scope, about, identifier, refused
from lowwater.language.windows import _length
from lowwater.model.columns import WINDOW_TIME
from lowwater.model.ticks import Ticks


def rows(tree: exp.Select, scope: Scope) -> Scope:
    """The rows with the aggregates of their windows."""
    named = {one.this.name.lower(): one for one in tree.args.get("windows") or []}
    found = [one for item in tree.expressions for one in item.find_all(exp.Window)]
    frames = []
    for one in found:
        frame = _resolved(one, named)
        if frame not in frames:
            frames.append(frame)
    if len(frames) > 1:
        raise refused("The query has two frames in OVER; write one of them in a sub-query.", found[-1])
    (frame,) = frames
    prepared = Prepared(scope)
    columns: dict[str, Any] = {}
    names = {id(item.this): item.alias for item in tree.expressions if isinstance(item, exp.Alias)}
    for one in found:
        columns[names.get(id(one)) or name_of(one.this)] = prepared.aggregate(one.this)
    with about(found[0]):
        partition = [prepared.column(key) for key in frame[0]]
        grouped = prepared.relation.over(partition, **_frame(frame[2], found[0], scope))
        _refuse_order(frame[1], scope, found[0])
        relation = grouped.agg(**columns)
    extra = [Field("", name, name) for name in columns]
    return Scope(relation, (*scope.fields, *extra))


def items(given: list[Any], scope: Scope) -> list[Any]:
    """The SELECT list over these rows: each OVER is a column. A star is of the rows before."""
    out = []
    for item in given:
        if isinstance(item, exp.Star):
            dropped = {one.name.lower() for one in item.args.get("except_") or []}
            own = [f for f in scope.fields if f.of and f.name.lower() not in dropped]
            out += [exp.Column(this=identifier(f.name), table=identifier(f.of)) for f in own]
            continue

        def replace(node: Any, item: Any = item) -> Any:
            if not isinstance(node, exp.Window):
                return node
            alias = item.alias if isinstance(item, exp.Alias) and item.this is node else None
            return exp.Column(this=identifier(alias or name_of(node.this)))

        whole = item.this if isinstance(item, exp.Alias) else item
        if isinstance(whole, exp.Window):
            out.append(exp.Column(this=identifier(item.alias if isinstance(item, exp.Alias) else name_of(whole.this))))
        else:
            out.append(item.copy().transform(replace))
    return out


def _resolved(one: exp.Window, named: dict[str, Any]) -> tuple[Any, Any, Any]:
    alias = one.args.get("alias")
    if alias is not None:
        if alias.name.lower() not in named:
            raise refused(f"There is no window {alias.name!r}; name it by WINDOW {alias.name} AS (...).", one)
        one = named[alias.name.lower()]
    return one.args.get("partition_by") or [], one.args.get("order"), one.args.get("spec")


def _refuse_order(order: Any, scope: Scope, tree: Any) -> None:
    keys = order.expressions if order is not None else []
    first = keys[0] if keys else None
    column = first.this if isinstance(first, exp.Ordered) else first
    named = scope.column(column) if isinstance(column, exp.Column) else None
    down = isinstance(first, exp.Ordered) and first.args.get("desc")
    time = scope.relation.progress
    if len(keys) != 1 or down or named is None or not _ordered_alike(named, scope):
        shown = "window_end" if time == WINDOW_TIME else time
        raise refused(f"OVER is ordered by the column that progresses: write ORDER BY {shown}.", tree)


def _ordered_alike(name: str, scope: Scope) -> bool:
    """Whether a column orders rows as their time does: results of windows progress on both bounds, or on the end."""
    time = scope.relation.progress
    return name == time or (
        time == WINDOW_TIME and name in WINDOW and scope.relation.node.properties.progressing(name) is not None
    )


def _frame(spec: Any, tree: Any, scope: Scope) -> dict[str, Any]:
    time = scope.relation.progress
    zero: Any = 0
    if time is not None and Ticks(scope.relation.node.schema.field(time).type).is_time:
        zero = "0 seconds"
    if spec is None:
        return {"range": (None, zero)}
    kind = str(spec.args.get("kind") or "ROWS").upper()
    if kind not in ("ROWS", "RANGE"):
        raise refused("The frame of OVER is ROWS or RANGE.", tree)
    ends = []
    for side, here in (("start", "PRECEDING"), ("end", "FOLLOWING")):
        value, direction = spec.args.get(side), str(spec.args.get(f"{side}_side") or here).upper()
        if isinstance(value, str):
            unbounded = value.upper() == "UNBOUNDED"
            ends.append(None if unbounded else 0 if kind == "ROWS" else zero)
            continue
        if value is None:
            ends.append(0 if kind == "ROWS" else zero)
            continue
        length: Any = _length(value)
        if kind == "ROWS" or str(length).isdigit():
            if not str(length).isdigit():
                raise refused("ROWS counts rows: write a number, as in ROWS BETWEEN 3 PRECEDING AND CURRENT ROW.", tree)
            length = int(length) if direction == here else -int(length)
        elif direction != here:
            length = f"-{length}"
        ends.append(length)
    return {kind.lower(): tuple(ends)}
