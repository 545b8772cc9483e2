"""EXPLAIN of plans of several stateful operators, kept as text: stages, what crosses between them, and why.

`LOWWATER_REFRESH=1 pytest tests/test_tree_plans.py` writes the files anew; look at the difference before it is
committed.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lowwater as lw
from lowwater.query.logical import Stateful

FOLDER = Path(__file__).parent / "tree_plans"
STAMP = pa.timestamp("us", "UTC")
PACKET = pa.schema([("ts", STAMP), ("link", pa.string()), ("ip", pa.string()), ("len", pa.int64())])


def packets(name: str = "Main", disorder: str = "5 seconds") -> lw.Relation:
    return lw.stream(PACKET.empty_table(), name=name, progress="ts", disorder=disorder)


def per_minute(name: str = "Main") -> lw.Relation:
    return packets(name).window("1 minute").group_by("ip").agg(n=lw.count(), bytes=lw.sum("len")).named(f"of_{name}")


def sliding() -> lw.Relation:
    return packets().window("10 minutes", "1 minute").group_by("ip").agg(n=lw.count())


def joined(how: str = "inner") -> lw.Relation:
    return packets().join(packets("Control"), on="ip", within="3 minutes", how=how).named("both")


def shares(counts: lw.Relation) -> lw.Relation:
    """Counts beside the total of their window: one result used twice."""
    totals = counts.group_by("window_end").agg(total=lw.sum("n")).named("all")
    return counts.join(totals, on="window_end").with_column("share", "n / total")


def as_they_are(rows: pa.Table) -> pa.Table:
    return rows


def over_links() -> lw.Relation:
    """The packets of three links."""
    return packets("L1").union(packets("L2", "1 second"), packets("L3", "30 seconds")).named("links")


def several() -> lw.Together:
    """Three queries over one stream, of which one reads the results of another, and one reads a second stream, too."""
    main, control = packets(), packets("Control")
    counts = main.window("1 minute").group_by("ip").agg(n=lw.count()).named("counts")
    totals = counts.group_by("window_end").agg(total=lw.sum("n"))
    return lw.together(counts=counts, totals=totals, control=main.join(control, on="ip", within="3 minutes"))


def sensors() -> list[lw.Relation]:
    """Four sensors of which only the disorder is expected (WO 1)."""
    schema = pa.schema([("epoch", pa.int64()), ("val", pa.float64())]).empty_table()
    return [lw.stream(schema, name=f"s{i}", progress="epoch", disorder=lw.measured()) for i in (1, 2, 3, 4)]


def two_and_two(expect: Any = None) -> lw.Relation:
    """Joins without a window, over the results of joins without a window (WO Query 2)."""
    a, b, c, d = sensors()
    left, right = (lw.oblivious_join(pair, on="epoch", expect=expect) for pair in ([a, b], [c, d]))
    return lw.oblivious_join([left.named("left"), right.named("right")], on="epoch")


QUERIES: dict[str, Callable[[], lw.Relation]] = {
    "oblivious_monitored": two_and_two,
    "oblivious_expected": lambda: two_and_two(lw.expect(scrambling=500, rate=50, multiplicity=2)),
    "average_of_maxima": lambda: (
        packets().window("1 minute").agg(most=lw.max("len")).window("1 hour").agg(mean=lw.avg("most"))
    ),
    "busiest_by_window": lambda: sliding().window("1 minute").agg(most=lw.max("n")),
    "busiest_by_start_and_end": lambda: sliding().group_by("window_start", "window_end").agg(most=lw.max("n")),
    "hourly_by_the_same_key": lambda: per_minute().window("1 hour").group_by("ip").agg(most=lw.max("n")),
    "landmark_of_counts": lambda: per_minute().window("all", "1 hour").agg(total=lw.sum("n")),
    "landmark_behind_join": lambda: joined().window("all", "1 hour", over="Main_ts").group_by("ip").agg(n=lw.count()),
    "sessions_of_counts": lambda: (
        per_minute().where("n > 100").session("5 minutes").group_by("ip").agg(most=lw.max("n"))
    ),
    "over_counts": lambda: per_minute().over("ip", rows=(5, 0)).agg(mean=lw.avg("n")),
    "counts_in_order": lambda: per_minute().where("n > 10").in_order(),
    "having_twice": lambda: (
        per_minute()
        .where("n > 10")
        .with_column("size", "bytes / n")
        .window("1 hour")
        .agg(largest=lw.max("size"))
        .where("largest > 1000")
    ),
    "join_of_counts": lambda: per_minute().join(per_minute("Control"), on=["window_start", "ip"]),
    "join_of_counts_full": lambda: per_minute().join(per_minute("Control"), on=["window_end", "ip"], how="full"),
    "join_with_total": lambda: shares(per_minute()),
    "join_of_counts_and_rows": lambda: packets("Control").join(per_minute(), on="ip", within=("0 seconds", "1 minute")),
    "join_over_union": lambda: over_links().join(per_minute(), on="ip", within="1 minute").where("len > 0"),
    "join_over_join": lambda: joined().join(packets("Third"), on="ip", within="1 minute"),
    "join_over_join_by_another_key": lambda: joined().join(
        packets("Third"), on=[("Main_link", "link")], within="1 minute"
    ),
    "count_behind_join": lambda: joined().window("1 minute", over="Main_ts").group_by("ip").agg(n=lw.count()),
    "count_behind_join_by_another_key": lambda: (
        joined().window("1 minute", over="Main_ts").group_by("Control_link").agg(n=lw.count())
    ),
    "later_time_behind_full_join": lambda: (
        joined("full")
        .with_column("t", "greatest(Main_ts, Control_ts)")
        .window("1 minute", over="t")
        .group_by("ip")
        .agg(n=lw.count())
    ),
    "moved_time": lambda: (
        per_minute()
        .with_column("due", "window_end + INTERVAL 10 MINUTES")
        .window("1 hour", over="due")
        .agg(n=lw.sum("n"))
    ),
    "count_over_union_of_counts": lambda: per_minute().union(per_minute("Control")).window("1 hour").agg(n=lw.sum("n")),
    "union_of_join_and_counts": lambda: (
        joined()
        .select("Main_ts", "ip")
        .window("1 minute")
        .group_by("ip")
        .agg(n=lw.count())
        .union(per_minute("Third").select("wid", "window_start", "window_end", "ip", "n"))
        .window("1 hour")
        .group_by("ip")
        .agg(n=lw.sum("n"))
    ),
    "distinct_over_union": lambda: over_links().distinct("ts", "ip").window("1 minute").agg(n=lw.count()),
    "distinct_per_window": lambda: over_links().window("1 minute").distinct("ip").window("1 hour").agg(n=lw.count()),
    "first_of_each_key": lambda: (
        over_links().drop_duplicates("ip", within="10 minutes").window("1 hour").group_by("ip").agg(n=lw.count())
    ),
    "three_levels": lambda: (
        per_minute().window("10 minutes").group_by("ip").agg(most=lw.max("n")).window("1 hour").agg(mean=lw.avg("most"))
    ),
    "function_in_between": lambda: (
        per_minute().apply(as_they_are, per_minute().schema).window("1 hour").group_by("ip").agg(n=lw.sum("n"))
    ),
    "flush_in_between": lambda: (
        packets()
        .window("1 minute")
        .emit(flush=lw.lazy_flush(windows=1))
        .group_by("ip")
        .agg(n=lw.count())
        .window("1 hour")
        .agg(most=lw.max("n"))
    ),
    "several_queries": several,
}


@pytest.mark.parametrize("name", QUERIES)
def test_plan(name: str) -> None:
    query = QUERIES[name]()
    assert sum(isinstance(node, Stateful) for node in query.node.walk()) >= 2
    text = query.explain() + "\n"
    file = FOLDER / f"{name}.txt"
    if os.environ.get("LOWWATER_REFRESH"):
        FOLDER.mkdir(exist_ok=True)
        file.write_text(text)
    assert text == file.read_text()


def test_every_file_has_a_plan() -> None:
    assert {file.stem for file in FOLDER.glob("*.txt")} == set(QUERIES)
