"""Links that carry the two directions of the same flows, and the join that pairs them (TH Q7-2, Q8-3, Q8-4).

A flow has two ends, each an address and a port. generate.packets draws new ends for every packet, so that no two
packets would join. Here every packet belongs to one of a fixed number of flows, all equally likely, and on the links in
`back` source and destination are swapped. The more flows, the fewer pairs.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lowwater.experiments.thesis.links import Link
from lowwater.generate import packets
from lowwater.joins.spec import JoinSide, WindowJoin
from lowwater.windows.context_free import Sliding

FORTH = ("srcIP", "srcPort", "destIP", "destPort")
BACK = ("destIP", "destPort", "srcIP", "srcPort")
SEED = 7


def both_ways(
    rows: int, seconds: int, names: Sequence[str], back: Sequence[str], flows: int, quiet: float
) -> list[Link]:
    """Seeded packets of all links, in step and in order of time. The first link has the fraction `quiet` of them.

    >>> one, other = both_ways(200, 10, ["M1", "M2"], ["M2"], flows=3, quiet=0.5)
    >>> ends = [set(zip(*(link.rows[name].to_pylist() for name in on))) for link, on in ((one, FORTH), (other, BACK))]
    >>> ends[0] == ends[1], len(ends[0])
    (True, 3)
    """
    table = packets(rows, seconds, seed=SEED, links=names, quiet=quiet, skew=0, max_delay=0, lull=(0.5, 0.5, 0.5)).table
    drawn = np.random.default_rng(SEED).integers(0, flows, rows)
    ends = table.select(list(FORTH)).slice(0, flows).take(pa.array(drawn))
    found = []
    for name in names:
        here = pc.equal(table.column("link"), name)
        columns = {"ts": table.column("ts").filter(here)}
        for column, end in zip(BACK if name in back else FORTH, FORTH, strict=True):
            columns[column] = ends.column(end).filter(here)
        found.append(Link(pa.table(columns).combine_chunks()))
    return found


def opposite(names: Sequence[str], links: Sequence[Link], wait: int = 0, grid: Sliding | None = None) -> WindowJoin:
    """Pairs of packets of one flow and opposite directions: within `wait` of each other, or in one window of a grid."""
    sides = (
        JoinSide(name, link.rows.schema, "ts", on) for name, link, on in zip(names, links, (FORTH, BACK), strict=True)
    )
    return WindowJoin(tuple(sides), (wait, wait), grid=grid)
