"""The judge of plans of several operators: a logical tree, evaluated node by node over whole tables.

Every node is what its definition says of all rows of its inputs: no state, no progress, no punctuation. Windows and
joins are those of tests/oracle.py and tests/join_oracle.py. Rows that come later than declared do not occur here.

    Filter, Derive   lowwater.expressions, which is compared with Spark elsewhere
    Union            rows in order of arrival, where the inputs have one
    Distinct         rows of a key in order of (time, values): a row survives if no survivor is at most `within` older
    Order            rows by (time, values)
    Aggregate        with wid, window_start, window_end and window_time, the last tick inside the window
    GroupBy          every combination of the groups that occurs
    Join             pairs, and rows that stay alone
    ObliviousJoin    all combinations of rows with an equal key

>>> import lowwater as lw
>>> rows = pa.table({"ts": [1, 2, 11], "k": ["a", "a", "b"]})
>>> counts = lw.stream(rows, name="rows", progress="ts", disorder=0).window(10).group_by("k").agg(n=lw.count())
>>> evaluate(counts.where("n > 1").node, {"rows": Arrived(rows, [0, 1, 2])}).to_pylist()
[{'wid': 0, 'window_start': 0, 'window_end': 10, 'k': 'a', 'n': 2}]
"""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa

from lowwater.aggregates.filtered import Filtered
from lowwater.expressions import Expression, zone_of
from lowwater.query.logical import (
    Aggregate,
    Derive,
    Distinct,
    Ending,
    Filter,
    GroupBy,
    Join,
    Map,
    Mark,
    Node,
    Order,
    Project,
    Scan,
    Union,
)
from lowwater.query.logical.oblivious_join import ObliviousJoin
from lowwater.windows.context_aware import SlideByTuple
from lowwater.windows.context_free import Landmark
from lowwater.windows.over import Over
from lowwater.windows.spec import Tuples
from tests import oracle
from tests.compare import EPOCH, same, ticks
from tests.join_oracle import as_rows, band_join, count_join, grid_join, n_way, naming

Row = dict[str, Any]
AT = "__at"
"""The time of a row in ticks, beside its columns."""
FILTER = "__filter "
PARAMETERS = {"quantile": "q", "approx_quantile": "q", "top_k": "k", "heavy_hitters": "share"}
"""The attribute that holds the parameter of an aggregate."""


@dataclass(frozen=True)
class Arrived:
    """Rows, and when each arrived; None where they are results, which have no order of arrival."""

    table: pa.Table
    order: list[int] | None


class Answered(Landmark):
    """Landmark windows without a period up to a given one. They repeat the last answer for as long as a stream goes on,
    so that where they end is a matter of its progress."""

    def __init__(self, window: Landmark, last: int) -> None:
        super().__init__(window.slide, window.origin, window.period)
        object.__setattr__(self, "last", last)

    def windows(self, tuples: Tuples) -> Any:
        own = super().windows(tuples)
        return np.arange(own[0], max(own[-1], self.last) + 1) if len(own) else own  # type: ignore[attr-defined]

    def at(self, origin: int) -> Answered:
        return Answered(super().at(origin), self.last)  # type: ignore[attr-defined]


def evaluate(root: Node, inputs: Mapping[str, Arrived], last: int | None = None) -> pa.Table:
    """The visible columns of the results, in no order. `last` is the last window that a landmark at the root answers,
    if it is beyond the one that holds the last row."""
    if last is not None and endless(root):
        assert isinstance(root, Aggregate)
        assert isinstance(root.window, Landmark)
        root = replace(root, window=Answered(root.window, last))
    return found(root, inputs).table.select(root.properties.visible.names)


def endless(node: Node) -> bool:
    """Whether a node has landmark windows without a period."""
    return isinstance(node, Aggregate) and isinstance(node.window, Landmark) and node.window.period is None


def found(node: Node, inputs: Mapping[str, Arrived]) -> Arrived:
    """All columns of the results of a node."""
    if isinstance(node, Scan):
        return inputs[node.input.name]
    below = [found(one, inputs) for one in node.inputs]
    return RULES[type(node)](node, *below)


def selected(node: Filter | Mark, of: Arrived) -> Arrived:
    schema = of.table.schema
    holds = Expression.condition(node.condition, schema, zone_of(schema)).evaluate(of.table)
    return kept(of, [one is True for one in holds.to_pylist()])


