"""Compares the answers of two engines. Times are only meaningful if the answers are equal.

Answers are compared as tables sorted by time and key: some columns exactly, and sums of doubles to 1e-9, because
engines add in different orders.

If there are too many answers to sort, their digests are compared: the number of answers and the sum of their hashes,
which does not depend on their order. Equal answers have equal digests. A missing, additional or different answer
changes the sum.
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
    """The answers that an engine has written, as a dataset, because they may not fit into memory."""
    return ds.dataset(directory, format="parquet", exclude_invalid_files=True)


def difference(
    ours: pa.Table, theirs: pa.Table, time: str, exact: Sequence[str], rounded: Sequence[str] = ()
) -> str | None:
    """The first difference, or None. Both tables are sorted by `time`.

    An engine answers by the progress of this batch or of the one before, so one engine may have answered more of the
    last windows than the other. The answers up to the time that both have reached are compared. There must be some.
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
    """Timestamps as microseconds. They can be written with or without a time zone, and by Spark in nanoseconds."""
    if not pa.types.is_timestamp(column.type):
        return column
    return column.cast(pa.timestamp("us", column.type.tz)).cast(pa.int64())


def digest(directory: Path, columns: Sequence[str], ids: Sequence[str], a_block: int, blocks: int) -> pa.Table:
    """The number of answers and the sum of their hashes, by the block in which the last of their rows arrived.

    `ids` are the numbers of an answer's rows in the order of arrival on their sides. A block has `a_block` rows of each
    side. So an engine that has read fewer blocks has the same digests for these blocks. It has read `blocks` blocks;
    blocks without answers are included.
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
    """One hash per row, of its values alone. Sums of hashes may overflow, which does no harm."""
    frame = pl.from_arrow(table)
    assert isinstance(frame, pl.DataFrame)
    return frame.hash_rows(seed=0).to_numpy()


def unlike_digests(ours: pa.Table, theirs: pa.Table) -> str | None:
    """The first block whose digests differ, of the blocks that both engines have read; or None."""
    both = min(ours.num_rows, theirs.num_rows)
    a, b = (table.slice(0, both).to_pylist() for table in (ours, theirs))
    if not any(block["rows"] for block in a):
        return "no answers to compare"
    return next((f"answers of micro-batch {i} differ" for i in range(both) if a[i] != b[i]), None)
