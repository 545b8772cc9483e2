"""Functions of strings. Positions and lengths count characters, as Spark does, not bytes.

>>> s = pa.array(["Straße", "a,b,", None])
>>> upper(s).to_pylist(), substring(s, pa.array([-3] * 3), pa.array([2] * 3)).to_pylist()
(['STRASSE', 'A,B,', None], ['aß', ',b', None])
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lowwater.expressions.kernels import numbers, validity

META = frozenset("\\^$.|?*+()[]{}")
SPACE = " "
INT_MAX = 2**31 - 1
Counts = npt.NDArray[np.int64]


NEWER = [
    (0x19B, 0xA7DC),
    (0x264, 0xA7CB),
    (0x1C8A, 0x1C89),
    *((c + 1, c) for c in (0xA7CC, 0xA7CE, 0xA7D2, 0xA7D4, 0xA7DA)),
]
NEWER += [*zip(range(0x10D70, 0x10D86), range(0x10D50, 0x10D66), strict=True)]
NEWER += [*zip(range(0x16EBB, 0x16ED4), range(0x16EA0, 0x16EB9), strict=True)]
"""Lower and upper letters of Unicode 16 and 17: Spark 4.3 has them, the tables of older Pythons do not."""
RAISED = dict(NEWER)
LOWERED = {upper: lower for lower, upper in NEWER}


def upper(s: pa.Array) -> pa.Array:
    return _cased(s, pc.ascii_upper, lambda text: text.upper().translate(RAISED))


def lower(s: pa.Array) -> pa.Array:
    return _cased(s, pc.ascii_lower, lambda text: text.lower().translate(LOWERED))


def _cased(s: pa.Array, ascii: Callable[[pa.Array], pa.Array], full: Callable[[str], str]) -> pa.Array:
    """Changes case: ASCII in one pass; other strings per distinct value, because Arrow lacks some mappings."""
    plain = pc.string_is_ascii(s).fill_null(True)
    found = ascii(s)
    if pc.all(plain).as_py() in (True, None):
        return found
    distinct = pc.if_else(plain, pa.scalar(None, pa.string()), s).dictionary_encode()
    changed = pa.array([full(text) for text in distinct.dictionary.to_pylist()], pa.string())
    return pc.if_else(plain, found, changed.take(distinct.indices))


def length(s: pa.Array) -> pa.Array:
    return pc.utf8_length(s)


def byte_length(s: pa.Array) -> pa.Array:
    return pc.binary_length(s)


def trim(side: str, s: pa.Array) -> pa.Array:
    return pc.call_function(f"utf8_{side}", [s], pc.TrimOptions(characters=SPACE))


def concat(*parts: pa.Array) -> pa.Array:
    return parts[0] if len(parts) == 1 else pc.binary_join_element_wise(*parts, "")


def concat_ws(separator: pa.Array, *parts: pa.Array) -> pa.Array:
    """Joins the parts that are not null. The result is null only if the separator is null."""
    if not parts:
        return pc.if_else(separator.is_valid(), pa.scalar(""), separator)
    none = pa.array(~np.any([validity(part) for part in parts], axis=0))
    first = pc.if_else(none, "", parts[0])  # Arrow drops a row in which all parts are null
    joined = pc.binary_join_element_wise(first, *parts[1:], separator.fill_null(""), null_handling="skip")
    return pc.if_else(separator.is_valid(), joined, pa.scalar(None, pa.string()))


def substring(s: pa.Array, position: pa.Array, count: pa.Array | None = None) -> pa.Array:
    """Characters from a position, counted from 1, or from the end if it is negative. 0 is taken as 1."""
    at = numbers(position, 1).astype(np.int64)
    size = numbers(pc.utf8_length(s)).astype(np.int64)
    start = np.where(at > 0, at - 1, np.where(at < 0, size + at, 0))
    most = INT_MAX if count is None else numbers(count, 0).astype(np.int64)
    stop = np.minimum(start + most, size)
    return _slice(s, start, stop)


def left(s: pa.Array, count: pa.Array) -> pa.Array:
    size = numbers(count, 0).astype(np.int64)
    return _slice(s, np.zeros(len(s), np.int64), size)


def right(s: pa.Array, count: pa.Array) -> pa.Array:
    size = numbers(pc.utf8_length(s)).astype(np.int64)
    taken = np.clip(numbers(count, 0).astype(np.int64), 0, size)
    return _slice(s, size - taken, size)


def _slice(s: pa.Array, start: Counts, stop: Counts) -> pa.Array:
    """Characters [start, stop) per row. Arrow slices all rows with the same bounds, Polars each row with its own."""
    first, last = np.maximum(start, 0), np.maximum(stop, 0)
    if len(s) and (first == first[0]).all() and (last == last[0]).all():
        return pc.utf8_slice_codeunits(s, int(first[0]), int(max(first[0], last[0])))
    import polars as pl

    frame = pl.DataFrame({"s": pl.Series(pl.from_arrow(s)), "at": first, "n": np.maximum(last - first, 0)})
    return frame.select(pl.col("s").str.slice(pl.col("at"), pl.col("n"))).to_series().to_arrow().cast(pa.string())


def replace(pattern: str, by: str, s: pa.Array) -> pa.Array:
    return pc.replace_substring(s, pattern=pattern, replacement=by) if pattern else s


def contains(s: pa.Array, part: pa.Array) -> pa.Array:
    return _by_row("contains", s, part)


def startswith(s: pa.Array, part: pa.Array) -> pa.Array:
    return _by_row("starts_with", s, part)


def endswith(s: pa.Array, part: pa.Array) -> pa.Array:
    return _by_row("ends_with", s, part)


def _by_row(operation: str, s: pa.Array, part: pa.Array) -> pa.Array:
    """Searches with Arrow if all rows have one pattern, and otherwise with Polars, because Arrow takes only one."""
    if len(part) and part.null_count == 0 and (first := part[0].as_py()) is not None and _constant(part):
        arrow = {"contains": pc.match_substring, "starts_with": pc.starts_with, "ends_with": pc.ends_with}
        return arrow[operation](s, pattern=first)
    import polars as pl

    frame = pl.DataFrame({"s": pl.Series(pl.from_arrow(s)), "p": pl.Series(pl.from_arrow(part))})
    text, pattern = pl.col("s").cast(pl.String), pl.col("p").cast(pl.String)
    found = {
        "contains": lambda: text.str.contains(pattern, literal=True),
        "starts_with": lambda: text.str.starts_with(pattern),
        "ends_with": lambda: text.str.ends_with(pattern),
    }[operation]()
    return frame.select(found).to_series().to_arrow()


def _constant(part: pa.Array) -> bool:
    return len(part) < 2 or bool(pc.all(pc.equal(part, part[0])).as_py())


def position(part: str, s: pa.Array) -> pa.Array:
    """The position of a text, counted in characters from 1; 0 if it does not occur."""
    if not part:
        return pa.array(np.ones(len(s), np.int32))
    before = pc.list_element(pc.split_pattern(s.fill_null(""), part, max_splits=1), 0)
    at = pc.add(pc.utf8_length(before), pa.scalar(1, pa.int32()))
    return pc.if_else(pc.match_substring(s, part), at, pa.scalar(0, pa.int32()))


def split(separator: str, s: pa.Array) -> pa.Array:
    return pc.split_pattern(s, separator)


def like(pattern: str, s: pa.Array) -> pa.Array:
    return pc.match_like(s, pattern)
