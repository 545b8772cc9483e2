"""WO 5, the monitors of the prototype: "its overhead is almost negligible". The processor time of ours (WO-monitors).

The work of the monitors is done a second time, alone, on the same micro-batches: a summary per run, its tables, and the
monitor that reads it. Its processor time is divided by that of the whole query, in which the same work is done.

    join      a join of two streams without a window, monitored; the metrics watch the same streams, which is counted
    sliding   count, sum and max by 1,000 keys over RANGE 60 s SLIDE 1 s, where only the metrics watch the stream
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import numpy as np
import pyarrow as pa

import lowwater as lw
from lowwater.backends.local import LocalQuery
from lowwater.experiments.oblivious.backtracked import Ints
from lowwater.experiments.outcome import Outcome, write_csv
from lowwater.experiments.thesis.curves import Bars, draw
from lowwater.generate.scrambled import scrambled
from lowwater.model.monitors import StreamMonitor, Summary
from lowwater.runtime.arrivals import STEPS

CLAIM = (
    "The monitors take less than a tenth of the processor time of a join without a window, with 100,000 rows of each "
    "stream per micro-batch; and less than 3 % of that of a sliding aggregation of which only the report is asked for, "
    "with 400,000 rows per micro-batch. (Medians of three runs. A monitor also takes about half a millisecond per "
    "micro-batch, however few rows come. The shares with a tenth of the rows per micro-batch are reported as small and "
    "not judged.)"
)
JOIN, SLIDING = "join", "sliding"
MOST = {JOIN: 0.1, SLIDING: 0.03}
RUNS = {"tiny": 1, "full": 3}
ROWS = {"tiny": {JOIN: 20_000, SLIDING: 40_000}, "full": {JOIN: 100_000, SLIDING: 400_000}}
"""Rows per stream and micro-batch."""
BATCHES = 10


@dataclass(frozen=True)
class Times:
    """The processor seconds of a query and, within them, of its monitors."""

    whole: float
    monitors: float

    @property
    def share(self) -> float:
        return self.monitors / self.whole


def took(work: Callable[[], object]) -> float:
    begun = time.process_time()
    work()
    return time.process_time() - begun


def watch(values: Sequence[Ints], rows: int, summary: Callable[[Ints], Summary]) -> None:
    """What the monitors of some streams do, with so many rows of each per micro-batch."""
    monitors = [StreamMonitor() for _ in values]
    for at in range(0, len(values[0]), rows):
        for own, monitor in zip(values, monitors, strict=True):
            monitor.read([Summary.of_tables(summary(own[at : at + rows]).tables())])
            monitor.end()


def for_metrics(values: Ints) -> Summary:
    return Summary.coarse(values, STEPS)


def feed(query: LocalQuery, tables: dict[str, pa.Table], rows: int) -> None:
    for at in range(0, next(iter(tables.values())).num_rows, rows):
        query.push(**{name: table.slice(at, rows) for name, table in tables.items()})
        query.results.clear()


def join(rows: int, batch: int) -> Times:
    values = [scrambled(rows, i, factor=k, multiplicity=2).values for i, k in enumerate((500, 200))]
    tables = {name: pa.table({"t": own, name: np.arange(rows)}) for name, own in zip("ab", values, strict=True)}
    each = [lw.stream(table, name=name, progress="t", disorder=lw.measured()) for name, table in tables.items()]
    query = lw.oblivious_join(each, on="t").start()
    whole = took(lambda: feed(query, tables, batch))
    exact = took(lambda: watch(values, batch, Summary.of))
    return Times(whole, exact + took(lambda: watch(values, batch, for_metrics)))


def sliding(rows: int, batch: int) -> Times:
    rng = np.random.default_rng(0)
    time = np.arange(rows) * 1000 + rng.integers(0, 3_000_000, rows)
    columns = {"ts": pa.array(time, pa.timestamp("us")), "k": rng.integers(0, 1000, rows), "v": rng.random(rows)}
    stream = lw.stream(pa.table(columns), name="rows", progress="ts", disorder="3 seconds")
    windows = stream.window("60 seconds", "1 second").group_by("k")
    query = windows.agg(n=lw.count(), s=lw.sum("v"), m=lw.max("v")).start()
    whole = took(lambda: feed(query, {"rows": pa.table(columns)}, batch))
    return Times(whole, took(lambda: watch([time], batch, for_metrics)))


def reproduce(size: str, out: Path) -> Outcome:
    found: dict[tuple[str, str], list[Times]] = {}
    for name, run in ((JOIN, join), (SLIDING, sliding)):
        rows = ROWS[size][name]
        for label, batch in (("", rows), ("_small", rows // 10)):
            found[name, label] = [run(BATCHES * rows, batch) for _ in range(RUNS[size])]
    shares = {key: median(one.share for one in own) for key, own in found.items()}
    rows_of = [
        (name + label, run, one.whole, one.monitors)
        for (name, label), own in found.items()
        for run, one in enumerate(own)
    ]
    table = write_csv(out / "WO-monitors.csv", ("query", "run", "seconds", "seconds_of_monitors"), rows_of)
    heights = {
        text: [100 * shares[name, label] for name in MOST]
        for text, label in (("large micro-batches", ""), ("a tenth", "_small"))
    }
    figure = draw([Bars("processor time of the monitors, %", list(MOST), heights)], out / "WO-monitors.png")
    measured = {f"{name}{label}_share": round(share, 4) for (name, label), share in shares.items()}
    return Outcome(holds({name: shares[name, ""] for name in MOST}), measured, table, figure)


def holds(shares: dict[str, float]) -> bool:
    return all(shares[name] < most for name, most in MOST.items())
