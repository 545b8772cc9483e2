"""Where the buffers of a join without windows were cut, as a record of its state."""

from __future__ import annotations

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
