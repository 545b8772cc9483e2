"""TH Fig. 6-10: WID against buffering, for a maximum over the last 4000 rows, with SLIDE from 1 to 4000 rows.

In-order systems use buffering: they keep the rows, and for each window they materialise the extent and compute the
aggregate over it. WID adds a tuple to the partial of each of its windows. Windows are over row numbers, which come in
order. With r = RANGE/SLIDE, the operations per tuple are:

    buffering     1 to keep it, then for each of its r windows 1 to copy it into the extent and 1 to aggregate it there
    WID           1 to tag it with its ids, then for each of its r windows 1 to aggregate it

Operations are counted as if tuples were taken one by one, as in the thesis. Time is the processor time of lowwater's
operators over batches read from a parquet file in memory. They aggregate whole columns, and lowwater's WID first
reduces a batch to panes. So it does fewer operations than counted, especially if a SLIDE has many rows. If it does not
reduce and takes each tuple by itself (`by_tuple` in the csv), WID touches as many pairs of tuple and window as
buffering and takes about the same time, because the second operation of buffering is cheap on columns.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from statistics import median

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import lowwater as lw
from lowwater.experiments.outcome import Outcome, write_csv
from lowwater.experiments.thesis.curves import Curve, Panel, draw
from lowwater.experiments.thesis.panes import aggregation, tuple_by_tuple
from lowwater.model.punctuation import ALL, Punctuation
from lowwater.operators.aggregate import AggregateSpec
from lowwater.operators.base import Batch, Message, Reduced
from lowwater.operators.bucket import Bucket
from lowwater.state.store import Store
from lowwater.windows.context_free import Sliding

CLAIM = (
    "WID evaluates a sliding maximum over 4000 rows with fewer operations than buffering, and the ratio grows with "
    "RANGE/SLIDE. In time, lowwater's WID, which first reduces tuples to panes, is faster than buffering from "
    "RANGE/SLIDE = 20 on, and the time saved grows with RANGE/SLIDE up to 4000. With less overlap the times are close, "
    "and buffering may be faster."
)
RANGE = 4000
SLIDES = {"tiny": (4000, 200, 40, 10), "full": (4000, 1000, 400, 200, 100, 40, 20, 10, 4, 1)}
OVERLAPPING = 20
"""The smallest RANGE/SLIDE for which times are judged."""
PAIRS = {"tiny": 1_000_000, "full": 6_000_000}
"""The approximate number of pairs of a tuple and a window in a run. If tuples have more windows, fewer are read."""
TUPLES = {"tiny": (8000, 20_000), "full": (8000, 100_000)}
"""The smallest and the largest number of tuples: two extents, and enough for a steady time."""
PAIRS_IN_BATCH = 4_000_000
MOST_IN_BATCH = 4000
"""The tuples per batch; fewer if tuples have very many windows, because both techniques hold all pairs of a batch."""
REPEATS = {"tiny": 1, "full": 5}
Read = Callable[[pa.Table], Batch | Reduced]


@dataclass(frozen=True)
class Point:
    """One SLIDE. Operations are per tuple, times in milliseconds per 10,000 tuples, including the scan."""

    slide: int
    tuples: int
    wid_operations: float
    buffering_operations: float
    scan: float
    wid: float
    buffering: float
    by_tuple: float

    @property
    def overlap(self) -> float:
        return RANGE / self.slide

    @property
    def saved(self) -> float:
        return self.buffering - self.wid


def reproduce(size: str, out: Path) -> Outcome:
    points = [measure(slide, size) for slide in SLIDES[size]]
    table = write_csv(out / "TH-6-10.csv", list(vars(points[0])), [tuple(vars(point).values()) for point in points])
    return Outcome(holds(points), measured(points), table, draw(panels(points), out / "TH-6-10.png"))


def measure(slide: int, size: str) -> Point:
    """Medians of several runs, as in the thesis. The techniques take turns, so that the machine's load affects all."""
    tuples = int(np.clip(PAIRS[size] * slide // RANGE, *TUPLES[size]))
    file = bids(tuples, min(MOST_IN_BATCH, PAIRS_IN_BATCH * slide // RANGE))
    wid, buffering = spec_of(file, slide, "wid"), spec_of(file, slide, "buffer")
    bucket = Bucket(wid.what)
    # If windows do not overlap, a tuple has one window, and reducing by pane is all that WID does.
    each: Read = Batch if slide >= RANGE else lambda rows: Reduced(tuple_by_tuple(rows, bucket))
    ways: dict[str, tuple[AggregateSpec, Read]] = {
        "wid": (wid, Batch),
        "buffering": (buffering, Batch),
        "by_tuple": (wid, each),
    }
    took: dict[str, list[float]] = {"scan": [], **{name: [] for name in ways}}
    for _ in range(REPEATS[size]):
        took["scan"].append(scan(file))
        done = {name: run(file, *way) for name, way in ways.items()}
        assert all(answers.equals(done["wid"][1]) for _, answers in done.values()), "all must return the same windows"
        for name, (seconds, _) in done.items():
            took[name].append(seconds)
    first, last = Sliding(RANGE, slide).bounds(np.arange(tuples))
    windows = float(np.mean(last - first + 1))
    costs = {name: median(seconds) * 1000 * 10_000 / tuples for name, seconds in took.items()}
    return Point(slide, tuples, 1 + windows, 1 + 2 * windows, **costs)


def bids(tuples: int, batch: int) -> pa.Buffer:
    """Prices of bids by row number, as a parquet file with one row group per batch."""
    rng = np.random.default_rng(10)
    rows = pa.table({"row": np.arange(tuples), "price": rng.integers(100, 1_000_000, tuples)})
    sink = pa.BufferOutputStream()
    pq.write_table(rows, sink, row_group_size=batch)
    return sink.getvalue()


def spec_of(file: pa.Buffer, slide: int, strategy: str) -> AggregateSpec:
    """The spec of the query with this SLIDE and strategy."""
    rows = pq.read_schema(pa.BufferReader(file)).empty_table()
    stream = lw.stream(rows, name="bids", progress="row", disorder=0)
    return aggregation(stream.window(range=RANGE, slide=slide).agg(strategy=strategy, most=lw.max("price")))


def batches(file: pa.Buffer) -> Iterator[pa.Table]:
    parquet = pq.ParquetFile(pa.BufferReader(file))
    return (parquet.read_row_group(i) for i in range(parquet.num_row_groups))


def scan(file: pa.Buffer) -> float:
    begun = time.process_time()
    for _ in batches(file):
        pass
    return time.process_time() - begun


def run(file: pa.Buffer, spec: AggregateSpec, read: Read) -> tuple[float, pa.Table]:
    """Runs an aggregation. Returns seconds and answers. Punctuation up to its last row follows each batch."""
    operator = spec.open(Store(), 1)
    out: list[Message] = []
    begun = time.process_time()
    for rows in batches(file):
        operator.take(0, read(rows), out.append)
        operator.take(0, Punctuation.linear("row", rows.column("row")[-1].as_py() + 1), out.append)
    operator.take(0, ALL, out.append)
    seconds = time.process_time() - begun
    return seconds, pa.concat_tables([m.rows for m in out if isinstance(m, Batch)]).combine_chunks().sort_by("wid")


def holds(points: list[Point]) -> bool:
    """Whether the claim holds for these points, in order of rising overlap."""
    ratios = [point.buffering_operations / point.wid_operations for point in points]
    judged = [point for point in points if point.overlap >= OVERLAPPING]
    fewer = ratios[0] > 1 and all(before < after for before, after in pairwise(ratios))
    faster = all(point.wid < point.buffering for point in judged)
    return fewer and faster and all(before.saved < after.saved for before, after in pairwise(judged))


def measured(points: list[Point]) -> dict[str, float]:
    found = {"most_overlap_operations_ratio": points[-1].buffering_operations / points[-1].wid_operations}
    for p in points:
        found[f"slide_{p.slide}_time_ratio"] = p.buffering / p.wid
        found[f"slide_{p.slide}_ms_saved"] = p.saved
    return {name: round(value, 3) for name, value in found.items()}


def panels(points: list[Point]) -> list[Panel]:
    """The axes of the paper, on logarithmic scales, which show both its overview and its enlarged part."""
    slides = [point.slide for point in points]
    times = {"buffering": "buffering", "WID, tuple by tuple": "by_tuple", "WID": "wid", "scan": "scan"}
    counted = {"buffering": "buffering_operations", "WID": "wid_operations"}
    return [
        Panel(
            "SLIDE, rows",
            of,
            [Curve(label, slides, [getattr(point, name) for point in points]) for label, name in lines.items()],
            ("log", "log"),
        )
        for of, lines in (("execution time, ms for 10,000 tuples", times), ("operations for a tuple", counted))
    ]
