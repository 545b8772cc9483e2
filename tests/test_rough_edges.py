"""What new users met: words of SQL as names, literals of time, dates and decimals in EXPLAIN, bands without a pair."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

import pyarrow as pa
import pytest

import lowwater as lw
from tests.tree_oracle import Arrived, evaluate, unlike

NAMED = pa.table({"ts": [1, 2, 3], "select": [1, 2, 3], "order": [3, 2, 1], "case": [1, 1, 2], "from": [5, 6, 7]})


@pytest.mark.parametrize("word", ["select", "case", "from"])
@pytest.mark.parametrize("text", ["{} > 1", "ts = 1 and {} = 1", "{} + 1 > 2"])
def test_a_word_of_sql_as_a_column_must_be_quoted(word: str, text: str) -> None:
    rows = lw.stream(NAMED, progress="ts", disorder=0)
    with pytest.raises(lw.LowwaterError, match=f"word of SQL as well as a column; quote the column, as in `{word}`"):
        rows.where(text.format(word))
    assert rows.where(text.format(f"`{word}`")).collect().num_rows <= 3


def test_words_that_can_be_read_need_no_quotes() -> None:
    assert lw.stream(NAMED, progress="ts", disorder=0).where("order > 1").collect()["ts"].to_pylist() == [1, 2]


@pytest.mark.parametrize("zone", [None, "UTC"])
@pytest.mark.parametrize("literal", ["timestamp'2026-01-01 12:00:03'", "'2026-01-01 12:00:03'"])
def test_literals_of_time_in_where(zone: str | None, literal: str) -> None:
    times = pa.array([dt.datetime(2026, 1, 1, 12, 0, s) for s in (1, 5, 9)], pa.timestamp("us", zone))
    rows = lw.stream(pa.table({"ts": times}), progress="ts", disorder=0)
    assert rows.where(f"ts > {literal}").collect().num_rows == 2


def test_explain_prints_dates_and_decimals_as_written() -> None:
    days = pa.table({"day": [dt.date(2026, 1, 1)], "price": pa.array([Decimal("1.50")], pa.decimal128(9, 2))})
    by_day = lw.stream(days, name="days", progress="day", disorder="1 day").where("price > 1.50")
    text = by_day.window("2 days", origin=dt.date(2026, 1, 1)).agg(n=lw.count()).explain()
    assert "RANGE 2 days SLIDE 2 days over day, from 2026-01-01 on" in text
    assert "Select  price > 1.50" in text
    by_price = lw.stream(days, name="days", progress="price", disorder=Decimal("0.25"))
    text = by_price.window(Decimal("1.50"), Decimal("0.50")).agg(n=lw.count()).explain()
    assert "RANGE 1.50 SLIDE 0.50 over price" in text
    assert "delay of at most 0.25" in text


@pytest.mark.parametrize("how", ["left", "right", "full", "anti"])
def test_an_outer_join_over_an_empty_band_answers_with_rows_alone(how: str) -> None:
    a = pa.table({"ts": [1, 5, 9], "k": ["a", "a", "b"]})
    b = pa.table({"ts": [1, 2, 9], "k": ["a", "a", "c"]})
    left, right = (lw.stream(t, name=n, progress="ts", disorder=3) for n, t in (("a", a), ("b", b)))
    joined = left.join(right, on="k", within=(2, 1), how=how)
    expected = evaluate(joined.node, {"a": Arrived(a, [0, 1, 2]), "b": Arrived(b, [0, 1, 2])})
    assert expected.num_rows == {"left": 3, "right": 3, "full": 6, "anti": 3}[how]
    assert unlike(joined.collect(), expected) == ""


@pytest.mark.parametrize("how", ["inner", "semi"])
def test_an_inner_join_over_an_empty_band_is_refused(how: str) -> None:
    left, right = (lw.stream(NAMED, name=name, progress="ts", disorder=3) for name in "ab")
    with pytest.raises(lw.LowwaterError, match="is empty"):
        left.join(right, on="order", within=(2, 1), how=how)
