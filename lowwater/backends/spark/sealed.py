"""A stage as Spark gets it: a stateful processor that can be unpickled without importing lowwater.

Whenever a query starts, Spark starts a new Python process on the driver for each stage, only to ask its processor which
state variables there are. Unpickling a plan there imports lowwater, pandas and Arrow, which takes longer than a small
micro-batch. So the host travels as bytes, which are unpickled when the first rows come. The class is made inside a
function: of such a class cloudpickle sends the code, and of any other the name of the module to import.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pyspark.serializers import CloudPickleSerializer
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle
from pyspark.sql.types import BinaryType, StringType, StructType

from lowwater.backends.spark.host import Host


def sealed(host: Host) -> StatefulProcessor:
    """The processor of a stage. Its methods must name nothing of lowwater.

    The types of its state are objects. A worker would ask the JVM twice to parse each of them as text, in every task,
    and that takes longer than to store the state of a small micro-batch.
    """
    path, text = StructType().add("path", StringType()), StructType().add("text", StringType())
    segment = StructType().add("path", StringType()).add("id", StringType())
    data = StructType().add("data", BinaryType())

    class Sealed(StatefulProcessor):
        def __init__(self, contents: bytes) -> None:
            self._contents = contents
            self._opened: Any = None

        def init(self, handle: StatefulProcessorHandle) -> None:
            self._directory = handle.getMapState("directory", path, text)
            self._segments = handle.getMapState("segments", segment, data)

        def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any = None) -> Iterator[Any]:
            if self._opened is None:
                import pickle

                self._opened = pickle.loads(self._contents)
                self._opened.attach(self._directory, self._segments)
            yield from self._opened.handle(key, rows)

        def close(self) -> None:
            pass

    dumps: Any = CloudPickleSerializer().dumps  # type: ignore[no-untyped-call]
    return Sealed(dumps(host))
