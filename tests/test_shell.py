"""Query files and the prompt, without Spark: `lowwater check`, `explain`, `sql`. tests/spark/test_run.py has `run`."""

from __future__ import annotations

import json
import re
from io import StringIO
from pathlib import Path
from xml.etree import ElementTree

import pytest
from prompt_toolkit.input import create_pipe_input
from prompt_toolkit.output import DummyOutput
from rich.console import Console
from typer.testing import CliRunner, Result

from lowwater.cli import app
from lowwater.language import read
from lowwater.shell import prompt
from tests.language_runs import QUERIES, query_of

STREAM = """CREATE STREAM M (ts TIMESTAMP, srcIP STRING, len INT)
PROGRESS ts DISORDER 3 SECONDS
FROM packets OPTIONS (link 'Main1', rows 400, seconds 600, seed 1, hosts 12);
"""
QUERY = "SELECT max(len) AS longest FROM M [RANGE 1 minute, SLIDE 1 minute, WA ts]"


def call(*arguments: str, input: str | None = None) -> Result:
    return CliRunner().invoke(app, arguments, input=input)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "one.sql"
    path.write_text(f"{STREAM}{QUERY};\n")
    return path


def nodes(tree: dict[str, object]) -> list[dict[str, object]]:
    return [tree, *(one for below in tree["inputs"] for one in nodes(below))]  # type: ignore[attr-defined]


def test_check_prints_the_columns_of_each_query(file: Path) -> None:
    result = call("check", str(file))
    assert result.exit_code == 0
    assert result.stdout.strip().endswith("longest int32")


def test_check_refuses_with_the_place_and_a_sentence(tmp_path: Path) -> None:
    path = tmp_path / "bad.sql"
    path.write_text(f"{STREAM}SELECT len FROM;\n")
    result = call("check", str(path))
    assert (result.exit_code, result.stdout) == (2, "")
    assert "line 4, column" in result.stderr
    assert "^" in result.stderr


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    result = call("check", str(tmp_path / "none.sql"))
    assert (result.exit_code, result.stderr.count("\n")) == (2, 1)


def test_explain_prints_what_the_python_api_prints(file: Path) -> None:
    result = call("explain", str(file))
    assert result.stdout == query_of(file).explain() + "\n"


@pytest.mark.parametrize("path", sorted(QUERIES.glob("*.sql")), ids=lambda path: path.stem)
def test_every_format_shows_the_same_plan(path: Path) -> None:
    """The formats are renderings of one description: each has every node, in the same order."""
    relation = query_of(path)
    tree = nodes(json.loads(relation.explain("json")))
    text, dot = relation.explain(), relation.explain("dot")
    titles = [line.replace("└─ ", "").strip() for line in text.splitlines()]
    assert [one["title"] for one in tree] == [line for line in titles if line in {one["title"] for one in tree}]
    assert dot.count("label=") == len(tree)
    assert dot.count("->") == len(tree) - 1
    ElementTree.fromstring(relation.explain("svg"))


def test_json_has_the_choice_the_reason_and_the_bound_in_numbers() -> None:
    tree = nodes(json.loads(query_of(QUERIES / "th_q1_1.sql").explain("json")))
    (aggregate,) = [one for one in tree if str(one.get("operator")).startswith("Paned")]
    assert aggregate["choice"] == {"tactic": "panes", "spread": False, "live": True}
    assert str(aggregate["reason"]).startswith("RANGE/SLIDE = 10")
    assert aggregate["bound"]["partials_per_group"] == 12  # type: ignore[index]
    assert (aggregate["partitioning"], aggregate["stage"], aggregate["stages"]) == ([["srcIP"]], 1, 1)


def test_a_picture_keeps_its_text_and_escapes_it(tmp_path: Path) -> None:
    path = tmp_path / "signs.sql"
    path.write_text(f"{STREAM}SELECT ts, len FROM M WHERE len < 5 AND srcIP <> '$a & \"b\"$';\n")
    relation = query_of(path)
    shown = " ".join(ElementTree.fromstring(relation.explain("svg")).itertext())
    assert "len < 5" in shown
    assert '\\"b\\"' in relation.explain("dot")


