"""The judge of window joins: nested loops over lists of rows, with no state and no cleverness.

Rows are dicts, times are ticks, and the order of a list is the order of arrival, which matters only to windows that
count tuples and to punctuation. A result is a list of pairs (left row, right row), None for the row that is missing.

    keys     `on` lists pairs (left column, right column), all of which have to be equal. NaN equals NaN and -0.0 equals
             0.0, as in Spark; null equals nothing, and only null where `null_safe`
    time     a row without one takes part in nothing: it joins none, is no outer row and counts in no window
    how      inner; left, right, full: also the rows without a match; semi, anti: the left rows with, without a match
    condition  a further predicate of both rows. Only True is a match: False and null, told as None, are not

>>> pickups = [{"taxi": 1, "ts": 0}, {"taxi": 2, "ts": 5}]
>>> dropoffs = [{"taxi": 1, "ts": 30}, {"taxi": 2, "ts": 95}, {"taxi": 1, "ts": 0}]
>>> for pair in band_join(pickups, dropoffs, [("taxi", "taxi")], 0, 60, how="full", bounds="(]"):
...     print(pair)
({'taxi': 1, 'ts': 0}, {'taxi': 1, 'ts': 30})
({'taxi': 2, 'ts': 5}, None)
(None, {'taxi': 2, 'ts': 95})
(None, {'taxi': 1, 'ts': 0})
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import permutations, product
from typing import Any

from tests.oracle import Row, key, ordered

On = Sequence[Sequence[str]]
"""The columns of each equality, one per stream."""
Pair = tuple[Row | None, Row | None]
Condition = Callable[[Row, Row], bool | None]
Naming = dict[str, list[tuple[int, str]]]
"""Name of a result column -> its places (stream, column); the first whose row is not missing gives the value."""

HOWS = ("inner", "left", "right", "full", "semi", "anti")
BOUNDS = ("[]", "[)", "(]", "()")


def band_join(
    left: list[Row],
    right: list[Row],
    on: On,
    lower: int | None,
    upper: int | None,
    how: str = "inner",
    bounds: str = "[]",
    condition: Condition | None = None,
    null_safe: bool = False,
    left_time: str = "ts",
    right_time: str = "ts",
) -> list[Pair]:
    """Pairs of equal keys with right time - left time between lower and upper.

    Each end is closed or open by its bracket in `bounds`; None is no bound. A window W_L on the left and W_R on the
    right (TH 5.2.1, as the worked example Q5-8 reads it) is the closed band from -W_R to W_L.

    >>> left, right = [{"ts": 10}], [{"ts": 7}, {"ts": 8}, {"ts": 13}, {"ts": 14}]
    >>> [b["ts"] for _, b in band_join(left, right, [], -2, 3)]
    [8, 13]
    >>> [b["ts"] for _, b in band_join(left, right, [], -2, 3, bounds="[)")]
    [8]
    >>> [b["ts"] for _, b in band_join(left, right, [], None, 3, condition=lambda a, b: b["ts"] % 2 == 1)]
    [7, 13]
    """
    if bounds not in BOUNDS:
        raise ValueError(f"bounds={bounds!r} is none of {', '.join(BOUNDS)}.")
    left, right = timed(left, left_time), timed(right, right_time)

    def joins(i: int, j: int) -> bool:
        gap = right[j][right_time] - left[i][left_time]
        return between(gap, lower, upper, bounds) and agree(left[i], right[j], on, condition, null_safe)

    return outcome(left, right, joins, how)


def grid_join(
    left: list[Row],
    right: list[Row],
    on: On,
    range: int,
    slide: int,
    origin: int = 0,
    how: str = "inner",
    condition: Condition | None = None,
    null_safe: bool = False,
    left_time: str = "ts",
    right_time: str = "ts",
) -> list[tuple[Row | None, Row | None, int, int]]:
    """(left row, right row, start, end) for every window [start, end) that holds both; start = origin + k * slide.

    Every window is joined for itself: a pair in n common windows is there n times, and a row is unmatched (or, in a
    semi or anti join, told) per window. Rows in the gaps between windows are in no result at all.

    >>> left, right = [{"ts": 5}], [{"ts": 12}]
    >>> grid_join(left, right, [], range=10, slide=5, how="left")
    [({'ts': 5}, None, 0, 10), ({'ts': 5}, {'ts': 12}, 5, 15)]
    """
    left, right = timed(left, left_time), timed(right, right_time)

    def starts(time: int) -> list[int]:
        start, found = origin + (time - origin) // slide * slide, []
        while start <= time < start + range:
            found.append(start)
            start -= slide
        return found

    times = [row[left_time] for row in left] + [row[right_time] for row in right]
    result = []
    for start in sorted({start for time in times for start in starts(time)}):
        end = start + range
        inside_left = [row for row in left if start <= row[left_time] < end]
        inside_right = [row for row in right if start <= row[right_time] < end]
        pairs = band_join(
            inside_left, inside_right, on, None, None, how, "[]", condition, null_safe, left_time, right_time
        )
        result += [(*pair, start, end) for pair in pairs]
    return result


def n_way(
    streams: Sequence[list[Row]],
    on: Sequence[Sequence[str]],
    waits: Sequence[int | None],
    times: Sequence[str] | None = None,
) -> list[tuple[Row, ...]]:
    """Tuples of one row per stream, all keys equal and none of them null, in which everyone waited long enough.

    on[i] are the key columns of stream i, times[i] its time (ts unless given). waits[i] is the window on stream i: how
    long its rows wait for the others, so t_j - t_i <= waits[i] for every other j; None is for ever.

    >>> a, b, c = [{"ts": 0}], [{"ts": 2}, {"ts": 4}], [{"ts": 5}]
    >>> n_way([a, b, c], [[], [], []], [5, 2, 0])
    [({'ts': 0}, {'ts': 4}, {'ts': 5})]
    """
    times = ["ts"] * len(streams) if times is None else times
    found = []
    for rows in product(*(timed(stream, time) for stream, time in zip(streams, times, strict=True))):
        keys = [key(row, list(columns)) for row, columns in zip(rows, on, strict=True)]
        if any(value is None for values in keys for value in values) or any(values != keys[0] for values in keys):
            continue
        in_time = all(
            waits[i] is None or rows[j][times[j]] - rows[i][times[i]] <= waits[i]
            for i, j in permutations(range(len(rows)), 2)
        )
        if in_time:
            found.append(rows)
    return found


def count_join(
    left: list[Row],
    right: list[Row],
    on: On,
    left_rows: int | None,
    right_rows: int | None,
    per_key: bool = True,
    *,
    left_wait: float | None = None,
    right_wait: float | None = None,
    how: str = "inner",
    condition: Condition | None = None,
    null_safe: bool = False,
    left_time: str = "ts",
    right_time: str = "ts",
) -> list[Pair]:
    """Windows of the last so many tuples, on one side or both (SH 2.1).

    Both streams come merged by time; at equal times left before right, and within a stream by arrival. Of two rows, the
    one that comes first joins the other if it is, when the other comes, still among the last `rows` of its stream: of
    those with its key or, unless `per_key`, of all. A side without a count has a window of time instead: its rows wait
    `wait` ticks for later ones (math.inf is for ever). Each side has one of the two.

    >>> left, right = [{"ts": 1}, {"ts": 2}, {"ts": 3}], [{"ts": 2}, {"ts": 9}]
    >>> [(a["ts"], b["ts"]) for a, b in count_join(left, right, [], 1, 1)]
    [(2, 2), (3, 2), (3, 9)]
    >>> [(a["ts"], b["ts"]) for a, b in count_join(left, right, [], 2, None, right_wait=0)]
    [(1, 2), (2, 2), (2, 9), (3, 9)]
    """
    for rows, wait in ((left_rows, left_wait), (right_rows, right_wait)):
        if (rows is None) == (wait is None):
            raise ValueError("Each side has either a count of rows or a wait.")
    left, right = timed(left, left_time), timed(right, right_time)

    def remembered(stream: list[Row], at: int, came: list[int], rows: int, time: str, columns: list[str]) -> bool:
        """Is the row at this position among the last of those that came?"""
        same = [n for n in came if not per_key or key(stream[n], columns) == key(stream[at], columns)]
        in_order = sorted(same, key=lambda n: (stream[n][time], n))
        return at in in_order[max(0, len(in_order) - rows) :]

    def joins(i: int, j: int) -> bool:
        if not agree(left[i], right[j], on, condition, null_safe):
            return False
        gap = right[j][right_time] - left[i][left_time]
        if gap >= 0:
            if left_rows is None:
                return gap <= left_wait
            came = [n for n, row in enumerate(left) if row[left_time] <= right[j][right_time]]
            return remembered(left, i, came, left_rows, left_time, [a for a, _ in on])
        if right_rows is None:
            return -gap <= right_wait
        came = [n for n, row in enumerate(right) if row[right_time] < left[i][left_time]]
        return remembered(right, j, came, right_rows, right_time, [b for _, b in on])

    return outcome(left, right, joins, how)


def value_punctuated(
    events: Iterable[tuple[str, Any]],
    on: On,
    lower: int | None = None,
    upper: int | None = None,
    **further: Any,
) -> tuple[list[tuple[str, Row]], list[Pair]]:
    """(the ungrammatical rows with their sides, the band join of all others), of punctuated streams in arrival order.

    An event is ("L" or "R", row) or ("L" or "R", pattern): the stream ends these values of its key. A pattern is a
    value, a list of values, or a range (low, high), which holds low but not high; None there is no bound. Of several
    key columns a pattern is about the first. A row is ungrammatical if its own stream had ended its key before it came;
    what the other stream has ended only makes state superfluous and changes no result. Without lower and upper this is
    PJoin, without patterns WJoin; `further` are the other arguments of `band_join`.

    >>> one, two, late = {"k": 1, "ts": 0}, {"k": 1, "ts": 3}, {"k": 1, "ts": 2}
    >>> value_punctuated([("L", one), ("L", [1, 5]), ("R", two), ("L", late)], [("k", "k")])
    ([('L', {'k': 1, 'ts': 2})], [({'k': 1, 'ts': 0}, {'k': 1, 'ts': 3})])
    """
    columns = {"L": on[0][0], "R": on[0][1]}
    ended: dict[str, list[Any]] = {"L": [], "R": []}
    kept: dict[str, list[Row]] = {"L": [], "R": []}
    ungrammatical = []
    for side, what in events:
        if not isinstance(what, dict):
            ended[side].append(what)
        elif any(matches(pattern, what[columns[side]]) for pattern in ended[side]):
            ungrammatical.append((side, what))
        else:
            kept[side].append(what)
    return ungrammatical, band_join(kept["L"], kept["R"], on, lower, upper, **further)


def matches(pattern: Any, value: Any) -> bool:
    """Whether a value is one that the pattern ends. Null and NaN stand outside the order: no range holds them."""
    if isinstance(pattern, tuple):
        low, high = pattern
        in_order = value is not None and value == value
        return in_order and (low is None or low <= value) and (high is None or value < high)
    listed = pattern if isinstance(pattern, list) else [pattern]
    return any(ordered(value) == ordered(one) for one in listed)


def timed(rows: list[Row], time: str) -> list[Row]:
    return [row for row in rows if row[time] is not None]


def between(gap: int, lower: int | None, upper: int | None, bounds: str) -> bool:
    above = lower is None or (lower <= gap if bounds[0] == "[" else lower < gap)
    below = upper is None or (gap <= upper if bounds[1] == "]" else gap < upper)
    return above and below


def agree(a: Row, b: Row, on: On, condition: Condition | None, null_safe: bool) -> bool:
    """All that a left row and a right row need to join, but for their times."""
    for left_column, right_column in on:
        if a[left_column] is None and b[right_column] is None:
            if not null_safe:
                return False
        elif ordered(a[left_column]) != ordered(b[right_column]):
            return False
    return condition is None or condition(a, b) is True


def outcome(left: list[Row], right: list[Row], joins: Callable[[int, int], bool], how: str) -> list[Pair]:
    """What a join of this kind gives, if the rows at positions i and j join iff joins(i, j).

    By position, because equal rows are still different ones.
    """
    if how not in HOWS:
        raise ValueError(f"how={how!r} is none of {', '.join(HOWS)}.")
    found = [(i, j) for i, _ in enumerate(left) for j, _ in enumerate(right) if joins(i, j)]
    matched_left, matched_right = {i for i, _ in found}, {j for _, j in found}
    if how == "semi":
        return [(row, None) for i, row in enumerate(left) if i in matched_left]
    result: list[Pair] = [] if how == "anti" else [(left[i], right[j]) for i, j in found]
    if how in ("left", "full", "anti"):
        result += [(row, None) for i, row in enumerate(left) if i not in matched_left]
    if how in ("right", "full"):
        result += [(None, row) for j, row in enumerate(right) if j not in matched_right]
    return result


def naming(on: On, names: Sequence[str], columns: Sequence[Sequence[str]]) -> Naming:
    """How the library names the columns of a join of streams with these names and columns.

    A key column of one name on all sides is there once; any other column of several streams is called after its stream
    and itself; all others keep their name.

    >>> naming([("k", "k"), ("x", "y")], ("l", "r"), (["k", "x", "v"], ["k", "y", "v"]))
    {'k': [(0, 'k'), (1, 'k')], 'x': [(0, 'x')], 'l_v': [(0, 'v')], 'y': [(1, 'y')], 'r_v': [(1, 'v')]}
    """
    once = {equal[0] for equal in on if len(set(equal)) == 1}
    named: Naming = {}
    for stream, own in enumerate(columns):
        for column in own:
            shared = sum(column in others for others in columns) > 1
            name = f"{names[stream]}_{column}" if shared and column not in once else column
            if name in named and column not in once:
                raise ValueError(f"Two columns of the result would be called {name!r}.")
            named.setdefault(name, []).append((stream, column))
    return named


def as_rows(pairs: Iterable[tuple[Any, ...]], naming: Naming) -> list[Row]:
    """Pairs, or tuples of more rows, as dicts under these names; what follows the rows are window_start and window_end.

    >>> as_rows([(None, {"k": 1}, 0, 10)], {"k": [(0, "k"), (1, "k")], "v": [(0, "v")]})
    [{'k': 1, 'v': None, 'window_start': 0, 'window_end': 10}]
    """
    rows = []
    for pair in pairs:
        row = {}
        for name, places in naming.items():
            values = [pair[stream][column] for stream, column in places if pair[stream] is not None]
            row[name] = values[0] if values else None
        window = [part for part in pair if part is not None and not isinstance(part, dict)]
        rows.append(row | dict(zip(("window_start", "window_end"), window, strict=False)))
    return rows


def flatten(
    pairs: Iterable[tuple[Any, ...]],
    on: On,
    names: Sequence[str] = ("l", "r"),
    *,
    columns: Sequence[Sequence[str]],
) -> list[Row]:
    """Results of any join above as the library's rows, to compare as multisets.

    Columns are given, since a side may have no rows to read them from. A semi or anti join has the left columns only:
    give it columns=(left columns, []). For n streams, `on` lists n columns per equality: list(zip(*on)) of `n_way`'s.

    >>> left, right = [{"k": 1, "ts": 0, "a": 7}], [{"k": 1, "ts": 2}, {"k": 2, "ts": 2}]
    >>> pairs = band_join(left, right, [("k", "k")], 0, 5, "right")
    >>> for row in flatten(pairs, [("k", "k")], columns=(["k", "ts", "a"], ["k", "ts"])):
    ...     print(row)
    {'k': 1, 'l_ts': 0, 'a': 7, 'r_ts': 2}
    {'k': 2, 'l_ts': None, 'a': None, 'r_ts': 2}
    """
    return as_rows(pairs, naming(on, names, columns))
