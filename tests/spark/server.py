"""A Spark Connect server in a process group of its own, for tests that are clients of it.

A process can have a classic session or sessions of Spark Connect, not both. So tests on Spark Connect run in processes
of their own, which find the server's address in LOWWATER_REMOTE.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests.spark import quick

REMOTE = "LOWWATER_REMOTE"
ROOT = Path(__file__).parents[2]


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def environment(**more: str) -> dict[str, str]:
    return os.environ | {"PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"} | more


@contextmanager
def connect_server(place: Path, master: str = "local[2]", **settings: str) -> Iterator[str]:
    """The address of a server; it is killed at the end, with its workers. Its log is in `place`.

    Its workers have directories of their own, so they find the tests, whose functions they run, by the PYTHONPATH.
    Spark waits ten seconds for the worker of foreachBatch, which imports most of PySpark: from the zip file that can be
    too short on a busy machine.
    """
    from tests.spark.small import CHEAP, INTERPRETED, SETTINGS, WARM

    port = free_port()
    own = {
        "spark.master": master,
        "spark.connect.grpc.binding.port": str(port),
        "spark.connect.grpc.binding.address": "127.0.0.1",
        **CHEAP,
        **INTERPRETED,
        **WARM,
        "spark.sql.warehouse.dir": str(place / "warehouse"),
    }
    command = [f"{quick.home()}/bin/spark-submit", "--driver-memory", "2g"]
    command += ["--class", "org.apache.spark.sql.connect.service.SparkConnectServer"]
    for name, value in (SETTINGS | own | settings).items():
        command += ["--conf", f"{name}={value}"]
    with (place / "server.log").open("w") as log:
        server = subprocess.Popen(
            command,
            cwd=ROOT,
            env=environment(PYTHONPATH=str(ROOT), SPARK_HOME=str(quick.HOME)),
            stdout=log,
            stderr=log,
            stdin=subprocess.DEVNULL,
            start_new_session=True,
        )
        try:
            yield f"sc://127.0.0.1:{port}"
        finally:
            os.killpg(server.pid, signal.SIGKILL)
            server.wait()


def client(remote: str, program: str, *arguments: str) -> subprocess.Popen[str]:
    """A program that is a client of a server, in a process group of its own."""
    return subprocess.Popen(
        [sys.executable, "-c", program, *arguments],
        cwd=ROOT,
        env=environment(**{REMOTE: remote}),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
        text=True,
    )


def run_tests(remote: str, tests: Sequence[str], *options: str) -> str:
    """Runs tests of tests/spark with a session of Spark Connect; what pytest has printed."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *options, *tests]
    done = subprocess.run(command, cwd=ROOT, env=environment(**{REMOTE: remote}), capture_output=True, text=True)
    said = done.stdout[-6000:] + done.stderr[-2000:]
    assert done.returncode == 0, said
    return said
