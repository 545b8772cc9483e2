"""EXPLAIN ANALYZE: what a run measured, added to the described plan.

Rows in and out, late rows, the time and the largest state of each operator, and whether its bound on state held.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pyarrow.compute as pc

from lowwater.metrics import Metrics
from lowwater.operators.meld import MeldSpec
from lowwater.plan.plan import Plan
from lowwater.query.described import Described, noted


@dataclass
class Measured:
    """The metrics of a run, collected after each micro-batch."""

    seconds: float = 0.0
    batches: int = 0
    last: Metrics = field(default_factory=Metrics)
    state_rows: dict[int, int] = field(default_factory=dict)
    """The most rows that each operator held after a micro-batch, and their bytes."""
    state_bytes: dict[int, int] = field(default_factory=dict)
    nanoseconds: dict[int, int] = field(default_factory=dict)
    over_bound: dict[int, int] = field(default_factory=dict)
    """Micro-batches after which each operator held more than its bound allows."""

    def note(self, metrics: Metrics) -> None:
        """Takes the metrics of one micro-batch, whose times are those of this micro-batch alone."""
        self.last = metrics
        self.batches += 1
        for one in metrics.operators:
            number = one.number
            self.state_rows[number] = max(one.state_rows, self.state_rows.get(number, 0))
            self.state_bytes[number] = max(one.state_bytes, self.state_bytes.get(number, 0))
            self.nanoseconds[number] = one.nanoseconds + self.nanoseconds.get(number, 0)
            self.over_bound[number] = bool(one.over_bound) + self.over_bound.get(number, 0)


def analyzed(described: Described, plan: Plan, run: Measured) -> Described:
    """The described plan with what a run measured."""
    lines: dict[int, list[tuple[str, str]]] = {}
    facts: dict[int, dict[str, Any]] = {}
    for one in run.last.operators:
        n = one.number
        rows_in, rows_out = _rows_in(plan, n, run.last), _rows_out(plan, n, run.last)
        broken = run.over_bound.get(n, 0)
        milliseconds = run.nanoseconds.get(n, 0) / 1e6
        late = f", {one.late_rows:,} late of which {one.dropped_rows:,} dropped" if one.late_rows else ""
        ran = f"{rows_in:,} rows in, {rows_out:,} rows out{late}, {milliseconds:,.1f} ms"
        lines[n] = [("ran", ran)]
        if any(word == "state" for word, _ in plan.operators[n].spec.lines()):
            within = f"above the bound after {broken} of {run.batches} micro-batches" if broken else "within the bound"
            held = f"at most {run.state_rows.get(n, 0):,} rows, {run.state_bytes.get(n, 0):,} bytes: {within}"
            lines[n].append(("held", held))
        if plan.operators[n].spec.adapts:
            times = "once" if one.switches == 1 else f"{one.switches:,} times"
            shards = "1 shard" if one.adaptive_shards == 1 else f"{one.adaptive_shards:,} shards"
            lines[n].append(("adapted", f"AdaptWID in use by {shards} after the last micro-batch, switched {times}"))
        facts[n] = {
            "measured": {
                "input_rows": rows_in,
                "result_rows": rows_out,
                "late_rows": one.late_rows,
                "dropped_rows": one.dropped_rows,
                "milliseconds": milliseconds,
                "most_state_rows": run.state_rows.get(n, 0),
                "most_state_bytes": run.state_bytes.get(n, 0),
                "within_bound": not broken,
                **(
                    {"adaptive_shards": one.adaptive_shards, "switches": one.switches}
                    if plan.operators[n].spec.adapts
                    else {}
                ),
            }
        }
    return noted(described, lines, facts)


def _rows_in(plan: Plan, number: int, metrics: Metrics) -> int:
    """The rows that came to an operator: all rows of its inputs, and the results of the operators before it."""
    read = metrics.by_source.by_name
    inputs = {plan.inputs[entry.input].name for entry in plan.entries if entry.operator == number}
    before = sum(_rows_out(plan, edge.source, metrics) for edge in plan.edges if edge.operator == number)
    return before + sum(pc.sum(read[name].column("rows")).as_py() or 0 for name in inputs if name in read)


def _rows_out(plan: Plan, number: int, metrics: Metrics) -> int:
    """The results of an operator. A meld counts none, because every row passes."""
    if isinstance(plan.operators[number].spec, MeldSpec):
        return _rows_in(plan, number, metrics)
    return sum(one.result_rows for one in metrics.operators if one.number == number)
