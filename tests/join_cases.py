"""Outside cases of joins: from what a case asks to a join of two streams, and from its results to what it selects.

Columns are called l_... on the left and r_... on the right. So a key that has one name on both sides is there twice,
and a side that is missing from a result is told by its nulls: its time `l_t` or `r_t` is never null otherwise.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from decimal import Decimal
from typing import Any

import pyarrow as pa

import lowwater as lw

Row = dict[str, Any]
Case = dict[str, Any]
Arrived = list[tuple[int, Row]]
"""(side, row) in the order of arrival."""
Open = Callable[[pa.Table, str, str, lw.Disorder], lw.Stream]
"""A stream of a table, by its name, progressing attribute and disorder, on whichever backend."""

TYPES = {"BIGINT": pa.int64(), "INT": pa.int64(), "STRING": pa.string(), "BOOLEAN": pa.bool_()}
FINEST = Decimal("0.000001")
"""A tick of times that are no whole numbers."""
BEHIND = 600_000
"""How much later the rows of a stream that is joined with itself come for the second time."""
PREFIX = ("l_", "r_")


def opened(data: Any, name: str, progress: str, disorder: lw.Disorder) -> lw.Stream:
    return lw.stream(data, name=name, progress=progress, disorder=disorder)


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


def asked(case: Case, tables: Sequence[pa.Table], open: Open) -> lw.Joined:
    """The join of a case whose sides are streams."""
    query = case["query"]
    left, right = (
        open(table, name, PREFIX[side] + "t", disorder_of(table, side, case))
        for side, (table, name) in enumerate(zip(tables, ("left", "right"), strict=True))
    )
    on = [(PREFIX[0] + a, PREFIX[1] + b) for a, b in query["on"]]
    condition = " AND ".join(sql(one) for one in query["where"]) or None
    how, null_safe = query["join_type"], query.get("null_safe_equality", False)
    if query["kind"] == "interval_join":
        band = (query["lower"], query["upper"])
        return left.join(right, on, band, how, bounds=query["bounds"], condition=condition, null_safe=null_safe)
    window = query["window"]
    assert window["type"] in ("tumble", "hop")
    grid = {"window": window["size"], "slide": window["slide"], "origin": Decimal(str(window["origin"]))}
    # In the reading of these cases (check_cases.py) null is a key like any other where windows are joined.
    return left.join(right, on, how=how, condition=condition, null_safe=True, **grid)


def sql(condition: Row) -> str:
    def side(of: Row) -> str:
        if "col" in of:
            place, column = of["col"]
            return PREFIX[place == "right"] + str(column)
        text = str(of["const"]).replace("'", "''")
        return f"'{text}'" if isinstance(of["const"], str) else text

    return f"{side(condition['left'])} {condition['op']} {side(condition['right'])}"


def run(query: lw.Joined, tables: Sequence[pa.Table], rows: Arrived, drops: bool) -> pa.Table:
    """Pushes rows as they came: one at a time if some may be dropped, otherwise as long as they are of one side."""
    running = query.start(shards=2)
    at, since = [0, 0], [0, 0]
    for number, (side, _) in enumerate(rows):
        at[side] += 1
        turn = number + 1 == len(rows) or rows[number + 1][0] != side
        if turn or drops:
            running.push(tables[side].slice(since[side], at[side] - since[side]), side)
            since[side] = at[side]
    running.finish()
    told = running.metrics()
    assert told.state_rows == 0
    assert drops or told.late_rows == 0
    return running.result()


def selected(results: pa.Table, query: Row) -> list[Row]:
    """What a case selects of its results."""
    found = [picked(row, query) for row in results.to_pylist() if begun(row, query)]
    return unlike(found) if query.get("distinct") else found


def begun(row: Row, query: Row) -> bool:
    """Whether a window is one of the case: some suites have none before a given start."""
    least = query.get("window", {}).get("min_start")
    return least is None or row["window_start"] >= least


def picked(row: Row, query: Row) -> Row:
    told = {}
    for place, column, name in query["select"]:
        if place == "window":
            value = row[f"window_{column}"]
        elif place == "coalesce":
            side = int(row["l_t"] is None)
            own = PREFIX[side] + column
            value = row[own] if own in row else row[PREFIX[side] + query["on"][0][side]]
        else:
            value = row[PREFIX[place == "right"] + column]
        told[name] = float(value) if isinstance(value, Decimal) else value
    return told


def unlike(rows: list[Row]) -> list[Row]:
    return list({json.dumps(row, sort_keys=True): row for row in rows}.values())


def computed(case: Case, arrival: Iterable[Row]) -> list[Row]:
    """The results of a join of streams on the local backend."""
    rows = arrived(case, arrival)
    tables = tables_of(case, rows)
    results = run(asked(case, tables, opened), tables, rows, case["lateness"]["rule"] == "drop_row")
    return selected(results, case["query"])


# -- joins of results -----------------------------------------------------------------------------------------------


def as_stream(rows: list[Row], schema: pa.Schema, side: int, progress: str) -> lw.Stream:
    """Results of windows as a stream of their own, in order of the window."""
    table = pa.Table.from_pylist(sorted(rows, key=lambda row: row[progress]), schema=schema)
    table = table.rename_columns([PREFIX[side] + name for name in table.column_names])
    return lw.stream(table, name=("left", "right")[side], progress=PREFIX[side] + progress, disorder=lw.ordered())


def join_of_windows(query: Row, left: lw.Stream, right: lw.Stream) -> list[Row]:
    """Results of windows that are the same window and equal on the key: starts are compared as times, ends as keys."""
    on = [("l_window_end", "r_window_end"), *((PREFIX[0] + a, PREFIX[1] + b) for a, b in query["on"])]
    results = left.join(right, on, 0, query["join_type"], null_safe=query.get("null_safe_equality", False)).collect()
    return selected(results, query)


def bids_of_best(best: list[Row], bids: pa.Table, schema: pa.Schema, size: int) -> list[Row]:
    """NEXMark query 7: the bids of the best price of a window, by the time up to its end; both ends belong to it."""
    windows = as_stream(best, schema, 0, "window_end")
    placed = opened(bids, "right", "t", lw.delay(most_behind(bids.column("t").to_pylist())))
    found = windows.join(placed, [("l_price", "price")], (-size, 0)).collect()
    return [{**row, "event_time": row["t"]} for row in found.to_pylist()]
