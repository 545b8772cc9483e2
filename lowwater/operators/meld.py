"""Meld: union without order (TH 8.2, Fig. 8-2). Rows pass at once; only punctuation is held, one bound an input.

Output punctuation is the minimum of the inputs' bounds, emitted when it has grown and not otherwise. The order-keeping
Merge would have to buffer every row of the faster input instead.

>>> from lowwater.model.punctuation import Punctuation
>>> meld = Meld("ts", 2)
>>> [str(p) for p in meld.on_punctuation(0, Punctuation.linear("ts", 20))]
[]
>>> [p.low_watermark("ts") for t in (19, 20, 21, 22) for p in meld.on_punctuation(1, Punctuation.linear("ts", t))]
[19, 20]
"""

from __future__ import annotations

from typing import Any

from lowwater.model.punctuation import ALL, Punctuation
from lowwater.model.ticks import END, NEVER
from lowwater.operators.base import Batch, Load, Message, Operator, Snapshot


class Meld(Operator):
    """Union of inputs that progress on the same attribute."""

    def __init__(self, attribute: str, ports: int) -> None:
        self.attribute = attribute
        self.ports = ports
        self.bounds = [NEVER] * ports
        self.emitted = NEVER

    @property
    def demands(self) -> tuple[str, ...]:
        return (self.attribute,)

    def on_batch(self, port: int, batch: Batch) -> list[Message]:
        return [batch]

    def on_punctuation(self, port: int, punctuation: Punctuation) -> list[Message]:
        low = punctuation.low_watermark(self.attribute)
        if low is None:
            return []
        self.bounds[port] = max(self.bounds[port], low)
        least = min(self.bounds)
        if least <= self.emitted:
            return []
        self.emitted = least
        return [ALL if least == END else Punctuation.linear(self.attribute, least)]

    def snapshot(self) -> Snapshot:
        return Snapshot({"bounds": list(self.bounds), "emitted": self.emitted})

    def restore(self, head: dict[str, Any], load: Load) -> None:
        self.bounds = list(head["bounds"])
        self.emitted = head["emitted"]
