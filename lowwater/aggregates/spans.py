"""Spans: count how often each value occurs in each of many overlapping windows, without scanning each window.

An answer is a range lo <= row < hi of rows. If lo and hi ascend, as they do for windows, the answers that contain a row
are consecutive. So an entry (row, value, count) adds its count at the first of these answers and subtracts it after the
last. Between two such events the count of a value does not change: that is a span. There are at most two spans per
entry, however many windows overlap.

    answers      0  1  2  3  4  5
    entry a x2   |-----|              spans of a:  0..1 count 2,  1..2 count 5,  2..4 count 3
    entry a x3      |--------|

    spans_over(...)    the spans of all values
    presence(...)      the spans in which a value occurs at all, without counts
    highest(...)       the largest key of the spans over each answer, for the mode
    ascending(lo, hi)  splits answers into chains that ascend; `restored` puts their results into the original order
    codes(...)         values as integers, which identify them in spans

>>> import numpy as np
>>> lo, hi = np.array([0, 0, 1]), np.array([1, 2, 3])
>>> spans = spans_over(np.array([7, 7, 4]), np.array([2, 3, 1]), np.array([0, 1, 2]), lo, hi)
>>> [part.tolist() for part in spans]
[[4, 7, 7, 7], [2, 0, 1, 2], [3, 1, 2, 3], [1, 2, 5, 3]]
>>> highest(spans, spans.times, 3).tolist()
[2, 5, 3]
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lowwater.aggregates.order import begins
from lowwater.aggregates.sorting import apart, order_of, rank_each

Ints = npt.NDArray[np.int64]
Key = npt.NDArray[Any]


class Spans(NamedTuple):
    """The value `code` occurs `times` times in each answer first .. stop - 1. Spans of a value do not overlap."""

    code: Ints
    first: Ints
    stop: Ints
    times: Ints


def codes(key: Key, lo: Ints, hi: Ints) -> tuple[Ints, Key]:
    """(code, distinct): key[i] is distinct[code[i]].

    Within every range lo .. hi, codes have the order of their keys. Sections that no range spans, such as the windows
    of different groups, are coded independently.
    """
    border = apart(len(key), lo, hi)
    rank, ordered = rank_each(key, border)
    new = begins(ordered, border)
    number = np.cumsum(new) - 1
    return number[np.repeat(border[:-1], np.diff(border)) + rank], np.compress(new, ordered)


def spans_over(code: Ints, count: Ints, row: Ints, lo: Ints, hi: Ints) -> Spans:
    """The spans of entries over ascending answers, sorted by code and then by answer.

    For the entries of a value in order of their rows, both the first answers and the stops ascend. So there are two
    sorted sequences of events, which are merged by searching each in the other.
    """
    held, code, first, stop = _events(code, row, lo, hi)
    added, begun, ended = count[held], code * (len(lo) + 1) + first, code * (len(lo) + 1) + stop
    one = np.arange(len(held)) + np.searchsorted(ended, begun, "left")
    two = np.arange(len(held)) + np.searchsorted(begun, ended, "right")
    of, at, change = (np.empty(2 * len(held), np.int64) for _ in range(3))
    of[one], of[two] = code, code
    at[one], at[two] = first, stop
    change[one], change[two] = added, -added
    running = np.cumsum(change)
    spans = np.flatnonzero((of[1:] == of[:-1]) & (at[1:] > at[:-1]) & (running[:-1] > 0))
    return Spans(of[spans], at[spans], at[spans + 1], running[spans])


def presence(code: Ints, row: Ints, lo: Ints, hi: Ints) -> Spans:
    """The spans in which a value occurs, however often. `times` is 1."""
    _, code, first, stop = _events(code, row, lo, hi)
    new = np.ones(len(code), np.bool_)
    new[1:] = (code[1:] != code[:-1]) | (first[1:] > stop[:-1])
    begin = np.flatnonzero(new)
    end = np.append(begin[1:], len(code)) - 1 if len(begin) else begin
    return Spans(code[begin], first[begin], stop[end], np.ones(len(begin), np.int64))


def _events(code: Ints, row: Ints, lo: Ints, hi: Ints) -> tuple[Ints, Ints, Ints, Ints]:
    """(entry, code, first, stop): the entries in at least one answer, by code and row, with the range of answers."""
    rows = np.arange(int(row.max(initial=-1)) + 1)
    first = np.searchsorted(hi, rows, "right")
    stop = np.searchsorted(lo, rows, "right")
    order = order_of(code, int(code.max(initial=0)) + 1)
    held = np.compress((first < stop)[row[order]], order)
    return held, code[held], first[row[held]], stop[row[held]]


def highest(spans: Spans, key: Ints, n: int) -> Ints:
    """The largest key >= 0 of the spans over each of n answers, or -1 if no span covers it.

    A span is written as two blocks of 2**j answers, which can overlap. Blocks are halved level by level. It is the
    idempotent roll-up (rollup.py) with reading and writing exchanged.
    """
    scale = np.frexp(spans.stop - spans.first)[1] - 1
    out = np.full(n, -1, np.int64)
    for j in range(int(scale.max(initial=-1)), -1, -1):
        width = 1 << j
        halved = out.copy()
        np.maximum(halved[width:], out[:-width], out=halved[width:])
        out = halved
        some = np.flatnonzero(scale == j)
        np.maximum.at(out, spans.first[some], key[some])
        np.maximum.at(out, spans.stop[some] - width, key[some])
    return out


def ascending(lo: Ints, hi: Ints) -> Iterator[npt.NDArray[np.intp]]:
    """Chains of answers whose lo and hi ascend: one chain for windows, otherwise one per length of the range."""
    if bool((lo[1:] >= lo[:-1]).all() and (hi[1:] >= hi[:-1]).all()):
        yield np.arange(len(lo))
        return
    order = np.lexsort((lo, hi - lo))
    length = (hi - lo)[order]
    yield from np.split(order, np.flatnonzero(length[1:] != length[:-1]) + 1)


def restored(results: pa.Array, chains: Sequence[npt.NDArray[np.intp]]) -> pa.Array:
    """The results of all chains, put into the order of the answers."""
    order = np.concatenate(chains)
    at = np.empty(len(order), np.intp)
    at[order] = np.arange(len(order))
    return results if bool((order[1:] > order[:-1]).all()) else results.take(pa.array(at))
