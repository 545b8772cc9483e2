"""A Kafka broker on loopback for tests and benchmarks: one process, started in an empty directory and stopped again."""

from __future__ import annotations

import os
import socket
import subprocess
import tempfile
import time
import uuid
from base64 import urlsafe_b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from benchmarks import jars
from lowwater.errors import NeedsConfiguration

_POLL = 0.1
"""Seconds between two attempts to connect."""
_MEMORY = "-Xmx512m"


@contextmanager
def broker() -> Iterator[str]:
    """The address of a broker that runs until the block ends. Its topics are gone afterwards."""
    files = os.pathsep.join(jars.BROKER.files)
    with tempfile.TemporaryDirectory(prefix="lowwater-kafka-", ignore_cleanup_errors=True) as work:
        place = Path(work)
        servers, settings = _settings(place)
        java = ["java", _MEMORY, "-XX:TieredStopAtLevel=1", "-cp", files]
        identity = urlsafe_b64encode(uuid.UUID(int=1).bytes).decode().rstrip("=")
        formatting = [*java, "kafka.tools.StorageTool", "format", "--cluster-id", identity, "--config", settings]
        done = subprocess.run(formatting, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        if done.returncode:
            raise NeedsConfiguration(f"Kafka could not make its directory: {done.stdout.strip()}")
        output = place / "output"
        with output.open("wb") as printed:
            process = subprocess.Popen([*java, "kafka.Kafka", settings], stdout=printed, stderr=subprocess.STDOUT)
        try:
            _wait_until_ready(process, servers, output)
            yield servers
        finally:
            process.kill()  # its directory goes with it, so that a clean end would gain nothing
            process.wait()


def create_topic(spark: SparkSession, servers: str, topic: str, partitions: int) -> None:
    """Creates a topic, by the client that Spark's connector brings."""
    jvm: Any = spark._jvm
    settings = jvm.java.util.Properties()
    settings.setProperty("bootstrap.servers", servers)
    admin = jvm.org.apache.kafka.clients.admin.AdminClient.create(settings)
    try:
        wanted = jvm.java.util.ArrayList()
        wanted.add(jvm.org.apache.kafka.clients.admin.NewTopic(topic, partitions, 1))
        admin.createTopics(wanted).all().get()
    finally:
        admin.close()


def _settings(place: Path) -> tuple[str, str]:
    """The address of the broker, and the file with its settings."""
    ports = _free_ports(2)
    servers = f"127.0.0.1:{ports[0]}"
    settings = {
        "process.roles": "broker,controller",
        "node.id": "1",
        "controller.quorum.voters": f"1@127.0.0.1:{ports[1]}",
        "listeners": f"PLAINTEXT://{servers},CONTROLLER://127.0.0.1:{ports[1]}",
        "advertised.listeners": f"PLAINTEXT://{servers}",
        "controller.listener.names": "CONTROLLER",
        "log.dirs": str(place / "log"),
        "offsets.topic.replication.factor": "1",
        "transaction.state.log.replication.factor": "1",
        "transaction.state.log.min.isr": "1",
        "auto.create.topics.enable": "false",
        "group.initial.rebalance.delay.ms": "0",
    }
    file = place / "server.properties"
    file.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
    return servers, str(file)


def _wait_until_ready(process: subprocess.Popen[bytes], servers: str, output: Path) -> None:
    """Waits until the broker takes connections. Clients ask again by themselves while it still starts."""
    host, port = servers.split(":")
    while process.poll() is None:
        try:
            socket.create_connection((host, int(port)), timeout=_POLL).close()
        except OSError:
            time.sleep(_POLL)
        else:
            return
    raise NeedsConfiguration(f"The Kafka broker ended before it served: {output.read_text().strip()}")


def _free_ports(number: int) -> list[int]:
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(number)]
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports
