"""A union of three network links. It progresses at the slowest link, which the metrics name.

Prints:

    20 % sent: 1 windows closed, all wait for Control, which is at 22:14:41
    40 % sent: 2 windows closed, all wait for Control, which is at 22:15:56
    60 % sent: 4 windows closed, all wait for Control, which is at 22:17:09
    80 % sent: 8 windows closed, all wait for Main2, which is at 22:21:28
    100 % sent: 10 windows closed, all wait for Control, which is at 22:23:15
    11 windows, 0 late rows
"""

from itertools import pairwise

import pyarrow.compute as pc

import lowwater as lw
from lowwater import generate

LINKS = ("Control", "Main1", "Main2")
packets = generate.packets(60_000, 600, seed=7, links=LINKS)  # Control is quiet, Main2 is 5 s behind, all have a lull
links = [packets.table.filter(pc.equal(packets.table["link"], name)) for name in LINKS]

streams = [
    lw.stream(rows, name=name, progress="ts", disorder="3 seconds") for name, rows in zip(LINKS, links, strict=True)
]
together = streams[0].union(*streams[1:])
query = together.window(range="1 minute").agg(packets=lw.count(), bytes=lw.sum("len")).start()

for begin, end in pairwise(range(0, 101, 20)):  # the links take turns, a fifth of their rows at a time
    for port, rows in enumerate(links):
        first, stop = (rows.num_rows * share // 100 for share in (begin, end))
        query.push(rows.slice(first, stop - first), port)
    m = query.metrics()
    at = (m.low_watermark or "")[11:19]
    print(f"{end} % sent: {m.result_rows} windows closed, all wait for {m.held_back_by}, which is at {at}")
query.finish()
print(f"{query.result().num_rows} windows, {query.metrics().late_rows} late rows")