def kept(of: Arrived, which: list[bool]) -> Arrived:
    order = None if of.order is None else [at for at, is_kept in zip(of.order, which, strict=True) if is_kept]
    return Arrived(of.table.filter(pa.array(which, pa.bool_())), order)


def derived(node: Derive, of: Arrived) -> Arrived:
    schema = of.table.schema
    value = Expression.of(node.expression, schema, zone_of(schema)).evaluate(of.table)
    at = schema.get_field_index(node.name)
    table = of.table
    return Arrived(
        table.append_column(node.name, value) if at < 0 else table.set_column(at, node.name, value), of.order
    )


def projected(node: Project, of: Arrived) -> Arrived:
    return Arrived(of.table.select(node.schema.names), of.order)


def mapped(node: Map, of: Arrived) -> Arrived:
    hidden = [name for name in of.table.column_names if name in node.of.properties.hidden]
    table = node.function(of.table.drop_columns(hidden)).select(node.result.names).cast(node.result)
    for name in hidden:
        table = table if name in table.column_names else table.append_column(name, of.table.column(name))
    return Arrived(table, of.order)


def without_marks(node: Ending, of: Arrived) -> Arrived:
    """Rows that report the end of a value are no tuples."""
    if node.ends.when is None:
        return of
    return kept(of, [one is not True for one in of.table.column(node.ends.when).to_pylist()])


def united(node: Union, *inputs: Arrived) -> Arrived:
    names = node.schema.names
    table = pa.concat_tables([one.table.select(names).cast(bare(node.schema)) for one in inputs])
    orders = [one.order for one in inputs if one.order is not None]
    if len(orders) < len(inputs):
        return Arrived(table, None)
    order = [at for one in orders for at in one]
    by_arrival = np.argsort(order, kind="stable")
    return Arrived(table.take(pa.array(by_arrival)), [order[i] for i in by_arrival])


def bare(schema: pa.Schema) -> pa.Schema:
    return pa.schema([pa.field(f.name, f.type) for f in schema])


def distinct(node: Distinct, of: Arrived) -> Arrived:
    survivors, last = [], {}
    for i, row in in_time_order(of.table, node.time):
        key = oracle.key(row, list(node.on))
        if key not in last or row[AT] - last[key] > (node.within or 0):
            last[key] = row[AT]
            survivors.append(i)
    return Arrived(of.table.take(pa.array(survivors, pa.int64())).select(node.schema.names), None)


def ordered(node: Order, of: Arrived) -> Arrived:
    return Arrived(of.table.take(pa.array([i for i, _ in in_time_order(of.table, node.time)], pa.int64())), None)


def in_time_order(table: pa.Table, time: str) -> list[tuple[int, Row]]:
    """Rows that have a time, by (time, values), each with its place in the table."""
    rows = [(i, row | {AT: ticks(row[time])}) for i, row in enumerate(table.to_pylist())]
    known = [(i, row) for i, row in rows if row[AT] is not None]
    return sorted(known, key=lambda one: (one[1][AT], by_value(one[1], table.column_names)))


def by_value(row: Row, columns: list[str]) -> list[Any]:
    """An order of rows by their values, null first."""
    return [(row[name] is not None, (False, 0) if row[name] is None else oracle.ordered(row[name])) for name in columns]


def timed(table: pa.Table, time: str) -> list[Row]:
    """Rows with their time in ticks; a row without one is in no window."""
    rows = [row | {AT: ticks(row[time])} for row in table.to_pylist()]
    return [row for row in rows if row[AT] is not None]


def point(at: int | None, type: pa.DataType) -> Any:
    """A value of a progressing attribute from its ticks."""
    if at is None or pa.types.is_integer(type):
        return at
    if pa.types.is_timestamp(type):
        moment = EPOCH + dt.timedelta(microseconds=at)
        return moment if type.tz else moment.replace(tzinfo=None)
    if pa.types.is_date(type):
        return EPOCH.date() + dt.timedelta(days=at)
    return Decimal(at).scaleb(-type.scale)


def asked(aggregates: Any) -> dict[str, tuple[Any, ...]]:
    """Aggregates as tests/oracle.py takes them."""
    out = {}
    for name, a in aggregates:
        of = a.of if isinstance(a, Filtered) else a
        further = [getattr(of, PARAMETERS[of.name])] if of.name in PARAMETERS else []
        out[name] = ("filter", FILTER + a.where) if isinstance(a, Filtered) else ()
        out[name] += (of.name, *(of.columns or (None,)), *further)
    return out


