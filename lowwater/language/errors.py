"""Errors of queries as text: the line and column, the line itself with a caret, and one sentence with the next step."""

from __future__ import annotations

import re
from typing import Any

from sqlglot import exp
from sqlglot.errors import ParseError, TokenError

from lowwater.errors import LowwaterError
from lowwater.language.secrets import masked


class BadQuery(LowwaterError):
    """A query or a file of queries that cannot be read, or that asks for what cannot be planned."""

    def __init__(self, sentence: str, text: str, start: int, file: str | None = None) -> None:
        self.sentence = sentence
        self.line, self.column, shown = place(text, start)
        shown = masked(shown)
        where = f"{file}, line" if file else "Line"
        caret = " " * (len(shown[: self.column - 1].expandtabs(4))) + "^"
        super().__init__(
            f"{where} {self.line}, column {self.column}: {sentence}\n    {shown.expandtabs(4)}\n    {caret}"
        )


def place(text: str, start: int) -> tuple[int, int, str]:
    """The line and the column, both from 1, and the line of an offset in a text."""
    start = max(0, min(start, len(text)))
    begin = text.rfind("\n", 0, start) + 1
    end = text.find("\n", begin)
    return text.count("\n", 0, start) + 1, start - begin + 1, text[begin : None if end < 0 else end].rstrip("\r")


_PIECE = re.compile(
    r"""--[^\n]*|/\*.*?(?:\*/|(?P<comment>\Z))|'(?:[^'\\]|\\.)*(?:'|(?P<single>\Z))|"(?:[^"\\]|\\.)*(?:"|(?P<double>\Z))"""
    r"""|`[^`]*(?:`|(?P<back>\Z))|.""",
    re.DOTALL,
)


def unclosed(text: str) -> int:
    """Where a quote or a comment begins that has no end; the end of the text if there is none.

    >>> unclosed("SELECT 'a' AS `b FROM c")
    14
    """
    found = (one for one in _PIECE.finditer(text) if any(end is not None for end in one.groups()))
    return next((one.start() for one in found), len(text.rstrip()))


def start_of(node: Any) -> int | None:
    """Where the text of a tree begins: the least offset of the names in it."""
    if not isinstance(node, exp.Expression):
        return None
    # sqlglot gives nodes that it adds itself the place 0, where the first word of a statement stands and no name
    found = [one.meta["start"] for one in node.walk() if one.meta.get("start")]
    return min(found) if found else None


def unread(error: ParseError | TokenError, text: str, offset: int, file: str | None) -> BadQuery:
    """The error of a text that sqlglot cannot read."""
    details = error.errors[0] if isinstance(error, ParseError) and error.errors else None
    if details is None:
        return BadQuery("The text cannot be read; close its quotes and comments.", text, offset, file)
    sentence = str(details.get("description") or "The text cannot be read").rstrip(".")
    if sentence.startswith("Required keyword"):
        sentence = "An operand is missing here"
    if sentence.startswith("Invalid expression / Unexpected token"):
        sentence = f"Cannot read {str(details.get('highlight')) or 'the text'!r} here"
    sentence = sentence.replace("Expecting", "Expected")
    at = len(str(details.get("start_context") or ""))
    line, col, highlight = details.get("line"), details.get("col"), str(details.get("highlight") or "")
    start = offset + _offset(text[offset:], int(line), int(col), len(highlight)) if line and col else offset + at
    return BadQuery(f"{sentence}; correct it, or see docs/language.md for the grammar.", text, start, file)


def _offset(text: str, line: int, col: int, length: int) -> int:
    """The offset of a token that ends at a line and a column, as sqlglot counts them."""
    lines = text.split("\n")
    begin = sum(len(one) + 1 for one in lines[: line - 1])
    return max(begin, begin + col - max(1, length))
