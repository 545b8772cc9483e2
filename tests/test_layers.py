"""The layers hold: imports go one way, and nothing outside backends/spark loads Spark."""

from __future__ import annotations

import pkgutil
import subprocess
import sys
from pathlib import Path

import lowwater

ROOT = Path(__file__).parent.parent
ABOVE = ("lowwater.backends.spark.", "lowwater.cli", "lowwater.experiments", "lowwater.shell.running")


def below_spark() -> list[str]:
    found = [module.name for module in pkgutil.walk_packages(lowwater.__path__, "lowwater.")]
    return ["lowwater", *(name for name in found if not name.startswith(ABOVE))]


def test_the_local_backend_and_all_below_it_do_not_load_spark() -> None:
    modules = below_spark()
    assert {"lowwater.backends.local", "lowwater.runtime.graph", "lowwater.model.progress"} <= set(modules)
    program = (
        f"import importlib, sys\nfor name in {modules!r}: importlib.import_module(name)\n"
        "print(sorted({name.split('.')[0] for name in sys.modules} & {'pyspark', 'py4j'}))"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.stdout.strip(), done.returncode) == ("[]", 0), done.stderr


def test_the_contracts_of_the_layers_are_kept() -> None:
    """Run by its function, in a process of its own: where scripts are installed differs from machine to machine."""
    program = "import sys; from importlinter.cli import lint_imports; sys.exit(lint_imports(no_cache=True))"
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
