"""The memory that a join without windows needs: the cost model of WO 3 and 4.

Notation of the paper, for a stream S_i:

    k_i      scrambling factor        Mul_i      multiplicity
    r_i      tuples per second        L_ij       lag from S_i to S_j, in tuples of S_i

The buffer of S_i for one partner S_j, and for all of them (Equations 6, 7 and 8):

    M_ij = max{1, k_i + r_i k_j / r_j + L_ij}          M_i = max_j M_ij

L_ij is the lag at the time when the tuple arrived that stood k_j places before the latest one of S_j (erratum 10). A
strategy under a memory limit changes the terms (WO 4). C is how many tuples DBF reads ahead:

    plain    k_i   + max_j {r_i k_j / r_j + L_ij}
    MSF      Mul_i + max_j {r_i Mul_j / r_j + L_ij}     and k_i tuples that wait to be sorted
    DBF      k_i   + C + max_j {r_i k_j / r_j}
    Hybrid   Mul_i + C + max_j {r_i Mul_j / r_j}        and k_i tuples that wait to be sorted

A sorted stream with duplicates has k = Mul - 1 by Definition 2.2, so Mul is the safe bound (erratum 9). The results of
a join are a stream too, with at most (Theorem 3.1)

    r_o <= sum_i r_i prod_{j != i} Mul_j        k_o <= sum_i k_i prod_{j != i} Mul_j        Mul_o <= prod_i Mul_i

The last bound is not in the paper: a value has at most so many combinations of its tuples.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, prod


@dataclass(frozen=True)
class Characteristics:
    """What the model knows of a stream: k, r and Mul."""

    scrambling: int
    rate: float = 1.0
    multiplicity: int = 1


@dataclass(frozen=True)
class Expected:
    """What a user expects of a stream: k, r, and Mul if it is known."""

    scrambling: int
    rate: float = 1.0
    multiplicity: int | None = None

    @property
    def known(self) -> Characteristics | None:
        """The characteristics, if all of them are known."""
        if self.multiplicity is None:
            return None
        return Characteristics(self.scrambling, self.rate, self.multiplicity)

    @property
    def assumed(self) -> Characteristics:
        """The characteristics, with a multiplicity of 1 where none is known. Only strategies that sort depend on it."""
        return Characteristics(self.scrambling, self.rate, self.multiplicity or 1)


def synchronized_buffer(one: Characteristics, other: Characteristics) -> float:
    """Equation 6: the tuples of S_i to keep for S_j if both are in step.

    >>> synchronized_buffer(Characteristics(100, 50), Characteristics(40, 25))
    180.0
    """
    return one.scrambling + one.rate * other.scrambling / other.rate


def pair_buffer(one: Characteristics, other: Characteristics, lag: float = 0) -> float:
    """Equation 7: the tuples of S_i to keep for S_j, if S_i is `lag` tuples ahead.

    >>> one, other = Characteristics(100, 50), Characteristics(40, 25)
    >>> [pair_buffer(one, other, lag) for lag in (0, 30, -500)]
    [180.0, 210.0, 1]
    """
    return max(1, synchronized_buffer(one, other) + lag)


def buffer(streams: Sequence[Characteristics], i: int, lags: Sequence[float]) -> float:
    """Equation 8: the tuples of S_i to keep for all others. `lags[j]` is the lag from S_i to S_j.

    >>> buffer([Characteristics(100, 50), Characteristics(40, 25), Characteristics(10, 50)], 0, [0, 0, 90])
    200.0
    """
    return max(pair_buffer(streams[i], other, lags[j]) for j, other in enumerate(streams) if j != i)


@dataclass(frozen=True)
class Memory:
    """The tuples of one stream under a strategy: in the join's buffer, and waiting to be sorted."""

    joined: float
    sorted: float = 0

    @property
    def total(self) -> float:
        return self.joined + self.sorted


def memory(strategy: str, streams: Sequence[Characteristics], i: int, lags: Sequence[float], ahead: int = 0) -> Memory:
    """The tuples of S_i in memory under a strategy (WO 4). `ahead` is C.

    >>> streams = [Characteristics(100, 50, 2), Characteristics(40, 25, 3)]
    >>> [memory(one, streams, 0, [0, 500], ahead=10).total for one in ("plain", "MSF", "DBF", "Hybrid")]
    [680.0, 608.0, 190.0, 118.0]
    """
    one, others = streams[i], [(j, other) for j, other in enumerate(streams) if j != i]
    sorts, disk = strategy in ("MSF", "Hybrid"), strategy in ("DBF", "Hybrid")
    own = one.multiplicity if sorts else one.scrambling
    waits = [
        one.rate * (other.multiplicity if sorts else other.scrambling) / other.rate + (0 if disk else lags[j])
        for j, other in others
    ]
    return Memory(max(1, own + (ahead if disk else 0) + max(waits)), one.scrambling if sorts else 0)


def joined(streams: Sequence[Characteristics]) -> Characteristics:
    """Theorem 3.1: bounds on the results of a join of these streams (Equations 9 and 10).

    >>> joined([Characteristics(500, 50, 2)] * 3)
    Characteristics(scrambling=6000, rate=600.0, multiplicity=8)
    """
    every = prod(stream.multiplicity for stream in streams)
    others = [every / stream.multiplicity for stream in streams]
    return Characteristics(
        ceil(sum(stream.scrambling * times for stream, times in zip(streams, others, strict=True))),
        float(sum(stream.rate * times for stream, times in zip(streams, others, strict=True))),
        every,
    )
