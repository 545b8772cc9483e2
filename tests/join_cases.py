"""Outside cases of joins: from what a case asks to one plan, which is a join and what the case selects of it.

Columns are called l_... on the left and r_... on the right. So a key that has one name on both sides is there twice,
and nulls show which side is missing from a result: `l_t` or `r_t`, or the start of the window, is never null otherwise.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from decimal import Decimal
from typing import Any

import pyarrow as pa

import lowwater as lw

Row = dict[str, Any]
Case = dict[str, Any]
Arrived = list[tuple[int, Row]]
"""(side, row) in the order of arrival."""
Streams = Callable[[str], lw.Relation]
"""The streams of a case by their names, on either backend. One name is one relation, however often a plan reads it."""

TYPES = {"BIGINT": pa.int64(), "INT": pa.int64(), "STRING": pa.string(), "BOOLEAN": pa.bool_()}
FINEST = Decimal("0.000001")
"""A tick of times that are no whole numbers."""
BEHIND = 600_000
"""How much later the rows of a stream that is joined with itself come for the second time."""
PREFIX = ("l_", "r_")


def arrived(case: Case, arrival: Iterable[Row]) -> Arrived:
    """The rows of both sides as they come. One stream as both sides comes twice, the second time later."""
    query, rows = case["query"], [a for a in arrival if "wm" not in a]
    if query["left"] != query["right"]:
        sides = {query["left"]: 0, query["right"]: 1}
        return [(sides[a["s"]], {"t": a["t"], **a["r"]}) for a in rows if a["s"] in sides]
    clocked, newest = [], None
    for a in rows:
        if a["s"] == query["left"]:
            newest = a["t"] if newest is None else max(newest, a["t"])  # the clock does not go back with a late row
            clocked += [(newest + side * BEHIND, side, {"t": a["t"], **a["r"]}) for side in (0, 1)]
    return [(side, row) for _, side, row in sorted(clocked, key=lambda one: one[0])]


def tables_of(case: Case, rows: Arrived) -> list[pa.Table]:
    """The rows of each side. If a time or a length is no whole number, times of both sides are decimals."""
    lengths = {**case["query"], **case["query"].get("window", {}), **case["lateness"]}.values()
    whole = not any(isinstance(value, float) for value in (*lengths, *(row["t"] for _, row in rows)))
    columns: list[dict[str, pa.Array]] = []
    for side, name in enumerate((case["query"]["left"], case["query"]["right"])):
        own = [row for of, row in rows if of == side]
        times = [row["t"] if whole else Decimal(str(row["t"])) for row in own]
        columns.append({"t": pa.array(times, pa.int64() if whole else pa.decimal128(18, 6))})
        for column, told in case["streams"][name]["columns"].items():  # '' is no type: then it is that of the values
            columns[side][column] = pa.array([row[column] for row in own], TYPES.get(told))
    for names in case["query"]["on"]:  # where there are no values, that of what they are compared with
        types = [columns[side][name].type for side, name in enumerate(names)]
        for side, name in enumerate(names):
            if pa.types.is_null(types[side]):
                columns[side][name] = columns[side][name].cast(types[1 - side])
    return [pa.table({PREFIX[side] + name: values for name, values in columns[side].items()}) for side in (0, 1)]


def most_behind(times: Iterable[Any]) -> Any:
    """How far a row comes behind the largest time before it, at most."""
    newest, most = None, 0
    for t in times:
        newest = t if newest is None else max(newest, t)
        most = max(most, newest - t)
    return most


def disorder_of(table: pa.Table, side: int, case: Case) -> lw.Disorder:
    """What a case that drops rows allows them, or as much as they are disordered: then none is late."""
    time = table.column(PREFIX[side] + "t")
    if case["lateness"]["rule"] == "drop_row":  # dropped with t + cutoff <= newest, late with t + delay < newest
        cutoff = Decimal(str(case["lateness"]["cutoff"]))
        return lw.delay(str(cutoff - (1 if pa.types.is_integer(time.type) else FINEST)))
    assert case["lateness"]["rule"] == "none"
    return lw.delay(str(most_behind(time.to_pylist())))


def join_of_streams(query: Row, streams: Streams) -> lw.Relation:
    """A join over an interval or over windows, of the streams `left` and `right`."""
    left, right = streams("left"), streams("right")
    on = [(PREFIX[0] + a, PREFIX[1] + b) for a, b in query["on"]]
    condition = " AND ".join(sql(one) for one in query["where"]) or None
    how, null_safe = query["join_type"], query.get("null_safe_equality", False)
    if query["kind"] == "interval_join":
        band = (query["lower"], query["upper"])
        joined = left.join(right, on, band, how, bounds=query["bounds"], condition=condition, null_safe=null_safe)
        return selected(joined, query, "t")
    window = query["window"]
    assert window["type"] in ("tumble", "hop")
    grid = {"window": window["size"], "slide": window["slide"], "origin": Decimal(str(window["origin"]))}
    # In the reading of these cases (check_cases.py) null is a key like any other where windows are joined.
    joined = left.join(right, on, how=how, condition=condition, null_safe=True, **grid)
    if (least := window.get("min_start")) is not None:  # some suites have no windows before a given start
        joined = joined.where(f"window_start >= {least}")
    return selected(joined, query, "t")


def join_of_windows(query: Row, left: lw.Relation, right: lw.Relation) -> lw.Relation:
    """A join of two aggregations: rows of the same window that are equal on the key."""
    pairs = [("window_start", "window_start"), ("window_end", "window_end"), *map(tuple, query["on"])]
    sides = []
    for side, of in enumerate((left, right)):
        copied = of
        for name in of.schema.names:
            copied = copied.with_column(PREFIX[side] + name, name)
        kept = (*(pair[side] for pair in pairs), *(PREFIX[side] + name for name in of.schema.names))
        sides.append(copied.select(*kept).named(("left", "right")[side]))
    on = [pair[0] if pair[0] == pair[1] else pair for pair in pairs]
    null_safe = query.get("null_safe_equality", False)
    return selected(sides[0].join(sides[1], on, how=query["join_type"], null_safe=null_safe), query, "window_start")


def selected(joined: lw.Relation, query: Row, there: str) -> lw.Relation:
    """What a case selects of a join. The column `there` is null where its side is missing, and not otherwise."""
    for place, column, name in query["select"]:
        if place == "window":
            assert name == f"window_{column}"
            continue
        own = [PREFIX[side] + column for side in (0, 1)]
        expression = own[place == "right"]
        if place == "coalesce":  # one side may call the key by another name
            keys = [
                key if key in joined.schema.names else PREFIX[side] + query["on"][0][side]
                for side, key in enumerate(own)
            ]
            expression = f"CASE WHEN {PREFIX[0]}{there} IS NULL THEN {keys[1]} ELSE {keys[0]} END"
        joined = joined.with_column(name, expression)
    shown = joined.select(*(name for _, _, name in query["select"]))
    return shown.distinct() if query.get("distinct") else shown


def sql(condition: Row) -> str:
    def side(of: Row) -> str:
        if "col" in of:
            place, column = of["col"]
            return PREFIX[place == "right"] + str(column)
        text = str(of["const"]).replace("'", "''")
        return f"'{text}'" if isinstance(of["const"], str) else text

    return f"{side(condition['left'])} {condition['op']} {side(condition['right'])}"
