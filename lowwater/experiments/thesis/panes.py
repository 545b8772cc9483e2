"""TH Fig. 6-15: the time of Paned-WID divided by that of WID, for a sliding-window maximum.

The thesis varies RANGE and SLIDE of a max query (Q6-2), and with them the tuples per pane and the panes per window. The
time of the scan is subtracted, so only aggregation counts. As in the thesis, SLIDE is one pane and there is no GROUP
BY.

    WID         every tuple is added to each of its windows: P updates per tuple      TH Eq. 6.3, a' * T per window
    Paned-WID   every tuple is added to its pane (PLQ), then every pane to its P windows (WLQ)   Eq. 6.1

Two ratios are measured. Operations are counted exactly, as the algorithms of the thesis do them tuple by tuple. Time is
that of lowwater's operators over whole batches in memory, where WID gets each tuple by itself, as from the Bucket of
the thesis. (By default lowwater reduces tuples to panes before WID, too, also with `strategy="wid"`, so that WID
already has the benefit of panes. The csv has that time as `reduced_wid_seconds`.)
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa

import lowwater as lw
from lowwater.aggregates.grouped import Grouped, without_columns
from lowwater.experiments.outcome import Outcome, write_csv
from lowwater.model.punctuation import ALL, Punctuation
from lowwater.operators.aggregate import AggregateSpec
from lowwater.operators.base import Batch, Reduced, taken
from lowwater.operators.bucket import Bucket
from lowwater.state.store import Store
from lowwater.windows.context_free import Sliding

CLAIM = (
    "Panes make a sliding-window maximum cheaper than WID in many cases, more so with more tuples per pane and more "
    "panes per window. At 20 tuples per pane and 5 panes per window they do about 30 % of the work (counted here as "
    "aggregate updates; for time, the claim is only that panes are faster there)."
)
TUPLES_PER_PANE = (1, 2, 5, 10, 20, 50, 100)
PANES_PER_WINDOW = (1, 2, 5, 10, 20)
QUOTED = (20, 5)
"""The only point for which the text states a number: about 0.3."""
TICKS = 1000
"""The length of a pane in data time. Results do not depend on it."""
TUPLES = {"tiny": 20_000, "full": 150_000}
"""The thesis has 15.2 MB of auction bids of about 100 bytes."""
BATCH = 10_000
REPEATS = {"tiny": 3, "full": 5}
SCHEMA = pa.schema({"ts": pa.int64(), "len": pa.int64()})


@dataclass(frozen=True)
class Point:
    """One bar of the figure."""

    tuples_per_pane: int
    panes_per_window: int
    wid_operations: int
    paned_operations: int
    wid_seconds: float
    paned_seconds: float
    reduced_wid_seconds: float

    @property
    def operations(self) -> float:
        return self.paned_operations / self.wid_operations

    @property
    def seconds(self) -> float:
        return self.paned_seconds / self.wid_seconds


def reproduce(size: str, out: Path) -> Outcome:
    points = [
        measure(per_pane, per_window, TUPLES[size], REPEATS[size])
        for per_pane in TUPLES_PER_PANE
        for per_window in PANES_PER_WINDOW
    ]
    rows = [(*vars(point).values(), point.operations, point.seconds) for point in points]
    columns = [*vars(points[0]), "operations_ratio", "time_ratio"]
    table = write_csv(out / "TH-6-15.csv", columns, rows)
    return Outcome(holds(points), measured(points), table, draw(points, out / "TH-6-15.png"))


def measured(points: list[Point]) -> dict[str, float]:
    """The quoted point, the corner where panes gain most, and the corner where they cannot gain."""
    at = {(p.tuples_per_pane, p.panes_per_window): p for p in points}
    far, near = at[TUPLES_PER_PANE[-1], PANES_PER_WINDOW[-1]], at[TUPLES_PER_PANE[0], PANES_PER_WINDOW[0]]
    named = {"quoted": at[QUOTED], "most": far, "least": near}
    ratios = {f"{name}_operations_ratio": round(p.operations, 4) for name, p in named.items()}
    return ratios | {f"{name}_time_ratio": round(p.seconds, 4) for name, p in named.items()}


def holds(points: list[Point]) -> bool:
    """Operations: near 0.3 at the quoted point, falling along both axes, and no gain where a window is one pane.

    Time, which is noisier: less than WID's from the quoted point on, in both directions.
    """
    at = {(p.tuples_per_pane, p.panes_per_window): p for p in points}
    quoted = 0.2 <= at[QUOTED].operations <= 0.4
    more_tuples = all(
        falling(at[per_pane, per_window].operations for per_pane in TUPLES_PER_PANE) for per_window in PANES_PER_WINDOW
    )
    crowded = [per_pane for per_pane in TUPLES_PER_PANE if per_pane >= QUOTED[0]]
    more_panes = all(
        falling(at[per_pane, per_window].operations for per_window in PANES_PER_WINDOW) for per_pane in crowded
    )
    no_gain = all(at[per_pane, 1].operations >= 1 for per_pane in TUPLES_PER_PANE)
    faster = all(p.seconds < 1 for p in points if p.tuples_per_pane >= QUOTED[0] and p.panes_per_window >= QUOTED[1])
    return quoted and more_tuples and more_panes and no_gain and faster


def falling(values: Iterable[float]) -> bool:
    steps = list(values)
    return all(after <= before for before, after in pairwise(steps))


def measure(per_pane: int, per_window: int, tuples: int, repeats: int) -> Point:
    """The best of several runs, because longer times come from the load of the machine."""
    rows = _rows(per_pane, tuples)
    window = Sliding(per_window * TICKS, TICKS)
    specs = {strategy: _spec(rows, window, strategy) for strategy in ("wid", "panes")}
    # If a window is one pane, a tuple has one window, and reducing by pane is all that WID does.
    wid = [_run(specs["wid"], rows, whole=per_window == 1) for _ in range(repeats)]
    paned = [_run(specs["panes"], rows, whole=True) for _ in range(repeats)]
    reduced = [_run(specs["wid"], rows, whole=True) for _ in range(repeats)]
    assert wid[0][1].equals(paned[0][1]), "both must return the same windows"
    assert wid[0][1].equals(reduced[0][1]), "both must return the same windows"
    first, last = window.bounds(rows.column("ts").to_numpy())
    pane = np.unique(window.pane_of(rows.column("ts").to_numpy()))
    of_pane = window.pane_wids(pane)
    return Point(
        per_pane,
        per_window,
        int((last - first + 1).sum()),
        rows.num_rows + int((of_pane[1] - of_pane[0] + 1).sum()),
        *(min(seconds for seconds, _ in runs) for runs in (wid, paned, reduced)),
    )


def _rows(per_pane: int, tuples: int) -> pa.Table:
    """Evenly spaced tuples, so that all panes have as many; shuffled within batches, because order is not needed."""
    rng = np.random.default_rng(per_pane)
    ts = np.arange(tuples, dtype=np.int64) * TICKS // per_pane
    for at in range(0, tuples, BATCH):
        rng.shuffle(ts[at : at + BATCH])
    return pa.table({"ts": ts, "len": rng.integers(40, 1500, tuples)}, schema=SCHEMA)


def _spec(rows: pa.Table, window: Sliding, strategy: str) -> AggregateSpec:
    stream = lw.stream(rows, name="packets", progress="ts", disorder=0)
    return aggregation(stream.window(range=window.range, slide=window.slide).agg(strategy, most=lw.max("len")))


def aggregation(query: lw.Query) -> AggregateSpec:
    """The spec of the aggregation at the end of a query, to be run without its inputs."""
    spec = query.plan.spec
    assert isinstance(spec, AggregateSpec)
    return spec


def _run(spec: AggregateSpec, rows: pa.Table, whole: bool) -> tuple[float, pa.Table]:
    """Aggregates all batches, each followed by its punctuation. With `whole`, the operator reduces batches to panes."""
    operator, bucket = spec.open(Store(), 1), Bucket(spec.what)
    batches = [rows.slice(at, BATCH).combine_chunks() for at in range(0, rows.num_rows, BATCH)]
    upto = [int(batch.column("ts").to_numpy().max()) + 1 for batch in batches]
    answers: list[pa.Table] = []
    begun = time.perf_counter()
    for batch, low in zip(batches, upto, strict=True):
        taken(operator, 0, Batch(batch) if whole else Reduced(tuple_by_tuple(batch, bucket)))
        answers += [m.rows for m in taken(operator, 0, Punctuation.linear("ts", low)) if isinstance(m, Batch)]
    answers += [m.rows for m in taken(operator, 0, ALL) if isinstance(m, Batch)]
    seconds = time.perf_counter() - begun
    return seconds, pa.concat_tables(answers).combine_chunks().sort_by("wid")


def tuple_by_tuple(rows: pa.Table, bucket: Bucket) -> Grouped:
    """Tuples tagged with their panes and not reduced: each tuple is a partial."""
    ticks, n = bucket.ticks(rows), rows.num_rows
    each = np.arange(n, dtype=np.intp)
    values = [aggregate.argument(rows) for aggregate in bucket.what.distinct]
    partials = tuple(a.lift(v, ticks, each, n) for a, v in zip(bucket.algebras, values, strict=True))
    return Grouped(without_columns(1), np.zeros(n, np.int64), bucket.what.grid.pane_of(ticks), partials)


def draw(points: list[Point], file: Path) -> Path:
    """The axes of the paper: by tuples per pane, one bar per number of panes per window. Operations are above."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 7), layout="constrained")
    ratios = (("operations", [p.operations for p in points]), ("execution time", [p.seconds for p in points]))
    for place, (name, values) in enumerate(ratios):
        axes = figure.add_subplot(2, 1, place + 1)
        width = 0.8 / len(PANES_PER_WINDOW)
        for i, per_window in enumerate(PANES_PER_WINDOW):
            chosen = [v for p, v in zip(points, values, strict=True) if p.panes_per_window == per_window]
            at = np.arange(len(chosen)) + (i - (len(PANES_PER_WINDOW) - 1) / 2) * width
            axes.bar(at, chosen, width, label=f"{per_window}")
        axes.axhline(1, color="black", linewidth=0.8)
        axes.set_xticks(range(len(TUPLES_PER_PANE)), [str(n) for n in TUPLES_PER_PANE])
        axes.set_ylabel(f"{name}, Paned-WID / WID")
        axes.legend(title="panes per window", ncols=len(PANES_PER_WINDOW), fontsize=8)
    axes.set_xlabel("tuples per pane")
    figure.savefig(file, dpi=120)
    return file
