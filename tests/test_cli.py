"""The command line: what it prints, its exit status, and that a script can read it."""

from __future__ import annotations

import csv
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from rich.console import Console
from typer.testing import CliRunner, Result

import lowwater
from benchmarks import bench, sliding
from lowwater import doctor
from lowwater.cli import app
from lowwater.experiments import demo
from lowwater.experiments.catalogue import CATALOGUE
from lowwater.experiments.thesis import band, block_sorted, buffering, join_memory, join_skew, panes
from lowwater.experiments.thesis import union_memory as memory
from lowwater.experiments.thesis.slack import Judged
from lowwater.generate import SECOND
from tests.soak import sampled

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

BENCHMARKS = ["sliding", "slide-by-tuple", "flush", "join", "plans", "oblivious", "kafka"]
SEEDED = {
    "TH-6-11",
    "TH-6-12",
    "TH-6-19",
    "TH-7-7",
    "TH-8-8",
    "TH-8-9",
    "TH-8-10",
    "TH-8-11",
    "PW-8",
    "PW-9",
    "PW-10",
    "PW-11",
    "PW-12",
    "WO-5",
    "WO-6",
    "WO-7",
    "WO-8",
    "WO-9",
    "WO-10",
}
"""Claims that rest on seeded streams and no clock, so that they hold at every run if at one."""
ENGINES = {"lowwater", "lowwater-dataframe", "spark-memory", "spark-rocksdb", "scan"}


def call(*arguments: str) -> Result:
    return CliRunner().invoke(app, arguments)


def one_object(result: Result) -> dict[str, object]:
    """All of standard output is one JSON object."""
    found = json.loads(result.stdout)
    assert isinstance(found, dict)
    return found


def test_version() -> None:
    assert call("--version").stdout.strip() == lowwater.__version__


@pytest.mark.parametrize("command", ["demo", "bench", "reproduce", "doctor"])
def test_every_command_is_listed_and_has_help(command: str) -> None:
    assert command in call("--help").stdout
    assert call(command, "--help").exit_code == 0


def test_the_lists() -> None:
    listed = one_object(call("bench", "--list", "--json"))["benchmarks"]
    assert [b["name"] for b in listed] == BENCHMARKS  # type: ignore[attr-defined]
    (first, *_) = one_object(call("reproduce", "--list", "--json"))["reproductions"]  # type: ignore[misc]
    assert first["id"] == "TH-6-15"
    assert "30 %" in first["claim"]
    assert "sliding" in call("bench", "--list").stdout
    listed = call("reproduce", "--list").stdout
    assert set(CATALOGUE) <= {line.split()[0] for line in listed.splitlines() if line}


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (
            ["bench", "nothing"],
            f"There is no benchmark 'nothing'; there is: {', '.join(BENCHMARKS)}.\n",
        ),
        (["reproduce", "XX-1"], f"There is no reproduction 'XX-1'; there is: {', '.join(CATALOGUE)}.\n"),
        (["reproduce"], "Give the id of a claim; `lowwater reproduce --list` prints them.\n"),
        (["reproduce", "TH-6-15", "--size", "huge"], "A reproduction has the size tiny or full, not 'huge'.\n"),
        (["demo", "--keep", "/"], "/ exists already; give --keep a new directory.\n"),
    ],
)
def test_a_refusal_is_one_sentence_on_standard_error(arguments: list[str], sentence: str) -> None:
    result = call(*arguments)
    assert (result.exit_code, result.stdout, result.stderr) == (2, "", sentence)


def test_a_package_without_the_benchmarks_refuses_them(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(lowwater, "__file__", str(tmp_path / "lowwater" / "__init__.py"))
    result = call("bench", "--list")
    sentence = "The benchmarks are not installed with lowwater; run `lowwater bench` from a clone of the repository.\n"
    assert (result.exit_code, result.stdout, result.stderr) == (2, "", sentence)


def test_the_benchmarks_are_found_from_any_directory(tmp_path: Path) -> None:
    """In a process of its own where only lowwater is on the path, as an editable install leaves it."""
    root = str(Path(__file__).parent.parent)
    program = f"import sys; sys.path.insert(0, {root!r}); import lowwater.cli; sys.path.remove({root!r})"
    program += "; lowwater.cli.app(['bench', '--list'])"
    env = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout.split()[0]) == (0, "sliding"), done.stderr


