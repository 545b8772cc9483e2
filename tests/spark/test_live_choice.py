"""The live choice on Spark: shards choose AdaptWID and leave it, over a restart, with the answers of partials."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
import pytest

import lowwater as lw
from tests.spark.answers import streaming, write_part
from tests.test_live_choice import SECOND, changing, query

pytestmark = pytest.mark.spark
SLIDE = 10 * SECOND
FILES = 9


def test_shards_choose_and_leave_adaptwid_over_a_restart(spark: Any, tmp_path: Path) -> None:
    """Nine files, one per micro-batch: three of dense groups, three of sparse ones, and three of dense ones again."""
    rows = changing(9000)
    source = tmp_path / "in"
    source.mkdir()
    read = streaming(spark, source, "ts long, k long, v long")

    def ran(files: range) -> lw.Metrics:
        for i in files:
            write_part(rows.slice(i * 3000, 3000), source, i)
        stream = lw.stream(read, name="rows", progress="ts", disorder=SECOND)
        asked = stream.window(30 * SECOND, SLIDE).group_by("k").agg(n=lw.count(), total=lw.sum("v"))
        running = asked.start(
            checkpoint=str(tmp_path / "checkpoint"),
            results=str(tmp_path / "out"),
            trigger={"availableNow": True},
            shards=2,
        )
        running.await_termination()
        if files.stop == FILES:
            running.finish()
        return running.metrics()

    sparse, dense = ran(range(6)), ran(range(6, FILES))
    assert (sparse.operators[0].adaptive_shards, sparse.operators[0].switches) == (2, 2)
    assert (dense.operators[0].adaptive_shards, dense.operators[0].switches) == (0, 4)
    expected = query(rows, SLIDE, "panes").collect()
    found: pa.Table = ds.dataset(tmp_path / "out", format="parquet").to_table(columns=expected.column_names)
    order = [("wid", "ascending"), ("k", "ascending")]
    assert found.sort_by(order).equals(expected.cast(found.schema).sort_by(order))
