"""The checkpoint directory of a query: whose it is, the plan that is pinned in it, and what the driver keeps there.

    lowwater/query.json     the meaning of the query, its shards, the pinned choices, and an id of the checkpoint
    lowwater/control/       commands to the query, one file each, read as a stream
    lowwater/clock          there once the query has a heartbeat among its sources
    lowwater/starts.json    the micro-batches at which the last starts began
    lowwater/metrics-0, -1  metrics of the last two micro-batches
    lowwater/finished       there once `finish()` has ended the query

Any file system that Spark can reach will do.
"""

from __future__ import annotations

import json
import uuid
from typing import Any

from pyspark.sql import SparkSession

from lowwater.backends.spark.reach import files_of
from lowwater.errors import CheckpointMismatch
from lowwater.plan.meaning import FORMAT, check_meaning
from lowwater.runtime.inputs import check_fingerprint

_OWNER, _FINISHED, _CLOCK = "lowwater/query.json", "lowwater/finished", "lowwater/clock"
_CONTROL, _STARTS, _METRICS = "lowwater/control", "lowwater/starts.json", "lowwater/metrics-"


class Checkpoint:
    """The checkpoint directory. See the module text."""

    def __init__(self, spark: SparkSession, directory: str) -> None:
        self.files = files_of(spark, directory)
        self.directory = self.files.directory
        self.control = self.files / _CONTROL
        stored = self.files.read(_OWNER)
        self._stored: dict[str, Any] | None = None if stored is None else json.loads(stored)
        if self._stored is not None and self._stored.get("format") != FORMAT:
            raise CheckpointMismatch(
                f"{self.directory} was written by another version of lowwater, in format "
                f"{self._stored.get('format', 1)} and not {FORMAT}; use that version or a new checkpoint directory."
            )
        self.id: str = uuid.uuid4().hex if self._stored is None else self._stored["id"]
        """Identifies the checkpoint wherever it is moved to. Its outputs carry it."""
        self.query = ""

    @property
    def known(self) -> bool:
        """Whether it was made by a query of lowwater."""
        return self._stored is not None

    @property
    def run(self) -> str:
        """The id as names of files carry it."""
        return self.id[:8]

    def shards(self) -> int | None:
        """The number of shards that the checkpoint was made with."""
        return None if self._stored is None else int(self._stored["shards"])

    def pinned(self) -> dict[str, Any] | None:
        """The choices of the plan that the checkpoint was made with."""
        return None if self._stored is None else self._stored["plan"]

    @property
    def names(self) -> list[str]:
        """The names of its queries, if it is of several that run together."""
        return [] if self._stored is None else list(json.loads(self._stored["meaning"]).get("names", []))

    def check_meaning(self, meaning: str) -> None:
        """Refuses a query with another meaning."""
        if self._stored is not None:
            check_meaning(self._stored["meaning"], meaning)

    def check(self, fingerprint: dict[str, Any]) -> None:
        """Refuses the checkpoint of another query, or of one that was finished. Changes nothing."""
        self.check_meaning(fingerprint["meaning"])
        if self._stored is not None:
            check_fingerprint(self._stored, fingerprint)
            if self.done:
                raise CheckpointMismatch(
                    f"The query of {self.directory} was finished, and all its windows are answered; "
                    "use a new checkpoint directory for what comes after."
                )
        elif self.files.exists("offsets"):
            raise CheckpointMismatch(
                f"{self.directory} is the checkpoint of another Spark query; give start() a directory of its own."
            )

    def claim(self, fingerprint: dict[str, Any], query: str, clock: bool) -> None:
        """Writes down whose checkpoint this is, if it is new. `clock` adds a heartbeat, which then stays."""
        self.query = query
        if self._stored is None:
            self._stored = {"format": FORMAT, "id": self.id, **fingerprint}
            self.files.make(_CONTROL)
            self.files.write(_OWNER, json.dumps(self._stored))
        if clock and not self.clock:
            self.files.write(_CLOCK, "")

    @property
    def clock(self) -> bool:
        return self.files.exists(_CLOCK)

    # -- the end ---------------------------------------------------------------------------------------------------

    def end(self) -> None:
        """The command that ends all inputs."""
        self.files.write(f"{_CONTROL}/{uuid.uuid4().hex}.txt", "end")

    @property
    def ending(self) -> bool:
        """Whether the command has been given."""
        return any(not name.startswith((".", "_")) for name in self.files.names(_CONTROL))

    def finished(self) -> None:
        self.files.write(_FINISHED, "")

    @property
    def done(self) -> bool:
        """Whether the query was finished, and all its windows are answered."""
        return self.files.exists(_FINISHED)

    # -- micro-batches ---------------------------------------------------------------------------------------------

    def starts(self) -> tuple[int, ...]:
        """The first micro-batches of the start that is to come and of the one before it, and writes them down.

        Spark plans a micro-batch, runs it and commits it. One that was planned and not committed is repeated by the
        next start, as it was: it belongs to the start that planned it. A start begins with what it plans itself.
        """
        first = 1 + max(self._numbers("offsets"), default=-1)
        stored = json.loads(self.files.read(_STARTS) or "[]")
        starts = (*[start for start in stored if start < first][-1:], first)
        if list(starts) != stored:
            self.files.write(_STARTS, json.dumps(starts))
        return starts

    def remember(self, batch: int, observed: str) -> None:
        """Keeps the metrics of a micro-batch that is about to be committed, beside those of the one before it."""
        self.files.write(f"{_METRICS}{batch % 2}", f'{{"batch": {batch}, "observed": {observed}}}')

    def remembered(self) -> dict[str, Any] | None:
        """The metrics of the last micro-batch that was committed. A rescale commits one, too, which has none."""
        texts = [self.files.read(f"{_METRICS}{slot}") for slot in (0, 1)]
        known = {found["batch"]: found["observed"] for text in texts if text for found in [json.loads(text)]}
        committed = max(self._numbers("commits"), default=-1)
        return known.get(max((batch for batch in known if batch <= committed), default=-1))

    def _numbers(self, log: str) -> list[int]:
        """The micro-batches in one of Spark's logs."""
        return [int(name) for name in self.files.names(log) if name.isdigit()]
