"""The results that a join without windows may have lost, counted by cause and estimated while it runs.

A row is *missed* if its partners may have left a buffer before it came:

    disorder   the buffers had passed its value by the rule: its stream is more scrambled than expected or monitored
    memory     rows with its value were evicted, because the rows of the join did not fit into its memory
    beyond     as many rows of its key as expected had come on all inputs, and have left (complete_keys.py)

A missed row still joins what is there. So the missed rows are an upper bound on the rows that lost a result. Let R be
the results that contain a row of each input; rows alone of outer joins are none of them. The rows of input i that are
settled have R / rows_i such results on average, and a missed row would have had as many, so that about

    lost_i = missed_i R / (rows_i - missed_i) - found_i

results are lost through missed rows of input i, where found_i are the results that these rows have nevertheless.

>>> losses = Losses([100, 100], [0, 4], [0, 2], paired=190)
>>> losses.estimate([0, 0])               # 4 rows of the second input found 2 results, and others have 1.96 each
6
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

DISORDER = "the buffers had passed its value: its stream is more scrambled than expected"
MEMORY = "rows of its value were evicted: the memory of the join is full"
BEYOND = "the rows of its key have left: more of them come than the multiplicity that is expected"
EVICTED = "evicted: the memory of the join is full"


@dataclass
class Losses:
    """A record of the state: per input the rows that have joined, the missed ones, and what those have found."""

    joined: list[int] = field(default_factory=list)
    missed: list[int] = field(default_factory=list)
    found: list[int] = field(default_factory=list)
    paired: int = 0
    """Results that contain a row of each input."""
    disorder: int = 0
    memory: int = 0
    beyond: list[int] = field(default_factory=list)
    """Per input."""
    evicted: int = 0
    """Rows that left a buffer although partners may come. They are no loss before such a partner comes."""

    @staticmethod
    def of(ports: int) -> Losses:
        return Losses([0] * ports, [0] * ports, [0] * ports, beyond=[0] * ports)

    def note(self, port: int, missed: int, found: int, reason: str) -> None:
        """Counts missed rows of an input and the results that they have."""
        self.missed[port] += missed
        self.found[port] += found
        if reason == MEMORY:
            self.memory += missed
        elif reason == BEYOND:
            self.beyond[port] += missed
        else:
            self.disorder += missed

    @property
    def rows(self) -> int:
        """Rows that may have lost a result."""
        return self.disorder + self.memory + sum(self.beyond)

    def estimate(self, waiting: Sequence[int]) -> int:
        """The estimated number of lost results. `waiting` are the rows of each input that can still find partners."""
        lost = 0.0
        for joined, missed, found, live in zip(self.joined, self.missed, self.found, waiting, strict=True):
            settled = joined - missed - live
            if missed and settled > 0:
                lost += max(0.0, missed * (self.paired - found) / settled - found)
        return round(lost)
