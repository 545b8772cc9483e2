"""Generated tables as files, in an order that Spark's file source keeps."""

from __future__ import annotations

import os
from itertools import pairwise
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from lowwater.generate.arrival import START


def write_files(table: pa.Table, directory: str | os.PathLike[str], files: int, first: int = 0) -> list[Path]:
    """Cut a table in arrival order into parquet files that Spark's file source reads in that order.

    The source takes files by modification time, so file i gets the time `START + i`. Each appears under its name only
    when complete: a name that begins with a dot is not read. A directory that holds parquet files already is refused,
    since a source would read them too, unless these files go on after them, from number `first`.
    """
    if files < 1:
        raise ValueError(f"A table is written as one file or more, but files is {files}.")
    into = Path(directory)
    into.mkdir(parents=True, exist_ok=True)
    if len(list(into.glob("*.parquet"))) != first:
        raise ValueError(f"{into} does not hold {first} parquet files; give an empty directory, or go on after them.")
    cuts = [table.num_rows * i // files for i in range(files + 1)]
    written = []
    for i, (begin, stop) in enumerate(pairwise(cuts), start=first):
        path = into / f"part-{i:05d}.parquet"
        hidden = into / f".{path.name}"
        pq.write_table(table.slice(begin, stop - begin), hidden)
        os.utime(hidden, (START + i, START + i))
        written.append(hidden.rename(path))
    return written
