"""The streams of the experiments on joins without a window (WO 5).

Tuples come by a Poisson process, 20 ms apart on average, and each value has two of them. The scrambling factors are
drawn from 1 to 500, because two tuples with one value have a factor of 1 already. S2 runs at an eighth of its rate from
10 s to 40 s, and S3 at eight times its rate from 80 s to 90 s. Values go on where they were, so S2 stays behind and S3
stays ahead when their rates are restored. Time is virtual.

    Query 1   S1 ⋈ S2 ⋈ S3
    Query 2   S7 ⋈ S8, where S7 = S1 ⋈ S2 ⋈ S3 and S8 = S4 ⋈ S5 ⋈ S6
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

import lowwater as lw
from lowwater.experiments.oblivious.backtracked import Arrived, Results, backtracked
from lowwater.generate.scrambled import Spell, scrambled

SECONDS = 120
SPELLS = {"S2": [Spell(10, 30, 1 / 8)], "S3": [Spell(80, 10, 8)]}
MULTIPLICITY = 2
LEAVES = ("S1", "S2", "S3"), ("S4", "S5", "S6")
UNSORTED = {"MSF": "plain", "Hybrid": "DBF"}
"""The strategy of the upper join for each that sorts (WO 5.1)."""
INNER = ("S7", "S8")
"""The results of the two joins over the leaves."""


@dataclass(frozen=True)
class Size:
    """How large an experiment is. `mean_gap` is in seconds; `step` is the virtual time of a micro-batch."""

    seeds: int
    mean_gap: float
    factor: int
    step: float


SIZES = {"tiny": Size(1, 0.1, 100, 1.0), "full": Size(10, 0.02, 500, 0.5)}


@dataclass(frozen=True, eq=False)
class Workload:
    """The raw streams of one query and one seed, by name, and their scrambling factors."""

    whole: dict[str, Arrived]
    """The streams beyond the end of the experiment: definitions of the paper also refer to tuples to come."""
    factors: dict[str, int]
    step: float

    @staticmethod
    def of(query: int, seed: int, size: Size) -> Workload:
        names = [name for leaves in LEAVES[:query] for name in leaves]
        rng = np.random.default_rng([query, seed])
        factors = {name: int(rng.integers(1, size.factor + 1)) for name in names}
        whole = {}
        for name in names:
            busy = SECONDS + sum(spell.seconds * max(0, spell.factor - 1) for spell in SPELLS.get(name, ()))
            made = scrambled(
                round(1.2 * busy / size.mean_gap) + size.factor,
                int(rng.integers(1 << 32)),
                factor=factors[name],
                multiplicity=MULTIPLICITY,
                mean_gap=size.mean_gap,
                spells=SPELLS.get(name, ()),
            )
            whole[name] = Arrived(made.values, made.arrival)
        return Workload(whole, factors, size.step)

    @cached_property
    def streams(self) -> dict[str, Arrived]:
        """The streams until the experiment ends."""
        return {name: stream.until(SECONDS) for name, stream in self.whole.items()}

    @property
    def query(self) -> int:
        return len(self.whole) // len(LEAVES[0])

    def tables(self) -> dict[str, pa.Table]:
        """The streams as rows: the value, and the number of the tuple in its stream."""
        return {
            name: pa.table({"epoch": stream.values, f"{name}_id": np.arange(len(stream.values))})
            for name, stream in self.streams.items()
        }

    def joined(self, apriori: bool, **limits: Any) -> lw.Relation:
        """The query, with its factors known before it runs or monitored.

        `limits` are options of all joins (memory, strategy, ahead). Results of a join are not sorted again: the upper
        join of Query 2 uses DBF for Hybrid, and nothing for MSF.
        """
        known = {name: lw.expect(scrambling=factor, multiplicity=MULTIPLICITY) for name, factor in self.factors.items()}
        each = {
            name: lw.stream(table, name=name, progress="epoch", disorder=lw.measured())
            for name, table in self.tables().items()
        }
        first, *others = (
            lw.oblivious_join(
                [each[name] for name in leaves],
                on="epoch",
                expect={name: known[name] for name in leaves} if apriori else None,
                **limits,
            )
            for leaves in LEAVES[: self.query]
        )
        if not others:
            return first
        inner = [one.named(name) for one, name in zip((first, *others), INNER, strict=True)]
        if limits.get("strategy") in UNSORTED:
            limits = {**limits, "strategy": UNSORTED[limits["strategy"]]}
        return lw.oblivious_join(inner, on="epoch", **limits)

    def backtracked(self) -> dict[str, Results]:
        """The results of each join over whole streams: "Query 1"; for Query 2 also "S7" and "S8"."""
        inner = [backtracked([self.streams[name] for name in leaves]) for leaves in LEAVES[: self.query]]
        if len(inner) == 1:
            return {"Query 1": inner[0]}
        return {"Query 2": backtracked(inner), **dict(zip(INNER, inner, strict=True))}
