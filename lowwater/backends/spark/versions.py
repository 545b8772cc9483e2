"""Spark 4.0 to 4.3: all that lowwater does differently from version to version.

    to_arrow_schema    takes a time zone since 4.2; before, timestamps are in UTC without being asked
    from_arrow_schema  keeps timestamps without a time zone since 4.2; before, only if it is asked to
    applyInArrow       takes a function of iterators since 4.1; before, one of whole tables. Before 4.2 it counts the
                       parameters, so that a method is none
    repartition        of the checkpoint of a stopped query, since 4.2; before, `rescale` is refused
    Spark Connect      has transformWithState since 4.1; before, streams are refused there
    read.json          takes a DataFrame of texts since 4.2; before, Spark Connect infers no columns from texts
    protobuf           each version asks for its own oldest one, and pip knows nothing of it

Everything else that lowwater uses is the same in all of them. `make versions` tries each.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pyarrow as pa
import pyspark
from pyspark.sql import DataFrame, DataFrameReader, GroupedData, SparkSession
from pyspark.sql.pandas import types
from pyspark.sql.types import StructType
from pyspark.util import PythonEvalType

from lowwater.backends.spark.connect import is_connect
from lowwater.backends.spark.oldest import minor_of, refuse_older
from lowwater.errors import NeedsConfiguration
from lowwater.extras import needs

STREAMS_ON_CONNECT = (4, 1)

ByShard = Callable[[tuple[pa.Scalar, ...], Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]

_TIMEZONE = "timezone" in inspect.signature(types.to_arrow_schema).parameters
_JSON_IN_FRAMES = "DataFrame" in str(inspect.signature(DataFrameReader.json).parameters["path"])
_ITERATORS = hasattr(PythonEvalType, "SQL_GROUPED_MAP_ARROW_ITER_UDF")


def check(spark: SparkSession, streaming: bool) -> None:
    """Refuses a session in which no query of lowwater can run, or no streaming one."""
    refuse_older(str(spark.version))
    with needs("A streaming query on Spark"):
        refuse_protobuf(lambda: __import__("pyspark.sql.streaming.proto.StateMessage_pb2"))
    if streaming and is_connect(spark):
        refuse_stateless(pyspark.__version__, str(spark.version))


def refuse_stateless(client: str, server: str) -> None:
    """Refuses a Spark Connect without transformWithState, in the client or in the server."""
    oldest = min(client, server, key=minor_of)
    if minor_of(oldest) < STREAMS_ON_CONNECT:
        raise NeedsConfiguration(
            f"A stream on Spark Connect needs Spark 4.1 or newer, and this is Spark {oldest}; use a classic session, "
            "or a finite DataFrame."
        )


def refuse_protobuf(imported: Callable[[], object]) -> None:
    """Refuses a protobuf that the messages of Spark's state were not made for."""
    try:
        imported()
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("google"):
            raise
        # A vendor's Spark keeps its messages elsewhere, and brings the protobuf for them.
    except Exception as error:  # protobuf's own VersionError, which other versions of it do not have
        first = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise NeedsConfiguration(
            f"Spark's state does not work with the protobuf that is installed ({first}); run "
            "pip install --upgrade 'protobuf>=6.33.5,<8'."
        ) from error


def arrow_schema(schema: StructType) -> pa.Schema:
    """A schema of Spark in Arrow, timestamps in UTC."""
    zone: dict[str, Any] = {"timezone": "UTC"} if _TIMEZONE else {}
    return types.to_arrow_schema(schema, **zone)


def spark_schema(schema: pa.Schema) -> StructType:
    """A schema of Arrow in Spark."""
    return types.from_arrow_schema(schema, prefer_timestamp_ntz=True)


def applied_by_shard(groups: GroupedData, run: ByShard, schema: str | StructType) -> DataFrame:
    """`run` over each group of a batch DataFrame."""
    return groups.applyInArrow(of_batches(run) if _ITERATORS else of_tables(run), schema)


def of_batches(run: ByShard) -> ByShard:
    """The same as a function, whose hints Spark reads: by them it knows that it takes an iterator."""

    def batched(key: tuple[pa.Scalar, ...], rows: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return run(key, rows)

    return batched


def of_tables(run: ByShard) -> Callable[[tuple[pa.Scalar, ...], pa.Table], pa.Table]:
    """The same for whole tables."""

    def whole(key: tuple[pa.Scalar, ...], rows: pa.Table) -> pa.Table:
        made = list(run(key, iter(rows.to_batches())))
        return pa.Table.from_batches(made) if made else pa.table({})

    return whole


def json_schema(spark: SparkSession, texts: Sequence[str], **options: Any) -> StructType:
    """The columns of some values, as Spark infers them from JSON."""
    reader: Any = spark.read.options(**options)
    if not is_connect(spark):
        found: StructType = reader.json(spark.sparkContext.parallelize(texts, 1)).schema
        return found
    if not _JSON_IN_FRAMES:
        raise NeedsConfiguration(
            f"Spark {pyspark.__version__} cannot infer columns from JSON on Spark Connect; give the schema of the "
            "values, or use Spark 4.2 or newer."
        )
    found = reader.json(spark.createDataFrame([(text,) for text in texts], "value string")).schema
    return found


def repartition(spark: SparkSession) -> Callable[[str, int], None]:
    """Spark's own offline repartition of a checkpoint."""
    manager: Any = getattr(spark, "_streamingCheckpointManager", None)
    if manager is None:
        raise NeedsConfiguration(
            "Rescaling needs Spark 4.2 or newer, which can repartition a checkpoint offline; "
            f"this is Spark {spark.version}."
        )
    moved: Callable[[str, int], None] = manager.repartition
    return moved
