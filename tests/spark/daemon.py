"""The daemon that forks Python workers of the tests, with everything that a worker needs imported already.

Spark's own daemon imports nothing, because a user's modules may start threads, which a fork does not copy. So each new
worker spends about a second of processor time on pandas, Arrow, PySpark and lowwater, and the tests start hundreds of
workers. With one thread for linear algebra, the only thread that these modules start is that of Arrow's allocator,
which starts another one after a fork.
"""

from __future__ import annotations

import os

os.environ["OPENBLAS_NUM_THREADS"] = "1"

import pandas  # noqa: F401
import pyarrow.compute  # noqa: F401
import pyspark.worker  # noqa: F401
from pyspark.daemon import manager

import lowwater.backends.spark.host  # noqa: F401

if __name__ == "__main__":
    manager()
