"""Transcripts: queries told as what comes in and what must come out, run under every legal strategy and cut.

    batch        rows of an input, one list a row            tick       the clock passes so many seconds
    punctuation  no row up to this value follows             restart    stop, and go on from what was saved
    expect       all results since the last expectation      finish     all inputs end
    expect_late  all late rows since the last one, each with its input, its reason and the windows it missed and kept

A query has a `window` over its melded inputs, or a `join` of two by `key`, each with columns of its own; an input of a
join may say that a column is `unique`, or which rows are the `ends` of its values.

What came out and was never expected fails a transcript as well. `fails` marks one that must fail, and with what: they
test the tester. `spark: true` has it run through Spark too, where only the totals are compared: Spark decides itself
which files of two inputs make a micro-batch.
"""

from __future__ import annotations

import datetime as dt
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml

import lowwater as lw
from lowwater.backends.local import LocalQuery
from lowwater.runtime.graph import NULL_TIME
from tests.compare import EPOCH, in_ticks

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FOLDER = Path(__file__).parent / "transcripts"
TYPES = {"int64": pa.int64(), "string": pa.string(), "timestamp": pa.timestamp("us", "UTC"), "bool": pa.bool_()}
AGGREGATES = {"count": lw.count, "sum": lw.sum, "max": lw.max, "median": lw.median, "last": lw.last}
STORY = {"name", "query", "actions", "fails", "spark"}
QUERY = {"columns", "progress", "inputs", "window", "join", "group_by", "aggregates"}
JOIN = {"key", "within", "how"}
ACTIONS = {"batch", "punctuation", "tick", "restart", "expect", "expect_late", "finish"}
SECOND = 10**6


class BadTranscript(Exception):
    """A transcript that cannot be meant as it is written."""


@dataclass(frozen=True)
class Action:
    verb: str
    content: Any
    port: int


@dataclass(frozen=True)
class Transcript:
    name: str
    query: dict[str, Any]
    actions: list[Action]
    fails: str | None = None
    spark: bool = False

    @property
    def strategies(self) -> list[str]:
        if "join" in self.query:
            return ["auto"]
        if "gap" in self.query["window"] or "row" in str(self.query["window"].get("slide")):
            return ["auto"]  # windows that rows define have one way only
        landmark = self.query["window"]["range"] == "all"
        return ["auto", "landmark", "buffer"] if landmark else ["auto", "wid", "panes", "buffer"]

    def columns(self, port: int) -> dict[str, str]:
        """Names and types of the columns of an input: its own in a join, otherwise those of all."""
        columns: dict[str, Any] = self.query["columns"]
        return columns[list(self.query["inputs"])[port]] if "join" in self.query else columns

    def schema(self, port: int = 0) -> pa.Schema:
        schema = pa.schema([(name, TYPES[type]) for name, type in self.columns(port).items()])
        marked = "punctuated" in self.query["inputs"].values()
        return schema.append(pa.field("is_end", pa.bool_())) if marked else schema

    def rows(self, action: Action) -> list[dict[str, Any]]:
        """The rows that an action brings; a punctuation is a row too."""
        names = list(self.columns(action.port))
        marked = {"is_end": action.verb == "punctuation"} if "is_end" in self.schema(action.port).names else {}
        given = [[action.content]] if action.verb == "punctuation" else action.content
        rows = [dict.fromkeys(names) | dict(zip(names, row, strict=False)) | marked for row in given]
        if self.timed:
            for row in rows:
                row[self.query["progress"]] = EPOCH + dt.timedelta(seconds=row[self.query["progress"]])
        return rows

    @property
    def timed(self) -> bool:
        return self.columns(0)[self.query["progress"]] == "timestamp"

    def build(self, frames: list[Any], strategy: str) -> lw.Query | lw.Joined:
        first, *others = (
            self._ended(lw.stream(frame, name=name, progress=self.query["progress"], **self._progress(how)), how)
            for frame, (name, how) in zip(frames, self.query["inputs"].items(), strict=True)
        )
        if "join" in self.query:
            return self._joined(first.join(others[0], **self._band()))
        window = {key: self._length(value) for key, value in self.query["window"].items()}
        stream = first.union(*others)
        asked = stream.session(**window) if "gap" in window else stream.window(**window)
        if "group_by" in self.query:
            asked = asked.group_by(*self.query["group_by"])
        return asked.agg(strategy, **self._aggregates())

    def _aggregates(self) -> dict[str, Any]:
        return {name: AGGREGATES[function](*of) for name, (function, *of) in self.query["aggregates"].items()}

    def _band(self) -> dict[str, Any]:
        join = self.query["join"]
        low, high = join["within"]
        band = (self._length(low), self._length(high))
        return {"on": join["key"], "within": band, "how": join.get("how", "inner")}

    def _joined(self, joined: lw.Joined) -> lw.Joined:
        if "group_by" not in self.query:
            return joined
        return joined.group_by(*self.query["group_by"]).agg(**self._aggregates())

    @staticmethod
    def _ended(stream: lw.Stream, how: Any) -> lw.Stream:
        if "unique" in how:
            stream = stream.unique(how["unique"])
        return stream.ends(**how["ends"]) if "ends" in how else stream

    def _length(self, value: Any) -> Any:
        return f"{value} seconds" if self.timed and isinstance(value, int) else value

    def _progress(self, how: Any) -> dict[str, Any]:
        if how == "ordered":
            return {"disorder": lw.ordered()}
        if how == "punctuated":
            return {"disorder": lw.punctuated("is_end", self.query["progress"])}
        more = {key: how[key] for key in ("source", "sources") if key in how}
        if "idle" in how:
            more["idle"] = lw.idle(*(f"{how['idle'][key]} seconds" for key in ("after", "lag")))
        return {"disorder": lw.delay(self._length(how["delay"])), **more}


