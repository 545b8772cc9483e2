"""Outside cases as texts: what a case asks, as one query of the language. tests/case_plans.py has them as plans."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import lowwater as lw
from tests import join_cases
from tests.case_plans import ALWAYS, DERIVED, HOUR, sql
from tests.join_cases import PREFIX, Row, Streams

WINDOW = ["window_start", "window_end"]


def asked(query: Row, streams: Streams) -> lw.Relation:
    """The relation of the text of a case."""
    return lw.sql(text_of(query), **{name: streams(name) for name in names_of(query)})


def names_of(query: Any) -> set[str]:
    """The streams that a case reads."""
    if query["kind"] in ("interval_join", "window_join"):
        return {"left", "right"}
    if query["kind"] == "nexmark_q7":
        return {"bid"}
    found: set[str] = set()
    for part in (query.get("input"), query.get("left"), query.get("right")):
        found |= names_of(part) if isinstance(part, dict) else {part} if part else set()
    return found


def text_of(query: Row) -> str:
    return KINDS[query["kind"]](query)


def aggregation(query: Row) -> str:
    window, groups, aggs = query["window"], query["group_by"], aggregates(query["aggs"])
    where = f" WHERE {' AND '.join(map(sql, query['where']))}" if query["where"] else ""
    of = query["input"] + where
    if query.get("derive"):
        made = ", ".join(f"{DERIVED[new['expr']]} AS {new['as']}" for new in query["derive"])
        of = f"(SELECT *, {made} FROM {of}) AS made"
        where = ""
    source = of.removesuffix(where)
    if window["type"] == "session":
        items = ", ".join([*WINDOW, *groups, *aggs])
        found = (
            f"SELECT {items} FROM SESSION(TABLE {source}, DESCRIPTOR(t), {window['gap']}){where} "
            f"GROUP BY {', '.join([*WINDOW, *groups])}"
        )
    elif window["type"] == "global":  # the last value of a landmark window
        hourly = grouped(f"{source} [RANGE ALL, SLIDE {HOUR}]{where}", groups, aggs)
        last = [f"last({a['as']}) AS {a['as']}" for a in query["aggs"]]
        found = grouped(f"({hourly}) AS hourly [RANGE {ALWAYS}]", groups, last)
    else:
        clause = f"[RANGE {window['size']}, SLIDE {window['slide']}, ORIGIN {window['origin']}, WA t]"
        found = grouped(f"{source} {clause}{where}", groups, aggs)
    for step in query.get("then", []):
        found = STEPS[step["op"]](found, step)
    return found


def grouped(source: str, groups: list[str], items: list[str]) -> str:
    by = f" GROUP BY {', '.join(groups)}" if groups else ""
    return f"SELECT {', '.join([*groups, *items])} FROM {source}{by}"


def aggregates(wanted: list[Row]) -> list[str]:
    def call(fn: str, column: str | None) -> str:
        return f"count(DISTINCT {column})" if fn == "count_distinct" else f"{fn}({column or '*'})"

    return [f"{call(a['fn'], a['col'])} AS {a['as']}" for a in wanted]


def over(query: Row) -> str:
    of = query["input"]
    source, time = (f"({text_of(of)}) AS results", query["order_by"]) if isinstance(of, dict) else (of, "t")
    ends = [f"{'UNBOUNDED' if query[end] is None else query[end]} {end.upper()}" for end in ("preceding", "following")]
    by = f"PARTITION BY {', '.join(query['partition_by'])} " if query["partition_by"] else ""
    frame = f"({by}ORDER BY {time} {query['frame'].upper()} BETWEEN {ends[0]} AND {ends[1]})"
    aggs = [one.replace(" AS ", f" OVER {frame} AS ") for one in aggregates(query["aggs"])]
    if not isinstance(of, dict):
        return f"SELECT *, {', '.join(aggs)} FROM {source}"
    names = [one["as"] for one in query["aggs"]]
    return f"SELECT {', '.join([*(c for c in query['select'] if c not in names), *aggs])} FROM {source}"


def join_of_aggregates(query: Row) -> str:
    on = [("window_start", "window_start"), ("window_end", "window_end"), *query["on"]]
    condition = " AND ".join(f"l.{a} = r.{b}" for a, b in on)
    sides = [f"({text_of(query[side])}) AS {side[0]}" for side in ("left", "right")]
    items = ", ".join(f"{_selected(one, query, 'window_start')} AS {one[2]}" for one in query["select"])
    return f"SELECT {items} FROM {sides[0]} {query['join_type'].upper()} JOIN {sides[1]} ON {condition}"


def _selected(one: list[str], query: Row, there: str) -> str:
    place, column, _ = one
    if place == "coalesce":
        left, right = next((pair for pair in query["on"] if column in pair), (column, column))
        return f"CASE WHEN l.{there} IS NULL THEN r.{right} ELSE l.{left} END"
    return f"{place[0]}.{column}"


def join_of_streams(query: Row) -> str:
    """A join over an interval or over windows. The columns of a side have its prefix (tests/join_cases.py)."""
    same = "<=>" if query["kind"] == "window_join" or query.get("null_safe_equality") else "="
    on = [f"l_{a} {same} r_{b}" for a, b in query["on"]] + [join_cases.sql(one) for one in query["where"]]
    right = "right"
    if query["kind"] == "interval_join":
        above, below = (">" if query["bounds"][0] == "(" else ">="), ("<" if query["bounds"][1] == ")" else "<=")
        on += [f"r_t {above} l_t + {query['lower']}", f"r_t {below} l_t + {query['upper']}"]
    else:
        window = query["window"]
        right = f"right [RANGE {window['size']}, SLIDE {window['slide']}, ORIGIN {window['origin']}]"
    items = []
    for place, column, name in query["select"]:
        own = [PREFIX[side] + column for side in (0, 1)]
        if place == "coalesce":
            items.append(f"CASE WHEN l_t IS NULL THEN {own[1]} ELSE {own[0]} END AS {name}")
        else:
            items.append(name if place == "window" else f"{own[place == 'right']} AS {name}")
    distinct = "DISTINCT " if query.get("distinct") else ""
    return (
        f"SELECT {distinct}{', '.join(items)} FROM left {query['join_type'].upper()} JOIN {right} ON {' AND '.join(on)}"
    )


def highest_bids(query: Row) -> str:
    size = query["window"]["size"]
    return (
        "SELECT auction, price, bidder, t AS event_time "
        f"FROM (SELECT max(price) AS best FROM bid [RANGE {size}]) AS w, bid AS b "
        f"WHERE w.best = b.price AND b.t BETWEEN w.window_end - {size} AND w.window_end"
    )


KINDS: dict[str, Callable[[Row], str]] = {
    "window_agg": aggregation,
    "over_agg": over,
    "interval_join": join_of_streams,
    "window_join": join_of_streams,
    "window_join_of_aggs": join_of_aggregates,
    "nexmark_q7": highest_bids,
}


def largest(results: str, column: str) -> str:
    most = f"SELECT window_start, window_end, max({column}) AS most FROM r GROUP BY window_start, window_end"
    same = " AND ".join(f"r.{name} = w.{name}" for name in WINDOW)
    return f"WITH r AS ({results}), w AS ({most}) SELECT r.* FROM r, w WHERE {same} AND r.{column} = w.most"


def best(results: str, step: Row) -> str:
    assert step["n"] == 1
    for column, _ in step["order"]:
        results = largest(results, column)
    return results


STEPS: dict[str, Callable[[str, Row], str]] = {
    "filter": lambda of, step: f"SELECT * FROM ({of}) AS f WHERE {' AND '.join(map(sql, step['where']))}",
    "top_n_per_window": best,
    "keep_rows_equal_to_max_of_window": lambda of, step: largest(of, step["col"]),
    "agg_per_window": lambda of, step: (
        f"SELECT window_start, window_end, {', '.join(aggregates(step['aggs']))} FROM ({of}) AS a "
        "GROUP BY window_start, window_end"
    ),
    "project": lambda of, step: f"SELECT {', '.join(step['cols'])} FROM ({of}) AS p",
}
