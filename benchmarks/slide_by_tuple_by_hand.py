"""A slide-by-tuple sum written by hand on Spark: for each row the sum of its key's values in (ts - 10 minutes, ts].

`lowwater bench slide-by-tuple` compares lowwater with this program. It is written as a user of
transformWithStateInPandas would write it, and uses only Spark, pandas and NumPy.

    state     per key, a list of (time, value) in order of time, with all rows that later windows reach; the time up to
              which the key is answered; and its timer
    answers   a row is answered after the watermark has passed it, with the next rows of its key or by the timer, which
              is set to the first waiting row
    purge     rows ten minutes or more below the watermark

Windows are a set: rows with the same key and time have one answer. Sums are differences of a running sum over the list,
so a batch costs one pass over the list per key, for any number of rows in a window.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

RANGE = 10 * 60 * 1_000_000
"""Ten minutes, in microseconds."""
DISORDER = "3 seconds"
NEVER = -(1 << 62)
ROW = np.dtype([("us", np.int64), ("val", np.float64)])

Rows = npt.NDArray[np.void]


class SlidingSum(StatefulProcessor):
    """Processes one key at a time. Times are microseconds, so that no row becomes a datetime object."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._handle = handle
        self._rows = handle.getListState("rows", "us long, val double")
        self._reached = handle.getValueState("reached", "answered long, timer long")

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[pd.DataFrame]:
        watermark = timerValues.getCurrentWatermarkInMs() * 1000
        parts = []
        for frame in rows:
            part = np.empty(len(frame), ROW)
            part["us"], part["val"] = frame["us"].to_numpy(), frame["val"].to_numpy()
            parts.append(part[part["us"] >= watermark])  # a later row is dropped, as by Spark's own operators
        answered, timer = self._reached.get() or (NEVER, NEVER)
        if timer != NEVER:
            self._handle.deleteTimer(timer)  # this call answers the rows for which the timer was set
        yield from self._advance(key, parts, answered, watermark)

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[pd.DataFrame]:
        """Answers the waiting rows. Spark deletes the timer that has fired."""
        answered, _ = self._reached.get() or (NEVER, NEVER)
        yield from self._advance(key, [], answered, timerValues.getCurrentWatermarkInMs() * 1000)

    def _advance(self, key: Any, new: list[Rows], answered: int, watermark: int) -> Iterator[pd.DataFrame]:
        """Answers all rows from `answered` up to the watermark, and keeps the rows that later windows need."""
        rows = np.concatenate([np.fromiter(self._rows.get(), ROW), *new])
        rows = rows[np.argsort(rows["us"], kind="stable")]
        us = rows["us"]
        begin, stop = np.searchsorted(us, [answered, watermark])
        if begin < stop:
            yield self._answers(key, rows, int(begin), int(stop))
        kept = rows[np.searchsorted(us, watermark - RANGE, side="right") :]
        # Spark 4.3 never fires a timer that is set at the watermark of the same batch, so set it above.
        timer = max(int(us[stop]), watermark + 1000) // 1000 if stop < len(us) else NEVER
        if len(kept):
            self._rows.put(list(zip(kept["us"].tolist(), kept["val"].tolist(), strict=True)))
            self._reached.update((max(answered, watermark), timer))
        else:
            self._rows.clear()
            self._reached.clear()
        if timer != NEVER:
            self._handle.registerTimer(timer)

    def _answers(self, key: Any, rows: Rows, begin: int, stop: int) -> pd.DataFrame:
        us = rows["us"]
        ends = begin + np.flatnonzero(np.diff(us[begin:stop], append=us[stop - 1] + 1))  # the last row of each time
        running = np.concatenate([[0.0], np.cumsum(rows["val"])])
        first = np.searchsorted(us, us[ends] - RANGE, side="right")
        return pd.DataFrame({"key": key[0], "us": us[ends], "total": running[ends + 1] - running[first]})

    def close(self) -> None:
        pass


def answers(rows: DataFrame) -> DataFrame:
    """(key, ts, total) of a stream of (ts, key, val) whose rows are at most three seconds late."""
    timed = rows.withWatermark("ts", DISORDER).select("key", F.unix_micros("ts").alias("us"), "val")
    sums = timed.groupBy("key").transformWithStateInPandas(
        SlidingSum(), "key long, us long, total double", "Append", "EventTime"
    )
    return sums.select("key", F.timestamp_micros("us").alias("ts"), "total")
