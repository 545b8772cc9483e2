"""Seeded streams for tests, examples and benchmarks: the same seed always gives the same stream.

    arrival      patterns of disorder, and the lateness they cause
    disordered   packets of a network, and measurements with a key: late, out of order and out of step
    files        a table as parquet files that Spark reads in arrival order
    two          two independent inputs of a join, with their order of arrival as a number
    punctuated   the arrival patterns of PW, with punctuations among the tuples
    scrambled    streams with a chosen scrambling factor, multiplicity, rate and lag (WO 5)
    auctions     persons, auctions and bids after NEXMark, with a punctuation when an auction is over

The names in the first three modules are also names of this package. The other modules are imported by their own names,
so that `generate.auctions` is always the module and never its function.
"""

from lowwater.generate.arrival import (
    SECOND,
    START,
    TIMESTAMP,
    Band,
    Blocks,
    Delay,
    Disorder,
    Order,
    Times,
    arrival_order,
    disorder,
    lateness,
)
from lowwater.generate.disordered import KEYED, PACKET, Packets, keyed, packets
from lowwater.generate.files import write_files

__all__ = [
    "KEYED",
    "PACKET",
    "SECOND",
    "START",
    "TIMESTAMP",
    "Band",
    "Blocks",
    "Delay",
    "Disorder",
    "Order",
    "Packets",
    "Times",
    "arrival_order",
    "disorder",
    "keyed",
    "lateness",
    "packets",
    "write_files",
]
