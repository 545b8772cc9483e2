"""The live choice against both fixed tactics, over a stream that is sparse, then dense, then sparse again.

    python -m benchmarks.live_choice

The query is a count and a sum by key, RANGE 30 s SLIDE 10 s, in this process with its ingest, in micro-batches of 5,000
rows. A sparse phase has 200,000 groups, of which hardly any comes twice in a window; a dense one has 200. All three
return the same windows. State is in bytes as stored: the mean after each micro-batch of a phase, without the first
third of the phase, in which windows of the phase before are open. Seconds are the best of three runs.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

import lowwater as lw

SECOND = 1000
PHASE = 120
"""Seconds of stream time per phase."""
ROWS = 100_000
"""Rows per phase."""
GROUPS = {"sparse": 200_000, "dense": 200, "sparse again": 200_000}
BATCH = 5000
TACTICS = {"live": "auto", "panes": "panes", "AdaptWID": "adaptive"}


@dataclass(frozen=True)
class Ran:
    results: pa.Table
    seconds: float
    state_bytes: dict[str, int]
    switches: int


def stream() -> pa.Table:
    """All phases, evenly over groups, up to a second out of order."""
    parts = []
    for i, groups in enumerate(GROUPS.values()):
        rng = np.random.default_rng(i)
        start = i * PHASE * SECOND
        ts = np.sort(rng.integers(start, start + PHASE * SECOND, ROWS))
        ts = ts[np.argsort(ts + rng.integers(0, SECOND, ROWS), kind="stable")]
        parts.append(pa.table({"ts": ts, "k": rng.integers(0, groups, ROWS), "v": rng.integers(-9, 9, ROWS)}))
    return pa.concat_tables(parts)


def query(rows: pa.Table, strategy: str) -> lw.Relation:
    of = lw.stream(rows, name="rows", progress="ts", disorder=SECOND)
    return of.window(30 * SECOND, 10 * SECOND).group_by("k").agg(strategy, n=lw.count(), total=lw.sum("v"))


def ran(rows: pa.Table, strategy: str, measure: bool) -> Ran:
    """One run. Measuring the state encodes it, so runs that are timed do not."""
    running = query(rows, strategy).start()
    results: list[pa.Table] = []
    held: list[int] = []
    begun = time.perf_counter()
    for at in range(0, rows.num_rows, BATCH):
        results.append(running.push(rows.slice(at, BATCH)))
        if measure:
            held.append(running.metrics().state_bytes)
    switches = running.metrics().operators[0].switches
    results.append(running.finish())
    seconds = time.perf_counter() - begun
    per = ROWS // BATCH
    phases = {name: held[i * per + per // 3 : (i + 1) * per] for i, name in enumerate(GROUPS)} if measure else {}
    return Ran(pa.concat_tables(results), seconds, {n: int(np.mean(of)) for n, of in phases.items()}, switches)


def main() -> None:
    rows = stream()
    order = [("wid", "ascending"), ("k", "ascending")]
    answers: list[pa.Table] = []
    for name, strategy in TACTICS.items():
        measured = ran(rows, strategy, measure=True)
        seconds = min(ran(rows, strategy, measure=False).seconds for _ in range(3))
        answers.append(measured.results.sort_by(order))
        state = ", ".join(f"{phase} {held:,}" for phase, held in measured.state_bytes.items())
        print(f"{name:9} {seconds:.2f} s, {measured.switches} switches, mean state in bytes: {state}")
    assert all(answer.equals(answers[0]) for answer in answers), "all must return the same windows"
    print(f"all return the same {len(answers[0]):,} results")


if __name__ == "__main__":
    main()
