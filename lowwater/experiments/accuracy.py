"""How right and how late the answers of windows are, as the thesis measures it (TH 6.1.5.2).

    mean error        mean over all windows of 100 * |answer - truth| / |truth|
    wrong answers     100 * windows whose answer is not the truth / all windows
    latency           mean over all windows of max(0, answered - complete)
    early             100 * windows with answered < complete / all windows

All windows are those of the truth; one that is never answered is wrong, and off by 100 %.

The thesis takes latency from the arrival of the punctuation that covers a window, by the clock on the wall. Here it is
counted in arrivals and so has no noise: `complete` is how many tuples have arrived when the last one of the window's
extent is there, and `answered` how many when the answer is given. An answer before that has not seen all of its extent.
It is no faster than one in time, only less right, which the other measures tell: it counts as no latency, and as early.

>>> truth = pa.table({"wid": [0, 1, 2], "n": [10, 10, 10]})
>>> answers = pa.table({"wid": [1, 0], "n": [8, 10]})
>>> mean_error(answers, truth, "n"), round(wrong_answers(answers, truth, "n"), 1)
(40.0, 66.7)
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Int = npt.NDArray[np.int64]
Float = npt.NDArray[np.float64]


def mean_error(answers: pa.Table, truth: pa.Table, column: str) -> float:
    """In percent of the truth, which must not be zero."""
    given, right = beside(answers, truth, column)
    return float(np.mean(np.where(np.isnan(given), 100.0, 100 * np.abs(given - right) / np.abs(right))))


def wrong_answers(answers: pa.Table, truth: pa.Table, column: str) -> float:
    """In percent of the windows."""
    given, right = beside(answers, truth, column)
    return float(100 * np.mean(given != right))


def beside(answers: pa.Table, truth: pa.Table, column: str) -> tuple[Float, Float]:
    """For every window of the truth what was answered, NaN if nothing was, and what is right."""
    wid = truth.column("wid").to_numpy()
    order = np.argsort(wid)
    place = order[np.clip(np.searchsorted(wid, answers.column("wid").to_numpy(), sorter=order), 0, len(wid) - 1)]
    known = wid[place] == answers.column("wid").to_numpy()
    given = np.full(len(wid), np.nan)
    given[place[known]] = answers.column(column).to_numpy()[known]
    return given, truth.column(column).to_numpy().astype(np.float64)


@dataclass(frozen=True)
class Latency:
    """How many arrivals answers have waited after their extents were complete.

    `mean` takes an early answer as one that did not wait, `shift` as one that waited less than nothing; `early` is how
    many percent of the answers are such.
    """

    mean: float
    shift: float
    early: float


def latency(answered: Int, complete: Int) -> Latency:
    """Both in arrivals, a number a window.

    >>> latency(np.array([12, 20, 31, 40]), np.array([10, 20, 33, 40]))
    Latency(mean=0.5, shift=0.0, early=25.0)
    """
    waited = answered - complete
    return Latency(float(np.maximum(waited, 0).mean()), float(waited.mean()), float(100 * np.mean(waited < 0)))


def complete_after(times: Int, ends: Int) -> Int:
    """For times in arrival order: how many have arrived when none before each end is still to come.

    >>> complete_after(np.array([1, 5, 3, 4, 8]), np.array([2, 4, 6]))
    array([1, 3, 4])
    """
    order = np.argsort(times, kind="stable")
    last = np.maximum.accumulate(np.concatenate([[-1], order]))
    return np.asarray(last[np.searchsorted(times[order], ends)] + 1, np.int64)
