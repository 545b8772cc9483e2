"""apply(): what a user's function returns is checked, and a broken promise is refused with a sentence."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import lowwater as lw

ROWS = pa.table({"ts": [1, 2, 3, 31, 32], "n": [1, 2, 3, 4, 5]})


def stream(rows: Any = ROWS) -> lw.Relation:
    return lw.stream(rows, name="a", progress="ts", disorder=0)


def moved(rows: pa.Table) -> pa.Table:
    """A function that breaks its promise: it changes a time that progresses."""
    at = rows.schema.get_field_index("window_end")
    return rows.set_column(at, "window_end", pc.subtract(rows["window_end"], 100))


@pytest.mark.parametrize("late", [True, False])
def test_a_function_that_changes_a_time_that_progresses_is_refused_with_its_name(late: bool) -> None:
    counts = stream().window(5).agg(n=lw.count())
    query = counts.apply(moved, counts.schema).window(10, over="window_end").agg(n=lw.count()).start(late=late)
    with pytest.raises(lw.LowwaterError, match=r"apply\(\) changed 'window_end', on which its rows progress"):
        query.push(ROWS)


@pytest.mark.parametrize("behind", [False, True])
@pytest.mark.parametrize(
    ("function", "says"),
    [
        (lambda rows: None, "returned NoneType, not an Arrow table"),
        (lambda rows: rows.drop_columns(["n"]), "returned no column 'n'; its schema= promises it"),
        (lambda rows: rows.set_column(1, "n", pa.array(["?"] * rows.num_rows)), "'n' as string, which is not int64"),
    ],
)
def test_what_a_function_returns_is_refused_in_a_sentence(function: Any, says: str, behind: bool) -> None:
    rows = pa.table({"ts": [1, 31], "n": [1, 2]})
    of = stream(rows)
    given = of.window(5).agg(n=lw.count()).select("window_end", "n") if behind else of
    with pytest.raises(lw.LowwaterError, match=says):
        given.apply(function, given.schema).window(10).agg(m=lw.count()).collect()
