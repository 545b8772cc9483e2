"""The hard memory limit of a join without windows (O6): the strategy that fits, and eviction where none does.

At the end of every micro-batch the cost model predicts the bytes that each strategy needs, with the characteristics and
lags as they are now. The strategy with the least delay that fits is taken. If the rows take more bytes than allowed
although the model did not predict it, rows are put aside as well. Only if that is not enough, rows are evicted: the
oldest of the largest buffer, which are the nearest to their cut. They are counted, and so are the rows that come later
with such a value (losses.py). Complete keys are put on disk, and never evicted.

The limit is that of one shard. A shard with a hot value evicts rows while others have room.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from lowwater.joins.complete_keys import RECENT, WIDTH
from lowwater.joins.keyed import Ints, Keyed, Mask
from lowwater.joins.losses import EVICTED
from lowwater.joins.part import INDEX
from lowwater.joins.strategy import BACK, PLAIN, STRATEGIES, Situation, Strategy, choose
from lowwater.operators.base import Emit

if TYPE_CHECKING:
    from lowwater.joins.mjoin import MJoin

PART = 16
"""The rows that are read ahead, a piece that is put aside, and complete keys take at most this part of the memory."""


@dataclass(frozen=True)
class MemoryLimit:
    """The bytes that one shard may have in memory. `adapts`: the strategy is chosen; `sizes`: so is C."""

    bytes: int
    adapts: bool = True
    sizes: bool = True

    def keep(self, join: MJoin, emit: Emit) -> None:
        """Keeps a join within the limit, at the end of a micro-batch."""
        self.size(join)
        self._spill(join)
        widths = self._widths(join)
        for _ in range(2 if self.adapts else 0):  # rows that were aside may turn out not to fit: then back to the disk
            wanted = self._strategy(join, widths)
            if wanted != join.strategy:
                join.change(wanted)
                join.advance(emit)
        if join.memory > self.bytes:
            self._reduce(join, widths)
        while join.memory > self.bytes:
            self._evict(join, emit)
            self._spill(join)

    def _spill(self, join: MJoin) -> None:
        """Puts complete keys on disk."""
        join.complete.spill(min(RECENT, self.bytes // (PART * WIDTH)))

    def size(self, join: MJoin) -> None:
        """Sizes C, before the first rows as well: rows that are near cannot be put aside."""
        if self.sizes:
            join.ahead = int(max(1, join.shards * self.bytes / PART / sum(self._widths(join))))

    def _strategy(self, join: MJoin, widths: list[float]) -> Strategy:
        """The strategy by the cost model. What is too much now can only go to disk, and what is there must fit here."""
        ports = range(join.ports)
        situation = Situation(
            [join.streams.characteristics(port) for port in ports],
            [[join.streams.lag(i, j) for j in ports] for i in ports],
            [width / join.shards for width in widths],
            join.ahead,
            [join.streams.seen(port) for port in ports] if join.leaves else None,
        )
        fitting = [one for one in STRATEGIES.values() if not (one.sorts and any(join.streams.derived))]
        aside = sum(own.rows * width for own, width in zip(join.aside, widths, strict=True))
        if join.memory > self.bytes or (aside and join.memory + aside > BACK * self.bytes):
            fitting = [one for one in fitting if one.spills]
        elif min(join.streams.monitors, key=lambda one: one.rows).rows == 0:
            fitting = [one for one in fitting if one in (PLAIN, join.strategy)]  # nothing is known of a stream yet
        return choose(join.strategy, situation, self.bytes, fitting)

    def _widths(self, join: MJoin) -> list[float]:
        return [self._width(join, port) for port in range(join.ports)]

    def _width(self, join: MJoin, port: int) -> float:
        """The bytes of a row of an input in memory."""
        side, waiting = join.sides[port], join.waiting[port]
        rows = side.rows + waiting.rows
        return (side.memory + waiting.memory) / rows if rows else INDEX + 8.0 * len(join.what.sides[port].schema)

    def _reduce(self, join: MJoin, widths: list[float]) -> None:
        """Frees bytes without a loss: those of rows that are gone, and those of rows that join only later."""
        for port, side in enumerate(join.sides):
            side.compact()
            if join.strategy.spills and join.memory > self.bytes:
                join.put_aside(port, 0, 1, int(max(1, self.bytes / PART / widths[port])))

    def _evict(self, join: MJoin, emit: Emit) -> None:
        """Evicts the oldest rows of the largest buffer, or lets waiting rows join before they are sorted."""
        port = max(range(join.ports), key=lambda i: join.sides[i].memory)
        side = join.sides[port]
        if side.memory < join.waiting[port].memory or not side.rows:
            port = max(range(join.ports), key=lambda i: join.waiting[i].memory)
            join.hurry(port, emit)
            return
        side.compact()
        over = join.memory - self.bytes
        if over <= 0 or not side.rows:
            return
        at = np.sort(np.concatenate([part.keyed.at[part.live] for part in side.parts]))
        n = min(len(at), max(1, -(-over * len(at) // side.memory)))
        last = at[n - 1]
        count, ties = n, int(np.count_nonzero(at == last) - np.count_nonzero(at[n:] == last))

        def oldest(keyed: Keyed) -> Mask:
            nonlocal ties
            mask = np.asarray(keyed.at < last, np.bool_)
            equal: Ints = np.flatnonzero(keyed.at == last)[:ties]
            mask[equal] = True
            ties -= len(equal)
            return mask

        gone = side.take_where(oldest)
        assert sum(len(one) for one in gone) <= count
        for keyed in gone:
            join.losses.evicted += len(keyed)
            join.cuts.evicted[port] = max(join.cuts.evicted[port], join.largest(port, keyed))
            join.report(port, keyed.rows, EVICTED, emit)