def test_a_reproduction_judges_its_claim(tmp_path: Path) -> None:
    result = call("reproduce", "TH-6-15", "--json", "--size", "tiny", "--out", str(tmp_path))
    told = one_object(result)
    assert set(told) == {"id", "claim", "holds", "measured", "csv", "figure"}
    assert result.exit_code == (0 if told["holds"] else 1)
    assert told["measured"]["quoted_operations_ratio"] == 0.25  # type: ignore[index]
    with Path(str(told["csv"])).open() as file:
        assert len(list(csv.DictReader(file))) == len(panes.TUPLES_PER_PANE) * len(panes.PANES_PER_WINDOW)
    assert Path(str(told["figure"])).read_bytes().startswith(b"\x89PNG")


def test_several_reproductions_are_judged_one_after_the_other(tmp_path: Path) -> None:
    ids = ["TH-6-12", "PW-12"]
    arguments = ["reproduce", *ids, "--size", "tiny", "--out", str(tmp_path)]
    result = call(*arguments, "--json")
    told = one_object(result)
    assert [one["id"] for one in told["reproductions"]] == ids  # type: ignore[attr-defined]
    assert (told["holds"], result.exit_code) == (True, 0)
    said = call(*arguments).stdout
    assert said.index("TH-6-12: ") < said.index("PW-12: ")
    assert call("reproduce", "TH-6-12", "XX-1").stdout == "", "nothing is measured if one is not known"


SAMPLE = [
    "TH-6-10",
    "TH-6-11",
    "TH-6-12",
    "TH-6-19",
    "TH-7-7",
    "TH-8-7",
    "TH-8-8",
    "TH-8-10",
    "PW-8",
    "PW-9",
    "PW-12",
    "WO-5",
    "WO-8",
]
"""One of every program; the others run the same program over other streams."""


@pytest.mark.parametrize("id", sampled([id for id in CATALOGUE if id not in ("TH-6-15", "WO-taxi")], SAMPLE))
def test_every_reproduction_gives_numbers_a_table_and_a_figure(id: str, tmp_path: Path) -> None:
    told = CATALOGUE[id].judged("tiny", tmp_path)
    assert isinstance(told["holds"], bool)
    assert told["holds"] or id not in SEEDED
    assert all(isinstance(value, int | float) for value in told["measured"].values())
    assert json.loads(json.dumps(told)) == told
    with Path(told["csv"]).open() as file:
        assert list(csv.DictReader(file))
    assert Path(told["figure"]).read_bytes().startswith(b"\x89PNG")
    assert {Path(told[file]).parent for file in ("csv", "figure")} == {tmp_path}


def test_a_claim_that_fails_shows() -> None:
    """The judge must be able to say no: a WID that does as little as panes refutes the figure."""
    points = [panes.Point(a, b, 100, 100, 1.0, 1.0, 1.0) for a in panes.TUPLES_PER_PANE for b in panes.PANES_PER_WINDOW]
    assert not panes.holds(points)


def test_no_claim_holds_of_techniques_that_are_all_alike() -> None:
    slacks = [Judged(kind, s / SECOND, 1, 1, 1, 1, 0) for kind in ("consistent", "generous") for s in band.SLACKS]
    assert not band.holds([*slacks, Judged("punctuation", 0, 1, 1, 1, 1, 0)])
    blocks = [Judged("consistent", s / SECOND, 1, 1, 1, 1, 0) for s in block_sorted.SLACKS]
    assert not block_sorted.holds(blocks, blocks[0])
    assert not buffering.holds([buffering.Point(slide, 1, 5, 5, 1, 2, 2, 2) for slide in buffering.SLIDES["full"]])
    techniques = (memory.IOP, memory.OOP, memory.BUFFERED, memory.SORTED, memory.ORDER, memory.PANES)
    held = [memory.Point(technique, skew, 6, 6) for technique in techniques for skew in (0, 1, 2)]
    assert not memory.skew_holds(held, 1)
    assert not memory.delay_holds(held, 1)
    joined = [join_memory.Point(name, n, 6, 6, 1, 1, 1, 1) for name in join_memory.KINDS for n in (1, 9)]
    assert not join_memory.output_holds(joined)
    assert not join_memory.input_holds(joined)
    unions = (join_skew.OOP, join_skew.IOP, join_skew.CLEARING, join_skew.ORDERED)
    skewed = [join_skew.Point(name, skew, 6, 6, 6) for name in unions for skew in (0, 9)]
    assert not join_skew.skew_holds(skewed)
    assert not join_skew.delay_holds(skewed, 1)


