"""What fails while queries run, as one sentence without secrets. A query that Spark fails has pages of stack traces."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from lowwater.errors import LowwaterError, sentence_in
from lowwater.language import Script, places_of

_PYTHON = re.compile(r"^(?:\w+\.)*(\w*(?:Error|Exception): .+)$", re.MULTILINE)
_FAILED = re.compile(r"^\[STREAM_FAILED\] Query \[.*?\] terminated with exception: ")


def cause_of(text: str) -> str:
    """The line of a failure that says what is wrong: that of lowwater, else that of Python, else the first one.

    >>> cause_of("Job aborted.\\nTraceback (most recent call last):\\n  File x\\nValueError: no such link\\n\\tat java")
    'ValueError: no such link'
    """
    ours = sentence_in(text)
    if ours is not None:
        return ours
    if "Traceback" in text:
        python = _PYTHON.findall(text[text.index("Traceback") :])
        if python:
            return str(python[0]).strip()
    lines = text.strip().splitlines()
    return _FAILED.sub("", lines[0]).strip() if lines else "it gave no reason"


def without_secrets(text: str, script: Script) -> str:
    """The text without the values of secrets in any OPTIONS of the script."""
    for options in places_of(script):
        text = options.hidden(text)
    return text


@contextmanager
def sentences(script: Script) -> Iterator[None]:
    """Raises what fails inside as a sentence: no stack trace, and no value of a secret of the script."""
    try:
        yield
    except LowwaterError as error:
        shown = without_secrets(str(error), script)
        if shown == str(error):
            raise
        raise LowwaterError(shown) from None
    except Exception as error:
        cause = without_secrets(cause_of(str(error)), script).rstrip(".")
        raise LowwaterError(f"The queries have failed: {cause}.") from None
