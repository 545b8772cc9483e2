"""Failures of running queries: one sentence, the cause out of Spark's pages of traces, and no value of a secret."""

from __future__ import annotations

from io import StringIO

import pytest
from rich.console import Console

from lowwater.errors import LowwaterError
from lowwater.language import BoundQuery, read
from lowwater.shell import prompt
from lowwater.shell.failures import cause_of, sentences
from tests.test_shell import QUERY, STREAM

FAILED = (
    "[STREAM_FAILED] Query [id = 1, runId = 2] terminated with exception: Job aborted due to stage failure: "
    "org.apache.spark.api.python.PythonException: Traceback (most recent call last):\n"
    '  File "worker.py", line 1, in main\n'
)


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        (
            f"{FAILED}lowwater.errors.LowwaterError: Query over 'M': state is over.\n\tat org",
            "Query over 'M': state is over.",
        ),
        (f"{FAILED}pyarrow.lib.ArrowInvalid: x\nValueError: no\n\tat org.ValueError: y", "ValueError: no"),
        (
            "[STREAM_FAILED] Query [id = 1] terminated with exception: no broker SQLSTATE: X\n=== Plan",
            "no broker SQLSTATE: X",
        ),
        ("", "it gave no reason"),
    ],
)
def test_the_cause_is_the_line_that_says_what_is_wrong(text: str, cause: str) -> None:
    assert cause_of(text) == cause


@pytest.mark.parametrize("kind", [LowwaterError, RuntimeError])
def test_no_failure_shows_a_secret_of_a_source_or_a_sink(
    kind: type[Exception], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LW_JAAS", "from-the-environment")
    script = read(
        "CREATE STREAM R (t INT) PROGRESS t DISORDER 0 FROM kafka OPTIONS (kafka.sasl.jaas.config '${LW_JAAS}', a 'b');"
        "INSERT INTO jdbc OPTIONS (password 'written-out') SELECT * FROM R;"
        "INSERT INTO LATE jdbc OPTIONS (token 'of-late-rows')"
    )
    with pytest.raises(LowwaterError) as caught, sentences(script):
        raise kind("cannot log in: from-the-environment written-out of-late-rows b")
    error: BaseException | None = caught.value
    shown = str(error)
    assert "cannot log in: ${LW_JAAS} *** *** b" in shown
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__


def test_a_failure_does_not_end_the_prompt() -> None:
    out = StringIO()

    def failing(query: BoundQuery, arrived: object) -> int:
        raise RuntimeError(f"{FAILED}OSError: the link is down")

    entering = prompt.Prompt(Console(file=out), failing)
    assert entering.enter(STREAM)
    assert entering.enter(f"{QUERY};")
    assert "The queries have failed: OSError: the link is down." in out.getvalue()
    assert "Traceback" not in out.getvalue()
