"""Real streams joined without a window: the starts of taxi rides with their ends (WO-taxi).

100,000 events of a night in New York, 53,550 starts and 46,450 ends, in the order of their own times; every end has its
start. Both streams are joined on the number of the ride, which grows with the time of the start. Starts are almost in
order. Ends come in the order in which rides end, so their scrambling factor is that of the longest ride.

    monitored   nothing is declared and nothing is expected
    once        a ride is expected to start once and to end once, so that a start leaves when its end has come. The
                expected factor is one that nothing exceeds

The fixed window keeps the last w starts, with w such that it holds as many tuples as the join without a window, on
average over time. Ends come after their starts, so a window of ends would only take memory. The optimal buffer is the
least FIFO buffer after which no pair is lost, by backtracking over the whole streams.

The file is not part of the project. `LOWWATER_TAXI_RIDES` names it: nycTaxiRides.gz of the Flink training exercises.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as csv

import lowwater as lw
from lowwater.errors import LowwaterError
from lowwater.experiments.oblivious.backtracked import Arrived, Results, backtracked, least
from lowwater.experiments.oblivious.buffers import ENOUGH, MONITORED, NEAR
from lowwater.experiments.oblivious.virtual import Ran, run
from lowwater.experiments.oblivious.windows import come, tuples_of
from lowwater.experiments.outcome import Outcome, write_csv
from lowwater.experiments.thesis.curves import Curve, Panel, draw
from lowwater.joins.part import INDEX
from lowwater.model.scrambling import Scrambling

CLAIM = (
    "Starts and ends of taxi rides, joined without a window and monitored: at least 99.2 % of the pairs are found, and "
    "the buffers hold at most 1.5 times the optimal tuples, averaged over time. (Both are almost all tuples, so a "
    "fixed window of equal memory keeps all starts and finds all pairs, too. Buffers in order of arrival reach back to "
    "the start of the longest ride that goes on, and the longest one takes 77 of the 105 minutes.) If a ride is "
    "expected to start once and to end once, all pairs are found with less than a third of the memory, in tuples and "
    "in bytes. A fixed window of as many tuples finds less than two thirds of them, and one of as many bytes less than "
    "seven tenths. (The numbers of the rides that are over are remembered, so that a second end would be reported: "
    "64 kB in memory, the others on disk. Rows that have left are dropped a few at a time.)"
)
ONCE = "once"
NEVER_EXCEEDED = 1 << 30
"""A scrambling factor: more rows than any of the streams has."""
VARIABLE = "LOWWATER_TAXI_RIDES"
COLUMNS = ["ride", "kind", "ts", "other", "lon", "lat", "end_lon", "end_lat", "passengers", "taxi", "driver"]
WIDTH = INDEX + 16
"""The bytes of a tuple in memory: two numbers and the index."""
MOST = 0.7
STEP = 60.0
"""The seconds of a micro-batch."""


@dataclass(frozen=True, eq=False)
class Rides:
    """The two streams, with seconds since the first event."""

    start: Arrived
    end: Arrived

    @staticmethod
    def read(minutes: float | None = None) -> Rides:
        """The rides of the file, or only the events of its first minutes."""
        file = os.environ.get(VARIABLE)
        if not file or not Path(file).is_file():
            raise LowwaterError(f"The taxi rides are not here; set {VARIABLE} to the path of nycTaxiRides.gz.")
        events = csv.read_csv(file, csv.ReadOptions(column_names=COLUMNS))
        seconds = events.column("ts").cast(pa.int64()).to_numpy().astype(np.float64)
        seconds -= seconds.min()
        numbers, starts = events.column("ride").to_numpy(), pc.equal(events.column("kind"), "START").to_numpy()
        both = [Arrived(numbers[which], seconds[which]) for which in (starts, ~starts)]
        return Rides(*(both if minutes is None else [one.until(60 * minutes) for one in both]))

    def joined(self, expect: Any = None) -> Ran:
        """The run of the join without a window, monitored if nothing is expected."""
        streams = {"start": self.start, "end": self.end}
        tables = {
            name: pa.table({"ride": stream.values, f"{name}_at": np.round(stream.at).astype(np.int64)})
            for name, stream in streams.items()
        }
        relations = [
            lw.stream(table, name=name, progress="ride", disorder=lw.measured()) for name, table in tables.items()
        ]
        return run(lw.oblivious_join(relations, on="ride", expect=expect), streams, tables, STEP)


@dataclass(frozen=True)
class Share:
    """The pairs found by a join without a window and by a window of equal memory, and that memory in tuples."""

    found: float
    memory: float
    window: int
    windowed: float
    bytes: float
    """The bytes in memory, with those of complete keys and of rows that have left and are still stored."""
    windowed_bytes: float
    """The pairs found by a window with tuples of so many bytes."""

    @staticmethod
    def of(ran: Ran, truth: Results) -> Share:
        memory, bytes = ran.mean_in_memory(), float(ran.bytes.mean())
        window, wider = (tuples_of(truth.streams[:1], n, ran.moments) for n in (memory, bytes / WIDTH))
        ends = len(truth.streams[1].values)
        windowed, windowed_bytes = (len(truth.within([w, ends])) / len(truth) for w in (window, wider))
        return Share(ran.results / len(truth), memory, window, windowed, bytes, windowed_bytes)


def reproduce(size: str, out: Path) -> Outcome:
    rides = Rides.read(20 if size == "tiny" else None)
    truth = backtracked([rides.start, rides.end])
    runs = {MONITORED: rides.joined(), ONCE: rides.joined(lw.expect(scrambling=NEVER_EXCEEDED, multiplicity=1))}
    shares = {name: Share.of(ran, truth) for name, ran in runs.items()}
    optimal = float(least(truth, runs[MONITORED].moments).sum(axis=1).mean())
    measured: dict[str, float] = {"pairs": len(truth), "optimal_memory": round(optimal)}
    for name, share in shares.items():
        measured[f"{name}_found"] = runs[name].results
        measured[f"{name}_share_found"] = round(share.found, 5)
        measured[f"{name}_reported_rows"] = runs[name].reported
        measured[f"{name}_memory"] = round(share.memory)
        measured[f"{name}_bytes"] = round(share.bytes)
        measured[f"{name}_complete_keys"] = runs[name].complete
        measured[f"{name}_equal_window"] = share.window
        measured[f"{name}_window_share_found"] = round(share.windowed, 5)
        measured[f"{name}_window_of_equal_bytes_share_found"] = round(share.windowed_bytes, 5)
    for name, stream in (("starts", rides.start), ("ends", rides.end)):
        measured[f"{name}_scrambling"] = Scrambling.of(stream.values).factor
    windows = {name: share.window for name, share in shares.items()}
    return Outcome(holds(shares, optimal), measured, *written(runs, truth, windows, out))


def holds(shares: Mapping[str, Share], optimal: float) -> bool:
    monitored, once = shares[MONITORED], shares[ONCE]
    enough = monitored.found >= ENOUGH and monitored.memory <= NEAR * optimal
    less = once.memory < monitored.memory / 3 and once.bytes < monitored.bytes / 3
    return enough and once.found == 1 and less and once.windowed < 2 / 3 and once.windowed_bytes < MOST


def written(runs: Mapping[str, Ran], truth: Results, windows: Mapping[str, int], out: Path) -> tuple[Path, Path]:
    """The csv and the figure: tuples in memory over time, and the starts in the windows of equal memory."""
    moments = runs[MONITORED].moments
    minutes, optimal = (moments / 60).tolist(), least(truth, moments)
    panels, rows = [], []
    for at, (name, stream) in enumerate(zip(("start", "end"), truth.streams, strict=True)):
        so_far = come(stream, moments)
        columns = {
            "tuples so far": so_far,
            **{f"join without a window, {mode}": ran.in_memory[name] for mode, ran in runs.items()},
            "optimal FIFO buffer": optimal[:, at],
        }
        if name == "start":
            columns |= {f"window of equal memory, {mode}": np.minimum(so_far, w) for mode, w in windows.items()}
        rows += [(name, label, m, v) for label, own in columns.items() for m, v in zip(minutes, own, strict=True)]
        curves = [Curve(label, minutes, own.tolist()) for label, own in columns.items()]
        panels.append(Panel("time, minutes", f"buffer of the stream `{name}`, tuples", curves))
    table = write_csv(out / "WO-taxi.csv", ("stream", "curve", "minute", "tuples"), rows)
    return table, draw(panels, out / "WO-taxi.png")
