"""Metrics for Prometheus and the line per micro-batch, without Spark: names, labels and values, by HTTP on loopback."""

from __future__ import annotations

import datetime as dt
import sys
from pathlib import Path
from urllib.request import urlopen

import pyarrow as pa
import pytest
from prometheus_client.parser import text_string_to_metric_families

import lowwater as lw
from lowwater.extras import MissingExtra
from lowwater.metrics import Metrics, SourceProgress
from lowwater.watching import MetricsServer, QueryMetrics, slowest, write

DOCUMENTED = (Path(__file__).parent.parent / "docs" / "operations.md").read_text()
NOON = dt.datetime(2026, 1, 1, 12, tzinfo=dt.UTC)


def measured() -> Metrics:
    """Two links, of which b falls behind, and one row that is late."""
    rows = pa.table(
        {
            "ts": [NOON + dt.timedelta(seconds=s) for s in (0, 40, 30, 90, 2)],
            "link": ["a", "a", "b", "a", "a"],
        }
    )
    stream = lw.stream(rows.schema, progress="ts", disorder="5 seconds", source="link", sources=["a", "b"])
    run = stream.window("10 seconds").group_by("link").agg(n=lw.count()).start()
    run.push(rows)
    run.push([{"ts": NOON, "link": "b"}])
    return run.metrics()


Samples = dict[tuple[str, tuple[str, ...]], float]


def samples(text: str) -> Samples:
    """Values by name and labels other than the query."""
    found: Samples = {}
    for family in text_string_to_metric_families(text):
        for one in family.samples:
            assert one.labels.pop("query") == "links"
            found[one.name, tuple(one.labels.values())] = one.value
    return found


def test_the_server_gives_the_metrics_of_the_query() -> None:
    metrics = measured()
    with MetricsServer(QueryMetrics("links", lambda: metrics), 0, "127.0.0.1") as server:
        page = urlopen(f"http://127.0.0.1:{server.port}/metrics", timeout=30).read()
    found = samples(page.decode())
    (operator,) = metrics.operators
    of = (str(operator.number), operator.name)
    assert found["lowwater_rows_total", ()] == metrics.rows == 6
    assert found["lowwater_late_rows_total", of] == metrics.late_rows > 0
    assert found["lowwater_dropped_rows_total", of] == metrics.dropped_rows
    assert found["lowwater_state_rows", of] == metrics.state_rows > 0
    assert found["lowwater_state_bytes", of] == metrics.state_bytes
    for source in metrics.sources:
        labels = (source.input, source.source)
        assert source.low_watermark_time is not None
        assert found["lowwater_source_rows_total", labels] == source.rows
        assert found["lowwater_source_low_watermark_seconds", labels] == source.low_watermark_time.timestamp()
        assert found["lowwater_source_holds_back", labels] == (source.source == "b")


def test_a_closed_server_has_freed_its_port() -> None:
    metrics = QueryMetrics("links", Metrics)
    first = MetricsServer(metrics, 0, "127.0.0.1")
    first.close()
    with MetricsServer(metrics, first.port, "127.0.0.1") as second:
        assert second.port == first.port


def test_the_file_has_the_same_metrics_and_no_other_file_stays(tmp_path: Path) -> None:
    metrics = measured()
    file = tmp_path / "lowwater.prom"
    write(QueryMetrics("links", Metrics), file)
    write(QueryMetrics("links", lambda: metrics), file)
    assert samples(file.read_text())["lowwater_result_rows_total", ()] == metrics.result_rows > 0
    assert [each.name for each in tmp_path.iterdir()] == ["lowwater.prom"]


def test_every_name_is_documented() -> None:
    metrics = measured()
    names = {family.name for family in QueryMetrics("links", lambda: metrics).collect()}
    assert len(names) == 12
    for name in names:
        assert f"`{name}`" in DOCUMENTED or f"`{name}_total`" in DOCUMENTED, name


def test_only_the_slowest_sources_have_series_and_ended_ones_come_last() -> None:
    def source(name: str, seconds: int | None, end: bool = False, holds: bool = False) -> SourceProgress:
        time = None if seconds is None else NOON + dt.timedelta(seconds=seconds)
        return SourceProgress("in", name, "end" if end else str(time), None, 1, holds, time)

    sources = [source("fast", 9), source("ended", None, end=True), source("slow", 1, holds=True), source("new", 5)]
    assert [one.source for one in slowest(sources, 3)] == ["slow", "new", "fast"]
    assert [one.source for one in slowest(sources, 9)][-1] == "ended"


def test_without_prometheus_client_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "prometheus_client", None)
    with pytest.raises(MissingExtra, match=r"Prometheus needs prometheus_client.*'lowwater\[prometheus\]'"):
        MetricsServer(QueryMetrics("links", Metrics), 0, "127.0.0.1")
