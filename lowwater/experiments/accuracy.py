"""The accuracy and the latency of window answers, as the thesis measures them (TH 6.1.5.2).

    mean error        mean over all windows of 100 * |answer - truth| / |truth|
    wrong answers     100 * windows whose answer is not the truth / all windows
    latency           mean over all windows of max(0, answered - complete)
    early             100 * windows with answered < complete / all windows

All windows are those of the truth. A window without an answer counts as wrong, with an error of 100 %.

The thesis measures latency from the arrival of the punctuation that covers a window, by the wall clock. Here it is
counted in arrivals, so it has no noise: `complete` is the number of tuples that have arrived when the extent of the
window is complete, and `answered` the number when its answer is emitted. An early answer has not seen all of its
extent. It is not faster, but less accurate, which the other measures show. So it counts as latency 0, and as early.

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
    """The mean error in percent of the truth, which must not be zero."""
    answered, right = beside(answers, truth, column)
    return float(np.mean(np.where(np.isnan(answered), 100.0, 100 * np.abs(answered - right) / np.abs(right))))


def wrong_answers(answers: pa.Table, truth: pa.Table, column: str) -> float:
    """The wrong answers in percent of the windows."""
    answered, right = beside(answers, truth, column)
    return float(100 * np.mean(answered != right))


def beside(answers: pa.Table, truth: pa.Table, column: str) -> tuple[Float, Float]:
    """For every window of the truth, the answer (NaN if there is none) and the right value."""
    wid = truth.column("wid").to_numpy()
    order = np.argsort(wid)
    place = order[np.clip(np.searchsorted(wid, answers.column("wid").to_numpy(), sorter=order), 0, len(wid) - 1)]
    known = wid[place] == answers.column("wid").to_numpy()
    answered = np.full(len(wid), np.nan)
    answered[place[known]] = answers.column(column).to_numpy()[known]
    return answered, truth.column(column).to_numpy().astype(np.float64)


@dataclass(frozen=True)
class Latency:
    """The number of arrivals between the completion of an extent and its answer.

    `mean` counts an early answer as 0, `shift` as a negative number. `early` is the percentage of early answers.
    """

    mean: float
    shift: float
    early: float


def latency(answered: Int, complete: Int) -> Latency:
    """The latency from two numbers of arrivals per window.

    >>> latency(np.array([12, 20, 31, 40]), np.array([10, 20, 33, 40]))
    Latency(mean=0.5, shift=0.0, early=25.0)
    """
    waited = answered - complete
    return Latency(float(np.maximum(waited, 0).mean()), float(waited.mean()), float(100 * np.mean(waited < 0)))


def complete_after(times: Int, ends: Int) -> Int:
    """For each end, the number of arrivals after which no earlier time is missing. Times are in arrival order.

    >>> complete_after(np.array([1, 5, 3, 4, 8]), np.array([2, 4, 6]))
    array([1, 3, 4])
    """
    order = np.argsort(times, kind="stable")
    last = np.maximum.accumulate(np.concatenate([[-1], order]))
    return np.asarray(last[np.searchsorted(times[order], ends)] + 1, np.int64)
