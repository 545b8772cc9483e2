"""EXPLAIN ANALYZE on Spark: the same rows as in process, and bounds that are checked where the state is."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException

from lowwater.backends.spark.analyzed import streaming_run
from lowwater.backends.spark.opened import opener
from lowwater.language import bind, read
from lowwater.metrics import Metrics
from lowwater.query import choose
from tests.language_runs import QUERIES, query_of

pytestmark = pytest.mark.spark
PATH = QUERIES / "th_q1_1.sql"


def measured(relation: Any) -> list[dict[str, Any]]:
    found, nodes = [], [json.loads(relation.explain("json", analyze=True))]
    while nodes:
        node = nodes.pop()
        nodes += node["inputs"]
        if "measured" in node:
            found.append(node["measured"])
    return found


@pytest.mark.parametrize("streaming", [True, False])
def test_a_query_reports_the_rows_that_it_reports_in_process(streaming: bool, spark: Any) -> None:
    (bound,) = bind(read(PATH.read_text()), {}, opener(spark, streaming))
    here = measured(query_of(PATH))
    there = measured(bound.relation)
    for name in ("input_rows", "result_rows", "late_rows", "within_bound"):
        assert [one[name] for one in there] == [one[name] for one in here]
    assert all(one["milliseconds"] > 0 for one in there)
    assert not streaming or there[-1]["most_state_rows"] > 0


class Endless:
    """A query that does not end by itself. It notes how long it was waited for, and whether it was stopped."""

    def __init__(self) -> None:
        self.waited: float | None = None
        self.stopped = False
        self.spark = self
        self.recentProgress = [{"rows": 7}]

    def await_termination(self, seconds: float) -> None:
        self.waited = seconds

    def stop(self) -> None:
        self.stopped = True

    def observed(self, progress: dict[str, int]) -> Metrics:
        return Metrics(rows=progress["rows"])


def test_a_stream_is_measured_for_the_time_that_is_given(spark: Any) -> None:
    query = Endless()
    run = streaming_run(spark, lambda **_: query, 10, ["only"])  # type: ignore[arg-type, return-value]
    assert (query.waited, query.stopped, run.batches, run.last.rows) == (10, True, 1, 7)


def test_a_broken_bound_stops_a_query_of_the_tests(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every run of the tests checks bounds: one that is too small is found out."""
    monkeypatch.setattr(choose, "limit", lambda *_: 1)
    (bound,) = bind(read(PATH.read_text()), {}, opener(spark))
    query = bound.relation.start(
        checkpoint=str(tmp_path), results=lambda rows, batch: None, trigger={"availableNow": True}
    )
    with pytest.raises(StreamingQueryException, match="the bound is 1 per group"):
        query.await_termination()
