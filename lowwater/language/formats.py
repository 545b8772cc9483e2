"""Formats that are only read or only written, and those that every Spark has. Which others there are, Spark knows."""

from __future__ import annotations

from lowwater.errors import LowwaterError
from lowwater.generate.named import GENERATORS

FILES = ("parquet", "csv", "json", "orc", "text")
WRITTEN = ("console", "memory", "noop")
"""Only written to."""
READ = ("rate", "rate-micro-batch", "socket", *GENERATORS)
"""Only read."""
SOURCES = (*FILES, *READ, "table", "arrow", "kafka")
SINKS = (*FILES, *WRITTEN, "table", "kafka", "jdbc")

READABLE = "parquet, csv, json, orc, text, kafka, rate, socket, TABLE, or a generator such as keyed"
WRITABLE = "parquet, csv, json, orc, text, kafka, jdbc, memory, console, or TABLE"


def refuse_source(format: str) -> None:
    """Refuses a format that nothing can be read from."""
    if format.lower() in WRITTEN:
        raise LowwaterError(f"Rows are written to {format!r} and not read from it; read FROM {READABLE}.")


def refuse_sink(format: str) -> None:
    """Refuses a format that nothing can be written to."""
    if format.lower() in READ:
        raise LowwaterError(f"Rows are read from {format!r} and not written to it; write INTO {WRITABLE}.")
