"""Queries killed by SIGKILL in the middle of a batch, in a process of their own.

All but the last stand in the middle of batch 2 when they are killed: state is computed and results are written, but the
batch is not committed. The last has just begun to write results of batch 2. Whoever starts them again must get all of
it once.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Sequence
from pathlib import Path

from tests.spark.answers import child
from tests.spark.joins import BEYOND

WINDOWS = ["sliding", "partitioned by time", "by ranks", "session", "slow flush"]
JOINS = ["full", "n-way", "oblivious", "oblivious, sorted and aside", BEYOND, "auction"]
"""The kinds of windows and of joins that test_killed.py kills, so that no other test need restart them."""

PROGRAM = """
import sys, threading
from importlib import import_module
from pathlib import Path
from lowwater.backends.spark.directory import OutputDirectory
from tests.spark.small import session

place, module, *kinds = sys.argv[1:]
asked = import_module(module).asked
into = getattr(import_module(module), "into", lambda kind, directory: directory)
spark = session(memory="1g", killed=True)
*standing, writing = kinds


def begin(directory, batch, begin=OutputDirectory.begin):
    begin(directory, batch)
    if batch == 2 and Path(directory.files.directory).parent.name == writing:
        print("in the middle of", writing, flush=True)


OutputDirectory.begin = begin
for kind in kinds:  # the next one starts when this one stands
    reached = threading.Event()

    def stand(rows, batch, kind=kind, reached=reached):
        if batch == 2 and kind in standing:
            print("in the middle of", kind, flush=True)
            reached.set()
            threading.Event().wait()

    own = Path(place) / kind
    query = asked(spark, kind, Path(place)).start(
        checkpoint=str(own / "checkpoint"),
        results=into(kind, str(own / "out")),
        progress=stand,
        trigger={"availableNow": True},
    )
    while kind in standing and not reached.wait(1):
        if query.spark.exception() is not None:  # it will never stand: end, so that the test fails
            raise query.spark.exception()
sys.stdin.read()
"""


def kill(module: str, kinds: Sequence[str], place: Path) -> None:
    """Starts the queries that `asked(spark, kind, place)` of a module gives, and kills them with their JVM and workers.

    Checkpoint and results of each are in a directory of its name. `into(kind, directory)`, if the module has it, is
    what start() gets as results.
    """
    running = child(PROGRAM, str(place), module, *kinds)
    assert running.stdout is not None
    said: set[str] = set()
    for line in iter(running.stdout.readline, ""):
        said.add(line.removeprefix("in the middle of ").strip())
        if said >= set(kinds):
            break
    os.killpg(running.pid, signal.SIGKILL)
    running.wait()
    assert said >= set(kinds), "the child ended before all queries were in batch 2"
    for kind in kinds[:-1]:
        commits = list((place / kind / "checkpoint" / "commits").glob("[0-9]*"))
        assert len(commits) == 2, "batches 0 and 1, and not batch 2"
        assert any((place / kind / "out" / "lw_batch=00000002").glob("*.parquet")), "written, but not committed"
