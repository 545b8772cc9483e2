"""The metrics of a query for Prometheus: over HTTP, or as a text file for the node exporter (docs/operations.md).

A scrape reads `query.metrics()` once. Totals are counters, and count from the first start of the query on, because its
checkpoint keeps them. The state and the low-watermarks are gauges.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lowwater.extras import needs
from lowwater.metrics import Metrics, SourceProgress

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

OF_QUERY = {
    "rows": "Rows read from all inputs",
    "null_rows": "Rows without a progress value",
    "punctuations": "Rows that are punctuations",
    "result_rows": "Rows of results",
}
"""Counters per query, by their names in `Metrics`."""
OF_OPERATOR = {
    "late_rows": "Late rows",
    "dropped_rows": "Late rows that count nowhere",
}
"""Counters per operator."""
HELD = {
    "state_rows": "Rows of state that the operator holds",
    "state_bytes": "Bytes of state that the operator holds",
    "ended_values": "Ended values that a join remembers",
}
"""Gauges per operator."""
SOURCES = 100
"""Sources that have time series of their own, by default. Each costs Prometheus memory."""


class QueryMetrics:
    """A collector of Prometheus: the metrics of one query at the time of the scrape."""

    def __init__(self, query: str, read: Callable[[], Metrics], sources: int = SOURCES) -> None:
        self._query, self._read, self._sources = query, read, sources

    def collect(self) -> Iterator[Any]:
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

        metrics = self._read()
        for name, about in OF_QUERY.items():
            of_query = CounterMetricFamily(f"lowwater_{name}", about, labels=["query"])
            of_query.add_metric([self._query], getattr(metrics, name))
            yield of_query
        for kind, names in ((CounterMetricFamily, OF_OPERATOR), (GaugeMetricFamily, HELD)):
            for name, about in names.items():
                family = kind(f"lowwater_{name}", about, labels=["query", "number", "operator"])
                for one in metrics.operators:
                    family.add_metric([self._query, str(one.number), one.name], getattr(one, name))
                yield family
        yield from self._progress(slowest(metrics.sources, self._sources))

    def _progress(self, sources: list[SourceProgress]) -> Iterator[Any]:
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

        labels = ["query", "input", "source"]
        rows = CounterMetricFamily("lowwater_source_rows", "Rows of the source", labels=labels)
        low = GaugeMetricFamily("lowwater_source_low_watermark_seconds", "Low-watermark, Unix time", labels=labels)
        holds = GaugeMetricFamily("lowwater_source_holds_back", "1 if all other sources wait for it", labels=labels)
        for one in sources:
            values = [self._query, one.input, one.source]
            rows.add_metric(values, one.rows)
            holds.add_metric(values, int(one.holds_back))
            if one.low_watermark_time is not None:
                low.add_metric(values, one.low_watermark_time.timestamp())
        yield from (rows, low, holds)


def slowest(sources: list[SourceProgress], number: int) -> list[SourceProgress]:
    """The sources with the smallest low-watermarks, first those without any; ended ones last."""

    def place(one: SourceProgress) -> tuple[bool, bool, float]:
        known: datetime | None = one.low_watermark_time
        return one.low_watermark == "end", not one.holds_back, float("-inf") if known is None else known.timestamp()

    return sorted(sources, key=place)[:number]


class MetricsServer:
    """Serves the metrics of a query over HTTP, under /metrics, until it is closed or the process ends."""

    def __init__(self, metrics: QueryMetrics, port: int, address: str) -> None:
        registry = _registry(metrics)
        from prometheus_client import start_http_server

        self._server, self._thread = start_http_server(port, address, registry)
        self.port = int(self._server.server_port)
        """The port, also where the system has chosen one."""

    def close(self) -> None:
        """Stops serving and frees the port."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def __enter__(self) -> MetricsServer:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


def write(metrics: QueryMetrics, file: str | Path) -> None:
    """Writes the metrics as a text file, which replaces the one before in one step."""
    registry = _registry(metrics)
    from prometheus_client import write_to_textfile

    write_to_textfile(str(file), registry)


def _registry(metrics: QueryMetrics) -> CollectorRegistry:
    with needs("Metrics for Prometheus"):
        from prometheus_client import CollectorRegistry
    registry = CollectorRegistry(auto_describe=False)
    registry.register(metrics)
    return registry
