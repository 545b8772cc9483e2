"""Refusals. Each message is one sentence with the problem and the next step."""

from __future__ import annotations

import re

_OURS = re.compile(r"^lowwater\.errors\.\w+: (.+)$", re.MULTILINE)


def sentence_in(text: str) -> str | None:
    """The sentence of lowwater in a stack trace of Python, if there is one: a worker's errors arrive as text.

    >>> sentence_in("Traceback (most recent call last):\\n  File x\\nlowwater.errors.BadWindow: No; yes.\\n\\tat java")
    'No; yes.'
    """
    found = _OURS.search(text)
    return None if found is None else found[1].strip()


class LowwaterError(ValueError):
    """Base of all refusals of lowwater."""


class UnknownColumn(LowwaterError):
    """A column was named that the stream does not have."""

    def __init__(self, column: str, known: list[str], where: str) -> None:
        super().__init__(f"{where} names column {column!r}, but the stream has only: {', '.join(known)}.")


class BadWindow(LowwaterError):
    """A window specification that defines no windows, or in the wrong unit."""


class BadProgress(LowwaterError):
    """The progressing attribute is missing, of a type without order, or the policy does not fit."""


class BadAggregate(LowwaterError):
    """An aggregate that does not fit its column, its window kind or its strategy."""


class CheckpointMismatch(LowwaterError):
    """State in the checkpoint belongs to another query or another number of shards."""


class NeedsConfiguration(LowwaterError):
    """The Spark session lacks something that lowwater cannot set by itself."""
