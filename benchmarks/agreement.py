"""Whether two engines gave the same answers. Without that, how fast they were means nothing.

Answers are compared as tables sorted by time and key: some columns exactly, sums of doubles to 1e-9, since engines add
in different orders.

Answers that are too many to be sorted are compared by digests: how many there are and the sum of their hashes, in which
their order does not show. Equal answers have equal digests, and one answer more, less or other changes the sum.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa
import pyarrow.dataset as ds

TOLERANCE = 1e-9


def read(directory: Path, by: Sequence[str]) -> pa.Table:
    """The answers that an engine has written, sorted by these columns."""
    rows = written(directory).to_table()
    return rows.sort_by([(name, "ascending") for name in by]).combine_chunks()


def written(directory: Path) -> ds.Dataset:
    """The same where they are: there may be more of them than are to be held at once."""
    return ds.dataset(directory, format="parquet", exclude_invalid_files=True)


def difference(
    ours: pa.Table, theirs: pa.Table, time: str, exact: Sequence[str], rounded: Sequence[str] = ()
) -> str | None:
    """What differs first, or None. Both are sorted by `time`.

    An engine answers by the progress of the batch before or of this one, so one may have answered more of the last
    windows than the other. Compared is all up to the time that both have reached; there must be something.
    """
    if not ours.num_rows or not theirs.num_rows:
        return "no answers to compare"
    reached = min(int(times(table, time)[-1]) for table in (ours, theirs))
    a, b = (table.slice(0, int((times(table, time) <= reached).sum())) for table in (ours, theirs))
    return unlike(a, b, exact, rounded)


def unlike(a: pa.Table, b: pa.Table, exact: Sequence[str], rounded: Sequence[str] = ()) -> str | None:
    """The column that differs first, row by row, or None."""
    for name in exact:
        if not plain(a.column(name)).equals(plain(b.column(name))):
            return f"{name} differs"
    for name in rounded:
        x, y = a.column(name).to_numpy(), b.column(name).to_numpy()
        if not np.allclose(x, y, rtol=TOLERANCE, atol=TOLERANCE):
            return f"{name} differs"
    return None


def times(table: pa.Table, name: str) -> npt.NDArray[np.int64]:
    return np.asarray(plain(table.column(name)))


def plain(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Times as microseconds: an instant may be written with a time zone or without, and by Spark in nanoseconds."""
    if not pa.types.is_timestamp(column.type):
        return column
    return column.cast(pa.timestamp("us", column.type.tz)).cast(pa.int64())


def digest(directory: Path, columns: Sequence[str], ids: Sequence[str], a_block: int, blocks: int) -> pa.Table:
    """How many answers there are, and the sum of their hashes, by the block in which the last of their rows arrived.

    `ids` are the numbers that an answer's rows have in the order of arrival on their sides; a block has `a_block` rows
    of each. So an engine that has read fewer blocks has the same digests of those. It has read `blocks` of them: one
    that has no answers is there too.
    """
    rows, total = np.zeros(blocks, np.int64), np.zeros(blocks, np.uint64)
    for batch in written(directory).to_batches(columns=list(columns)):
        if not batch.num_rows:
            continue
        table = pa.Table.from_batches([batch])
        block = np.maximum.reduce([table.column(name).to_numpy() for name in ids]) // a_block
        more = max(0, int(block.max()) + 1 - len(rows))
        rows, total = np.pad(rows, (0, more)), np.pad(total, (0, more))
        rows += np.bincount(block, minlength=len(rows))
        np.add.at(total, block, _hashes(pa.table({name: plain(table.column(name)) for name in columns})))
    return pa.table({"rows": rows, "hash": total})


def _hashes(table: pa.Table) -> npt.NDArray[np.uint64]:
    """A hash a row, by its values alone. Sums of them run over, which does no harm."""
    frame = pl.from_arrow(table)
    assert isinstance(frame, pl.DataFrame)
    return frame.hash_rows(seed=0).to_numpy()


def unlike_digests(ours: pa.Table, theirs: pa.Table) -> str | None:
    """The block whose digest differs first, of those that both have read; or None."""
    both = min(ours.num_rows, theirs.num_rows)
    a, b = (table.slice(0, both).to_pylist() for table in (ours, theirs))
    if not any(block["rows"] for block in a):
        return "no answers to compare"
    return next((f"answers of micro-batch {i} differ" for i in range(both) if a[i] != b[i]), None)