def known(found: dict[str, Any], keys: set[str], where: str) -> None:
    if set(found) - keys:
        raise BadTranscript(f"{where} has unknown keys: {sorted(set(found) - keys)}")


def load(text: str) -> Transcript:
    story = yaml.safe_load(text)
    known(story, STORY, "the transcript")
    known(story["query"], QUERY, "the query")
    known(story["query"].get("join", {}), JOIN, "the join")
    inputs = list(story["query"]["inputs"])
    actions: list[Action] = []
    happened: set[str] = set()
    for step in story["actions"]:
        known(step, ACTIONS | {"input"}, "an action")
        (verb,) = set(step) - {"input"}
        if verb.startswith("expect"):
            if not happened or verb in happened:
                raise BadTranscript(f"{verb} is unused: nothing has happened since the last one")
            happened.add(verb)
        else:
            happened = {"something"}
        actions.append(Action(verb, step[verb], inputs.index(step.get("input", inputs[0]))))
    if not any(action.verb == "expect" for action in actions):
        raise BadTranscript("nothing is expected")
    return Transcript(story["name"], story["query"], actions, story.get("fails"), story.get("spark", False))


def load_all(texts: list[str]) -> list[Transcript]:
    transcripts = [load(text) for text in texts]
    names = [transcript.name for transcript in transcripts]
    if len(set(names)) < len(names):
        raise BadTranscript(f"two transcripts of one name among {sorted(names)}")
    return transcripts


TRANSCRIPTS = load_all([path.read_text() for path in sorted(FOLDER.glob("*.yaml"))])
TRUE = [transcript for transcript in TRANSCRIPTS if transcript.fails is None]
FALSE = [transcript for transcript in TRANSCRIPTS if transcript.fails is not None]


def by_text(rows: list[list[Any]]) -> list[list[Any]]:
    return sorted(rows, key=repr)


def plain(rows: list[dict[str, Any]], unit: int) -> list[list[Any]]:
    """Result rows as a transcript writes them, times in its unit."""
    told = []
    for row in in_ticks(rows):
        for name in {"window_start", "window_end"} & row.keys():
            row[name] = None if row[name] is None else row[name] // unit
        told.append(list(row.values()))
    return by_text(told)


@dataclass
class Told:
    """What came out and has not been expected yet."""

    results: list[list[Any]] = field(default_factory=list)
    late: list[list[Any]] = field(default_factory=list)

    def expect(self, verb: str, rows: list[list[Any]]) -> None:
        kind, found = ("result", self.results) if verb == "expect" else ("late row", self.late)
        wanted, got = by_text(rows), by_text(found)
        assert got == wanted, f"expected {len(wanted)} {kind}(s) {wanted}, got {got}"
        found.clear()

    def end(self) -> None:
        assert not self.results + self.late, f"left untold: {self.results + self.late}"


def run_locally(transcript: Transcript, strategy: str, one_by_one: bool) -> None:
    frames = [transcript.schema(port).empty_table() for port, _ in enumerate(transcript.query["inputs"])]
    query: LocalQuery = transcript.build(frames, strategy).start()
    unit = SECOND if transcript.timed else 1
    told, seen = Told(), 0
    for action in transcript.actions:
        closed: list[pa.Table] = []
        if action.verb in ("batch", "punctuation"):
            rows = transcript.rows(action)
            for piece in [[row] for row in rows] if one_by_one else [rows]:
                closed.append(query.push(piece, action.port))
        elif action.verb == "tick":
            closed.append(query.tick(action.content * SECOND))
        elif action.verb == "restart":
            query.restart()
        elif action.verb == "finish":
            closed.append(query.finish())
        else:
            told.expect(action.verb, action.content)
        told.results += [row for table in closed for row in plain(table.to_pylist(), unit)]
        late = query.late_output().to_pylist()
        told.late += late_told(late[seen:], {placed.label for placed in query.plan.operators})
        seen = len(late)
    told.end()


def late_told(rows: list[dict[str, Any]], operators: set[str]) -> list[list[Any]]:
    """Late rows as a transcript writes them. It holds for every strategy, so it does not name the operator."""
    for row in rows:
        assert row["operator"] in (operators if row["late_reason"] != NULL_TIME else {"Input"})
    return [[value for name, value in row.items() if name not in ("operator", "is_end")] for row in rows]