def judged(table: pa.Table, aggregates: Any) -> pa.Table:
    """The rows with a column for the filter of each aggregate: whether the row counts."""
    for where in {a.where for _, a in aggregates if isinstance(a, Filtered)}:
        holds = Expression.condition(where, table.schema, zone_of(table.schema)).evaluate(table)
        table = table.append_column(FILTER + where, holds)
    return table


def windowed(node: Aggregate, of: Arrived) -> Arrived:
    rows = timed(judged(of.table, node.aggregates), node.time)
    aggregates, groups = asked(node.aggregates), list(node.groups)
    if isinstance(node.window, Over):
        return results(node, over(rows, node.window, groups, aggregates))
    window: Any = node.window
    if not node.anchored and rows:
        window = window.at(min(row[AT] for row in rows))
    answers = oracle.aggregate_windows(rows, AT, window, groups, aggregates)
    type = node.schema.field("window_end").type
    for row in answers:
        last = row["window_end"] - (0 if isinstance(window, SlideByTuple) else 1)
        row |= {name: point(row[name], type) for name in ("window_start", "window_end")}
        row["window_time"] = point(last, type)
    return results(node, answers)


def over(rows: list[Row], window: Over, groups: list[str], aggregates: dict[str, tuple[Any, ...]]) -> list[Row]:
    keys = [oracle.key(row, groups) for row in rows]
    codes = [keys.index(key) for key in keys]
    tuples = Tuples(np.array([row[AT] for row in rows], np.int64), np.array(codes, np.int64))
    answers = []
    for wid, at in enumerate(window.windows(tuples).tolist()):
        inside = [row for row, is_in in zip(rows, window.extent(wid, tuples), strict=True) if is_in]
        answers.append(rows[at] | {name: oracle.aggregate(inside, AT, a) for name, a in aggregates.items()})
    return answers


def results(node: Node, rows: list[Row]) -> Arrived:
    names = node.schema.names
    return Arrived(pa.Table.from_pylist([{n: row[n] for n in names} for row in rows], schema=bare(node.schema)), None)


def grouped(node: GroupBy, of: Arrived) -> Arrived:
    time = next((p.attribute for p in node.of.properties.progress if p.attribute in of.table.column_names), None)
    groups: dict[Any, list[Row]] = {}
    for row in judged(of.table, node.aggregates).to_pylist():
        at = ticks(row[time]) if time is not None else 0
        groups.setdefault(oracle.key(row, list(node.groups)), []).append(row | {AT: -math.inf if at is None else at})
    aggregates = asked(node.aggregates)
    return results(
        node,
        [
            {name: rows[0][name] for name in node.groups}
            | {name: oracle.aggregate(rows, AT, one) for name, one in aggregates.items()}
            for rows in groups.values()
        ],
    )


def joined(node: Join, *inputs: Arrived) -> Arrived:
    sides = [timed(one.table, time) for one, time in zip(inputs, node.times, strict=True)]
    on = list(zip(*node.keys, strict=True))
    columns = [schema.names for schema in node.schemas]
    called = naming(on, node.names, columns)
    one_sided = node.how in ("semi", "anti")
    if one_sided:
        called = {name: [(0, name)] for name in columns[0]}
    shown = {name: places for name, places in called.items() if name in node.schema.names}
    pairs: list[Any]
    if len(sides) > 2:
        grid = node.grid
        pairs = n_way(sides, node.keys, node.waits, [AT] * len(sides)) if grid is None else n_grid(node, sides)
        if node.condition is not None:
            pairs = [pair for pair in pairs if holds(node, pair, naming(on, node.names, columns))]
    else:
        paired = naming(on, node.names, columns)
        condition = None if node.condition is None else lambda a, b: holds(node, (a, b), paired)
        pairs = list(two(node, *sides, on, condition))
    rows = as_rows(pairs, shown)
    if node.grid is not None:
        type = node.schema.field("window_start").type
        for row in rows:
            row |= {name: point(row[name], type) for name in ("window_start", "window_end")}
    return results(node, rows)


