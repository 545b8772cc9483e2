"""Several queries as one: streams that more than one of them reads are read once.

Each keeps its own results, late rows and metrics, and is called by its name.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from lowwater.errors import LowwaterError
from lowwater.query.logical import Roots
from lowwater.relation import Relation
from lowwater.runnable import Planned


class Together(Planned):
    """Several queries that run as one, by their names; see `lowwater.together`."""

    def __init__(self, queries: Mapping[str, Relation]) -> None:
        node = Roots(tuple(one.node for one in queries.values()), tuple(queries))
        super().__init__(node, " + ".join(queries))

    @property
    def names(self) -> tuple[str, ...]:
        assert isinstance(self.node, Roots)
        return self.node.names

    def __repr__(self) -> str:
        return f"<Together {', '.join(self.names)}>"

    def collect(self, **options: Any) -> dict[str, pa.Table]:
        """All results of finite inputs: a table of each query by its name, sorted as by `collect()` of it alone."""
        found: dict[str, pa.Table] = self.node.backend.collect(self.node, **options)
        return found

    def start(
        self,
        *,
        checkpoint: str | None = None,
        results: Mapping[str, Any] | None = None,
        late: Mapping[str, Any] | bool | None = None,
        progress: Any = None,
        trigger: dict[str, Any] | None = None,
        shards: int | None = None,
        partitions: int | None = None,
        name: str | None = None,
        overwrite: bool | None = None,
    ) -> Any:
        """Starts all queries as one that keeps running, with one checkpoint.

        `results` has a sink for each query by its name, and `late` for those whose late rows are wanted. Everything
        else is as for `start()` of one query. Over tables, push(), result() and late_output() give a table per query.
        """
        for given, whole in ((results, True), (late, False)):
            if isinstance(given, Mapping):
                self._refuse_names(given, whole)
        none_late = isinstance(late, Mapping) and not late
        more = {"progress": progress, "trigger": trigger, "shards": shards, "partitions": partitions, "name": name}
        return self._start(
            checkpoint=checkpoint, results=results, late=None if none_late else late, overwrite=overwrite, **more
        )

    def _refuse_names(self, given: Mapping[str, Any], whole: bool) -> None:
        """Refuses a sink of no query, and with `whole` a query without a sink."""
        known = ", ".join(self.names)
        for name in given:
            if name not in self.names:
                raise LowwaterError(f"{name!r} is none of the queries that start() runs together: {known}.")
        for name in self.names if whole else ():
            if name not in given:
                raise LowwaterError(f"results= has no sink for the query {name!r}; give one for each of {known}.")


def several(queries: Mapping[str, Relation]) -> Together:
    """Several queries as one, by their names; refused if it is none, or if one is no query."""
    if len(queries) < 2:
        raise LowwaterError("together() takes two or more queries by their names, as in together(counts=a, longest=b).")
    for name, one in queries.items():
        if not isinstance(one, Relation):
            raise LowwaterError(f"{name}= of together() is a relation, not {type(one).__name__}.")
    return Together(queries)
