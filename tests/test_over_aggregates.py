"""Every aggregate of the API over every frame of OVER windows, against extents of windows/over.py and the oracle.

Seeded rows with ties, nulls and null keys, delayed within the policy, cut into batches and taken through restarts.
"""

from __future__ import annotations

import random
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import lowwater as lw
from lowwater.windows.over import Over
from lowwater.windows.spec import Tuples
from tests.compare import same
from tests.oracle import aggregate
from tests.scenarios import AGGREGATES, FIELDS, HOLISTIC

SCHEMA = pa.schema([("id", pa.int64()), ("ts", pa.int64()), *FIELDS])
FRAMES = {
    "3 rows before": Over("rows", 3, 0),
    "rows around": Over("rows", 2, 2),
    "time around": Over("range", 6, 4),
    "all rows": Over("rows", None, 1),
    "all time": Over("range", None, 0),
}
PAIRS = [
    (frame, name)
    for frame, over in FRAMES.items()
    for name in AGGREGATES
    if over.preceding is not None or name not in HOLISTIC
]


def arriving(seed: int) -> list[dict[str, Any]]:
    """Rows in arrival order, delayed by at most 5 ticks."""
    draw = random.Random(seed)
    rows = []
    for id in range(40):
        value = draw.randint(-40, 40)
        row = dict.fromkeys(name for name, _ in FIELDS) | {"id": id, "ts": draw.randint(0, 60)}
        row |= {"text": draw.choice(["a", "b", None]), "w": draw.choice(["", "a", "ab", None])}
        if draw.random() < 0.85:
            row |= {"i": value, "x": value / 4, "d": Decimal(value).scaleb(-2)}
        rows.append(row)
    return sorted(rows, key=lambda row: row["ts"] + draw.randint(0, 5))


@pytest.mark.parametrize(("frame", "name"), PAIRS)
def test_over_is_the_definition(frame: str, name: str) -> None:
    over, rows = FRAMES[frame], arriving(seed=len(name))
    stream = lw.stream(SCHEMA.empty_table(), name="rows", progress="ts", disorder=5)
    reach = {over.frame: (over.preceding, over.following)}
    query = stream.over("text", **reach).agg(answer=AGGREGATES[name][0]).start(shards=2)
    for at in range(0, len(rows), 7):
        query.push(rows[at : at + 7])
        query.restart()
    query.finish()
    groups = [("", "a", "b").index(row["text"] or "") for row in rows]
    tuples = Tuples(np.array([row["ts"] for row in rows]), np.array(groups))
    expected = {}
    for position, at in enumerate(over.windows(tuples).tolist()):
        inside = [row for row, is_in in zip(rows, over.extent(position, tuples), strict=True) if is_in]
        expected[rows[at]["id"]] = aggregate(inside, "ts", AGGREGATES[name][1])
    got = {row["id"]: row["answer"] for row in query.result().to_pylist()}
    assert got.keys() == expected.keys()
    wrong = {id: (got[id], expected[id]) for id in got if not same(got[id], expected[id])}
    assert not wrong
    assert (query.metrics().late_rows, query.metrics().state_rows) == (0, 0)
