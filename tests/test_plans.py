"""EXPLAIN of typical queries, kept as text: a change of a plan, a reason or a bound is seen in review.

`LOWWATER_REFRESH=1 pytest tests/test_plans.py` writes the files anew; look at the difference before it is committed.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lowwater as lw

FOLDER = Path(__file__).parent / "plans"
PACKET = pa.schema(
    [
        ("ts", pa.timestamp("us", "UTC")),
        ("link", pa.string()),
        ("srcIP", pa.string()),
        ("len", pa.int32()),
        ("rtt", pa.float64()),
    ]
)


def packets(name: str = "Main", disorder: Any = "5 seconds", **more: Any) -> lw.Stream:
    return lw.stream(PACKET.empty_table(), name=name, progress="ts", disorder=disorder, **more)


AUCTION = pa.schema([("ts", pa.timestamp("us", "UTC")), ("item", pa.int64()), ("reserve", pa.int64())])
BID = pa.schema(
    [("ts", pa.timestamp("us", "UTC")), ("item", pa.int64()), ("price", pa.int64()), ("is_over", pa.bool_())]
)


def auctions() -> lw.Stream:
    return lw.stream(AUCTION.empty_table(), name="Auction", progress="ts", disorder=lw.ordered())


def bids() -> lw.Stream:
    return lw.stream(BID.empty_table(), name="Bid", progress="ts", disorder="2 minutes")


def queries() -> dict[str, lw.Query | lw.Joined]:
    by_minute = packets().window(range="10 minutes", slide="1 minute").group_by("srcIP")
    return {
        "tumbling": packets().window(range="10 minutes").group_by("srcIP").agg(n=lw.count(), bytes=lw.sum("len")),
        "sliding": by_minute.agg(n=lw.count(), bytes=lw.sum("len"), rtt=lw.avg("rtt"), slowest=lw.max("rtt")),
        "sliding_median": by_minute.agg(rtt=lw.median("rtt"), links=lw.count_distinct("link")),
        "landmark": packets().window(range="all", slide="1 minute").agg(n=lw.count()),
        "landmark_period": packets()
        .window(range="all", slide="1 hour", period="1 day")
        .group_by("link")
        .agg(bytes=lw.sum("len")),
        "three_links": packets("Control", lw.ordered())
        .union(packets("Main1", "3 seconds"), packets("Main2", "3 seconds"))
        .window(range="1 minute")
        .agg(n=lw.count()),
        "where_and_column": packets()
        .where("len > 100")
        .with_column("kilobytes", "len / 1000")
        .select("ts", "link", "kilobytes")
        .window(range="1 minute", slide="7 seconds")
        .group_by("link")
        .agg(kilobytes=lw.sum("kilobytes")),
        "strategy_buffer": by_minute.agg("buffer", n=lw.count()),
        "strategy_wid": by_minute.agg("wid", n=lw.count()),
        "origin_first": packets().window(range="1 minute", origin="first").agg(n=lw.count()),
        "learned_per_source": packets(
            disorder=lw.learned(0.99), source="link", idle=lw.idle(after="30 seconds", lag="10 seconds")
        )
        .window(range="1 minute")
        .agg(n=lw.count()),
        "closed_per_source": packets(source="link").window(range="1 minute").group_by("link").agg(n=lw.count()),
        "gaps": packets().window(range="1 minute", slide="1 hour").agg(n=lw.count()),
        **counted(),
        **emitted(),
        **joins(),
        **punctuated_joins(),
    }


def counted() -> dict[str, lw.Query]:
    """Windows that rows define, and queries of the thesis over them."""
    return {
        "rows": packets().window("1000 rows", "10 rows").group_by("srcIP").agg(longest=lw.max("len")),  # Q5-3
        "rows_of_each_source": packets()  # Q5-2
        .window("1000 rows", "10 rows", partition_by="srcIP", order="arrival")
        .agg(longest=lw.max("len")),
        "rows_by_time": packets().window("100 rows", partition_by="srcIP").agg(middle=lw.median("rtt")),
        "slide_by_tuple": packets().window("5 minutes", "1 row").agg(longest=lw.max("len")),  # Q5-5
        "slide_by_arrivals": packets().window("5 minutes", "5 rows").agg(longest=lw.max("len")),
        "slide_by_ranks": packets().window("5 minutes", "5 rows", order="rank").agg(n=lw.count()),  # Q5-6
        "session": packets().session("30 seconds").group_by("srcIP").agg(n=lw.count(), links=lw.collect_set("link")),
        "over_rows": packets().over("srcIP", rows=(3, 2)).agg(mean=lw.avg("rtt")),
        "over_range": packets().over("srcIP", range=("1 minute", "0 seconds")).agg(middle=lw.median("rtt")),
        "over_all": packets().over("srcIP", rows=(None, 0)).agg(bytes=lw.sum("len")),
    }


def emitted() -> dict[str, lw.Query]:
    """How state is kept for skewed groups, and when answers leave."""
    minute = packets().window(range="1 minute")
    return {
        "skewed": packets(groups="skewed").window("10 seconds", "1 second").group_by("srcIP").agg(n=lw.count()),
        "consistent_slack": minute.agg("buffer", late="drop", n=lw.count()),
        "early_and_late": minute.emit(early=True, allowed_lateness="10 minutes").agg(n=lw.count()),
        "slow_flush": minute.emit(flush=lw.slow_flush(50_000)).group_by("srcIP").agg(table=65536, n=lw.count()),
        "lazy_flush": minute.emit(flush=lw.lazy_flush(windows=1)).group_by("srcIP").agg(n=lw.count()),
        "heavy_hitters": minute.agg(who=lw.heavy_hitters("srcIP", 0.1), about=lw.approx_count_distinct("srcIP")),
    }


def joins() -> dict[str, lw.Joined]:
    """Joins that time bounds, and what may follow them."""
    main, control = packets(), packets("Control", lw.ordered())
    both = main.join(control, on="srcIP", within="3 minutes")  # Q5-8 is one of these
    return {
        "join_band": both,
        "join_left": main.join(control, on=["srcIP", "link"], within=("-2 minutes", "3 minutes"), how="left"),
        "join_open_ends": main.join(control, on=[], within=("0 seconds", "1 second"), how="anti", bounds="(]"),
        "join_tumbling": main.join(control, on="srcIP", window="10 minutes", how="full", null_safe=True),
        "join_hopping": main.join(
            control, on="srcIP", window="10 minutes", slide="1 minute", origin="1970-01-01T00:00:30+00:00"
        ),
        "join_three": lw.join(
            [main, control, packets("Backup", "10 seconds")], "srcIP", ["1 minute", "2 minutes", "3 minutes"]
        ),
        "join_rows": main.join(control, on="srcIP", within="5 minutes", rows=(100, None)),
        "join_rows_of_all": main.join(control, on="srcIP", rows=100, per_key=False),
        "join_condition_and_union": packets("Main1")
        .where("len > 100")
        .union(packets("Main2", "30 seconds"))
        .join(control, on="srcIP", within="3 minutes", condition="Main1_Main2_rtt > Control_rtt"),
        "join_then_window": both.window("10 minutes", "1 minute", over="Control_ts")
        .group_by("srcIP")
        .agg(n=lw.count(), slowest=lw.max("Main_rtt")),
        "join_then_window_of_all": both.window("10 minutes").agg(n=lw.count()),
        "join_then_both_times": both.group_by("Main_ts", "Control_ts").agg(n=lw.count()),
        "join_then_key": both.group_by("srcIP").agg(n=lw.count()),
    }


def punctuated_joins() -> dict[str, lw.Joined]:
    """Joins whose inputs tell that values have ended; the first is the auction query of PW 1.2."""
    opened, placed = auctions().unique("item"), bids().ends("item", when="is_over")
    return {
        "pwjoin": opened.join(placed, on="item", within=("0 seconds", "12 hours")).group_by("item").agg(n=lw.count()),
        "pwjoin_one_side": auctions().join(placed, on="item", within=("0 seconds", "12 hours"), how="left"),
        "pjoin": opened.join(placed, on="item").group_by("item").agg(n=lw.count(), top=lw.max("price")),
        "pjoin_then_time": opened.join(placed, on="item").group_by("Auction_ts").agg(n=lw.count()),
    }


QUERIES = queries()


def golden(name: str) -> Path:
    return FOLDER / f"{name}.txt"


@pytest.mark.parametrize("name", QUERIES)
def test_the_plan_is_explained_as_it_was(name: str) -> None:
    told = QUERIES[name].explain() + "\n"
    if os.environ.get("LOWWATER_REFRESH"):
        golden(name).write_text(told)
    assert told == golden(name).read_text()


def test_every_plan_kept_belongs_to_a_query() -> None:
    assert {file.name for file in FOLDER.iterdir()} == {golden(name).name for name in QUERIES}
