"""The outcome of a reproduction: whether the claim holds, the numbers that decide it, and the files with details."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Outcome:
    """`measured` holds the main numbers by name. The csv has all numbers."""

    holds: bool
    measured: dict[str, float]
    csv: Path
    figure: Path


def write_csv(file: Path, columns: Sequence[str], rows: Sequence[Sequence[object]]) -> Path:
    with file.open("w", newline="", encoding="utf-8") as stream:
        writer = csv.writer(stream, lineterminator="\n")
        writer.writerow(columns)
        writer.writerows(rows)
    return file
