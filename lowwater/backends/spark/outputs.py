"""Outputs of a query: what takes the rows of a micro-batch, and the values of `results=` and `late=` that open one.

A micro-batch can be repeated after a failure: its rows were written, but Spark has not committed it. An output must not
hold them twice then. It gets the number of the micro-batch and an id that its checkpoint and its place in start() give,
and the same rows again.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from pyspark.sql import DataFrame, SparkSession


class Output(Protocol):
    """An output of a running query. A directory (directory.py) is one, too."""

    def take(self) -> None:
        """Spark has started the query: makes the output this query's own."""

    def begin(self, batch: int) -> None:
        """A micro-batch begins."""

    def write(self, rows: DataFrame, batch: int) -> None:
        """Writes the rows of a micro-batch, so that they are there once after this call, also if it is repeated."""


class Plain(Output):
    """An output that belongs to nobody and needs no preparation."""

    def take(self) -> None:
        pass

    def begin(self, batch: int) -> None:
        pass


@dataclass(frozen=True)
class Called(Plain):
    """A function of (DataFrame, batch id). To be exact is its own business."""

    function: Callable[[DataFrame, int], None]

    def write(self, rows: DataFrame, batch: int) -> None:
        self.function(rows, batch)


class Destination(ABC):
    """A value of `results=` or `late=`: where rows go. It knows no query."""

    @abstractmethod
    def check(self, spark: SparkSession) -> None:
        """Refuses what cannot work, before the query starts. Changes nothing."""

    @abstractmethod
    def opened(self, run: str, output: str) -> Output:
        """The output of one query. `run` identifies its checkpoint, and `output` is how start() names the output.

        It has no session: Spark Connect sends it to its server, where the micro-batches bring theirs.
        """