def test_the_doctor_finds_this_machine_able() -> None:
    result = call("doctor", "--json")
    told = one_object(result)
    assert (result.exit_code, told["able"]) == (0, True), told
    parts = {finding["part"] for finding in told["findings"]}  # type: ignore[attr-defined]
    assert {"Java", "Python", "Python worker", "pyspark", "pandas", "disk", "cores", "memory"} <= parts
    assert "lowwater can run here." in call("doctor").stdout


def test_the_doctor_says_what_to_do_about_a_missing_java(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    result = call("doctor", "--json")
    (java, *_) = one_object(result)["findings"]  # type: ignore[misc]
    assert (result.exit_code, java["status"]) == (1, "fail")
    assert "JAVA_HOME" in java["advice"]


def test_the_doctor_says_what_to_do_about_a_worker_that_does_not_start(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYSPARK_PYTHON", "no-such-python")
    failed = [finding.part for finding in doctor.examine() if finding.status == "fail"]
    assert failed == ["Python worker"]


def answers(ends: list[int], total: float = 1.0) -> pa.Table:
    n = len(ends)
    columns = {"window_start": [end - 10 for end in ends], "window_end": ends, "key": [1] * n, "n": [2] * n}
    return pa.table({**columns, "total": [total] * n, "most": [0.5] * n})


def test_engines_are_compared_up_to_the_end_both_have_reached() -> None:
    assert sliding.difference(answers([10, 20, 30]), answers([10, 20])) is None
    assert sliding.difference(answers([10, 20, 30]), answers([20, 30])) == "window_start differs"
    assert sliding.difference(answers([10, 20]), answers([10, 20], total=1 + 1e-6)) == "total differs"
    assert sliding.difference(answers([10, 20]), answers([])) == "no answers to compare"


def test_without_agreement_there_are_no_ratios() -> None:
    results = tuple(
        sliding.Result(engine, workload, 8, seconds, 1.0, (seconds,))
        for workload in ("tumbling", "overlap600")
        for engine, seconds in (("lowwater", 1.0), ("spark-memory", 4.0))
    )
    assert sliding.Report("sliding", (), results).ratios["tumbling/spark-memory"] == 4.0
    assert sliding.Report("sliding", (), results).own == {"range600 over tumbling": 1.0}
    differing = sliding.Report("sliding", ("n differs",), results)
    assert (differing.equal, differing.ratios, differing.own) == (False, {}, {})


@pytest.mark.spark
def test_the_benchmark_compares_before_it_divides(spark: SparkSession, tmp_path: Path) -> None:
    small = (sliding.Workload("small", sliding.Question(10, 1), 2000, 20, 20, 1, 2000),)
    report = sliding.run(spark, rounds=1, workloads=small, warm=False)
    assert report.disagreements == ()
    told = json.loads(json.dumps(bench.as_json(report)))
    assert {(r["engine"], r["workload"], r["rows"]) for r in told["results"]} == {(e, "small", 2000) for e in ENGINES}
    assert set(told["ratios"]) == {f"small/{engine}" for engine in ENGINES - {"lowwater"}}
    assert all(r["seconds"] > 0 for r in told["results"])
    bench.plot(report, tmp_path / "plot.png")
    assert (tmp_path / "plot.png").read_bytes().startswith(b"\x89PNG")
    Console(quiet=True).print(bench.as_table(report))


@pytest.mark.spark
def test_the_demo_gives_the_batch_answer(spark: SparkSession, tmp_path: Path) -> None:
    console = Console(record=True, quiet=True, width=100)
    assert demo.run(spark, tmp_path, console, rows=20_000, slices=2)
    assert (tmp_path / "answers" / "Q1-2").is_dir()