def test_a_long_title_is_bold_in_all_its_lines_and_other_lines_are_not() -> None:
    drawn = ElementTree.fromstring(query_of(QUERIES / "th_q8_4.sql").explain("svg"))
    styles = {"".join(one.itertext()): one.get("style", "") for one in drawn.iter("{http://www.w3.org/2000/svg}text")}
    assert "font-weight: 700" in styles["Meld  of 2 inputs: rows pass at once, progress is the"]
    assert "font-weight: 700" in styles["minimum"]
    assert "font-weight: 700" not in styles["progress: ts, delay of at most 3 seconds"]
    assert all(text == text.strip() for text in styles)


def test_an_unknown_format_is_refused(file: Path) -> None:
    result = call("explain", str(file), "--format", "png")
    assert (result.exit_code, result.stderr) == (2, "format='png' is unknown; use text, json, dot, svg.\n")


def test_analyze_adds_what_a_run_measured(file: Path) -> None:
    tree = nodes(json.loads(call("explain", str(file), "--analyze", "--format", "json").stdout))
    (aggregate,) = [one["measured"] for one in tree if str(one.get("operator")).startswith("WID")]
    rows = query_of(file).collect().num_rows
    assert aggregate["result_rows"] == rows  # type: ignore[index]
    assert aggregate["input_rows"] > rows  # type: ignore[index]
    assert 0 < aggregate["most_state_rows"] <= 3  # type: ignore[index]
    assert aggregate["within_bound"] is True  # type: ignore[index]


def test_analyze_in_the_text_runs_the_query_too(tmp_path: Path) -> None:
    path = tmp_path / "explain.sql"
    path.write_text(f"{STREAM}EXPLAIN ANALYZE {QUERY};\n")
    shown = call("explain", str(path)).stdout
    assert "within the bound" in shown
    assert " rows in, " in shown


OTHER = STREAM.replace("STREAM M", "STREAM Other")


def test_queries_that_share_no_stream_are_explained_one_after_the_other(file: Path) -> None:
    file.write_text(f"{STREAM}{OTHER}{QUERY};\n{QUERY.replace('FROM M', 'FROM Other')};\n")
    shown = call("explain", str(file)).stdout
    assert shown.index("query1:") < shown.index("query2:")
    assert set(json.loads(call("explain", str(file), "--format", "json").stdout)) == {"query1", "query2"}
    assert "choose one by --query" in call("explain", str(file), "--format", "dot").stderr
    assert call("explain", str(file), "--format", "dot", "--query", "query2").stdout.startswith("digraph")
    assert "it has: query1, query2" in call("explain", str(file), "--query", "query3").stderr
    assert "together" not in call("check", str(file)).stdout


def test_queries_that_share_a_stream_are_explained_as_one_plan(file: Path) -> None:
    file.write_text(f"{STREAM}{QUERY};\n{QUERY.replace('max', 'min')};\n")
    shown = call("explain", str(file)).stdout
    assert shown.startswith("Together  2 queries in one plan\n   scan     M is read once, for query1 and query2\n")
    assert shown.index("Query query1") < shown.index("Query query2")
    tree = json.loads(call("explain", str(file), "--format", "json").stdout)
    assert (tree["queries"], tree["scans"]) == (["query1", "query2"], {"M": ["query1", "query2"]})
    assert call("explain", str(file), "--format", "dot").stdout.startswith("digraph")
    assert "Together" not in call("explain", str(file), "--query", "query2").stdout
    ran = call("explain", str(file), "--analyze").stdout
    numbers = [int(number) for number in re.findall("ran +([0-9]+) rows in", ran)]
    assert numbers[:2] == numbers[2:], "results and rows, of each query"
    assert numbers[1] > 100
    told = call("check", str(file)).stdout.splitlines()
    assert told[-1] == "query1 and query2 run together: M is read once."


def test_queries_that_cannot_share_say_why(file: Path) -> None:
    """Both read Other, and each a stream of its own that is called M."""
    union = "SELECT count(*) AS n FROM M UNION Other [RANGE 1 minute, WA ts]"
    file.write_text(f"{STREAM}{OTHER}{union};\n{STREAM.replace('seed 1', 'seed 2')}{union};\n{QUERY};\n")
    why = "query1 reads another stream named 'M'; name the two apart to let them share"
    together = "query2 and query3 run together: M is read once."
    assert (
        call("check", str(file)).stdout.splitlines()[-1]
        == f"{together} Other queries run apart from them, because {why}."
    )
    file.write_text(f"{STREAM}{OTHER}{union};\n{STREAM.replace('seed 1', 'seed 2')}{union};\n")
    assert call("check", str(file)).stdout.splitlines()[-1] == f"query2 runs on its own, because {why}."
    assert f"query2 runs on its own, because {why}." in call("explain", str(file)).stdout


