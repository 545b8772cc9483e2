"""What every relation can do with its query: plan it, explain it, run it, and show its results."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import pyarrow as pa

from lowwater.model.text import table_lines
from lowwater.plan.plan import Plan
from lowwater.query import planner, shown
from lowwater.query.analyzed import analyzed
from lowwater.query.described import describe
from lowwater.query.explain import explained
from lowwater.query.logical import Node


@dataclass(frozen=True, eq=False, repr=False)
class Planned:
    """A node of the logical tree under a name. Nothing is planned before it is asked for."""

    node: Node
    name: str

    @cached_property
    def planned(self) -> planner.Planned:
        return planner.plan(self.node)

    @property
    def plan(self) -> Plan:
        return self.planned.plan

    def _start(self, **options: Any) -> Any:
        """Starts the query with the options that are given."""
        return self.node.backend.start(self.node, **{key: one for key, one in options.items() if one is not None})

    def explain(self, format: str = "text", analyze: bool = False, seconds: float | None = None) -> str:
        """The plan: operators and stages, the reason for each choice, and an upper bound on the state.

        format   text, json, dot (for Graphviz) or svg (a picture)
        analyze  runs the query too; adds rows, late rows, time and state of each operator, and whether its bound held
        seconds  for how long a query over a stream runs then; by default until all rows that are there are read
        """
        found = planner.plan(self.node, late=False).plan
        described = describe(found)
        if analyze:
            described = analyzed(described, found, self.node.backend.analyze(self.node, seconds))
        return explained(described, format)


class Runnable(Planned):
    """A relation: what it shows, and how its results are asked for."""

    @property
    def schema(self) -> pa.Schema:
        return self.node.properties.visible

    @property
    def progress(self) -> str | None:
        """The attribute that windows are over by default."""
        return self.node.properties.attribute

    def collect(self, **options: Any) -> pa.Table:
        """All results of a finite input as an Arrow table, sorted by window and group, or of a join by time and key."""
        return self.node.backend.collect(self.node, **options)

    def head(self, rows: int = 5) -> pa.Table:
        """The first results of a finite input, in the order of `collect()`."""
        return self.collect().slice(0, rows)

    def show(self, rows: int = 20) -> None:
        """Prints the first results of a finite input as a table."""
        print("\n".join(table_lines(self.collect(), limit=rows)))

    def __repr__(self) -> str:
        return shown.line(self.name, self.node.properties)

    def _repr_html_(self) -> str:
        return shown.html(self.name, self.node.properties, self.explain())

    def to_spark(self, shards: int | None = None, metrics: str | None = None) -> Any:
        """The results as a (streaming) Spark DataFrame. `metrics` is their name in Spark's progress events."""
        options = {"shards": shards, "metrics": metrics}
        return self.node.backend.to_spark(self.node, **{name: one for name, one in options.items() if one is not None})

    def start(
        self,
        *,
        checkpoint: str | None = None,
        results: Any = None,
        late: Any = None,
        progress: Any = None,
        trigger: dict[str, Any] | None = None,
        shards: int | None = None,
        partitions: int | None = None,
        name: str | None = None,
        overwrite: bool | None = None,
    ) -> Any:
        """Starts a query that keeps running. A query over tables takes only `shards` and `late`, and rows by push().

        checkpoint  a directory in which Spark keeps the state and what was read; starting again there goes on
        results     a directory for parquet files, one of to_delta(), to_jdbc(), to_table() and to_kafka(), or a
                    function of (DataFrame, number of the micro-batch)
        late        the same for late rows; over tables False, so that they are only counted
        progress    the same for the progress of each source after each micro-batch
        trigger     as for DataStreamWriter.trigger, such as {"availableNow": True}
        shards      the largest parallelism; fixed with the first start
        partitions  how many shards run at once; `lowwater rescale` changes it later
        name        the name of the Spark query
        overwrite   whether a results directory of another checkpoint is emptied first
        """
        return self._start(
            checkpoint=checkpoint,
            results=results,
            late=late,
            progress=progress,
            trigger=trigger,
            shards=shards,
            partitions=partitions,
            name=name,
            overwrite=overwrite,
        )
