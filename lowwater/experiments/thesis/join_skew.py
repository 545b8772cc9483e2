"""TH Fig. 8-9 and 8-10: memory of tumbling-window joins over unions whose links are out of step.

Both queries pair packets of one flow and opposite directions within the same window:

    Q8-3 (Fig. 8-9)    (A union B) with (C union D), windows of 10 s; B and D come 0 to 100 s after A and C
    Q8-4 (Fig. 8-10)   M1 with (M2 union C), windows of a minute; C has hardly any packets and comes 0 to 10 s late

    oop_meld_oajoin    packets pass the union at once and wait in the join
    iop_merge_oajoin   packets of the faster link wait in the union until they can pass in order, then in the join
    oop_meld_clearing  the first, with a join that clears away at once what has left it, as Fig. 7-1 does
    iop_merge_opib     the second, with a join that takes its first input in order and gives its results in order

In Fig. 8-9 the third tells what the index by flow costs. OA-Join only crosses out packets that leave, and
rewrites parts of its state when more is gone than is left; with skew parts are large and span much time, and what is
crossed out in them costs more than the index. How much depends on where the ends of parts fall, so on rate and skew.

In Fig. 8-10 the fourth is what the thesis argues about: out of order, M2 is purged sooner. M1 is ahead of the union. A
join in order works on M1 only as far as the union has come, and keeps M2 until it has. If the join purges M2 by what
has arrived of M1, as OA-Join does also behind Merge, the last packets of M2 still stay a little longer; but the most is
held at the end of a window, and there it makes no difference where M2 waits. Only the average shows it, and is in the
csv. (In Q8-3 both inputs of the join are held up alike, and order in the join costs nothing more.)

Held is the most at the end of any stretch of the stream; see links.py. Rates are a 50th of those of the thesis in
Fig. 8-9 and a 10th in Fig. 8-10. There is one partner or less for a packet, so that results, which nobody holds, do not
take the time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from lowwater.experiments.outcome import Outcome
from lowwater.experiments.thesis import union_memory
from lowwater.experiments.thesis.flows import both_ways, opposite
from lowwater.experiments.thesis.links import Link, run
from lowwater.experiments.thesis.union_memory import of
from lowwater.generate import SECOND
from lowwater.joins.oa_join import OAJoin
from lowwater.joins.ordered_join import OPIBJoin
from lowwater.model.punctuation import Punctuation
from lowwater.operators.base import Emit, Held, Message, Operator, Payload
from lowwater.operators.meld import Meld
from lowwater.operators.ordered import Merge
from lowwater.operators.rowwise import Project
from lowwater.windows.context_free import Sliding

SKEW_CLAIM = (
    "For a tumbling-window join of two unions, in-order and out-of-order processing hold the same packets, the one in "
    "the unions and the other in the join, whatever the skew. Where the join clears away at once what has left it, "
    "out-of-order processing needs at most 20 % more bytes, as in the thesis, and for a skew of half a window or less "
    "10 %. (lowwater's join, as it ships, rewrites state only when more of it is gone than is left: it needs more than "
    "that, but not more than twice as much.)"
)
DELAY_CLAIM = (
    "For a tumbling-window join with a union in which one link is late, the most that out-of-order processing holds "
    "does not grow with the delay. In-order processing, the join included, holds the packets of both other links for "
    "that long in addition: never fewer packets than out of order, and more bytes from a delay of 5 s on. (Below that "
    "fewer, since packets that wait for their turn have no index. With order on the union alone, in front of a join "
    "that purges by arrival, the most held does not grow either; packets only stay a little longer on average.)"
)
OOP, IOP = "oop_meld_oajoin", "iop_merge_oajoin"
CLEARING, ORDERED = "oop_meld_clearing", "iop_merge_opib"
SELECT = ("M1_srcIP", "M1_destIP", "M1_ts")
SKEWS = {"tiny": (0, 5, 50, 100), "full": (0, 5, 10, 20, 50, 100)}
DELAYS = {"tiny": (0, 5, 10), "full": (0, 2, 4, 6, 8, 10)}
STRETCH = {"tiny": 5 * SECOND, "full": SECOND}
SKEWED = {"tiny": (100, 150), "full": (200, 150)}
"""Packets of each link in a second, and seconds."""
DELAYED = {"tiny": (40, 150), "full": (400, 150)}
"""Packets of M1 and of M2 in a second, and seconds."""
SPARSE = 100
"""Packets of C, in all."""
HALF_A_WINDOW = 5
QUOTED = 1.2
"""What the thesis gives for the largest overhead."""


@dataclass(frozen=True)
class Point(union_memory.Point):
    """What one technique holds at one skew, in seconds: at most, and in rows also on average."""

    average_rows: float


class ClearingJoin(OAJoin):
    """OA-Join that keeps nothing of what has left."""

    def on_punctuation(self, port: int, punctuation: Punctuation, emit: Emit) -> None:
        super().on_punctuation(port, punctuation, emit)
        for side in self.sides:
            side.parts = [part.kept() for part in side.parts if part.gone < len(part)]


class UnionsJoined(Operator):
    """A union for each input of a join, as one operator; its ports are those of the unions, one after the other."""

    def __init__(self, unions: Sequence[Operator], join: Operator) -> None:
        super().__init__()
        self.unions = unions
        self.join = join
        self._ways = [(i, port) for i, union in enumerate(unions) for port in range(union.ports)]
        self.ports = len(self._ways)

    def on_rows(self, port: int, rows: Payload, emit: Emit) -> None:
        self._on(port, rows, emit)

    def on_punctuation(self, port: int, punctuation: Punctuation, emit: Emit) -> None:
        self._on(port, punctuation, emit)

    def _on(self, port: int, message: Message, emit: Emit) -> None:
        side, port = self._ways[port]
        self.unions[side].take(port, message, lambda one: self.join.take(side, one, emit))

    def held(self) -> Held:
        each = [operator.held() for operator in (*self.unions, self.join)]
        return Held(sum(h.rows for h in each), sum(h.bytes for h in each))


def reproduce_skew(size: str, out: Path) -> Outcome:
    """There are as many flows as packets of an input in a window, so that a packet has one partner."""
    rate, seconds = SKEWED[size]
    a, b, c, d = both_ways(4 * rate * seconds, seconds, "ABCD", "CD", 20 * rate, 0.25)
    what = opposite(("M1", "M2"), (a, c), grid=Sliding(10 * SECOND))
    points = []
    for skew in SKEWS[size]:
        plans: dict[str, Operator] = {
            OOP: UnionsJoined([Meld(("ts",), 2), Meld(("ts",), 2)], OAJoin(what)),
            CLEARING: UnionsJoined([Meld(("ts",), 2), Meld(("ts",), 2)], ClearingJoin(what)),
            IOP: UnionsJoined([merge(a), merge(c)], OAJoin(what)),
        }
        points += measure(plans, [a, b.late_by(skew), c, d.late_by(skew)], skew, STRETCH[size])
    found = union_memory.outcome("TH-8-9", points, skew_holds(points), "skew of A and B, and of C and D, s", out)
    overheads = {name: round(max(overhead(points, name).values()), 4) for name in (OOP, CLEARING)}
    return replace(found, measured=found.measured | {f"{name}_largest_bytes_ratio": x for name, x in overheads.items()})


def reproduce_delay(size: str, out: Path) -> Outcome:
    rate, seconds = DELAYED[size]
    rows = 2 * rate * seconds + SPARSE
    c, m1, m2 = both_ways(rows, seconds, ("C", "M1", "M2"), ("C", "M2"), 60 * rate, SPARSE / rows)
    what = opposite(("M1", "M3"), (m1, m2), grid=Sliding(60 * SECOND))
    points = []
    for delay in DELAYS[size]:
        plans: dict[str, Operator] = {
            OOP: UnionsJoined([Meld(("ts",), 1), Meld(("ts",), 2)], OAJoin(what)),
            IOP: UnionsJoined([Meld(("ts",), 1), merge(m2)], OAJoin(what)),
            ORDERED: UnionsJoined([Meld(("ts",), 1), merge(m2)], OPIBJoin(what)),
        }
        points += measure(plans, [m1, m2, c.late_by(delay)], delay, STRETCH[size])
    return union_memory.outcome("TH-8-10", points, delay_holds(points, 2 * rate), "delay of C, s", out)


def merge(link: Link) -> Merge:
    return Merge(link.rows.schema, "ts", 2)


def measure(plans: dict[str, Operator], inputs: Sequence[Link], skew: int, every: int) -> list[Point]:
    """All techniques over the same arrivals; they must agree."""
    ran = {technique: run([plan, Project(SELECT)], inputs, every) for technique, plan in plans.items()}
    answers = [one.answers for one in ran.values()]
    assert all(other.equals(answers[0]) for other in answers), "all must give the same pairs"
    return [
        Point(technique, skew, one.held.rows, one.held.bytes, round(one.average_rows, 1))
        for technique, one in ran.items()
    ]


def overhead(points: Sequence[Point], technique: str) -> dict[int, float]:
    """Bytes over those of IOP, by skew."""
    return {p.skew: p.bytes / iop.bytes for p, iop in zip(of(points, technique), of(points, IOP), strict=True)}


def skew_holds(points: Sequence[Point]) -> bool:
    rows = [[p.rows for p in of(points, technique)] for technique in (OOP, CLEARING, IOP)]
    lazy, clearing = overhead(points, OOP), overhead(points, CLEARING)
    small = [clearing[skew] for skew in clearing if skew <= HALF_A_WINDOW]
    skewed = rows[0][-1] > 2 * rows[0][0]  # or there was nothing that had to wait
    same = all(other == rows[0] for other in rows)
    return skewed and same and max(small) <= 1.1 and max(clearing.values()) <= QUOTED and max(lazy.values()) <= 2


def delay_holds(points: Sequence[Point], rate: float) -> bool:
    """`rate` is that of both busy links, in packets a second."""
    oop, iop = of(points, OOP), of(points, IOP)
    flat = all(p.rows <= own[0].rows * 1.01 and p.bytes <= own[0].bytes * 1.01 for own in (oop, iop) for p in own)
    average = {(p.technique, p.skew): p.average_rows for p in points}
    longer = average[IOP, iop[-1].skew] > average[OOP, oop[-1].skew]
    ordered = of(points, ORDERED)
    more = all(o.rows >= p.rows and (o.bytes > p.bytes or p.skew < 5) for o, p in zip(ordered, oop, strict=True))
    return flat and longer and more and union_memory.grows(ordered, rate)
