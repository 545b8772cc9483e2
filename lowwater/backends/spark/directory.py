"""A directory that an output goes to: whose it is, and how the files of a micro-batch appear in it.

    _lowwater.json            whose directory it is: a checkpoint, and which of its outputs
    .lw_batch=00000003/       files of a micro-batch that runs; hidden, so that readers skip it
    lw_batch=00000003/        files of a micro-batch that was written, and `_SUCCESS` behind them

A file appears by a rename, complete and under its final name. A repeated micro-batch finds the files of the attempt
before it. A file with the same bytes stays untouched, because a reader may have it open; one that differs is replaced,
and one that the micro-batch no longer has is removed. So the directory always holds what the state has committed to.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from lowwater.backends.spark.checkpoint import Checkpoint
from lowwater.backends.spark.reach import files_of
from lowwater.backends.spark.written import part_of, staging_of
from lowwater.errors import LowwaterError

MARKER = "_lowwater.json"
VERSION = 1
"""The version of the marker."""
SUCCESS = "_SUCCESS"
_PARTS = ("lw_batch=", ".lw_batch=")
_SPARKS_NAME = re.compile(r"(part-\d+)-[0-9a-f-]{36}(.*)")


class OutputDirectory:
    """One output of a query as a directory, on any file system that Spark can reach. See the module text."""

    def __init__(
        self, spark: SparkSession, output: str, directory: str, checkpoint: Checkpoint, overwrite: bool = False
    ) -> None:
        self.files = files_of(spark, directory)
        self.output = output
        self._checkpoint = checkpoint
        self._overwrite = overwrite

    # -- whose it is -----------------------------------------------------------------------------------------------

    def check(self) -> None:
        """Refuses a directory that rows of something else are in. Changes nothing."""
        owner, directory = self._owner(), self.files.directory
        if self._is_ours(owner):
            if owner["output"] != self.output:
                raise LowwaterError(
                    f"{directory} holds the output {owner['output']} of this query and cannot take {self.output}, too; "
                    "name the directories as in the last start."
                )
            return
        names = self.files.names()
        foreign = [name for name in names if not name.startswith((".", "_", *_PARTS))]
        if foreign:
            raise LowwaterError(
                f"{directory} has {foreign[0]!r} in it, which lowwater did not write, and a reader of {self.output} "
                "would read that, too; name another directory, or move it away."
            )
        if self._overwrite or not (owner or any(name.startswith(_PARTS) for name in names)):
            return
        whose = (
            f"belongs to another run: it holds the output {owner['output']} of the query over {owner['query']!r} "
            f"with the checkpoint {owner['checkpoint']}"
            if owner
            else f"holds micro-batches of a query, but no {MARKER} that names the query"
        )
        raise LowwaterError(
            f"{directory} {whose}; name another directory, or let start(overwrite=True) empty this one."
        )

    def take(self) -> None:
        """Makes the directory this query's own, and empties it if it was another's.

        The marker comes first. Until the end it has a note that the directory is being emptied, so that the next start
        goes on if this is interrupted. A directory that is this query's already stays as it is.
        """
        self.check()
        owner = self._owner()
        if self._is_ours(owner) and not owner["emptying"]:
            return
        others = [name for name in self.files.names() if name.startswith(_PARTS)]
        if others:
            self._mark(emptying=True)
            for name in others:
                self.files.delete(name)
        self._mark(emptying=False)

    def _owner(self) -> dict[str, Any]:
        """The content of the marker; nothing if there is none."""
        text = self.files.read(MARKER)
        return {} if text is None else json.loads(text)

    def _is_ours(self, owner: Mapping[str, Any]) -> bool:
        return bool(owner) and owner["id"] == self._checkpoint.id

    def _mark(self, emptying: bool) -> None:
        place = self._checkpoint
        marker = {
            "version": VERSION,
            "id": place.id,
            "checkpoint": place.directory,
            "query": place.query,
            "output": self.output,
            "emptying": emptying,
        }
        self.files.write(MARKER, json.dumps(marker))

    # -- micro-batches ---------------------------------------------------------------------------------------------

    def begin(self, batch: int) -> None:
        """Clears what an attempt before may have left, out of sight.

        A marker that is gone is written again: users may delete results that they have read.
        """
        owner = self._owner()
        if not owner:
            self._mark(emptying=False)
        self._refuse_taken_over(owner)
        self.files.delete(staging_of(batch))

    def _refuse_taken_over(self, owner: Mapping[str, Any]) -> None:
        if owner and not self._is_ours(owner):
            raise LowwaterError(
                f"{self.files.directory} was taken over by the query with the checkpoint {owner['checkpoint']} while "
                "this query was running; give each query a directory of its own."
            )

    def show(self, batch: int, written: Mapping[str, str]) -> None:
        """Moves files of a micro-batch to their place: just those that are named, with their final names."""
        self._refuse_taken_over(self._owner())  # once more: a micro-batch takes long, and the renames do not
        part, staging = part_of(batch), staging_of(batch)
        if not written.keys() <= set(self.files.names(staging)):
            raise LowwaterError(
                f"A task has written to {self.files / staging}, but its file is not there: {self.files.directory} must "
                "be a directory that all machines share; name one that is, or give start() a function."
            )
        there = self.files.names(part)
        shown = {name for name in there if not name.startswith((".", "_"))}
        new = {
            name: final
            for name, final in written.items()
            if final not in shown or not self.files.same(f"{staging}/{name}", f"{part}/{final}")
        }
        stale = sorted(shown - set(written.values()))
        if SUCCESS not in there or new or stale:
            if SUCCESS in there:
                self.files.delete(f"{part}/{SUCCESS}")
            self.files.make(part)
            for name, final in new.items():
                self.files.replace(f"{staging}/{name}", f"{part}/{final}")
            for name in stale:
                self.files.delete(f"{part}/{name}")
            self.files.write(f"{part}/{SUCCESS}", "")
        self.files.delete(staging)

    def write(self, rows: DataFrame, batch: int) -> None:
        """Writes rows by Spark's own writer, for file systems and types that Arrow does not take."""
        staging = staging_of(batch)
        rows.write.mode("overwrite").parquet(self.files / staging)
        names: Sequence[str] = [name for name in self.files.names(staging) if not name.startswith((".", "_"))]
        self.show(batch, {name: self._without_uuid(name) for name in names})

    def _without_uuid(self, name: str) -> str:
        """Spark puts an id of the job into the names of files, which is another one when the job is repeated."""
        found = _SPARKS_NAME.fullmatch(name)
        return name if found is None else f"{found[1]}-{self._checkpoint.run}{found[2]}"
