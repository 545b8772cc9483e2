"""The command line: reads options, calls what does the work, prints. A refusal is one sentence and exit status 2."""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table
from typer.core import TyperGroup

import lowwater
from lowwater.errors import LowwaterError

OUT = Console()
ERR = Console(stderr=True)


class Refusing(TyperGroup):
    """Turns what lowwater refuses into a sentence on standard error."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except LowwaterError as error:
            print(str(error), file=sys.stderr)
            raise typer.Exit(2) from error


app = typer.Typer(cls=Refusing, no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False)

Json = Annotated[bool, typer.Option("--json", help="One JSON object on standard output, nothing else.")]
List = Annotated[bool, typer.Option("--list", help="What there is, by name.")]


def _version(wanted: bool) -> None:
    if wanted:
        print(lowwater.__version__)
        raise typer.Exit


@app.callback()
def main(
    version: Annotated[bool, typer.Option("--version", callback=_version, is_eager=True, help="The version.")] = False,
) -> None:
    """Window queries over streams that arrive late, out of order and out of step, on Spark Structured Streaming."""


@app.command()
def demo(
    rows: Annotated[int, typer.Option(min=1000, help="Packets in all.")] = 2_000_000,
    keep: Annotated[Path | None, typer.Option(help="A new directory for packets, answers and checkpoints.")] = None,
) -> None:
    """Two window queries over an hour of packets on three links, checked against the batch answer."""
    from lowwater.backends.spark import launch
    from lowwater.experiments import demo as experiment

    if keep is not None and keep.exists():
        raise LowwaterError(f"{keep} is there already; give --keep a directory that is not.")
    place = keep or Path(tempfile.mkdtemp(prefix="lowwater-demo-"))
    try:
        with launch.session(name="lowwater-demo") as spark:
            agrees = experiment.run(spark, place, OUT, rows)
    finally:
        if keep is None:
            shutil.rmtree(place, ignore_errors=True)
    raise typer.Exit(0 if agrees else 1)


@app.command()
def rescale(
    checkpoint: Annotated[str, typer.Argument(help="The checkpoint directory of a stopped query.")],
    partitions: Annotated[int, typer.Option(help="How many shards run at once from the next start on.")],
) -> None:
    """Lets a stopped query go on with another number of partitions; state and offsets stay as they are."""
    from lowwater.backends.spark import launch

    with ERR.status("starting Spark"), launch.session(name="lowwater-rescale") as spark:
        lowwater.rescale(spark, checkpoint, partitions)
    OUT.print(f"The query of {checkpoint} goes on with {partitions} partitions when it is next started.")


@app.command()
def bench(
    name: Annotated[str, typer.Argument(help="Which benchmark.")] = "sliding",
    list_: List = False,
    as_json: Json = False,
    rows: Annotated[int | None, typer.Option(min=1000, help="At most so many rows a micro-batch.")] = None,
    rounds: Annotated[int, typer.Option(min=1, help="How often each engine runs.")] = 2,
    plot: Annotated[Path | None, typer.Option(help="Where the plot goes; bench-NAME.png if not said.")] = None,
) -> None:
    """lowwater and its rivals (such as Spark's own window()) on the same files; exit status 1 if answers differ."""
    experiment = _benchmarks()
    if list_:
        return _list({b.name: b.about for b in experiment.BENCHMARKS.values()}, "benchmarks", "about", as_json)
    chosen = experiment.find(name)
    from lowwater.backends.spark import launch

    with ERR.status("starting Spark") as status, launch.session(name="lowwater-bench") as spark:
        # A spinner shows nothing where standard error is a file; minutes without a word look like a hang.
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
        OUT.print(f"The answers of all engines agree; the plot is {file}." if report.equal else "No ratios:")
        for text in report.disagreements:
            OUT.print(text)
    raise typer.Exit(0 if report.equal else 1)


@app.command()
def reproduce(
    ids: Annotated[list[str] | None, typer.Argument(help="Which claims; see --list.", metavar="[ID]...")] = None,
    list_: List = False,
    as_json: Json = False,
    out: Annotated[Path, typer.Option(help="Directory for the csv and the figure.")] = Path("reproduced"),
    size: Annotated[str, typer.Option(help="tiny or full.")] = "full",
) -> None:
    """Measures claims of the papers anew; exit status 0 only if all hold."""
    from lowwater.experiments import catalogue

    if list_:
        return _list({r.id: r.claim for r in catalogue.CATALOGUE.values()}, "reproductions", "claim", as_json)
    if not ids:
        raise LowwaterError("Which one? Give an id; `lowwater reproduce --list` has them.")
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
    """Whether this machine can run lowwater, and what to do if not."""
    from lowwater import doctor as surgery

    findings = surgery.examine(spark)
    able = surgery.able(findings)
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
    """The benchmarks, which stand beside the package in the repository and are not installed with it."""
    root = Path(lowwater.__file__).parent.parent
    if not (root / "benchmarks" / "slide_by_tuple_by_hand.py").is_file():  # others install a package of that name too
        raise LowwaterError(
            "The benchmarks are not installed with lowwater; run `lowwater bench` from a clone of the repository."
        )
    if str(root) not in sys.path:
        sys.path.insert(0, str(root))
    return import_module("benchmarks.bench")


def _list(entries: dict[str, str], what: str, about: str, as_json: bool) -> None:
    if as_json:
        print(
            json.dumps({what: [{"id" if about == "claim" else "name": n, about: text} for n, text in entries.items()]})
        )
        return
    for name, text in entries.items():
        OUT.print(f"{name}  {text}")
