"""Compares slack with punctuation from the source, over the same arrivals, by accuracy and latency.

    slack k       progress is estimated: no tuple comes more than k behind the largest value seen. Buffering keeps the
                  extents. A tuple that is late for one of its extents is dropped from all of them (consistent), or
                  still counts in those that are open (generous)
    punctuation   the source punctuates what is complete, and WID closes windows by that

The arrivals are cut after every tuple or punctuation that closes a window. So no answer waits for the end of a batch,
and the outcome is the same as tuple by tuple. Tuples arrive evenly, so a number of arrivals corresponds to a time.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pyarrow as pa

import lowwater as lw
from lowwater.aggregates.base import Aggregate
from lowwater.experiments.accuracy import complete_after, latency, mean_error, wrong_answers
from lowwater.experiments.thesis.curves import Curve
from lowwater.generate import SECOND, START, TIMESTAMP
from lowwater.windows.context_free import Sliding

Int = npt.NDArray[np.int64]
LATE = {"consistent": "drop", "generous": "include"}
PUNCTUATION = "punctuation"


@dataclass(frozen=True)
class Judged:
    """One point of a figure: how windows were closed, and the measures. Latencies in seconds, the others in percent.

    `latency` counts early answers as 0, `shift` as negative; see accuracy.py.
    """

    closed_by: str
    slack: float
    mean_error: float
    wrong_answers: float
    latency: float
    shift: float
    early: float


@dataclass(frozen=True)
class Arrivals:
    """Tuples in order of arrival, one every `spacing` ticks, and one window aggregate over them.

    All windows that end at least `longest` before the last tuple are judged. No slack up to `longest` leaves them open
    at the end.
    """

    ts: Int
    value: Int
    spacing: int
    aggregate: Aggregate
    window: Sliding
    longest: int

    @cached_property
    def rows(self) -> pa.Table:
        return pa.table({"ts": pa.array(self.ts, TIMESTAMP), "value": self.value})

    @cached_property
    def truth(self) -> pa.Table:
        """The answers of the judged windows if all tuples arrive before any window is closed."""
        found = self._query(self.rows, lw.ordered(), "wid", "include").collect()
        start, end = self.window.interval(found.column("wid").to_numpy())
        return found.filter(pa.array((start >= self.ts.min()) & (end <= self.ts.max() - self.longest)))

    def by_slack(self, kind: str, slack: int) -> Judged:
        low = np.maximum.accumulate(self.ts) - slack
        # The first window of a tuple at the low-watermark is the first open window.
        stops = changes(self.window.bounds(low)[0])
        query = self._query(self.rows, lw.delay(f"{slack} microseconds"), "buffer", LATE[kind])
        return self._judge(kind, slack, query, self.rows, stops, stops)

    def by_punctuation(self, ends: Int) -> Judged:
        """Closes windows by punctuations that the source sends as soon as all tuples before an end have arrived."""
        after = complete_after(self.ts, ends)
        n, marks = len(self.ts), len(ends)
        order = np.lexsort((np.repeat([0, 1], [n, marks]), np.concatenate([np.arange(1, n + 1), after])))
        nulls = {"ts": pa.nulls(marks, TIMESTAMP), "value": pa.nulls(marks, pa.int64())}
        tuples = self.rows.append_column("mark", pa.array(np.zeros(n, bool)))
        tuples = tuples.append_column("upto", pa.nulls(n, TIMESTAMP))
        marked = {"mark": np.ones(marks, bool), "upto": pa.array(ends, TIMESTAMP)}
        punctuations = pa.table({**nulls, **marked}, schema=tuples.schema)
        rows = pa.concat_tables([tuples, punctuations]).take(pa.array(order))
        query = self._query(rows, lw.punctuated("mark", "upto", closed=False), "wid", "include")
        stops = np.flatnonzero(order >= n) + 1
        return self._judge(PUNCTUATION, 0, query, rows, stops, after)

    def _query(self, rows: pa.Table, disorder: lw.Disorder, strategy: str, late: str) -> lw.Query:
        stream = lw.stream(rows, name="tuples", progress="ts", disorder=disorder)
        length, slide = (f"{ticks} microseconds" for ticks in (self.window.range, self.window.slide))
        return stream.window(range=length, slide=slide).agg(strategy=strategy, late=late, answer=self.aggregate)

    def _judge(self, kind: str, slack: int, query: lw.Query, rows: pa.Table, stops: Int, arrived: Int) -> Judged:
        """Runs the rows, cut at the stops. `arrived` is the number of tuples that have arrived at each stop."""
        running = query.start(late=False)
        closed = [running.push(rows.slice(at, to - at)) for at, to in zip([0, *stops[:-1]], stops, strict=True)]
        answers = pa.concat_tables(closed)
        at = np.repeat(arrived, [table.num_rows for table in closed])
        judged = np.isin(answers.column("wid").to_numpy(), self.truth.column("wid").to_numpy())
        ends = self.window.ends(answers.column("wid").to_numpy()[judged])
        waited = latency(at[judged], complete_after(self.ts, ends))
        seconds = self.spacing / SECOND
        return Judged(
            kind,
            slack / SECOND,
            mean_error(answers, self.truth, "answer"),
            wrong_answers(answers, self.truth, "answer"),
            waited.mean * seconds,
            waited.shift * seconds,
            waited.early,
        )


def changes(values: Int) -> Int:
    """The positions after each value that differs from the one before it, including the first value."""
    return np.flatnonzero(np.diff(values, prepend=values[0] - 1)) + 1


def begin(multiple: int) -> int:
    """The start of a stream: a multiple of a length, so that a window or block of that length also begins there."""
    return START * SECOND // multiple * multiple


def curves(points: list[Judged], accuracy: str) -> list[Curve]:
    """Curves of accuracy over latency, one per kind, with the points in order of their slack."""
    found = []
    for kind in dict.fromkeys(point.closed_by for point in points):
        own = [point for point in points if point.closed_by == kind]
        names = [f"{point.slack:g} s" for point in own] if kind in LATE else []
        label = f"buffering, {kind} slack" if kind in LATE else "WID, punctuation from the source"
        found.append(Curve(label, [p.shift for p in own], [getattr(p, accuracy) for p in own], names))
    return found
