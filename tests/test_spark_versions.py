"""What differs between versions of Spark, without starting one: each path of lowwater/backends/spark/versions.py."""

from __future__ import annotations

import inspect
import subprocess
import sys
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, get_type_hints

import pyarrow as pa
import pytest
from pyspark.sql.types import LongType, StructField, StructType, TimestampNTZType, TimestampType

from lowwater.backends.spark import versions
from lowwater.errors import NeedsConfiguration

TYPES = StructType(
    [StructField("at", TimestampType()), StructField("local", TimestampNTZType()), StructField("n", LongType())]
)


@pytest.mark.parametrize("zoned", [True, False], ids=["since 4.2", "before 4.2"])
def test_timestamps_are_in_utc(monkeypatch: pytest.MonkeyPatch, zoned: bool) -> None:
    """Before 4.2 the function takes no time zone: an argument that it does not know is an error."""
    found = versions.arrow_schema(TYPES)
    assert found.types == [pa.timestamp("us", "UTC"), pa.timestamp("us"), pa.int64()]

    def newer(schema: StructType, *, timezone: str | None = None) -> pa.Schema:
        return found if timezone == "UTC" else None

    def older(schema: StructType) -> pa.Schema:
        return found

    monkeypatch.setattr(versions.types, "to_arrow_schema", newer if zoned else older)
    monkeypatch.setattr(versions, "_TIMEZONE", zoned)
    assert versions.arrow_schema(TYPES) is found


@pytest.mark.parametrize("iterators", [True, False], ids=["since 4.1", "before 4.1"])
def test_a_group_is_handed_over_as_batches_or_as_a_table(monkeypatch: pytest.MonkeyPatch, iterators: bool) -> None:
    rows = pa.table({"n": [1, 2, 3]})

    class Groups:
        """Calls a function as the version does: with an iterator of batches, or with a table."""

        def applyInArrow(self, function: Any, schema: str) -> pa.Table:
            assert len(inspect.getfullargspec(function).args) == 2, "Spark counts self of a method as a parameter"
            if iterators:
                hints = get_type_hints(function)
                assert hints["rows"] == hints["return"] == Iterator[pa.RecordBatch]
                return pa.Table.from_batches(function((pa.scalar(7),), iter(rows.to_batches(2))))
            return function((pa.scalar(7),), rows)

    class Host:
        def apply(self, key: Any, batches: Any) -> Any:
            for batch in batches:
                yield pa.record_batch({"key": [key[0].as_py()], "rows": [batch.num_rows]})

    monkeypatch.setattr(versions, "_ITERATORS", iterators)
    groups: Any = Groups()
    found: Any = versions.applied_by_shard(groups, Host().apply, "key long, rows long")
    assert sum(found.column("rows").to_pylist()) == 3
    assert set(found.column("key").to_pylist()) == {7}


def test_rescaling_before_4_2_is_refused_with_the_version() -> None:
    old: Any = SimpleNamespace(version="4.1.4")
    with pytest.raises(NeedsConfiguration, match=r"needs Spark 4\.2 or newer.*this is Spark 4\.1\.4\.$"):
        versions.repartition(old)


def test_columns_of_json_on_connect_before_4_2_are_refused_with_the_version(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(versions, "is_connect", lambda spark: True)
    monkeypatch.setattr(versions, "_JSON_IN_FRAMES", False)
    old: Any = SimpleNamespace(read=SimpleNamespace(options=lambda **options: None))
    with pytest.raises(NeedsConfiguration, match=r"on Spark Connect; give the schema.*Spark 4\.2 or newer\.$"):
        versions.json_schema(old, ["{}"])


def test_a_session_of_spark_3_is_refused() -> None:
    old: Any = SimpleNamespace(version="3.5.9")
    with pytest.raises(NeedsConfiguration, match=r"This is Spark 3\.5\.9; lowwater needs Spark 4\.0 or newer"):
        versions.check(old, streaming=False)


def test_streams_on_connect_before_4_1_are_refused_with_the_version(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether the client is too old or the server."""
    old: Any = SimpleNamespace(version="4.0.5")
    versions.check(old, streaming=True)
    monkeypatch.setattr(versions, "is_connect", lambda spark: True)
    versions.check(old, streaming=False)
    new: Any = SimpleNamespace(version="4.1.0.dev1")
    versions.check(new, streaming=True)
    sentence = r"on Spark Connect needs Spark 4\.1 or newer, and this is Spark 4\.0\.5; use a classic session"
    with pytest.raises(NeedsConfiguration, match=sentence):
        versions.check(old, streaming=True)
    monkeypatch.setattr(versions.pyspark, "__version__", "4.0.5")
    with pytest.raises(NeedsConfiguration, match=sentence):
        versions.check(new, streaming=True)


OLD = """
import sys
from types import ModuleType

sys.modules["pyspark"] = ModuleType("pyspark")
sys.modules["pyspark"].__version__ = "3.5.9"
import lowwater as lw

for act in (lambda: lw.stream(type("DataFrame", (), {"__module__": "pyspark.sql"})()), lambda: lw.to_delta("t")):
    try:
        act()
    except lw.LowwaterError as error:
        print(error)
"""
"""A PySpark of which nothing else can be imported."""


def test_an_old_pyspark_is_refused_before_a_module_that_it_lacks_is_imported() -> None:
    done = subprocess.run([sys.executable, "-c", OLD], capture_output=True, text=True)
    assert done.stdout == "This is Spark 3.5.9; lowwater needs Spark 4.0 or newer.\n" * 2, done.stderr


def test_a_protobuf_of_another_version_is_refused_and_a_vendors_place_is_not() -> None:
    def incompatible() -> None:
        raise RuntimeError("Detected incompatible Protobuf Gencode/Runtime versions\nand more")

    def elsewhere() -> None:
        raise ModuleNotFoundError(name="pyspark.sql.streaming.proto")

    def absent() -> None:
        raise ModuleNotFoundError(name="google.protobuf")

    with pytest.raises(NeedsConfiguration, match=r"Gencode/Runtime versions\); run pip install --upgrade 'protobuf"):
        versions.refuse_protobuf(incompatible)
    versions.refuse_protobuf(elsewhere)
    with pytest.raises(ModuleNotFoundError):
        versions.refuse_protobuf(absent)
