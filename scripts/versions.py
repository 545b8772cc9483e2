"""Tries lowwater with the versions that it declares: `make versions` runs it, and writes the table of the README.

Each set is an environment of its own under .venv/versions, or under the folder of --environments, into which the wheel
is installed. The examples of the README run there in an empty directory, so that only the wheel can be imported. The
oldest and the newest set also run the sample of the tests, from a copy of tests/ without the package beside it. With
--install the environments are only made.

    oldest    the lower ends of the ranges in pyproject.toml, as uv resolves them
    4.0 ...   the newest patch of each minor version of PySpark, with the newest packages that fit
    delta     the newest delta-spark, with the PySpark that it asks for
    newest    the versions of requirements.lock

What was found is kept in versions.json; tests/test_versions.py compares it with the README and with pyproject.toml.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tests.test_docs import blocks  # noqa: E402

UV = Path(sys.executable).parent / "uv"
PLACE = ROOT / ".venv" / "versions"
FOUND = ROOT / "scripts" / "versions.json"
BEGIN, END = "<!-- versions -->\n", "<!-- /versions -->\n"
SHOWN = ("pyspark", "pandas", "pyarrow", "numpy", "polars")
KEPT = (*SHOWN, "sqlglot", "datasketches", "protobuf", "delta-spark")
SPARKS = ("4.0", "4.1", "4.2", "4.3")
NAMES = ["oldest", *SPARKS, "delta", "newest"]
SAMPLED = ("oldest", "newest")
"""The sets that also run the sample of the tests."""
SAMPLE = (
    "tests/test_expressions.py",
    "tests/test_cases_of_ours.py",
    "tests/test_transcripts.py",
    "tests/test_language_clauses.py",
    "tests/laws/test_aggregate_results.py",
    "tests/spark/test_kinds.py",
    "tests/spark/test_restart.py",
    "tests/spark/test_typed.py",
    "tests/spark/test_types.py",
)
"""Tests of the oldest and the newest set: kernels without Spark, and on Spark every kind of window, restarts, types."""
TOOLS = ("pytest", "hypothesis", "PyYAML")


@dataclass(frozen=True)
class Tried:
    """What one set of versions has shown. `tests` is empty where only the examples ran."""

    name: str
    packages: dict[str, str]
    example: str
    tests: str = ""


def run(*command: object, cwd: Path = ROOT, check: bool = True) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}
    # These would take a Spark or a Python from elsewhere.
    environment |= {"PYTHONNOUSERSITE": "1", "SPARK_LOCAL_IP": "127.0.0.1"}
    for name in ("SPARK_HOME", "PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON"):
        environment.pop(name, None)
    done = subprocess.run([str(c) for c in command], cwd=cwd, env=environment, capture_output=True, text=True)
    if check and done.returncode:
        raise SystemExit(f"{' '.join(map(str, command))} failed:\n{done.stdout[-4000:]}{done.stderr[-4000:]}")
    return done


def wheel() -> Path:
    """The wheel of `make wheel`."""
    (found,) = (ROOT / "dist").glob("lowwater-*.whl")
    return found


def program(readme: str) -> str:
    """The examples of the README as one program, with a session for those on Spark and a finite query behind them."""
    return "\n".join(
        [
            "from lowwater.backends.spark import launch",
            "spark = launch.local()",
            *(block.code for block in blocks(readme)),
            "finite = traffic(spark.read.parquet(str(place / 'in'))).collect(shards=2)",
            "assert finite.equals(traffic(rows).collect().cast(finite.schema)), finite",
            "spark.stop()",
        ]
    )


def requirements(name: str, place: Path) -> list[str]:
    """What pip is asked for besides the wheel, and the versions that it is held to."""
    if name == "newest":
        return ["--constraint", str(ROOT / "requirements.lock")]
    if name == "oldest":
        file = place / "oldest.txt"
        options = ("--resolution", "lowest-direct", "--extra", "spark", "--python-version", "3.11", "--no-header")
        run(UV, "pip", "compile", "--quiet", *options, "--output-file", file, "pyproject.toml")
        return ["--constraint", str(file)]
    return ["delta-spark"] if name == "delta" else [f"pyspark=={name}.*"]


def installed(name: str, environments: Path, tested: bool) -> Path:
    """The Python of the environment of a set, with the wheel in it."""
    place = environments / name
    run(UV, "venv", "--quiet", "--allow-existing", "--python", sys.executable, place)
    python = place / "bin" / "python"
    tools = TOOLS if tested else ()
    wanted = [f"lowwater[spark] @ {wheel().as_uri()}", *requirements(name, place), *tools]
    # An environment of an earlier run is brought up to date, which takes less than a new one.
    run(UV, "pip", "install", "--quiet", "--upgrade", "--reinstall-package", "lowwater", "--python", python, *wanted)
    return python


def tried(name: str, python: Path, tested: bool) -> Tried:
    listed = json.loads(run(UV, "pip", "list", "--python", python, "--format", "json").stdout)
    packages = {each["name"]: each["version"] for each in listed}
    kept = {one: packages[one] for one in KEPT if one in packages}
    with tempfile.TemporaryDirectory() as empty:
        (Path(empty) / "example.py").write_text(program((ROOT / "README.md").read_text()))
        done = run(python, "example.py", cwd=Path(empty), check=False)
        example = outcome(done)
    return Tried(name, kept, example, sample(python) if tested else "")


def sample(python: Path) -> str:
    """The closing line of the sample of tests, from a directory without the package."""
    with tempfile.TemporaryDirectory() as empty:
        shutil.copytree(ROOT / "tests", Path(empty) / "tests", ignore=shutil.ignore_patterns("__pycache__"))
        for name in ("examples", "docs", "benchmarks"):
            shutil.copytree(ROOT / name, Path(empty) / name)
        shutil.copy(ROOT / "pyproject.toml", empty)
        done = run(python, "-m", "pytest", "-q", "-p", "no:cacheprovider", *SAMPLE, cwd=Path(empty), check=False)
    if done.returncode:
        print(done.stdout[-6000:], file=sys.stderr)
        return "failed"
    closing = done.stdout.strip().splitlines()[-1]
    match = re.search(r"(\d+) passed", closing)
    return f"{match[1]} pass" if match else "failed"


def outcome(done: subprocess.CompletedProcess[str]) -> str:
    if done.returncode:
        print(done.stdout[-2000:], done.stderr[-4000:], sep="\n", file=sys.stderr)
    return "failed" if done.returncode else "runs"


def table(sets: list[Tried]) -> str:
    """The table of the README."""
    if not sets:
        return "\nNo run of `make versions` is recorded yet.\n\n"
    heads = ["PySpark", *SHOWN[1:], "README's examples", "sample of the tests"]
    lines = [f"| {' | '.join(heads)} |", "|" + "---|" * len(heads)]
    for one in sets:
        delta = one.packages.get("delta-spark")
        spark = one.packages["pyspark"] + (f", with delta-spark {delta}" if delta else "")
        cells = [spark, *(one.packages[name] for name in SHOWN[1:]), one.example, one.tests]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n" + "\n".join(lines) + "\n\n"


def written(readme: str, sets: list[Tried]) -> str:
    """The README with the table of these sets."""
    before, _, rest = readme.partition(BEGIN)
    _, _, after = rest.partition(END)
    return before + BEGIN + table(sets) + END + after


def known() -> list[Tried]:
    return [Tried(**one) for one in json.loads(FOUND.read_text())] if FOUND.exists() else []


def keep(sets: list[Tried]) -> None:
    """Writes what was found, and the table of the README."""
    FOUND.write_text(json.dumps([asdict(one) for one in sets], indent=2) + "\n")
    readme = ROOT / "README.md"
    readme.write_text(written(readme.read_text(), sets))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", help=f"the sets to try, of {', '.join(NAMES)}; all by default")
    parser.add_argument("--environments", type=Path, default=PLACE, help="the folder of the environments")
    parser.add_argument("--install", action="store_true", help="make the environments, and try nothing")
    asked = parser.parse_args()
    chosen = asked.names or NAMES
    if not set(chosen) <= set(NAMES):
        parser.error(f"there is: {', '.join(NAMES)}")
    begun = time.monotonic()
    sets = {one.name: one for one in known()}
    for name in chosen:
        at = time.monotonic()
        tested = name in SAMPLED
        python = installed(name, asked.environments, tested)
        if asked.install:
            print(f"{name}: {python}, {time.monotonic() - at:.0f} s", flush=True)
            continue
        sets[name] = tried(name, python, tested)
        print(f"{name}: {sets[name]}, {time.monotonic() - at:.0f} s", flush=True)
        ordered = [sets[each] for each in NAMES if each in sets]
        keep(ordered)  # after each, so that an interrupted run loses nothing
    print(f"{time.monotonic() - begun:.0f} s")
    if any("failed" in (sets[name].example, sets[name].tests) for name in chosen if not asked.install):
        raise SystemExit("Some versions failed; see above.")


if __name__ == "__main__":
    main()
