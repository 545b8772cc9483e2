"""Outside cases as plans: what a case asks is one relation of lowwater, whatever the case does with its results.

    filter                              where() behind the aggregation
    agg_per_window                      a group-by of the results by their window
    keep_rows_equal_to_max_of_window    the results joined with the maximum of each window
    top_n_per_window, n = 1             the same for one column of the order after the other
    a query over results                OVER behind the aggregation
    a join of aggregations              a join on window and key; NEXMark q7 is one of an aggregation with its input

No operator numbers the rows of a window, so n > 1 has no short form; cases_of_ours.yaml has one that counts, for each
row, the rows that are better. No case of the three suites asks for n > 1.

Nothing is computed outside of the plan. A finite case that is pushed row by row is `computed`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

import lowwater as lw
from tests import join_cases
from tests.join_cases import PREFIX, TYPES, Case, Row, Streams

DERIVED = {
    "counter % 5": "counter % 5",
    "0 if counter % 10 == 0 else counter": "CASE WHEN counter % 10 = 0 THEN 0 ELSE counter END",
}
"""Expressions of `derive` (Python) and what they are in SQL."""
HOUR = 3_600_000
ALWAYS = 1 << 50
"""A window from the epoch on that holds all rows of all cases."""
FUNCTIONS: dict[str, Callable[..., Any]] = {
    "count": lw.count,
    "sum": lw.sum,
    "min": lw.min,
    "max": lw.max,
    "avg": lw.avg,
    "var_pop": lw.var_pop,
    "stddev_pop": lw.stddev_pop,
    "count_distinct": lw.count_distinct,
}
DROPS = ("drop_row", "drop_per_window")
"""Rules of lateness under which rows come one at a time, because some may be dropped."""


@dataclass(frozen=True, eq=False)
class Inputs:
    """The rows of a case: those of each stream, how disordered they are, and the order of arrival over all streams."""

    tables: dict[str, pa.Table]
    progress: dict[str, str]
    disorder: dict[str, lw.Disorder]
    order: Sequence[str]
    """The stream of each row, in the order of arrival."""

    def streams(self, frame: Callable[[str, pa.Table], Any] = lambda _, table: table) -> Streams:
        """The streams over whatever `frame` makes of a name and its rows: the rows themselves, or a DataFrame."""
        opened: dict[str, lw.Relation] = {}

        def stream(name: str) -> lw.Relation:
            if name not in opened:
                data = frame(name, self.tables[name])
                opened[name] = lw.stream(data, name=name, progress=self.progress[name], disorder=self.disorder[name])
            return opened[name]

        return stream

    def pushes(self, most: int) -> Iterator[tuple[str, pa.Table]]:
        """The rows as they came, as long as they are of one stream and not more than `most`."""
        at = dict.fromkeys(self.tables, 0)
        since = 0
        for number, name in enumerate(self.order):
            last = number + 1 == len(self.order) or self.order[number + 1] != name
            if last or number + 1 - since == most:
                yield name, self.tables[name].slice(at[name], number + 1 - since)
                at[name] += number + 1 - since
                since = number + 1


def inputs_of(case: Case, arrival: Iterable[Row]) -> Inputs:
    if case["query"]["kind"] in ("interval_join", "window_join"):
        rows = join_cases.arrived(case, arrival)
        names = ("left", "right")
        tables = dict(zip(names, join_cases.tables_of(case, rows), strict=True))
        return Inputs(
            tables,
            {name: PREFIX[side] + "t" for side, name in enumerate(names)},
            {name: join_cases.disorder_of(tables[name], side, case) for side, name in enumerate(names)},
            [names[side] for side, _ in rows],
        )
    data = [one for one in arrival if "wm" not in one]
    tables = {}
    for name, declared in case["streams"].items():
        schema = pa.schema(
            [("t", pa.int64()), *((column, TYPES[type]) for column, type in declared["columns"].items())]
        )
        tables[name] = pa.Table.from_pylist([{"t": a["t"], **a["r"]} for a in data if a["s"] == name], schema=schema)
    disorder = {name: disorder_of(table, case) for name, table in tables.items()}
    return Inputs(tables, dict.fromkeys(tables, "t"), disorder, [a["s"] for a in data])


def disorder_of(table: pa.Table, case: Case) -> lw.Disorder:
    """The grace of a case that drops late rows; for the others, as much as the rows are disordered."""
    if case["lateness"]["rule"] == "drop_per_window":
        return lw.delay(case["lateness"]["grace"])
    assert case["lateness"]["rule"] == "none"
    return lw.delay(join_cases.most_behind(table.column("t").to_pylist()))


# -- plans ----------------------------------------------------------------------------------------------------------


def planned(query: Row, streams: Streams) -> lw.Relation:
    """The plan of a case over its streams."""
    return KINDS[query["kind"]](query, streams)


def aggregation(query: Row, streams: Streams) -> lw.Relation:
    stream = streams(query["input"])
    for condition in query["where"]:
        stream = stream.where(sql(condition))
    for new in query.get("derive", []):
        stream = stream.with_column(new["as"], DERIVED[new["expr"]])
    window, groups, wanted = query["window"], query["group_by"], aggregates(query["aggs"])
    if window["type"] == "global":  # the last value of a landmark window
        hourly = stream.window(range="all", slide=HOUR).group_by(*groups).agg(**wanted)
        found = hourly.window(range=ALWAYS).group_by(*groups).agg(**{name: lw.last(name) for name in wanted})
    elif window["type"] == "session":
        found = stream.session(window["gap"]).group_by(*groups).agg(**wanted)
    else:
        assert window["type"] in ("tumble", "hop")
        over = stream.window(range=window["size"], slide=window["slide"], origin=window["origin"])
        found = over.group_by(*groups).agg(**wanted)
    for step in query.get("then", []):
        found = STEPS[step["op"]](found, step)
    return found


def over(query: Row, streams: Streams) -> lw.Relation:
    """OVER the rows of a stream, or over the results of another query in order of their windows."""
    of = query["input"]
    rows = planned(of, streams) if isinstance(of, dict) else streams(of)
    assert not isinstance(of, dict) or query["order_by"] == "window_start"
    frame = (query["preceding"], query["following"])
    found = rows.over(query["partition_by"], **{query["frame"]: frame}).agg(**aggregates(query["aggs"]))
    return found.select(*query["select"]) if isinstance(of, dict) else found


def join_of_aggregates(query: Row, streams: Streams) -> lw.Relation:
    return join_cases.join_of_windows(query, planned(query["left"], streams), planned(query["right"], streams))


def highest_bids(query: Row, streams: Streams) -> lw.Relation:
    """NEXMark query 7: bids of the best price of a window, by the time up to its end; both ends belong to it."""
    size, bids = query["window"]["size"], streams("bid")
    best = bids.window(range=size).agg(best=lw.max("price"))
    found = best.named("window").join(bids, [("best", "price")], (-size, 0), over=("window_end", None))
    return found.with_column("event_time", "t").select("auction", "price", "bidder", "event_time")


KINDS: dict[str, Callable[[Row, Streams], lw.Relation]] = {
    "window_agg": aggregation,
    "over_agg": over,
    "interval_join": join_cases.join_of_streams,
    "window_join": join_cases.join_of_streams,
    "window_join_of_aggs": join_of_aggregates,
    "nexmark_q7": highest_bids,
}


def aggregates(wanted: list[Row]) -> dict[str, Any]:
    return {a["as"]: FUNCTIONS[a["fn"]](*([a["col"]] if a["col"] else [])) for a in wanted}


def sql(condition: Row) -> str:
    left, right = (
        side["col"] if "col" in side else f"'{side['const']}'" if isinstance(side["const"], str) else str(side["const"])
        for side in (condition["left"], condition["right"])
    )
    return f"{left} {condition['op']} {right}"


# -- what a case does with its results ------------------------------------------------------------------------------


def filtered(results: lw.Relation, step: Row) -> lw.Relation:
    for condition in step["where"]:
        results = results.where(sql(condition))
    return results


def largest(results: lw.Relation, column: str) -> lw.Relation:
    """The results whose value is the largest of their window, ties included."""
    most = results.group_by("window_start", "window_end").agg(most=lw.max(column))
    on = ["window_start", "window_end", (column, "most")]
    return results.named("of").join(most.named("window"), on).select(*results.schema.names)


def best(results: lw.Relation, step: Row) -> lw.Relation:
    assert step["n"] == 1
    for column, direction in step["order"]:
        assert direction == "desc"
        results = largest(results, column)
    return results


STEPS: dict[str, Callable[[lw.Relation, Row], lw.Relation]] = {
    "filter": filtered,
    "top_n_per_window": best,
    "keep_rows_equal_to_max_of_window": lambda results, step: largest(results, step["col"]),
    "agg_per_window": lambda results, step: results.group_by("window_start", "window_end").agg(
        **aggregates(step["aggs"])
    ),
    "project": lambda results, step: results.select(*step["cols"]),
}


# -- on the local backend -------------------------------------------------------------------------------------------


def computed(case: Case, arrival: Iterable[Row], plan: Callable[[Row, Streams], lw.Relation] = planned) -> list[Row]:
    """The results of a case on the local backend, its rows pushed as they came. State is empty behind the end."""
    inputs = inputs_of(case, arrival)
    drops = case["lateness"]["rule"] in DROPS
    running = plan(case["query"], inputs.streams()).start(shards=2)
    ports = {one.name: port for port, one in enumerate(running.plan.inputs)}
    for name, rows in inputs.pushes(1 if drops else 1000):
        if name in ports:
            running.push(rows, ports[name])
    if case.get("emit") != "on_close":
        running.finish()
        assert running.metrics().state_rows == 0
    assert drops or running.metrics().late_rows == 0
    return running.result().to_pylist()
