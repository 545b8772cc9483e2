"""Strategies of a join without windows under a memory limit (WO 4), and the choice between them by the cost model.

    plain    rows join when they come
    MSF      memory-sort first: rows wait until no smaller one can come, and join in order
    DBF      disk-buffer first: rows of a leading stream are put aside until the others have almost reached them
    Hybrid   both: rows are sorted first, and sorted rows of a leading stream are put aside

A strategy is a policy of the one driver (mjoin.py). `sorts` decides how rows enter the join, `spills` which of them
stay in memory. Both can change while the join runs. Strategies are listed by the delay that they add to results.

>>> streams = [Characteristics(100, 50, 2), Characteristics(40, 25, 3)]
>>> in_step = Situation(streams, [[0, 0], [0, 0]], [24, 24], ahead=10)
>>> lagging = Situation(streams, [[0, 5000], [-2500, 0]], [24, 24], ahead=10)
>>> [choose(PLAIN, situation, budget=8_000).name for situation in (in_step, lagging)]
['plain', 'DBF']
>>> choose(DBF, in_step, budget=8_000).name     # 6,480 bytes are too near to the limit to go back
'DBF'
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lowwater.joins.oblivious_cost import Characteristics, memory

BACK = 0.75
"""A strategy with less delay is chosen again if it needs at most this part of the budget."""


@dataclass(frozen=True)
class Strategy:
    """How rows get from their arrival to the join; see the module text."""

    name: str
    sorts: bool = False
    spills: bool = False


PLAIN, DBF = Strategy("plain"), Strategy("DBF", spills=True)
MSF, HYBRID = Strategy("MSF", sorts=True), Strategy("Hybrid", sorts=True, spills=True)
STRATEGIES = {one.name: one for one in (PLAIN, DBF, MSF, HYBRID)}
"""All strategies by name, those with the least delay first."""


@dataclass(frozen=True)
class Situation:
    """The characteristics of the streams as they are now, and the bytes that a row of each takes in memory."""

    streams: Sequence[Characteristics]
    lags: Sequence[Sequence[float]]
    """lags[i][j] is the lag from S_i to S_j."""
    widths: Sequence[float]
    ahead: int
    seen: Sequence[Characteristics] | None = None
    """The streams with the factors that they have shown, if the rows of a key leave when all of them have come."""

    def needs(self, strategy: Strategy) -> float:
        """The bytes of all buffers under a strategy, by the cost model of WO 4.

        Rows that wait to be sorted, or for a cut, wait as long as the assumed factors ask for. Rows that leave when all
        rows of their key have come wait no longer than these rows.
        """
        streams = self.streams if self.seen is None or strategy.sorts else self.seen
        return sum(
            width * memory(strategy.name, streams, i, self.lags[i], self.ahead).total
            for i, width in enumerate(self.widths)
        )


def choose(
    now: Strategy, situation: Situation, budget: float, among: Sequence[Strategy] = tuple(STRATEGIES.values())
) -> Strategy:
    """The strategy with the least delay whose buffers fit; if none does, the one that needs the least memory.

    A change back to less delay needs a reserve, so that the choice does not swing with every micro-batch.
    """
    needs = [situation.needs(one) for one in among]
    for one, need in zip(among, needs, strict=True):
        sooner = now in among and among.index(one) < among.index(now)
        if need <= (BACK * budget if sooner else budget):
            return one
    return min(zip(needs, among, strict=True), key=lambda pair: pair[0])[1]
