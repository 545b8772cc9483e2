"""The output of the demo: a screen while it runs, and a table at the end."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from rich.columns import Columns
from rich.console import Group, RenderableType
from rich.table import Table

if TYPE_CHECKING:
    from lowwater.experiments.demo import Running

LINES = 5


def screen(bar: RenderableType, started: Sequence[Running]) -> RenderableType:
    """Progress bars, and for each query its newest answers: the last minutes, or the top sources of a window."""
    return Group(bar, Columns([newest(running) for running in started], padding=(0, 4)))


def newest(running: Running) -> Table:
    question = running.question
    table = Table(title=f"{question.name}: {question.text}", title_justify="left", min_width=len(question.text) + 8)
    for heading in ("window from", *question.by):
        table.add_column(heading)
    table.add_column("packets", justify="right")
    for row in running.latest().slice(0, LINES).to_pylist():
        from_ = datetime.fromtimestamp(row["window_start"] / 1e6, UTC)
        table.add_row(f"{from_:%H:%M}", *(row[name] for name in question.by), f"{row['n']:,}")
    low = running.metrics.low_watermark
    if low is not None and running.metrics.held_back_by is not None:
        table.caption = f"complete up to {low[11:19]}, held back by {running.metrics.held_back_by}"
    return table


def summary(started: Sequence[Running]) -> Table:
    table = Table(title="At the end")
    table.add_column("")
    for running in started:
        table.add_column(running.question.name, justify="right")
    lines = {
        "rows read": [f"{running.metrics.rows:,}" for running in started],
        "rows/s, both queries at once": [f"{running.rows_per_second:,.0f}" for running in started],
        "answers": [f"{running.answered:,}" for running in started],
        "most state held, rows": [f"{running.state_rows:,}" for running in started],
        "most state held, kB": [f"{running.state_bytes / 1000:,.0f}" for running in started],
        "late rows": [f"{running.metrics.late_rows:,}" for running in started],
        "held back by": [_held_back(running) for running in started],
        "same as the batch answer": ["yes" if running.agrees else "NO" for running in started],
    }
    for name, values in lines.items():
        table.add_row(name, *values)
    return table


def _held_back(running: Running) -> str:
    """The source that held the query back in most of the micro-batches."""
    most = running.held_back.most_common(1)
    return f"{most[0][0]}, {most[0][1]} of {running.held_back.total()} batches" if most else "no source"
