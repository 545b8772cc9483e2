"""Classic sessions and Spark Connect: what lowwater asks of a session and each kind answers in its own way.

A classic session lives in the driver: its JVM is reached through py4j, and files that the driver sees are seen here. A
session of Spark Connect is a client: it has no JVM, and the server may be on another machine. So answers are read from
the texts of plans, which both kinds print, and what concerns files of the server is run there, as an errand.
"""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, Row, SparkSession

from lowwater.errors import NeedsConfiguration

_SOURCE = re.compile(r"StreamingRelation (\w+)")
_SPLITS = re.compile(r"splits=(\d+)")
_SIZE = re.compile(r"Statistics\(sizeInBytes=([0-9.E+]+) (\w+)")
_UNITS = {unit: 1 << 10 * power for power, unit in enumerate(("B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"))}

_default_systems: dict[str, str] = {}


def is_connect(of: SparkSession | DataFrame) -> bool:
    """Whether a session, or a DataFrame of it, is of Spark Connect."""
    return ".connect." in type(of).__module__


def refuse_connect(spark: SparkSession, what: str, instead: str) -> None:
    """Refuses what only Spark's JVM can do."""
    if is_connect(spark):
        raise NeedsConfiguration(f"{what} needs a classic session, since Spark Connect offers no way to it; {instead}.")


def plan_text(df: DataFrame, mode: str = "simple") -> str:
    """What `df.explain(mode=)` prints."""
    given: Any = df
    if is_connect(df):
        return str(given._explain_string(mode=mode))
    return str(given.sparkSession._jvm.PythonSQLUtils.explainString(given._jdf.queryExecution(), mode))


def streaming_sources(df: DataFrame) -> list[str]:
    """The streaming sources that a DataFrame reads, as Spark names them: FileSource, rate, kafka, socket."""
    return sources_in(plan_text(df))


def sources_in(plan: str) -> list[str]:
    """
    >>> sources_in("Union\\n:- StreamingRelation FileSource[/in], [id#8L]\\n+- StreamingRelation rate, [value#12L]")
    ['FileSource', 'rate']
    """
    return _SOURCE.findall(plan)


def default_parallelism(spark: SparkSession) -> int:
    """Tasks that run at once: the number of partitions that Spark cuts a range into, where nobody asks for one."""
    found = _SPLITS.search(plan_text(spark.range(1)))
    return int(found[1]) if found else 0


def size_in_bytes(df: DataFrame) -> int | None:
    """About how many bytes a finite DataFrame has; None where Spark does not know."""
    size = size_in(plan_text(df, "cost"))
    return size if size is not None and size < 1 << 50 else None  # the largest number there is stands for unknown


def size_in(plan: str) -> int | None:
    """
    >>> size_in("Relation [id#16L] parquet, Statistics(sizeInBytes=1.5 KiB, rowCount=3)")
    1536
    """
    found = _SIZE.search(plan)
    return int(float(found[1]) * _UNITS[found[2]]) if found and found[2] in _UNITS else None


def qualified(spark: SparkSession, directory: str) -> str:
    """A directory with the scheme of its file system, as Spark writes it: `file:/data`, `s3a://bucket/data`."""
    if not is_connect(spark):
        jvm: Any = spark._jvm
        path = jvm.org.apache.hadoop.fs.Path(directory)
        return str(path.getFileSystem(spark._jsc.hadoopConfiguration()).makeQualified(path).toString())
    if re.match(r"[A-Za-z][A-Za-z0-9+.-]*:", directory):
        return re.sub("^file:/+", "file:/", directory)
    if not directory.startswith("/"):
        return _missing(spark, directory)
    session = str(spark.session_id)  # type: ignore[attr-defined]
    if session not in _default_systems:
        _default_systems[session] = _missing(spark, "/").removesuffix("/")
    return _default_systems[session] + directory


def _missing(spark: SparkSession, directory: str) -> str:
    """A directory as Spark writes it where it reports that a file in it is missing."""
    name = f"lowwater-{uuid.uuid4().hex}"
    try:
        spark.read.text(f"{directory.rstrip('/')}/{name}").schema  # noqa: B018  analyses it
    except AnalysisException as error:
        path = (error.getMessageParameters() or {}).get("path")
        if path is None:
            raise
        return path.removesuffix(name).rstrip("/") or "/"
    raise AssertionError("a file with a random name cannot be there")


def by_name(observed: Row) -> dict[str, Any]:
    """What a progress event has observed. On Spark Connect 4.3 the row comes as its values and its schema.

    >>> by_name(Row(rows=3, late_rows=None))
    {'rows': 3, 'late_rows': None}
    >>> by_name(Row(values=[3, None], schema={"type": "struct", "fields": [{"name": "rows"}, {"name": "late_rows"}]}))
    {'rows': 3, 'late_rows': None}
    """
    found = observed.asDict()
    if found.keys() == {"values", "schema"}:
        return dict(zip((field["name"] for field in found["schema"]["fields"]), found["values"], strict=True))
    return found


def errand(spark: SparkSession, function: Callable[..., Any], *arguments: Any) -> Any:
    """Calls a function where the files of the session are: here, or in a task of the server. It returns JSON values."""
    if not is_connect(spark):
        return function(*arguments)
    one = spark.range(0, 1, 1, 1).mapInArrow(Errand(function, arguments), "answer string")
    return json.loads(one.collect()[0].answer)


class Errand:
    """A call as a task makes it."""

    def __init__(self, function: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
        self._function, self._arguments = function, arguments

    def __call__(self, rows: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in rows:
            for _ in range(batch.num_rows):
                yield pa.RecordBatch.from_pydict({"answer": [json.dumps(self._function(*self._arguments))]})
