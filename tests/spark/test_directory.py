"""A directory of results: whose it is, and how the files of a micro-batch appear in it."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

import lowwater as lw
from lowwater.backends.spark.checkpoint import Checkpoint
from lowwater.backends.spark.directory import MARKER, OutputDirectory
from lowwater.backends.spark.files import Files, PlainFiles, SparkFiles
from lowwater.backends.spark.reach import files_of
from lowwater.backends.spark.written import Outlet, final_name
from tests.spark.answers import rows, stream_of, streaming, write_part

pytestmark = pytest.mark.spark

ONCE = {"availableNow": True}
NUMBERS = pa.table({"n": [1, 2, 3]})


# -- files of a micro-batch ------------------------------------------------------------------------------------------


class Part:
    """A directory with one outlet, and the files of micro-batch 7."""

    def __init__(self, spark: SparkSession, place: Path) -> None:
        checkpoint = Checkpoint(spark, str(place / "checkpoint"))
        self.directory = OutputDirectory(spark, "results", str(place / "out"), checkpoint)
        self.directory.take()
        self.outlet = Outlet(str(place / "out"), NUMBERS.schema, checkpoint.run)
        self.place = place / "out" / "lw_batch=00000007"

    def put(self, shard: int, *tables: pa.Table) -> str:
        """A file of one attempt of a task, hidden until the driver shows it."""
        writing = self.outlet.open(7, 0, shard)
        for table in tables:
            writing.write(table)
        return writing.close()

    def show(self, *names: str) -> None:
        self.directory.show(7, {name: final_name(name) for name in names})

    def read(self) -> list[int]:
        return sorted(pq.read_table(self.place.parent, schema=NUMBERS.schema)["n"].to_pylist())

    def files(self) -> dict[str, tuple[int, int]]:
        """Inode and time of every file that readers see."""
        return {p.name: (p.stat().st_ino, p.stat().st_mtime_ns) for p in self.place.glob("part-*")}


def test_a_repeated_batch_leaves_equal_files_untouched(spark: SparkSession, tmp_path: Path) -> None:
    part = Part(spark, tmp_path)
    seen = []
    for _ in range(2):
        part.directory.begin(7)
        name = part.put(3, NUMBERS.slice(0, 1), NUMBERS.slice(1))
        part.put(3, NUMBERS)  # another attempt, which the driver does not learn of
        assert part.read() == (seen and [1, 2, 3]), "hidden until the driver shows it"
        part.show(name)
        seen.append(part.files())
    assert seen[0] == seen[1]
    assert len(seen[0]) == 1
    assert sorted(p.name for p in part.place.iterdir()) == ["_SUCCESS", *seen[0]]
    part.put(3, NUMBERS)  # one that is still running when all is done
    assert part.read() == [1, 2, 3]


def test_a_repeated_batch_with_other_rows_replaces_and_removes(spark: SparkSession, tmp_path: Path) -> None:
    part = Part(spark, tmp_path)
    part.show(part.put(0, NUMBERS.slice(0, 1)), part.put(1, NUMBERS.slice(1, 1)))
    before = part.files()
    part.directory.begin(7)
    part.show(part.put(0, NUMBERS.slice(2, 1)))
    assert part.read() == [3]
    assert len(part.files()) == 1
    assert part.files().keys() < before.keys()


def test_files_that_some_shards_have_shown_already_are_completed(spark: SparkSession, tmp_path: Path) -> None:
    """As after a kill between two renames."""
    part = Part(spark, tmp_path)
    part.show(part.put(0, NUMBERS.slice(0, 1)))
    (part.place / "_SUCCESS").unlink()
    first = part.files()
    part.directory.begin(7)
    part.show(part.put(0, NUMBERS.slice(0, 1)), part.put(1, NUMBERS.slice(1)))
    assert part.read() == [1, 2, 3]
    assert first.items() < part.files().items()
    assert (part.place / "_SUCCESS").exists()


def test_a_file_that_the_driver_does_not_see_fails_the_batch(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(lw.LowwaterError, match="must be a directory that all machines share"):
        Part(spark, tmp_path).show("part-0-00000-on-another-machine.parquet.1")


def test_a_batch_without_rows_has_a_schema(spark: SparkSession, tmp_path: Path) -> None:
    part = Part(spark, tmp_path)
    part.show(part.outlet.empty(7))
    assert pq.read_table(part.place).equals(NUMBERS.schema.empty_table())


def test_sparks_own_writer_gives_a_repeated_batch_the_same_files(spark: SparkSession, tmp_path: Path) -> None:
    part = Part(spark, tmp_path)
    seen = []
    for _ in range(2):
        part.directory.begin(7)
        part.directory.write(spark.range(4, numPartitions=2), 7)
        seen.append(part.files())
    assert seen[0] == seen[1]
    assert len(seen[0]) == 2
    assert spark.read.parquet(str(part.place.parent)).count() == 4
    assert not list(part.place.parent.glob(".lw_batch*"))


# -- whose it is -----------------------------------------------------------------------------------------------------


def run(spark: SparkSession, place: Path, checkpoint: str, query: Any = None, **options: Any) -> Any:
    query = stream_of(streaming(spark, place / "in")) if query is None else query
    options = {"results": str(place / "out"), "trigger": ONCE, "shards": 2, **options}
    running = query.start(checkpoint=str(place / checkpoint), **options)
    running.await_termination()
    return running


def test_two_runs_into_one_directory_are_refused_and_the_second_may_overwrite(
    spark: SparkSession, tmp_path: Path
) -> None:
    write_part(rows(2_000), tmp_path / "in", 0)
    out = tmp_path / "out"
    first = run(spark, tmp_path, "first")
    first.finish()
    count = spark.read.parquet(str(out)).count()
    refused = r"out belongs to another run: it holds the output results of the query over 'keyed' with the checkpoint "
    with pytest.raises(lw.LowwaterError, match=refused + r".*first; name another directory, or let start\(overwrite"):
        run(spark, tmp_path, "second")
    other = lw.stream(streaming(spark, tmp_path / "in"), progress="ts", disorder="3 seconds").window(range="5 seconds")
    with pytest.raises(lw.LowwaterError, match=refused):
        run(spark, tmp_path, "third", other.agg(n=lw.count()))
    assert not (tmp_path / "second").exists(), "a start that is refused claims nothing"
    assert spark.read.parquet(str(out)).count() == count > 0

    second = run(spark, tmp_path, "second", other.agg(n=lw.count()), overwrite=True)
    assert second.metrics().result_rows == spark.read.parquet(str(out)).count() < count
    before = {path: path.stat().st_mtime_ns for path in out.rglob("part-*")}
    write_part(rows(10), tmp_path / "in", 1)
    run(spark, tmp_path, "second", other.agg(n=lw.count()), overwrite=True)  # nothing of its own is deleted
    after = {path: path.stat().st_mtime_ns for path in out.rglob("part-*")}
    assert before.items() < after.items()
    with pytest.raises(lw.LowwaterError, match="holds the output results of this query and cannot take late, too"):
        run(spark, tmp_path, "second", other.agg(n=lw.count()), results=str(tmp_path / "new"), late=str(out))


def test_a_start_that_spark_refuses_empties_nothing(spark: SparkSession, tmp_path: Path) -> None:
    write_part(rows(2_000), tmp_path / "in", 0)
    run(spark, tmp_path, "first").finish()
    files = set((tmp_path / "out").rglob("*"))
    with pytest.raises(Exception, match="noSuchTrigger"):
        run(spark, tmp_path, "second", overwrite=True, trigger={"noSuchTrigger": True})
    assert set((tmp_path / "out").rglob("*")) == files


def test_a_directory_that_was_being_emptied_is_emptied_by_the_next_start(spark: SparkSession, tmp_path: Path) -> None:
    """As after a kill between the marker and the last of the old parts."""
    for part in ("lw_batch=00000000", "lw_batch=00000009"):
        (tmp_path / "out" / part).mkdir(parents=True)
    place = Checkpoint(spark, str(tmp_path / "checkpoint"))
    with pytest.raises(
        lw.LowwaterError, match=r"holds micro-batches of a query, but no _lowwater.json that names the query"
    ):
        OutputDirectory(spark, "results", str(tmp_path / "out"), place).take()
    interrupted = OutputDirectory(spark, "results", str(tmp_path / "out"), place, overwrite=True)
    interrupted._mark(emptying=True)
    OutputDirectory(spark, "results", str(tmp_path / "out"), place).take()
    assert [path.name for path in (tmp_path / "out").iterdir()] == [MARKER]
    assert json.loads((tmp_path / "out" / MARKER).read_text())["emptying"] is False


@pytest.mark.parametrize("overwrite", [False, True])
def test_files_of_others_are_refused_and_never_deleted(spark: SparkSession, tmp_path: Path, overwrite: bool) -> None:
    write_part(rows(100), tmp_path / "out", 0)
    place = Checkpoint(spark, str(tmp_path / "checkpoint"))
    with pytest.raises(lw.LowwaterError, match=r"out has '0000.parquet' in it, which lowwater did not write"):
        OutputDirectory(spark, "results", str(tmp_path / "out"), place, overwrite).take()
    assert (tmp_path / "out" / "0000.parquet").exists()


def test_hidden_files_are_nobodys_business(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "out" / "_logs").mkdir(parents=True)
    (tmp_path / "out" / ".keep").touch()
    OutputDirectory(spark, "results", str(tmp_path / "out"), Checkpoint(spark, str(tmp_path / "c"))).take()
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == [".keep", "_logs", MARKER]


def test_a_query_whose_directory_was_taken_over_fails(spark: SparkSession, tmp_path: Path) -> None:
    write_part(rows(2_000), tmp_path / "in", 0)
    running = stream_of(streaming(spark, tmp_path / "in")).start(
        checkpoint=str(tmp_path / "first"), results=str(tmp_path / "out"), shards=2
    )
    running.process_available()
    run(spark, tmp_path, "second", overwrite=True)
    write_part(rows(10), tmp_path / "in", 1)
    with pytest.raises(
        StreamingQueryException, match=r"was taken over by the query with the checkpoint .*second while"
    ):
        running.await_termination(60)


def test_a_directory_that_was_cleaned_up_still_belongs_to_its_query(spark: SparkSession, tmp_path: Path) -> None:
    part = Part(spark, tmp_path)
    shutil.rmtree(tmp_path / "out")
    part.directory.begin(7)
    part.show(part.put(0, NUMBERS))
    assert part.read() == [1, 2, 3]
    assert (tmp_path / "out" / MARKER).exists()


def exercise(files: Files) -> None:
    """Every step on files, whatever they are reached by."""
    assert (files.names("folder"), files.read("folder/a"), files.exists("folder/a")) == ([], None, False)
    for text in ("one", "another"):
        files.write("folder/a", text)
        assert files.read("folder/a") == text
    assert files.names("folder") == ["a"], "and nothing beside it"
    files.write("folder/b", "another")
    assert files.same("folder/a", "folder/b")
    files.write("folder/b", "and other")
    assert not files.same("folder/a", "folder/b")
    files.replace("folder/b", "folder/a")
    files.make("more")
    assert (files.read("folder/a"), files.names()) == ("and other", ["folder", "more"])
    for name in ("folder/a", "folder/none", "more", "none"):
        files.delete(name)
    assert (files.names(), files.names("folder")) == (["folder"], [])


@pytest.mark.parametrize("plain", [True, False])
def test_files_are_the_same_by_path_and_through_spark(spark: SparkSession, tmp_path: Path, plain: bool) -> None:
    files = files_of(spark, str(tmp_path))
    assert isinstance(files, PlainFiles)
    if not plain:
        jvm: Any = spark._jvm
        system = jvm.org.apache.hadoop.fs.Path(str(tmp_path)).getFileSystem(spark._jsc.hadoopConfiguration())
        files = SparkFiles(files.directory, files.qualified, system.getRawFileSystem(), jvm)
    exercise(files)
    assert [path.name for path in tmp_path.iterdir()] == ["folder"], "and nothing beside it"
