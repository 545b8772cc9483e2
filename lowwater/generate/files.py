"""Writes generated tables as files that Spark's file source reads in order."""

from __future__ import annotations

import os
from itertools import pairwise
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from lowwater.generate.arrival import START


def write_files(table: pa.Table, directory: str | os.PathLike[str], files: int, first: int = 0) -> list[Path]:
    """Cuts a table in arrival order into parquet files that Spark's file source reads in that order.

    The source takes files by modification time, so file i gets the time `START + i`. A file appears under its name only
    when it is complete; until then its name begins with a dot, and Spark ignores it. The directory must contain exactly
    the parquet files before number `first`, because a source would read any others, too.
    """
    if files < 1:
        raise ValueError(f"A table is written as one file or more, but files is {files}.")
    into = Path(directory)
    into.mkdir(parents=True, exist_ok=True)
    if len(list(into.glob("*.parquet"))) != first:
        raise ValueError(
            f"{into} does not contain exactly {first} parquet files; give an empty directory, or the right `first`."
        )
    cuts = [table.num_rows * i // files for i in range(files + 1)]
    written = []
    for i, (begin, stop) in enumerate(pairwise(cuts), start=first):
        path = into / f"part-{i:05d}.parquet"
        hidden = into / f".{path.name}"
        pq.write_table(table.slice(begin, stop - begin), hidden)
        os.utime(hidden, (START + i, START + i))
        written.append(hidden.rename(path))
    return written
