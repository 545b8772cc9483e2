"""Links of a network that are out of step, and the state that a chain of operators holds while packets arrive.

The packets of a link arrive in order, `lag` after their time; links differ in their lag. The packets that arrive in the
same time slice are one batch per link. Each link ends the slice with a punctuation: all packets before the end of the
slice minus the lag have come. So progress does not depend on the number of packets of a link, and no operator waits for
a silent link.

The state of the operators is measured after every slice: in rows, and in bytes as it would be written.
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
    """Packets in order of time, and the ticks by which they arrive later than their time."""

    rows: pa.Table
    lag: int = 0

    def late_by(self, seconds: float) -> Link:
        return Link(self.rows, round(seconds * SECOND))


@dataclass(frozen=True)
class Ran:
    """The most state held by all operators together, their average rows, and their answers."""

    held: Held
    answers: pa.Table
    average_rows: float


def links(
    rows: int, seconds: int, names: Sequence[str], quiet: float, hosts: int, columns: Sequence[str]
) -> list[Link]:
    """Seeded packets of links that are in step. The first link has the fraction `quiet` of them."""
    table = packets(
        rows, seconds, seed=8, links=names, quiet=quiet, skew=0, max_delay=0, lull=(0.5, 0.5, 0.5), hosts=hosts
    ).table
    return [Link(table.filter(pc.equal(table.column("link"), name)).select(list(columns))) for name in names]


def run(chain: Sequence[Operator], inputs: Sequence[Link], every: int) -> Ran:
    """Feeds the packets to the first operator, one port per link. The output of each operator is input of the next."""
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
    """The messages of each time slice of `every` ticks, with their ports. The last slice is the end of all links."""
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
    """The messages that a chain of operators emits for one message."""
    messages = [message]
    for operator in chain:
        out: list[Message] = []
        for one in messages:
            assert not isinstance(one, Late), "no packet is late here"
            operator.take(port, one, out.append)
        messages, port = out, 0
    return messages
