"""Garbage collection in Spark's Python workers: it leaves out what a worker has imported.

A worker serves many tasks, one after the other. After each of them Spark's daemon collects garbage in it, before the
worker takes the next task. That collection visits every object of every module that is imported: 90,000 objects, about
50 ms. A micro-batch waits for it, because the workers of one stage serve the next one too. Objects of modules are never
garbage, so they are frozen once, and then a collection takes microseconds.
"""

from __future__ import annotations

import gc

from pyspark import TaskContext

_frozen = False


def freeze_modules() -> None:
    """Leaves all objects that this worker has now out of later collections. Does nothing outside a task of Spark."""
    global _frozen
    if _frozen or TaskContext.get() is None:
        return
    gc.collect()  # what is garbage now would stay
    gc.freeze()
    _frozen = True
