"""Rows that are punctuations: counted apart from data by default, and data themselves with data=True."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

import lowwater as lw
from lowwater.backends.local import LocalQuery
from lowwater.metrics import Metrics

SCHEMA = pa.schema([("ts", pa.int64()), ("k", pa.int64()), ("end", pa.bool_()), ("upto", pa.int64())])
Row = dict[str, Any]


def row(ts: int | None, end: bool | None = False, upto: int | None = None, k: int = 0) -> Row:
    return {"ts": ts, "k": k, "end": end, "upto": upto}


def stream(name: str = "rows", **reading: Any) -> Any:
    disorder = lw.punctuated("end", "upto", **reading)
    return lw.stream(SCHEMA.empty_table(), name=name, progress="ts", disorder=disorder)


def started(shards: int = 1, **reading: Any) -> LocalQuery:
    query: LocalQuery = stream(**reading).window(10).group_by("k").agg(n=lw.count()).start(shards=shards)
    return query


def counts(query: LocalQuery) -> dict[int, int]:
    """Rows of each window, by its start."""
    found: dict[int, int] = {}
    for answer in query.result().to_pylist():
        found[answer["window_start"]] = found.get(answer["window_start"], 0) + answer["n"]
    return found


def read(metrics: Metrics) -> tuple[int, int, int]:
    assert sum(source.rows for source in metrics.sources) == metrics.rows - metrics.null_rows - metrics.punctuations
    return metrics.rows, metrics.null_rows, metrics.punctuations


@pytest.mark.parametrize("shards", [1, 3])
def test_by_default_a_row_that_promises_is_no_data_and_is_counted(shards: int) -> None:
    query = started(shards)
    query.push([row(1, k=1), row(2, k=2), row(None), row(3, None), row(5, True, 9), row(None, True, 9), row(12)])
    assert read(query.metrics()) == (7, 1, 2)
    query.restart()
    query.push([row(20, True, 19), row(4)])
    assert (read(query.metrics()), query.metrics().late_rows) == ((9, 1, 3), 1)
    query.finish()
    assert counts(query) == {0: 3, 10: 1}


@pytest.mark.parametrize("shards", [1, 3])
def test_with_data_a_row_that_promises_is_counted_in_its_window(shards: int) -> None:
    query = started(shards, data=True)
    query.push([row(1, k=1), row(2, k=2), row(None), row(3, None), row(5, True, 9), row(None, True, 9), row(12)])
    assert read(query.metrics()) == (7, 2, 0), "a row without a time is in no window, and its promise holds"
    assert query.metrics().low_watermark == "10"
    assert counts(query) == {0: 4}
    query.push([row(4)])
    assert query.metrics().late_rows == 1
    query.finish()
    assert counts(query) == {0: 4, 10: 1}


def test_a_row_is_not_late_by_its_own_promise_nor_are_the_rows_of_its_batch() -> None:
    query = started(data=True)
    query.push([row(25), row(3, True, 39), row(7), row(31)])
    assert (query.metrics().late_rows, query.metrics().low_watermark) == (0, "40")
    assert counts(query) == {0: 2, 20: 1, 30: 1}
    query.push([row(39), row(40)])
    assert query.metrics().late_rows == 1, "the next batch is bound by it"


def test_a_filter_does_not_hide_a_promise() -> None:
    for reading, rows in (({}, 1), ({"data": True}, 0)):
        query = stream(**reading).where("k > 0").window(10).agg(n=lw.count()).start()
        query.push([row(1, k=1), row(5, True, 9)])
        assert (query.metrics().punctuations, query.metrics().low_watermark) == (rows, "10")
        assert counts(query) == {0: 1}


@pytest.mark.parametrize(("data", "pairs", "punctuations"), [(False, 1, 3), (True, 2, 1)])
def test_in_a_join_rows_that_end_values_or_time_are_counted_once(data: bool, pairs: int, punctuations: int) -> None:
    """The left ends a value and time in one row, which ends() makes a punctuation whatever the disorder says."""
    schema = SCHEMA.append(pa.field("closed", pa.bool_()))
    disorder = lw.punctuated("end", "upto", data=data)
    left = lw.stream(schema.empty_table(), name="a", progress="ts", disorder=disorder).ends("k", when="closed")
    query = left.join(stream("b", data=data), "k", within=10).start(shards=2)
    query.push([row(1, k=1) | {"closed": False}, row(2, True, 2, k=2) | {"closed": True}], port=0)
    query.push([row(1, k=1), row(3, True, 3, k=1)], port=1)
    query.push([row(4, True, 4, k=3) | {"closed": False}], port=0)
    metrics = query.metrics()
    assert (metrics.rows, metrics.punctuations, metrics.late_rows) == (5, punctuations, 0)
    query.finish()
    assert query.result().num_rows == pairs
    assert read(query.metrics()) == (5, 0, punctuations)


def test_explain_names_the_reading() -> None:
    assert "rows with end are punctuations up to upto" in stream().window(10).agg(n=lw.count()).explain()
    told = stream(data=True).window(10).agg(n=lw.count()).explain()
    assert "rows with end are punctuations and data up to upto" in told
