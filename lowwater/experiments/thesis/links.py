"""Links of a network that are out of step, and the most that a chain of operators holds while their packets arrive.

The packets of a link come in order, `lag` after their time; links differ in that. Whatever arrives within the same
stretch of time is one batch a link, and each link ends it with a punctuation: all before the stretch's end, less the
lag, has come. So progress does not depend on how many packets a link has, and no operator has to wait for a lull.

What is held is asked of the operators after every stretch: rows, and bytes as state would be written.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lowwater.generate import SECOND, START, packets
from lowwater.model.punctuation import ALL, Punctuation
from lowwater.operators.base import Batch, Held, Late, Message, Operator


@dataclass(frozen=True)
class Link:
    """Packets in order of time, and by how much they arrive later than that."""

    rows: pa.Table
    lag: int = 0

    def late_by(self, seconds: float) -> Link:
        return Link(self.rows, round(seconds * SECOND))


@dataclass(frozen=True)
class Ran:
    """The most that was held by all operators together, the rows on average, and what they answered."""

    held: Held
    answers: pa.Table
    average_rows: float


def links(
    rows: int, seconds: int, names: Sequence[str], quiet: float, hosts: int, columns: Sequence[str]
) -> list[Link]:
    """Seeded packets, all links in step; the first has the part `quiet` of them."""
    table = packets(
        rows, seconds, seed=8, links=names, quiet=quiet, skew=0, max_delay=0, lull=(0.5, 0.5, 0.5), hosts=hosts
    ).table
    return [Link(table.filter(pc.equal(table.column("link"), name)).select(list(columns))) for name in names]


def run(chain: Sequence[Operator], inputs: Sequence[Link], every: int) -> Ran:
    """Lets the packets arrive at the first operator, a port a link; what one gives out is the input of the next."""
    answers: list[pa.Table] = []
    held: list[Held] = []
    for stretch in stretches(inputs, every):
        for port, message in stretch:
            answers += [m.rows for m in through(chain, port, message) if isinstance(m, Batch)]
        each = [operator.held() for operator in chain]
        held.append(Held(sum(h.rows for h in each), sum(h.bytes for h in each)))
    order = [(name, "ascending") for name in answers[0].column_names]
    most = Held(max(h.rows for h in held), max(h.bytes for h in held))
    average = sum(h.rows for h in held) / len(held)
    return Ran(most, pa.concat_tables(answers).combine_chunks().sort_by(order), average)


def stretches(inputs: Sequence[Link], every: int) -> Iterator[list[tuple[int, Message]]]:
    """What arrives on which port, in stretches of so many ticks; the last is the end of all."""
    times = [link.rows.column("ts").cast(pa.int64()).to_numpy() for link in inputs]
    last = max(int(time[-1]) + link.lag for time, link in zip(times, inputs, strict=True))
    at = [0] * len(inputs)
    for end in range(START * SECOND + every, last + every + 1, every):
        arrived: list[tuple[int, Message]] = []
        for port, (link, time) in enumerate(zip(inputs, times, strict=True)):
            stop = int(np.searchsorted(time, end - link.lag))
            if stop > at[port]:
                arrived.append((port, Batch(link.rows.slice(at[port], stop - at[port]))))
            arrived.append((port, Punctuation.linear("ts", end - link.lag)))
            at[port] = stop
        yield arrived
    yield [(port, ALL) for port in range(len(inputs))]


def through(chain: Sequence[Operator], port: int, message: Message) -> list[Message]:
    """What comes out at the end of a chain when a message comes in."""
    messages = [message]
    for operator in chain:
        out: list[Message] = []
        for one in messages:
            assert not isinstance(one, Late), "no packet is late here"
            operator.take(port, one, out.append)
        messages, port = out, 0
    return messages