def cases(transcripts: list[Transcript]) -> list[Any]:
    found = []
    for transcript in transcripts:
        for strategy in transcript.strategies:
            for one_by_one in (False, True):
                cut = "one by one" if one_by_one else "as given"
                name = f"{transcript.name}-{strategy}-{cut}"
                found.append(pytest.param(transcript, strategy, one_by_one, id=name))
    return found


@pytest.mark.parametrize(("transcript", "strategy", "one_by_one"), cases(TRUE))
def test_transcript_on_the_local_backend(transcript: Transcript, strategy: str, one_by_one: bool) -> None:
    run_locally(transcript, strategy, one_by_one)


@pytest.mark.parametrize(("transcript", "strategy", "one_by_one"), cases(FALSE))
def test_transcript_that_must_fail_fails(transcript: Transcript, strategy: str, one_by_one: bool) -> None:
    assert transcript.fails is not None
    with pytest.raises(AssertionError, match=transcript.fails):
        run_locally(transcript, strategy, one_by_one)


# -- the loader -----------------------------------------------------------------------------------------------------

GOOD = (FOLDER / "gaps.yaml").read_text()
JOINED = (FOLDER / "join.yaml").read_text()


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (GOOD + "speed: 3\n", "the transcript has unknown keys"),
        (GOOD.replace("  progress:", "  hurry: 1\n  progress:"), "the query has unknown keys"),
        (JOINED.replace("key: k", "'on': k"), "the join has unknown keys"),
        (GOOD.replace("- finish:", "- end:"), "an action has unknown keys"),
        (GOOD.replace("actions:\n", "actions:\n  - expect: []\n"), "expect is unused"),
        (GOOD.replace("  - finish:\n", "  - expect: []\n"), "expect is unused"),
        (GOOD[: GOOD.index("  - expect")], "nothing is expected"),
    ],
)
def test_loader_refuses_what_cannot_be_meant(text: str, says: str) -> None:
    with pytest.raises(BadTranscript, match=says):
        load(text)


def test_loader_refuses_two_of_one_name() -> None:
    with pytest.raises(BadTranscript, match="two transcripts of one name"):
        load_all([GOOD, GOOD])


def test_every_transcript_is_either_true_or_must_fail_and_some_go_to_spark() -> None:
    assert len(TRUE) >= 8
    assert FALSE
    assert sum(transcript.spark for transcript in TRUE) >= 4


# -- through Spark --------------------------------------------------------------------------------------------------


def run_on_spark(transcript: Transcript, spark: SparkSession, folder: Path) -> None:
    """Each batch is a file, read one a micro-batch in the order of their times; what came out is compared at the end.

    A restart stops the query and starts it again from its checkpoint, on the files that follow.
    """
    inputs = [folder / f"input{port}" for port in range(len(transcript.query["inputs"]))]
    for directory in inputs:
        directory.mkdir(parents=True)
    schemas = []
    for port, _ in enumerate(inputs):
        pq.write_table(transcript.schema(port).empty_table(), folder / f"schema{port}.parquet")
        schemas.append(spark.read.parquet(str(folder / f"schema{port}.parquet")).schema)
    results: list[dict[str, Any]] = []
    late: list[dict[str, Any]] = []

    def frames() -> list[Any]:
        return [
            spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(str(directory))
            for schema, directory in zip(schemas, inputs, strict=True)
        ]

    def start() -> Any:
        return transcript.build(frames(), "auto").start(
            checkpoint=str(folder / "checkpoint"),
            results=lambda rows, batch: results.extend(rows.toArrow().to_pylist()),
            late=lambda rows, batch: late.extend(rows.toArrow().to_pylist()),
        )

    waiting = False
    for number, action in enumerate(transcript.actions):
        if action.verb == "batch":
            file = inputs[action.port] / f"{number:03d}.parquet"
            pq.write_table(pa.Table.from_pylist(transcript.rows(action), schema=transcript.schema(action.port)), file)
            os.utime(file, (1_000_000 + number, 1_000_000 + number))
            waiting = True
        elif action.verb == "restart" and waiting:
            running = start()
            running.process_available()
            running.stop()
            waiting = False
        elif action.verb == "finish":
            start().finish()
    expected = [(a.verb, row) for a in transcript.actions if a.verb.startswith("expect") for row in a.content]
    assert plain(results, 1) == by_text([row for verb, row in expected if verb == "expect"])
    operators = {placed.label for placed in transcript.build(frames(), "auto").plan.operators}
    assert by_text(late_told(late, operators)) == by_text([r for verb, r in expected if verb == "expect_late"])


@pytest.mark.spark
@pytest.mark.parametrize("transcript", [t for t in TRUE if t.spark], ids=lambda transcript: transcript.name)
def test_transcript_on_spark(transcript: Transcript, spark: SparkSession, tmp_path: Path) -> None:
    run_on_spark(transcript, spark, tmp_path)
