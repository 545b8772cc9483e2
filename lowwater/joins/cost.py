"""The number of tuples in the state of a punctuated window join: the cost model of PW 5.2.

Notation of the paper, for the state of stream B:

    λ_b     tuples of B per time unit              λ_pa    punctuations of A per time unit
    T_b     the window on B                        NK_bT   distinct join values that have occurred in B up to time T

Without punctuation the state contains the tuples of one window, λ_b T_b. A tuple of B is not needed once A has ended
its value. The paper assumes that this is as likely for every tuple as for every value, so that the fraction
λ_pa T / NK_bT of the tuples is removed:

    |S_b|_T = λ_b T_b (1 - λ_pa T / NK_bT)                                                  (Equation 1)

The equation is exact on average under four assumptions, of which the paper states the first two:

    1. The inputs are not faster than the join, and both streams have the same values.
    2. T is at least T_b, so that one full window has passed.
    3. All values that have occurred are equally frequent in the window, including those that have ended.
    4. An ended value is never forgotten, so that its tuples are not kept.

The third assumption holds if B draws its values evenly from all values. It does not hold if the values advance with
time, as in the paper's own punctuated streams: the tuples in the window then carry late values, more of which are still
open. Equation (1) then predicts that the state goes to 0, while it actually stays the same from window to window. The
fourth assumption holds while the run is shorter than the sum of the windows. After that, PWJoin drops promises
(ended.py), and tuples with such a value are again kept for the length of a window.
"""

from __future__ import annotations


def window_state(rate: float, window: float) -> float:
    """Tuples in the state of a window join without punctuation: λ_b T_b.

    >>> window_state(rate=100, window=15)
    1500
    """
    return rate * window


def punctuated_state(rate: float, window: float, ended_rate: float, elapsed: float, values: float) -> float:
    """Tuples of B in the state of PWJoin at time T: Equation (1), or 0 if A has ended more values than occurred in B.

    rate        λ_b, tuples of B per second
    window      T_b, in seconds
    ended_rate  λ_pa, punctuations of A per second
    elapsed     T, in seconds
    values      NK_bT, distinct values of B so far

    After ten seconds, A has ended 10 of the 40 values that occur in B, so a quarter of the window is not kept:

    >>> punctuated_state(rate=100, window=5, ended_rate=1, elapsed=10, values=40)
    375.0

    The best case of the paper: each cluster of B comes after the punctuation of A for its value. A has ended as many
    values as have occurred in B, so no tuple is kept:

    >>> punctuated_state(rate=100, window=5, ended_rate=1, elapsed=10, values=10)
    0.0
    """
    return window_state(rate, window) * (1 - ended_part(ended_rate, elapsed, values))


def ended_part(ended_rate: float, elapsed: float, values: float) -> float:
    """λ_pa T / NK_bT: the fraction of the values of B that A has ended, and so the saving through punctuation.

    >>> ended_part(ended_rate=1, elapsed=10, values=40)
    0.25
    """
    if ended_rate == 0:
        return 0.0
    return min(1.0, ended_rate * elapsed / values) if values else 1.0
