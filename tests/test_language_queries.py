"""The papers' queries as files: each reads, explains as before, and equals its definition. tests/spark has Spark.

`LOWWATER_REFRESH=1 pytest tests/test_language_queries.py` writes the plans anew; look at the difference before it is
committed.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from lowwater.language import read, write
from tests.language_runs import QUERIES, defined, query_of, run
from tests.tree_oracle import unlike

THESIS = ["1_1", "1_2", "2_1", "3_1", *(f"5_{n}" for n in range(1, 9)), *(f"6_{n}" for n in range(1, 9)), "7_1", "7_2"]
NAMES = [
    *(f"th_q{one}" for one in [*THESIS, *(f"8_{n}" for n in range(1, 6))]),
    *("wo_location", "wo_query_1", "wo_query_2", "pw_bids", "io_distinct", "sh_q1", "sh_q2"),
]
PLANS = Path(__file__).parent / "query_plans"


def test_every_query_of_the_papers_is_there() -> None:
    assert len(NAMES) == 34
    assert sorted(path.stem for path in QUERIES.glob("*.sql")) == sorted(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_a_query_explains_as_before(name: str) -> None:
    shown = query_of(QUERIES / f"{name}.sql").explain() + "\n"
    file = PLANS / f"{name}.txt"
    if os.environ.get("LOWWATER_REFRESH"):
        file.write_text(shown)
    assert shown == file.read_text()


@pytest.mark.parametrize("name", NAMES)
def test_a_query_equals_its_definition_and_has_results_and_no_late_row(name: str) -> None:
    relation = query_of(QUERIES / f"{name}.sql")
    query = run(relation)
    assert unlike(query.result(), defined(relation)) == ""
    assert query.result().num_rows > 0
    assert query.metrics().late_rows == 0


@pytest.mark.parametrize("name", NAMES)
def test_a_query_is_read_again_from_what_is_written(name: str) -> None:
    script = read((QUERIES / f"{name}.sql").read_text())
    assert [one.tree for one in read(write(script))] == [one.tree for one in script]
