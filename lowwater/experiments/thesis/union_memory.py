"""TH Fig. 8-8 and 8-11: memory of window counts over a union whose inputs are out of step.

    IOP   Merge holds the packets of the faster inputs until the slowest has caught up, then emits them in order
    OOP   Meld emits packets at once; the aggregation reduces them to partials in any order

Fig. 8-8    count by (srcIP, destIP) per minute over two links of the same rate, one 0 to 40 s behind the other. The
            aggregation is WID in both cases. The thesis uses Gigascope, 220,000 packets per second and 65,536 groups.
            Here there are a 64th of the groups, and about as many packets per group
Fig. 8-11   count of the last 5 minutes, every minute, over two busy links and one that has hardly any packets and is
            0 to 10 s late. OOP keeps panes. In-order aggregation buffers the extents (A1), after Merge, or after Meld
            and a Sort with a slack of that delay. To show the cost of order alone, Merge is also put before panes

Out-of-order plans are those that the planner makes of the queries' text. In-order ones put Merge or Sort in front of
the same aggregation.

The state held is the maximum over the ends of all time slices of the stream; see links.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path

from lowwater.experiments.outcome import Outcome, write_csv
from lowwater.experiments.thesis.curves import Curve, Panel, draw
from lowwater.experiments.thesis.from_text import PlannedOperator, aggregate_of, plan_of
from lowwater.experiments.thesis.links import Link, links, run
from lowwater.generate import SECOND
from lowwater.operators.base import Operator
from lowwater.operators.meld import Meld
from lowwater.operators.ordered import Merge, Sort
from lowwater.operators.rowwise import Project
from lowwater.state.store import Store

SKEW_CLAIM = (
    "For a count by group and minute over two links, the state of in-order processing grows in proportion to the skew "
    "of the links. Out-of-order processing holds no more than the groups of two windows, and less than in-order "
    "processing whenever the links are out of step."
)
DELAY_CLAIM = (
    "For a count of the last 5 minutes over three links, the state that is held for the sake of order grows in "
    "proportion to the delay of the link that has hardly any packets, while out-of-order processing holds the same few "
    "panes. (In-order aggregation that buffers its extents holds so much that this growth is comparatively small.)"
)
Q82 = """
SELECT srcIP, destIP, count(*) AS n
FROM M1 UNION M2 [RANGE 1 minute, SLIDE 1 minute, WA ts]
GROUP BY srcIP, destIP
"""
Q85 = "SELECT count(*) AS n FROM M1 UNION M2 UNION C [RANGE 5 minutes, SLIDE 1 minute, WA ts]"
IOP, OOP = "iop_merge_wid", "oop_meld_wid"
BUFFERED, SORTED, ORDER, PANES = "iop_merge_buffering", "iop_sort_buffering", "iop_merge_panes", "oop_meld_panes"
SKEWS = {"tiny": (0, 20, 40), "full": (0, 5, 10, 20, 30, 40)}
DELAYS = {"tiny": (0, 5, 10), "full": (0, 2, 4, 6, 8, 10)}
STRETCH = {"tiny": 5 * SECOND, "full": SECOND}
"""The length of a time slice. The packets of a slice are one batch per link; see links.py."""
SKEWED = {"tiny": (40_000, 16), "full": (600_000, 32)}
"""Packets in 3 minutes, and hosts. Groups are pairs of hosts."""
DELAYED = {"tiny": 40_000, "full": 400_000}
"""Packets in 8 minutes."""


@dataclass(frozen=True)
class Point:
    """The most state held by one technique at one skew, which is in seconds."""

    technique: str
    skew: int
    rows: int
    bytes: int


def reproduce_skew(size: str, out: Path) -> Outcome:
    packets, hosts = SKEWED[size]
    m1, m2 = links(packets, 180, ("M1", "M2"), 0.5, hosts, ("ts", "srcIP", "destIP"))
    plan = plan_of(Q82, M1=m1, M2=m2)
    spec, shown = aggregate_of(plan), Project(plan.shown)
    points = []
    for skew in SKEWS[size]:
        chains: dict[str, list[Operator]] = {
            IOP: [Merge(m1.rows.schema, "ts", 2), spec.open(Store(), 1), shown],
            OOP: [PlannedOperator(plan, "M1", "M2")],
        }
        points += measure(chains, [m1, m2.late_by(skew)], skew, STRETCH[size])
    return outcome("TH-8-8", points, skew_holds(points, packets / 180 / 2), "skew of M1 and M2, s", out)


def reproduce_delay(size: str, out: Path) -> Outcome:
    packets = DELAYED[size]
    c, *busy = links(packets, 480, ("C", "M1", "M2"), 300 / packets, 1000, ("ts",))
    plan = plan_of(Q85, C=c, M1=busy[0], M2=busy[1])
    panes, shown = aggregate_of(plan), Project(plan.shown)
    buffer = replace(panes, tactic="buffer")
    points = []
    for delay in DELAYS[size]:
        slack = delay * SECOND + STRETCH[size]  # within a time slice, links come one after the other
        chains: dict[str, list[Operator]] = {
            BUFFERED: [Merge(c.rows.schema, "ts", 3), buffer.open(Store(), 1), shown],
            SORTED: [Meld(("ts",), 3), Sort(c.rows.schema, "ts", slack), buffer.open(Store(), 1), shown],
            ORDER: [Merge(c.rows.schema, "ts", 3), panes.open(Store(), 1), shown],
            PANES: [PlannedOperator(plan, "C", "M1", "M2")],
        }
        points += measure(chains, [c.late_by(delay), *busy], delay, STRETCH[size])
    return outcome("TH-8-11", points, delay_holds(points, packets / 480), "delay of C, s", out)


def measure(chains: dict[str, list[Operator]], inputs: Sequence[Link], skew: int, every: int) -> list[Point]:
    """Runs all techniques over the same arrivals. They must agree."""
    ran = {technique: run(chain, inputs, every) for technique, chain in chains.items()}
    answers = [one.answers for one in ran.values()]
    assert all(other.equals(answers[0]) for other in answers), "all must return the same windows"
    return [Point(technique, skew, one.held.rows, one.held.bytes) for technique, one in ran.items()]


def skew_holds(points: Sequence[Point], rate: float) -> bool:
    """Whether the claim holds. `rate` is that of the link that has to wait, in packets per second."""
    iop, oop = of(points, IOP), of(points, OOP)
    two_windows = all(point.rows <= 2 * oop[0].rows and point.bytes <= 2 * oop[0].bytes for point in oop)
    less = all(ours.bytes < theirs.bytes for ours, theirs in zip(oop[1:], iop[1:], strict=True))
    return grows(iop, rate) and two_windows and less


def delay_holds(points: Sequence[Point], rate: float) -> bool:
    """Whether the claim holds. A window has five panes; the next pane begins before the slowest link closes it."""
    stable = all(point.rows <= 6 for point in of(points, PANES))
    return stable and all(grows(of(points, technique), rate) for technique in (BUFFERED, SORTED, ORDER))


def grows(points: Sequence[Point], rate: float) -> bool:
    """Whether every second of skew adds about the packets of one second, to within an eighth."""
    rising = all(less.rows < more.rows and less.bytes < more.bytes for less, more in pairwise(points))
    per_second = (points[-1].rows - points[0].rows) / (points[-1].skew - points[0].skew)
    return rising and 7 / 8 < per_second / rate < 9 / 8


def of(points: Sequence[Point], technique: str) -> list[Point]:
    return [point for point in points if point.technique == technique]


def outcome(id: str, points: Sequence[Point], holds: bool, axis: str, out: Path) -> Outcome:
    by = {technique: of(points, technique) for technique in dict.fromkeys(point.technique for point in points)}
    panels = []
    for unit, scale in (("bytes", "linear"), ("rows", "log")):
        curves = [
            Curve(name.replace("_", " "), [p.skew for p in own], [getattr(p, unit) for p in own])
            for name, own in by.items()
        ]
        panels.append(Panel(axis, f"most {unit} held", curves, ("linear", scale)))
    table = write_csv(out / f"{id}.csv", list(vars(points[0])), [tuple(vars(point).values()) for point in points])
    ends = [(f"{name}_{p.skew}s", p) for name, own in by.items() for p in (own[0], own[-1])]
    measured = {f"{name}_{unit}": float(getattr(p, unit)) for name, p in ends for unit in ("rows", "bytes")}
    return Outcome(holds, measured, table, draw(panels, out / f"{id}.png"))
