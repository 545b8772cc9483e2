"""Turns the arguments of `join()` into a node: keys, windows and counts of rows.

within=         a band: how far apart times may be           window=   a grid: rows of the same window
rows=           the newest rows of a side                    none      a key column that progresses on all sides
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from lowwater.errors import BadWindow, LowwaterError, UnknownColumn
from lowwater.joins.condition import Predicate
from lowwater.model.columns import spelled
from lowwater.model.ticks import Length, Ticks, as_written
from lowwater.query.logical import Join, Node
from lowwater.query.window import window_of
from lowwater.windows.context_free import Sliding, TupleBased

On = str | Sequence[str | Sequence[str]]
Within = Length | tuple[Length | None, Length | None] | None


def joined(
    sides: Sequence[tuple[str, Node]],
    on: On,
    within: Within | Sequence[Length | None] = None,
    how: str = "inner",
    *,
    window: Length | None = None,
    slide: Length | None = None,
    origin: object = None,
    over: str | Sequence[str | None] | None = None,
    bounds: str = "[]",
    rows: int | tuple[int | None, int | None] | None = None,
    per_key: bool = True,
    condition: str | Predicate | None = None,
    null_safe: bool = False,
) -> Join:
    """The node of a join of named relations; see `Relation.join`."""
    n = len(sides)
    keys = keys_of(on, n)
    nodes = [node for _, node in sides]
    keys = [
        tuple(_named(name, node, column, "on") for column in key) for (name, node), key in zip(sides, keys, strict=True)
    ]
    times = [_time(name, node, time) for (name, node), time in zip(sides, _over(over, n), strict=True)]
    bare = within is None and window is None and rows is None
    if bare and over is not None:
        raise BadWindow("over= of join() names the times of within= or window=; leave it out, or give one of these.")
    shared = _progressing(nodes, keys) if bare else None
    if shared is not None:  # equal times are a band of zero
        times = [key[shared] for key in keys]
    ticks = Ticks(_type(nodes[0], times[0]))
    grid = None
    if window is None and (slide is not None or origin is not None):
        raise BadWindow("slide= and origin= of join() belong to window=, as in window='10 minutes', slide='1 minute'.")
    band = window is None and n == 2 and not isinstance(within, list)
    if bounds != "[]" and not band:
        raise BadWindow("bounds= of join() opens the ends of within= between two streams; leave it out here.")
    waits: tuple[int | None, ...]
    if shared is not None:
        waits = (0,) * n
    elif window is not None:
        if within is not None:
            raise BadWindow("join() takes within= (a band) or window= (a grid), not both.")
        made, anchored = window_of(ticks, window, slide, origin, None, False, None)
        if not isinstance(made, Sliding) or isinstance(made, TupleBased) or not anchored:
            raise BadWindow("join(window=) is a length of time from a known origin, as in window='10 minutes'.")
        grid = made
        waits = (0,) * n
    elif band:
        waits = _band(ticks, within, bounds)
        if rows is None:
            _refuse_empty(waits, within, bounds, how)
    else:
        each: list[Any] = list(within) if isinstance(within, list | tuple) else [within] * n
        if len(each) != n:
            raise BadWindow(
                f"join(within=) gives {len(each)} windows for {n} streams; give one window for all of them, or {n}."
            )
        waits = tuple(_length(ticks, one) for one in each)
    return Join(
        tuple(nodes),
        tuple(rows_of(node) for node in nodes),
        tuple(name for name, _ in sides),
        tuple(times),
        tuple(keys),
        waits,
        how,
        grid,
        condition,
        null_safe,
        _counts(rows),
        per_key,
    )


def _type(node: Node, column: str) -> pa.DataType:
    return node.schema.field(column).type


def _over(over: str | Sequence[str | None] | None, n: int) -> Sequence[str | None]:
    """The time that each side is joined by, None for its default."""
    each = (over,) * n if over is None or isinstance(over, str) else tuple(over)
    if len(each) != n or not all(one is None or isinstance(one, str) for one in each):
        raise BadWindow(f"join(over=) names a time of each of the {n} streams, or None, not {over!r}.")
    return each


def _named(name: str, node: Node, column: str, option: str) -> str:
    """The column that an option names, in its own spelling."""
    found = spelled(column, node.schema.names, node.backend.exact_names)
    if found is None:
        raise UnknownColumn(column, node.properties.visible.names, f"join({option}=) of {name!r}")
    return found


def _time(name: str, node: Node, over: str | None) -> str:
    """The attribute that a join compares."""
    properties = node.properties
    if over is not None:
        return _named(name, node, over, "over")  # refuse_join() refuses one that does not progress
    attribute = properties.attribute
    if attribute is None or attribute not in properties.schema.names:
        reason = properties.silent or "its rows do not progress on any column; keep one that does"
        raise BadWindow(f"Rows of {name!r} would be kept for ever: {reason}.")
    return attribute


def _progressing(nodes: Sequence[Node], keys: Sequence[tuple[str, ...]]) -> int | None:
    """Which place of the key progresses on all sides, the one that identifies most rows first."""
    for place in range(len(keys[0]) if keys else 0):
        each = [(node, key[place]) for node, key in zip(nodes, keys, strict=True)]
        if all(name in node.schema.names and node.properties.progressing(name) for node, name in each):
            return place
    return None


def rows_of(node: Node) -> pa.Schema:
    """The columns of data rows, without those that only carry punctuations."""
    properties = node.properties
    marks = set() if properties.derived else set(properties.hidden)
    return pa.schema([pa.field(f.name, f.type) for f in properties.schema if f.name not in marks])


def keys_of(on: On, n: int) -> list[tuple[str, ...]]:
    """The key columns of each stream. A name is the same on all sides, a pair names one column per side."""
    columns = [on] if isinstance(on, str) else on
    if not isinstance(columns, Sequence) or not all(isinstance(one, str | tuple | list) for one in columns):
        raise LowwaterError(f"join(on=) is a column, several, or pairs of them as in [('id', 'seller')], not {on!r}.")
    each = [(one,) * n if isinstance(one, str) else tuple(one) for one in columns]
    for one in each:
        if len(one) != n:
            raise LowwaterError(
                f"join(on=) names {len(one)} columns, {list(one)}, for {n} streams; name one column of each."
            )
    return [tuple(one[i] for one in each) for i in range(n)]


def _counts(rows: Any) -> tuple[int | None, int | None] | None:
    if rows is None:
        return None
    counts = rows if isinstance(rows, tuple) else (rows, rows)
    if len(counts) != 2 or not all(n is None or (isinstance(n, int) and not isinstance(n, bool)) for n in counts):
        raise BadWindow(f"join(rows=) is a number of rows, or one of each side as in rows=(100, None), not {rows!r}.")
    return counts


def _length(ticks: Ticks, length: Length | None) -> int | None:
    if length is None:
        return None
    found = ticks.length(length, "WITHIN")
    if abs(found) >= 1 << 61:
        raise BadWindow(f"WITHIN must be below 2^61 ticks, but is {as_written(length)}; longer windows would overflow.")
    return found


def _band(ticks: Ticks, within: Any, bounds: str) -> tuple[int | None, int | None]:
    """(wait of the left, wait of the right) of left.t + low <= right.t <= left.t + high; an open end is a tick less."""
    if bounds not in ("[]", "[)", "(]", "()"):
        raise BadWindow(f"join(bounds=) is one of '[]', '[)', '(]', '()', not {bounds!r}.")
    if isinstance(within, tuple):
        if len(within) != 2:
            raise BadWindow(
                "join(within=) is a length, or a lower and an upper end, as in ('-2 minutes', '3 minutes')."
            )
        low, high = (_length(ticks, end) for end in within)
    else:
        high = _length(ticks, within)
        low = None if high is None else -high
        if high is not None and high < 0:
            raise BadWindow(
                f"join(within=) must not be negative, but is {as_written(within)}; give a lower and an upper end for a "
                "band."
            )
    open_low, open_high = bounds[0] == "(", bounds[1] == ")"
    return None if high is None else high - open_high, None if low is None else -(low + open_low)


def _refuse_empty(waits: tuple[int | None, int | None], within: Any, bounds: str, how: str) -> None:
    """Refuses a band without a difference of times, unless rows that stay alone are an answer."""
    high, low = waits
    if how in ("inner", "semi") and high is not None and low is not None and -low > high:
        ends = f"{as_written(within)}, bounds={bounds!r}" if bounds != "[]" else as_written(within)
        raise BadWindow(f"join(within={ends}) is empty: no difference of times lies between its ends.")
