"""Results of one shard in one micro-batch leave it in pieces, however many bytes they have.

`LOWWATER_SOAK=1` runs the size at which one piece would fail, 3 GiB; `benchmarks/large_results.py` is the same program
and prints time and memory.
"""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import lowwater as lw
from benchmarks import large_results
from lowwater.backends.spark import host, messages
from lowwater.backends.spark.host import Mail, StageRun
from lowwater.backends.spark.messages import RESULT, Packet
from lowwater.joins import combinations
from lowwater.runtime.graph import Graph, Run
from lowwater.runtime.ingest import Ingest
from lowwater.state.segments import unpack

pytestmark = pytest.mark.spark

GIB = 1 << 30


def test_pairs_leave_a_shard_in_pieces_and_frames_hold_a_few_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """In this process, where the sizes can be lowered: 200,000 pairs of 16 bytes and more, a piece per 64 kB."""
    for module, name, size in (
        (combinations, "PIECE", 1 << 18),
        (host, "_BYTES", 1 << 16),
        (messages, "FRAME", 1 << 18),
    ):
        assert hasattr(module, name)
        monkeypatch.setattr(module, name, size)
    left, right = (pa.table({"ts": pa.array(range(n)), "key": [1] * n, "v": pa.array(range(n))}) for n in (1000, 200))
    streams = [lw.stream(t, name=name, progress="ts", disorder=0) for name, t in (("l", left), ("r", right))]
    plan = streams[0].join(streams[1], on="key", within=1000).plan
    mail = Mail()
    for number, table in enumerate((left, right)):
        entries = [e for e, entry in enumerate(plan.entries) if entry.frame == number]
        ((blob,),) = Ingest(plan, entries, 1, False).run(table.to_batches())
        mail.runs.append(Run.of(number, blob, plan))
    committed: list[int] = []
    emitted: list[int] = []
    graph = Graph(plan, 0)
    deliver = graph._emitted
    monkeypatch.setattr(graph, "_emitted", lambda of, message: (emitted.append(1), deliver(of, message)))
    packets = StageRun(plan, 0, 1, {}).packets(0, mail, graph, True, None, lambda: committed.append(1))
    sent: list[Packet] = list(packets)
    results = [packet for packet in sent if packet.kind == RESULT]
    assert committed == [1]
    assert len(emitted) > 10, "the join makes them piece by piece"
    assert all(unpack(packet.blob)["rows"].nbytes <= 1 << 16 for packet in results)
    rows = pa.concat_tables([unpack(packet.blob)["rows"] for packet in results])
    pairs = np.unique(rows["l_v"].to_numpy() * 1000 + rows["r_v"].to_numpy())
    assert (rows.num_rows, len(pairs)) == (200_000, 200_000)
    frames = list(messages.frames(sent))
    assert len(results) > 2 * len(frames) > 20, "a frame holds more than one piece, and not all"
    assert all(frame["blob"].map(len).sum() <= 1 << 18 for frame in frames)
    assert all(frame["blob"].map(len).max() <= messages.PIECE for frame in frames)
    pieces = messages.Pieces()
    arrived = [piece for frame in reversed(frames) for piece in messages.packets_in(frame)]  # in whatever order
    whole = [packet for piece in arrived if (packet := pieces.take(piece)) is not None]
    pieces.finish()
    assert sorted(packet.blob for packet in whole) == sorted(packet.blob for packet in sent)


def test_results_of_several_pieces_pass_through_to_spark(spark: SparkSession, tmp_path: Path) -> None:
    """96 MiB, three pieces of the size that the workers use."""
    large_results.write(tmp_path, large_results.LEFT, 24, large_results.TEXT)
    counted = large_results.run(spark, tmp_path)
    assert counted == [(large_results.LEFT * 24, 96 << 20)]


@pytest.mark.skipif("LOWWATER_SOAK" not in os.environ, reason="takes a minute: set LOWWATER_SOAK=1")
def test_three_gib_of_one_shard_pass_through_to_spark(spark: SparkSession, tmp_path: Path) -> None:
    right = 3 * GIB // (large_results.LEFT * large_results.TEXT)
    large_results.write(tmp_path, large_results.LEFT, right, large_results.TEXT)
    counted = large_results.run(spark, tmp_path)
    assert counted == [(large_results.LEFT * right, 3 * GIB)]
