"""Formats that a Spark session lacks or cannot read as a stream, refused in one sentence."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TypeVar

from pyspark.sql import SparkSession

from lowwater.errors import LowwaterError
from lowwater.language import Sink
from lowwater.language.formats import READABLE, SINKS, WRITABLE

T = TypeVar("T")
ABSENT = re.compile(r"DATA_SOURCE_NOT_(FOUND|ENABLED)|Failed to find (the )?data source")
UNREAD = re.compile(r"does not support streamed reading|not a valid Spark SQL Data Source|user-specified schema")
RAISED = re.compile(r"^: *[\w.$]+?(?:Exception|Error): *", re.MULTILINE)
"""What py4j writes in front of the words of an error of the JVM."""


def reading(format: str, load: Callable[[], T]) -> T:
    """What `load` returns, or a refusal that names the format and the next step."""
    try:
        return load()
    except LowwaterError:
        raise
    except Exception as error:
        words = str(error)
        if ABSENT.search(words):
            raise _absent(format, f"read FROM {READABLE}") from None
        if UNREAD.search(words):
            raise LowwaterError(f"Spark cannot read {format!r} as it is asked to here; read FROM {READABLE}.") from None
        found = RAISED.search(words)
        if found is None:
            raise
        first = words[found.end() :].strip().splitlines()[0].rstrip(".")
        raise LowwaterError(f"Spark cannot read {format!r}: {first}; correct its OPTIONS.") from None


def writer(spark: SparkSession) -> Callable[[Sink], None]:
    """Refuses sinks whose format the session lacks."""

    def check(sink: Sink) -> None:
        if sink.format.lower() in SINKS:
            return
        try:
            spark.read.format(sink.format).load()
        except Exception as error:  # other errors are about options, which the writer has words for
            if ABSENT.search(str(error)):
                raise _absent(sink.format, f"write INTO {WRITABLE}") from None

    return check


def _absent(format: str, instead: str) -> LowwaterError:
    return LowwaterError(
        f"This Spark has no format {format!r}; {instead}, or add the package of the format to Spark "
        "(spark.jars.packages)."
    )
