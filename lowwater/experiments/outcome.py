"""What a reproduction gives: whether the claim holds, the numbers it rests on, and the files to look at."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Outcome:
    """`measured` holds the numbers that the claim is judged by; the csv has all."""

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
