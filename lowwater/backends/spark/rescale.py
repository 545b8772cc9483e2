"""Rescaling: a stopped query goes on with another number of partitions, with all its state and its place in the input.

The number of shards is the largest parallelism and fixed with the first start, as Flink's key groups are. The number of
partitions is how many shards run at once. Spark repartitions the state of a stopped query itself; shard i lies in
partition i mod P for every P (sharding.py), so whole shards move and nothing in them changes.
"""

from __future__ import annotations

from pyspark.sql import SparkSession

from lowwater.backends.spark import versions
from lowwater.backends.spark.checkpoint import Checkpoint
from lowwater.backends.spark.connect import refuse_connect
from lowwater.errors import LowwaterError

REASONS = {
    "SHUFFLE_PARTITIONS_ALREADY_MATCH": "it has that number already; nothing was changed",
    "NO_COMMITTED_BATCH": "it has no committed micro-batch yet; start the query once and let it finish a batch",
    "LAST_BATCH_FAILED": (
        "its last micro-batch was not committed; start the query with trigger={'availableNow': True}, let it end, and "
        "rescale then"
    ),
    "LAST_BATCH_ABANDONED_REPARTITION": (
        "an earlier rescale to another number was interrupted; repeat that one with the same number first"
    ),
}
"""What Spark refuses, by the name of its error."""


def rescale(spark: SparkSession, checkpoint: str, partitions: int) -> None:
    """Moves the state of a stopped query to another number of partitions.

    If it is interrupted, repeat it with the same number: until then the query cannot be started.
    """
    instead = "stop the query and rescale it there, or by `lowwater rescale` where the checkpoint is in reach"
    refuse_connect(spark, "rescale()", instead)
    from py4j.protocol import Py4JJavaError  # a client of Spark Connect alone does not have it

    place = Checkpoint(spark, checkpoint)
    shards = place.shards()
    if shards is None:
        raise LowwaterError(f"{checkpoint} is not the checkpoint of a lowwater query; name the directory of start().")
    if not 1 <= partitions <= shards:
        raise LowwaterError(
            f"partitions={partitions} is out of range: the query has {shards} shards, so it runs on 1 to {shards} "
            "partitions; more need a new checkpoint with more shards."
        )
    _refuse_running(spark, place)
    repartition = versions.repartition(spark)
    try:
        repartition(checkpoint, partitions)
    except Py4JJavaError as error:
        text = str(error)
        reason = next((why for name, why in REASONS.items() if name in text), None)
        if reason is None:
            raise
        raise LowwaterError(f"The query of {checkpoint} cannot be rescaled to {partitions}: {reason}.") from error


def _refuse_running(spark: SparkSession, checkpoint: Checkpoint) -> None:
    """Spark would not notice that the query runs, and the query would fail at its next micro-batch."""
    for query in spark.streams.active:
        root = str(query._jsq.streamingQuery().resolvedCheckpointRoot()).rstrip("/")
        if root == checkpoint.files.qualified:
            raise LowwaterError(f"The query of {checkpoint.directory} is running; stop it before it is rescaled.")
