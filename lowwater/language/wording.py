"""Refusals in the words of the language: the verbs of the Python API name themselves and their arguments in theirs."""

from __future__ import annotations

import re

WORDS = {
    "group_by() without a window": "GROUP BY without a window",
    "or use window()": "or write a window, as in [RANGE 1 minute]",
    "unique() or ends()": "UNIQUE or ENDS in CREATE STREAM",
    "give join(within=)": "bound it by a condition on both times, or by [RANGE 1 minute] behind the inputs",
    "join(within=)": "the bound of a join on time",
    "emit(early=, allowed_lateness=)": "EMIT EARLY or ALLOWED LATENESS",
    "emit(flush=)": "EMIT FLUSH",
    "name one in over=": "name one behind WA",
    "stream(..., name=)": "AS",
    "stream(name=)": "AS",
    "named()": "AS",
    "give disorder='5 seconds', or lw.ordered(), lw.learned(), lw.delay_rows(), lw.punctuated()": (
        "write DISORDER 5 SECONDS, ORDERED, DISORDER LEARNED, DISORDER 100 ROWS or DISORDER PUNCTUATED"
    ),
    "give disorder=": "write DISORDER and a length",
    "disorder=": "DISORDER",
    "partition_by=": "PA",
    "group_by()": "GROUP BY",
    "in_order()": "ORDERED",
    "distinct()": "DISTINCT",
    "select()": "SELECT",
    "with_column()": "SELECT",
    "where()": "WHERE",
    "union()": "UNION",
    "window()": "a window",
    "session()": "a session",
    "join()": "the join",
    "ends()": "ENDS",
    "unique()": "UNIQUE",
    "origin=": "ORIGIN",
    "window(range='all', ...)": "[RANGE ALL, SLIDE 1 minute]",
    "period=": "PERIOD",
    "within=": "the bound on time",
}
"""Words of the Python API, longer ones before their parts, and the words of the language for them."""
_WORDS = re.compile("|".join(re.escape(word) for word in WORDS))


def reworded(sentence: str) -> str:
    """The sentence of a refusal as a query needs it.

    >>> reworded("select() must keep 'ts', on which the stream progresses.")
    "SELECT must keep 'ts', on which the stream progresses."
    """
    found = _WORDS.sub(lambda word: WORDS[word[0]], sentence)
    return found[:1].upper() + found[1:] if _WORDS.match(sentence) else found