def oblivious(node: ObliviousJoin, *inputs: Arrived) -> Arrived:
    """All combinations of rows that agree on the key."""
    keys = [key[node.place] for key in node.keys]
    sides = [timed(one.table, time) for one, time in zip(inputs, keys, strict=True)]
    columns = [schema.names for schema in node.schemas]
    called = naming(list(zip(*node.keys, strict=True)), node.names, columns)
    shown = {name: places for name, places in called.items() if name in node.schema.names}
    pairs = n_way(sides, node.keys, (None,) * len(sides), [AT] * len(sides))
    return results(node, as_rows(pairs, shown))


def two(node: Join, left: list[Row], right: list[Row], on: Any, condition: Any) -> Any:
    options = {"how": node.how, "condition": condition, "null_safe": node.null_safe}
    times = {"left_time": AT, "right_time": AT}
    if node.rows is not None:
        waits = [
            None if count is not None else math.inf if wait is None else wait
            for count, wait in zip(node.rows, node.waits, strict=True)
        ]
        return count_join(
            left, right, on, *node.rows, node.per_key, left_wait=waits[0], right_wait=waits[1], **options, **times
        )
    if node.grid is not None:
        grid = node.grid
        start = grid.origin - grid.range % grid.slide
        return grid_join(left, right, on, grid.range, grid.slide, start, **options, **times)
    high, low = node.waits[0], node.waits[1]
    return band_join(left, right, on, None if low is None else -low, high, **options, **times)


def n_grid(node: Join, sides: list[list[Row]]) -> list[Any]:
    raise NotImplementedError("the judge has no grid of three inputs")


def holds(node: Join, pair: tuple[Row, ...], called: dict[str, list[tuple[int, str]]]) -> bool:
    """The condition on one pair."""
    if callable(node.condition):
        table = paired_table(node, pair, called)
        return node.condition(table).to_pylist()[0] is True
    assert node.condition is not None
    table = paired_table(node, pair, called)
    return Expression.condition(node.condition, table.schema, zone_of(table.schema)).evaluate(table)[0].as_py() is True


def paired_table(node: Join, pair: tuple[Row, ...], called: dict[str, list[tuple[int, str]]]) -> pa.Table:
    types = {name: node.schemas[places[0][0]].field(places[0][1]).type for name, places in called.items()}
    (row,) = as_rows([pair], {n: [p for p in places if p[1] in pair[p[0]]] for n, places in called.items()})
    return pa.Table.from_pylist([row], schema=pa.schema(list(types.items())))


RULES: dict[type[Node], Callable[..., Arrived]] = {
    Filter: selected,
    Mark: selected,
    Derive: derived,
    Project: projected,
    Map: mapped,
    Ending: without_marks,
    Union: united,
    Distinct: distinct,
    Order: ordered,
    Aggregate: windowed,
    GroupBy: grouped,
    Join: joined,
    ObliviousJoin: oblivious,
}
"""What each node means."""


def unlike(got: pa.Table, expected: pa.Table) -> str:
    """What is missing, too much or different between two bags of rows; the empty string if nothing is."""
    if got.schema.names != expected.schema.names:
        return f"columns are {got.schema.names}, expected {expected.schema.names}"
    ours, theirs = in_order(got), in_order(expected)
    if len(ours) != len(theirs):
        extra, missing = less(ours, theirs), less(theirs, ours)
        return f"{len(ours)} rows, expected {len(theirs)}; too much: {extra[:3]}; missing: {missing[:3]}"
    for a, b in zip(ours, theirs, strict=True):
        if not all(same(a[name], b[name]) for name in a):
            return f"got {a}, expected {b}; too much: {less(ours, theirs)[:3]}; missing: {less(theirs, ours)[:3]}"
    return ""


def in_order(table: pa.Table) -> list[Row]:
    """Rows in an order that rounding does not change: by exact columns first."""
    return sorted(table.to_pylist(), key=rough)


def rough(row: Row) -> tuple[list[str], list[str]]:
    floats = [name for name, value in row.items() if isinstance(value, float)]
    return (
        [f"{name}={value!r}" for name, value in row.items() if name not in floats],
        [f"{name}={row[name]:.6g}" for name in floats],
    )


def less(rows: list[Row], others: list[Row]) -> list[Row]:
    """The rows of the first list that the second lacks."""
    left = [rough(row) for row in others]
    out = []
    for row in rows:
        if rough(row) in left:
            left.remove(rough(row))
        else:
            out.append(row)
    return out
