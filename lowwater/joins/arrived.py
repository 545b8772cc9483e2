"""Rows of one input of a join, as they arrive at a shard: sorted by key and position, rows without a key apart."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from lowwater.joins.keyed import Keyed
from lowwater.joins.spec import WindowJoin
from lowwater.model.columns import whole
from lowwater.model.ticks import checked
from lowwater.operators.base import Payload


@dataclass(frozen=True)
class Arrived(Payload):
    """A batch in the layout of ingest: rows sorted by (code, position), and rows with a null key.

    `broken` are the rows that ingest found to come after the end of their own value. They are late.
    """

    keyed: Keyed
    nulls: pa.Table | None = None
    broken: pa.Table | None = None


def arrange(what: WindowJoin, port: int, rows: pa.Table) -> Arrived:
    """Rows of one input in the layout that the join takes, for a single shard."""
    (keyed,), nulls = laid_out(what, port, rows, 1)
    return Arrived(keyed, nulls)


def laid_out(what: WindowJoin, port: int, rows: pa.Table, shards: int) -> tuple[list[Keyed], pa.Table | None]:
    """Rows of one input, laid out per shard, and the rows with a null key. If nulls match, none are set apart."""
    side = what.sides[port]
    nulls = None
    keys = [rows.column(name) for name in side.on]
    if not what.null_safe and any(key.null_count for key in keys):
        missing = np.zeros(rows.num_rows, np.bool_)
        for key in keys:
            missing |= np.asarray(whole(key).is_null().to_numpy(zero_copy_only=False))
        nulls, rows = rows.filter(pa.array(missing)), rows.filter(pa.array(~missing))
    time = checked(side.ticks.encode(whole(rows.column(side.time))), side.time)
    at, of_row = what.axis.positions(time)
    if of_row is not None:
        rows = rows.take(pa.array(of_row))
    return Keyed.by_shard(rows, side.on, at, shards), nulls