def test_no_format_shows_a_secret(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LINK", "Main1")
    path = tmp_path / "secret.sql"
    path.write_text(STREAM.replace("'Main1'", "'${LINK}'") + QUERY + ";\n")
    for form in ("text", "json", "dot", "svg"):
        assert "Main1" not in call("explain", str(path), "--format", form, "--analyze").stdout


# -- the prompt ----------------------------------------------------------------------------------------------------


def test_the_prompt_takes_statements_through_a_pipe(file: Path) -> None:
    result = call("sql", input=f"{STREAM}streams;\n{QUERY};\nSELECT nope FROM M;\nquit;\nSELECT 1;\n")
    assert result.exit_code == 0
    assert "M: ts, srcIP, len\n" in result.stdout
    assert f"{query_of(file).collect().num_rows} rows, 0 late rows." in result.stdout
    assert "Line 1, column 8: There is no column 'nope'" in result.stdout


def test_the_prompt_explains() -> None:
    result = call("sql", input=f"{STREAM}EXPLAIN {QUERY};\nEXPLAIN ANALYZE {QUERY};\n")
    assert result.stdout.count("WID aggregate") == 2
    assert result.stdout.count("within the bound") == 1


def test_a_declaration_with_an_error_is_not_kept() -> None:
    out = StringIO()
    entering = prompt.Prompt(Console(file=out), prompt.in_process)
    entering.enter(STREAM.replace("PROGRESS ts", "PROGRESS when"))
    assert entering.columns() == {}
    entering.enter(STREAM)
    entering.enter(f"CREATE VIEW V AS {QUERY};")
    assert entering.columns() == {"M": ["ts", "srcIP", "len"], "V": ["window_start", "window_end", "longest"]}


def test_typing_completes_names_keeps_history_and_waits_for_the_end(tmp_path: Path) -> None:
    out, history = StringIO(), tmp_path / "history"
    entering = prompt.Prompt(Console(file=out), prompt.in_process)
    entering.enter(STREAM)
    assert {"M", "srcIP", "len", "SELECT"} <= set(entering.words())
    with create_pipe_input() as keys:
        keys.send_text(f"{QUERY}\r;\rquit\r")
        typed = list(_until_quit(prompt.typed(entering, history, input=keys, output=DummyOutput())))
    assert typed == [f"{QUERY}\n;", "quit"]
    assert QUERY in history.read_text()


def _until_quit(entries):  # type: ignore[no-untyped-def]
    for text in entries:
        yield text
        if text == "quit":
            return


def test_check_explain_and_completion_generate_no_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A stream of a billion rows is declared, checked, explained and completed at once."""
    text = STREAM.replace("rows 400", "rows 1000000000")
    path = tmp_path / "long.sql"
    path.write_text(f"{text}{QUERY};\n")
    assert call("check", str(path)).exit_code == 0
    assert call("explain", str(path)).exit_code == 0
    entering = prompt.Prompt(Console(file=StringIO()), prompt.in_process)
    entering.enter(text)
    words = entering.words()
    assert "srcIP" in words
    bound: list[object] = []
    monkeypatch.setattr(prompt, "bind", lambda *given: bound.append(given))
    assert entering.words() == words
    assert bound == []  # a key that is pressed plans nothing


def test_insert_needs_spark() -> None:
    result = call("sql", input=f"{STREAM}INSERT INTO parquet OPTIONS (path 'x') {QUERY};\n")
    assert "INSERT needs Spark" in result.stdout


def test_a_text_is_complete_with_its_semicolon() -> None:
    assert [prompt.complete(text) for text in ("SELECT 1", "SELECT 1;", "help", "quit ")] == [False, True, True, True]
    assert list(prompt.entries_of(StringIO("a\nb;\nc"))) == ["a\nb;\n", "c"]
    assert read(STREAM).statements
