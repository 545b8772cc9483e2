"""Where the buffers of a join without windows were cut, as a record of its state."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from lowwater.joins.strategy import PLAIN


@dataclass
class Cuts:
    """A record of the state: per input, the position and the value below which its buffer was cut."""

    position: list[int] = field(default_factory=list)
    value: list[int] = field(default_factory=list)
    evicted: list[int] = field(default_factory=list)
    """The largest value that was evicted for want of memory."""
    joined: list[int] = field(default_factory=list)
    """The largest value that joined before its stream was sorted, or before it was known to be in order."""
    ends: list[list[int]] = field(default_factory=list)
    """Positions at which micro-batches of an input ended. Of older ones every second is forgotten."""
    strategy: str = PLAIN.name

    def over(self, lows: Sequence[int]) -> int:
        """The value up to which every row to come is late, or behind the cut of another input."""
        each = [max(value for j, value in enumerate(self.value) if j != i) for i in range(len(lows))]
        return min(max(cut, low - 1) for cut, low in zip(each, lows, strict=True))
