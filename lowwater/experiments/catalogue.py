"""Reproductions by id: the claim of a paper, and the function that measures whether it holds here."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lowwater.errors import LowwaterError
from lowwater.experiments.oblivious import buffers, overhead, strategies, taxi, windows
from lowwater.experiments.outcome import Outcome
from lowwater.experiments.punctuated import propagation, state, work
from lowwater.experiments.thesis import (
    adapt,
    band,
    block_sorted,
    buffering,
    flush,
    join_memory,
    join_skew,
    panes,
    union_memory,
)

SIZES = ("tiny", "full")


@dataclass(frozen=True)
class Reproduction:
    """`run` takes a size and a directory for its csv and figure."""

    id: str
    claim: str
    run: Callable[[str, Path], Outcome]

    def judged(self, size: str, out: Path) -> dict[str, Any]:
        """Runs the reproduction. Returns the outcome as plain values, for JSON."""
        if size not in SIZES:
            raise LowwaterError(f"A reproduction has the size {' or '.join(SIZES)}, not {size!r}.")
        out.mkdir(parents=True, exist_ok=True)
        outcome = self.run(size, out)
        return {
            "id": self.id,
            "claim": self.claim,
            "holds": outcome.holds,
            "measured": outcome.measured,
            "csv": str(outcome.csv),
            "figure": str(outcome.figure),
        }


CATALOGUE = {
    entry.id: entry
    for entry in (
        Reproduction("TH-6-15", panes.CLAIM, panes.reproduce),
        Reproduction("TH-6-10", buffering.CLAIM, buffering.reproduce),
        Reproduction("TH-6-11", band.CLAIM, band.reproduce),
        Reproduction("TH-6-12", block_sorted.CLAIM, block_sorted.reproduce),
        Reproduction("TH-6-19", adapt.CLAIM, adapt.reproduce),
        Reproduction("TH-7-6", join_memory.OUTPUT_CLAIM, join_memory.reproduce_output),
        Reproduction("TH-7-7", join_memory.INPUT_CLAIM, join_memory.reproduce_input),
        Reproduction("TH-8-7", flush.CLAIM, flush.reproduce),
        Reproduction("TH-8-8", union_memory.SKEW_CLAIM, union_memory.reproduce_skew),
        Reproduction("TH-8-9", join_skew.SKEW_CLAIM, join_skew.reproduce_skew),
        Reproduction("TH-8-10", join_skew.DELAY_CLAIM, join_skew.reproduce_delay),
        Reproduction("TH-8-11", union_memory.DELAY_CLAIM, union_memory.reproduce_delay),
        Reproduction("PW-8", state.CLAIM, state.reproduce),
        Reproduction("PW-9", work.OUTPUT_CLAIM, work.reproduce_output),
        Reproduction("PW-10", work.IRRELEVANT_CLAIM, work.reproduce_irrelevant),
        Reproduction("PW-11", propagation.BOTH_CLAIM, propagation.reproduce_both),
        Reproduction("PW-12", propagation.ONE_CLAIM, propagation.reproduce_one),
        Reproduction("WO-5", buffers.ONE_CLAIM, buffers.reproduce_one),
        Reproduction("WO-6", buffers.LAGGING_CLAIM, buffers.reproduce_lagging),
        Reproduction("WO-7", buffers.LEADING_CLAIM, buffers.reproduce_leading),
        Reproduction("WO-8", windows.CLAIM, windows.reproduce),
        Reproduction("WO-9", strategies.MEMORY_CLAIM, strategies.reproduce_memory),
        Reproduction("WO-10", strategies.AVERAGE_CLAIM, strategies.reproduce_average),
        Reproduction("WO-11", strategies.LATENCY_CLAIM, strategies.reproduce_latency),
        Reproduction("WO-monitors", overhead.CLAIM, overhead.reproduce),
        Reproduction("WO-taxi", taxi.CLAIM, taxi.reproduce),
    )
}


def find(id: str) -> Reproduction:
    if id not in CATALOGUE:
        raise LowwaterError(f"There is no reproduction {id!r}; there is: {', '.join(CATALOGUE)}.")
    return CATALOGUE[id]
