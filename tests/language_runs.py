"""Runs queries of the language in process, over streams with all their rows, and what the definitions say of them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa

import lowwater as lw
from lowwater.backends.local import LocalQuery
from lowwater.backends.opened import opened
from lowwater.language import bind, read
from lowwater.query.logical import Scan
from tests.tree_oracle import Arrived, endless, evaluate, unlike

QUERIES = Path(__file__).parent.parent / "examples" / "queries"


def query_of(path: Path) -> lw.Relation:
    """The one query of a file, over the streams that it declares."""
    (bound,) = bind(read(path.read_text(), path.name), {}, opened)
    return bound.relation


def tables_of(relation: lw.Relation) -> dict[str, pa.Table]:
    """The rows of each stream of a query, in arrival order."""
    return {n.input.name: n.frame.table for n in relation.node.walk() if isinstance(n, Scan)}


def batches(tables: dict[str, pa.Table], step: int) -> Iterator[tuple[str, int, pa.Table]]:
    """The rows in turns, so many of each stream at a time, with the number of the first row over all streams."""
    number = 0
    for at in range(0, max(table.num_rows for table in tables.values()), step):
        for name, table in tables.items():
            rows = table.slice(at, step)
            if rows.num_rows:
                yield name, number, rows
                number += rows.num_rows


def run(relation: lw.Relation, step: int = 37, shards: int = 2) -> LocalQuery:
    query = relation.start(shards=shards)
    for name, _, rows in batches(tables_of(relation), step):
        if name in {one.name for one in query.plan.inputs}:
            query.push(rows, name)
    query.finish()
    return query


def defined(relation: lw.Relation, step: int = 37) -> pa.Table:
    """The results by the definitions alone."""
    tables = tables_of(relation)
    order: dict[str, list[int]] = {name: [] for name in tables}
    for name, number, rows in batches(tables, step):
        order[name] += range(number, number + rows.num_rows)
    return evaluate(relation.node, {name: Arrived(table, order[name]) for name, table in tables.items()})


def wrong(relation: lw.Relation) -> str:
    """What is wrong with a run in process; the empty string if nothing is."""
    assert not endless(relation.node)
    return unlike(run(relation).result(), defined(relation))
