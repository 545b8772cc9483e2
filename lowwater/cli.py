"""The command line: parses options, calls the library, and prints. A refusal is one sentence and exit status 2."""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
from contextlib import ExitStack
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table
from typer.core import TyperGroup

import lowwater
from lowwater.errors import LowwaterError
from lowwater.extras import needs

OUT = Console()
ERR = Console(stderr=True)


class Refusing(TyperGroup):
    """Prints a refusal of lowwater as one sentence on standard error."""

    def invoke(self, ctx: Any) -> Any:
        try:
            with needs("This command"):
                return super().invoke(ctx)
        except LowwaterError as error:
            print(str(error), file=sys.stderr)
            raise typer.Exit(2) from error


app = typer.Typer(cls=Refusing, no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False)

Json = Annotated[bool, typer.Option("--json", help="Print one JSON object on standard output, and nothing else.")]
List = Annotated[bool, typer.Option("--list", help="List all names and exit.")]


def _version(wanted: bool) -> None:
    if wanted:
        print(lowwater.__version__)
        raise typer.Exit


@app.callback()
def main(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Window queries over streams that arrive late, out of order and out of step, on Spark Structured Streaming."""


@app.command()
def demo(
    rows: Annotated[int, typer.Option(min=1000, help="The number of packets.")] = 2_000_000,
    keep: Annotated[
        Path | None, typer.Option(help="Keep packets, results and checkpoints in this new directory.")
    ] = None,
) -> None:
    """Run two window queries over an hour of packets on three links, and check them against the batch answer."""
    from lowwater.backends.spark import launch
    from lowwater.experiments import demo as experiment

    if keep is not None and keep.exists():
        raise LowwaterError(f"{keep} exists already; give --keep a new directory.")
    place = keep or Path(tempfile.mkdtemp(prefix="lowwater-demo-"))
    try:
        with launch.session(name="lowwater-demo") as spark:
            agrees = experiment.run(spark, place, OUT, rows)
    finally:
        if keep is None:
            shutil.rmtree(place, ignore_errors=True)
    raise typer.Exit(0 if agrees else 1)


File = Annotated[Path, typer.Argument(help="A file of queries; see docs/language.md.")]


@app.command()
def check(file: File) -> None:
    """Read and plan all queries of a file, and run nothing."""
    from lowwater.shell import files

    queries = files.checked(files.script_of(file))
    for query in queries:
        columns = ", ".join(f"{column.name} {column.type}" for column in query.relation.schema)
        OUT.print(f"{query.name}: {columns}", markup=False, highlight=False, soft_wrap=True)
    for group in files.groups_of(queries):
        if group.sentence is not None:
            OUT.print(group.sentence, markup=False, highlight=False, soft_wrap=True)


@app.command()
def explain(
    file: File,
    format: Annotated[str | None, typer.Option(help="text, json, dot or svg.")] = None,
    analyze: Annotated[
        bool, typer.Option("--analyze", help="Run the queries too, and add what they measured.")
    ] = False,
    seconds: Annotated[float | None, typer.Option(min=0.1, help="With --analyze: how long a stream runs.")] = None,
    query: Annotated[str | None, typer.Option(help="The only query to explain, such as query1.")] = None,
    out: Annotated[Path | None, typer.Option(help="Write to this file instead of standard output.")] = None,
) -> None:
    """Print the plan of all queries of a file: operators, reasons, stages and bounds on state."""
    from lowwater.shell import files

    text = files.explained(files.script_of(file), format, analyze, seconds, query)
    if out is None:
        print(text)
    else:
        out.write_text(text + "\n")


@app.command()
def run(
    file: File,
    checkpoint: Annotated[
        Path | None, typer.Option(help="Keep state here; a later run with the same directory goes on.")
    ] = None,
    finish: Annotated[
        bool | None,
        typer.Option(
            "--finish/--no-finish",
            help="End when all rows that are there are read, and answer open windows. Default for generated streams.",
        ),
    ] = None,
    apart: Annotated[
        bool,
        typer.Option(
            "--apart",
            help="Run each query on its own. By default queries that share a stream run as one and read it once.",
        ),
    ] = False,
) -> None:
    """Run all queries of a file on Spark until Ctrl-C, and show rows, results, late rows, state and low-watermarks."""
    from lowwater.shell import failures, files, running

    script = files.script_of(file)
    place = checkpoint or Path(tempfile.mkdtemp(prefix="lowwater-run-"))
    from lowwater.backends.spark import launch

    try:
        with (
            launch.session(name="lowwater-run") as spark,
            running.signalled() as stop,  # Spark sets a handler too
            failures.sentences(script),
        ):
            running.run(spark, script, place, OUT, finish, stop, apart)
    finally:
        if checkpoint is None:
            shutil.rmtree(place, ignore_errors=True)


@app.command()
def sql(
    on_spark: Annotated[bool, typer.Option("--spark", help="Run queries on Spark, over any source and sink.")] = False,
) -> None:
    """A prompt for queries, with results as they arrive. Statements may also come through a pipe."""
    from lowwater.shell import prompt

    with ExitStack() as stack:
        if on_spark:
            from lowwater.backends.spark import launch
            from lowwater.backends.spark.opened import opener

            with ERR.status("starting Spark"):
                spark = stack.enter_context(launch.session(name="lowwater-sql"))
            entering = prompt.Prompt(OUT, prompt.on_spark(spark), opener(spark))
        else:
            entering = prompt.Prompt(OUT, prompt.in_process)
        lines = prompt.typed(entering, prompt.history_file()) if sys.stdin.isatty() else prompt.entries_of(sys.stdin)
        prompt.run(entering, lines)


@app.command()
def rescale(
    checkpoint: Annotated[str, typer.Argument(help="The checkpoint directory of a stopped query.")],
    partitions: Annotated[int, typer.Option(help="The number of shards that run at once, from the next start.")],
) -> None:
    """Change the number of partitions of a stopped query; its state and offsets stay as they are."""
    from lowwater.backends.spark import launch

    with ERR.status("starting Spark"), launch.session(name="lowwater-rescale") as spark:
        lowwater.rescale(spark, checkpoint, partitions)
    OUT.print(f"The query of {checkpoint} will run with {partitions} partitions from its next start.")


@app.command()
def bench(
    name: Annotated[str, typer.Argument(help="The benchmark; see --list.")] = "sliding",
    list_: List = False,
    as_json: Json = False,
    rows: Annotated[int | None, typer.Option(min=1000, help="The largest number of rows per micro-batch.")] = None,
    rounds: Annotated[int, typer.Option(min=1, help="The number of runs of each engine.")] = 2,
    plot: Annotated[Path | None, typer.Option(help="The file for the plot; bench-NAME.png by default.")] = None,
) -> None:
    """Compare lowwater with others (such as Spark's window()) on the same files; exit status 1 if answers differ."""
    experiment = _benchmarks()
    if list_:
        return _list({b.name: b.about for b in experiment.BENCHMARKS.values()}, "benchmarks", "about", as_json)
    chosen = experiment.find(name)
    from lowwater.backends.spark import launch

    with ERR.status("starting Spark") as status, launch.session(name="lowwater-bench", more=chosen.settings()) as spark:
        # A spinner prints nothing if standard error is a file, and minutes without output look like a hang.
        report = chosen.run(spark, rounds, rows, status.update if ERR.is_terminal else ERR.print)
    file = plot or (None if as_json else Path(f"bench-{name}.png"))
    if file is not None and report.equal:
        experiment.plot(report, file)
    if as_json:
        print(json.dumps(experiment.as_json(report)))
    else:
        OUT.print(experiment.as_table(report))
        for text, ratio in report.own.items():
            OUT.print(f"{text}, {report.own_is}: {ratio:.2f}")
        OUT.print(f"The answers of all engines agree; the plot is in {file}." if report.equal else "No ratios:")
        for text in report.disagreements:
            OUT.print(text)
    raise typer.Exit(0 if report.equal else 1)


@app.command()
def reproduce(
    ids: Annotated[list[str] | None, typer.Argument(help="The claims; see --list.", metavar="[ID]...")] = None,
    list_: List = False,
    as_json: Json = False,
    out: Annotated[Path, typer.Option(help="Directory for the csv and the figure.")] = Path("reproduced"),
    size: Annotated[str, typer.Option(help="tiny or full.")] = "full",
) -> None:
    """Measure claims of the papers again; exit status 0 only if all of them hold."""
    from lowwater.experiments import catalogue

    if list_:
        return _list({r.id: r.claim for r in catalogue.CATALOGUE.values()}, "reproductions", "claim", as_json)
    if not ids:
        raise LowwaterError("Give the id of a claim; `lowwater reproduce --list` prints them.")
    all_judged: list[dict[str, Any]] = []
    for chosen in [catalogue.find(id) for id in ids]:
        with ERR.status(f"measuring {chosen.id}, {len(all_judged) + 1} of {len(ids)}"):
            judged = chosen.judged(size, out)
        all_judged.append(judged)
        if not as_json:
            holds = "holds" if judged["holds"] else "does not hold"
            OUT.print(f"{chosen.id}: {judged['claim']}", f"It {holds}.", sep="\n")
            for text, value in judged["measured"].items():
                OUT.print(f"  {text.replace('_', ' ')}: {value:g}")
            OUT.print(f"{judged['csv']}\n{judged['figure']}")
    holds_all = all(judged["holds"] for judged in all_judged)
    if as_json:
        (first, *others) = all_judged
        print(json.dumps({"holds": holds_all, "reproductions": all_judged} if others else first))
    raise typer.Exit(0 if holds_all else 1)


@app.command()
def doctor(
    as_json: Json = False,
    spark: Annotated[bool, typer.Option("--spark", help="Also start Spark and run a small query.")] = False,
) -> None:
    """Check whether this machine can run lowwater, and print what to do if not."""
    from lowwater import doctor as checks

    findings = checks.examine(spark)
    able = checks.able(findings)
    if as_json:
        print(json.dumps({"able": able, "findings": [vars(finding) for finding in findings]}))
    else:
        table = Table(show_header=False, box=None)
        for finding in findings:
            table.add_row(finding.status, finding.part, finding.found, finding.advice)
        OUT.print(table)
        OUT.print("lowwater can run here." if able else "lowwater cannot run here yet.")
    raise typer.Exit(0 if able else 1)


def _benchmarks() -> Any:
    """The benchmarks, which are in the repository and are not installed with the package."""
    root = Path(lowwater.__file__).parent.parent
    if not (root / "benchmarks" / "slide_by_tuple_by_hand.py").is_file():  # others install a package of that name too
        raise LowwaterError(
            "The benchmarks are not installed with lowwater; run `lowwater bench` from a clone of the repository."
        )
    if str(root) not in sys.path:
        sys.path.insert(0, str(root))
    return import_module("benchmarks.bench")


def _list(entries: dict[str, str], title: str, about: str, as_json: bool) -> None:
    if as_json:
        key = "id" if about == "claim" else "name"
        print(json.dumps({title: [{key: name, about: text} for name, text in entries.items()]}))
        return
    for name, text in entries.items():
        OUT.print(f"{name}  {text}")
