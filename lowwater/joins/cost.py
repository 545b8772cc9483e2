"""How many tuples the state of a punctuated window join has: the cost model of PW 5.2.

Notation of the paper, for the state of stream B:

    λ_b     tuples of B a time unit                λ_pa    punctuations of A a time unit
    T_b     the window on B                        NK_bT   distinct join values that have occurred in B up to time T

Without punctuation the state has the tuples of a window, λ_b T_b. A tuple of B is of no use once A has ended its value.
The paper takes that to be as likely for every tuple as for every value, so that the part λ_pa T / NK_bT of them goes:

    |S_b|_T = λ_b T_b (1 - λ_pa T / NK_bT)                                                  (Equation 1)

That is exact on average under four assumptions, of which the paper states the first two:

    the inputs are not faster than the join, and both streams have the same values;
    T is at least T_b, so that a window has gone by;
    the tuples in the window carry all values that have occurred alike, the ended ones too;
    an ended value is known for ever, so that its tuples are not kept.

The third holds if B draws its values evenly from all of them. It does not if values go on with time, as in the paper's
own punctuated streams: tuples in the window carry late values, more of which are still open. Equation (1) then has the
state go to 0, while it stays the same from window to window. The fourth holds while the run is shorter than the windows
together; later PWJoin forgets promises (ended.py), and what comes with such a value is kept for a window again.
"""

from __future__ import annotations


def window_state(rate: float, window: float) -> float:
    """Tuples in the state of a window join that knows no punctuation: λ_b T_b.

    >>> window_state(rate=100, window=15)
    1500
    """
    return rate * window


def punctuated_state(rate: float, window: float, ended_rate: float, elapsed: float, values: float) -> float:
    """Tuples of B in the state of PWJoin at time T: Equation (1), and 0 where A has ended more than has occurred in B.

    rate        λ_b, tuples of B a second
    window      T_b, in seconds
    ended_rate  λ_pa, punctuations of A a second
    elapsed     T, in seconds
    values      NK_bT, distinct values of B so far

    Ten seconds on, A has ended 10 of the 40 values that occur in B, and a quarter of the window is not kept:

    >>> punctuated_state(rate=100, window=5, ended_rate=1, elapsed=10, values=40)
    375.0

    The best case of the paper: clusters in step, those of B after the punctuation of A. As many values have occurred in
    B as have been ended by A, and no tuple is kept:

    >>> punctuated_state(rate=100, window=5, ended_rate=1, elapsed=10, values=10)
    0.0
    """
    return window_state(rate, window) * (1 - ended_part(ended_rate, elapsed, values))


def ended_part(ended_rate: float, elapsed: float, values: float) -> float:
    """λ_pa T / NK_bT: which part of the values of B has been ended by A. The saving over a join that knows none.

    >>> ended_part(ended_rate=1, elapsed=10, values=40)
    0.25
    """
    if ended_rate == 0:
        return 0.0
    return min(1.0, ended_rate * elapsed / values) if values else 1.0
