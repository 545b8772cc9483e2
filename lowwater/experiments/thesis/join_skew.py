"""TH Fig. 8-9 and 8-10: memory of tumbling-window joins over unions whose links are out of step.

Both queries pair packets of one flow and opposite directions within the same window:

    Q8-3 (Fig. 8-9)    (A union B) with (C union D), windows of 10 s; B and D come 0 to 100 s after A and C
    Q8-4 (Fig. 8-10)   M1 with (M2 union C), windows of a minute; C has hardly any packets and is 0 to 10 s late

    oop_meld_oajoin    packets pass the union at once and wait in the join
    iop_merge_oajoin   packets of the faster link wait in the union until they can pass in order, and then in the join
    oop_meld_clearing  the first, with a join that deletes removed packets at once, as in Fig. 7-1
    iop_merge_opib     the second, with a join that takes its first input in order and emits its results in order

In Fig. 8-9, the third technique shows the cost of the index by flow. OA-Join only flags packets that leave, and
rewrites parts of its state when more than half of it is removed. With skew, parts are large and span much time, and the
removed packets in them cost more than the index. How much depends on where the ends of parts fall, and so on rate and
skew.

In Fig. 8-10, the fourth technique is the one that the thesis argues about: out of order, M2 is purged sooner. M1 is
ahead of the union. An in-order join processes M1 only as far as the union has progressed, and keeps M2 until then. If
the join purges M2 by the arrival of M1, as OA-Join also does behind Merge, the last packets of M2 still stay a little
longer. But the largest state is at the end of a window, and there it makes no difference where M2 waits. Only the
average shows the difference; it is in the csv. (In Q8-3 both inputs of the join are delayed equally, and order in the
join has no further cost.)

The state held is the maximum over the ends of all time slices of the stream; see links.py. Rates are a 50th of those of
the thesis in Fig. 8-9 and a 10th in Fig. 8-10. A packet has at most about one partner, so that results, which no
operator holds, take little time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from lowwater.experiments.outcome import Outcome
from lowwater.experiments.thesis import union_memory
from lowwater.experiments.thesis.flows import both_ways, opposite
from lowwater.experiments.thesis.from_text import PlannedOperator, plan_of
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
    "For a tumbling-window join of two unions, in-order and out-of-order processing hold the same packets at any skew, "
    "the former in the unions and the latter in the join. If the join deletes removed packets at once, out-of-order "
    "processing needs at most 20 % more bytes, as in the thesis, and at most 10 % more for a skew of half a window or "
    "less. (lowwater's own join rewrites its state only when more than half of it is removed. It needs more bytes than "
    "that, but at most twice as many as in-order processing.)"
)
DELAY_CLAIM = (
    "For a tumbling-window join with a union in which one link is late, the largest state of out-of-order processing "
    "does not grow with the delay. In-order processing, including the join, also holds the packets of both other links "
    "for the time of the delay: never fewer packets than out of order, and more bytes from a delay of 5 s on. (Below "
    "5 s it holds fewer bytes, because packets that wait for their turn have no index. With order in the union alone, "
    "in front of a join that purges by arrival, the largest state does not grow either; packets only stay a little "
    "longer on average.)"
)
OOP, IOP = "oop_meld_oajoin", "iop_merge_oajoin"
CLEARING, ORDERED = "oop_meld_clearing", "iop_merge_opib"
Q84 = """
SELECT M1.srcIP AS M1_srcIP, M1.destIP AS M1_destIP, M1.ts AS M1_ts
FROM M1, M2 UNION C AS M3 [RANGE TUMBLING 1 minute, WA ts]
WHERE M1.srcIP = M3.destIP AND M1.destIP = M3.srcIP AND M1.srcPort = M3.destPort AND M1.destPort = M3.srcPort
"""
"""The plan of Fig. 8-10 out of order is that which the planner makes of this text."""
SELECT = ("M1_srcIP", "M1_destIP", "M1_ts")
SKEWS = {"tiny": (0, 5, 50, 100), "full": (0, 5, 10, 20, 50, 100)}
DELAYS = {"tiny": (0, 5, 10), "full": (0, 2, 4, 6, 8, 10)}
STRETCH = {"tiny": 5 * SECOND, "full": SECOND}
SKEWED = {"tiny": (100, 150), "full": (200, 150)}
"""The packets of each link per second, and the seconds."""
DELAYED = {"tiny": (40, 150), "full": (400, 150)}
"""The packets of M1 and of M2 per second, and the seconds."""
SPARSE = 100
"""The total packets of C."""
HALF_A_WINDOW = 5
QUOTED = 1.2
"""The largest overhead that the thesis states."""


@dataclass(frozen=True)
class Point(union_memory.Point):
    """The most state held by one technique at one skew (in seconds), and its average rows."""

    average_rows: float


class ClearingJoin(OAJoin):
    """OA-Join that deletes removed rows at once."""

    def on_punctuation(self, port: int, punctuation: Punctuation, emit: Emit) -> None:
        super().on_punctuation(port, punctuation, emit)
        for side in self.sides:
            side.parts = [part.kept() for part in side.parts if part.gone < len(part)]


class UnionsJoined(Operator):
    """One union per input of a join, as one operator. Its ports are those of the unions, one after the other."""

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
    """Fig. 8-9. There are as many flows as an input has packets in a window, so that a packet has one partner."""
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
    plan = plan_of(Q84, M1=m1, M2=m2, C=c)
    points = []
    for delay in DELAYS[size]:
        plans: dict[str, Operator] = {
            OOP: PlannedOperator(plan, "M1", "M2", "C"),
            IOP: UnionsJoined([Meld(("ts",), 1), merge(m2)], OAJoin(what)),
            ORDERED: UnionsJoined([Meld(("ts",), 1), merge(m2)], OPIBJoin(what)),
        }
        points += measure(plans, [m1, m2, c.late_by(delay)], delay, STRETCH[size])
    return union_memory.outcome("TH-8-10", points, delay_holds(points, 2 * rate), "delay of C, s", out)


def merge(link: Link) -> Merge:
    return Merge(link.rows.schema, "ts", 2)


def measure(plans: dict[str, Operator], inputs: Sequence[Link], skew: int, every: int) -> list[Point]:
    """Runs all techniques over the same arrivals. They must agree."""
    ran = {technique: run([plan, Project(SELECT)], inputs, every) for technique, plan in plans.items()}
    answers = [one.answers for one in ran.values()]
    assert all(other.equals(answers[0]) for other in answers), "all must return the same pairs"
    return [
        Point(technique, skew, one.held.rows, one.held.bytes, round(one.average_rows, 1))
        for technique, one in ran.items()
    ]


def overhead(points: Sequence[Point], technique: str) -> dict[int, float]:
    """The bytes of a technique divided by those of IOP, by skew."""
    return {p.skew: p.bytes / iop.bytes for p, iop in zip(of(points, technique), of(points, IOP), strict=True)}


def skew_holds(points: Sequence[Point]) -> bool:
    rows = [[p.rows for p in of(points, technique)] for technique in (OOP, CLEARING, IOP)]
    lazy, clearing = overhead(points, OOP), overhead(points, CLEARING)
    small = [clearing[skew] for skew in clearing if skew <= HALF_A_WINDOW]
    skewed = rows[0][-1] > 2 * rows[0][0]  # otherwise no packets had to wait
    same = all(other == rows[0] for other in rows)
    return skewed and same and max(small) <= 1.1 and max(clearing.values()) <= QUOTED and max(lazy.values()) <= 2


def delay_holds(points: Sequence[Point], rate: float) -> bool:
    """Whether the claim holds. `rate` is that of both busy links, in packets per second."""
    oop, iop = of(points, OOP), of(points, IOP)
    flat = all(p.rows <= own[0].rows * 1.01 and p.bytes <= own[0].bytes * 1.01 for own in (oop, iop) for p in own)
    average = {(p.technique, p.skew): p.average_rows for p in points}
    longer = average[IOP, iop[-1].skew] > average[OOP, oop[-1].skew]
    ordered = of(points, ORDERED)
    more = all(o.rows >= p.rows and (o.bytes > p.bytes or p.skew < 5) for o, p in zip(ordered, oop, strict=True))
    return flat and longer and more and union_memory.grows(ordered, rate)
