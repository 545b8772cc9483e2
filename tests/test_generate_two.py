"""The two sides of a join: the very rows that figures are known for."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from lowwater.generate import SECOND, START, two


@pytest.fixture(scope="module")
def tables() -> dict[str, pa.Table]:
    return two.sides(1_000_000, 500, 10_000)


@pytest.mark.parametrize(("band", "pairs"), [(2, 797_653), (60, 22_567_435)])
def test_they_have_the_pairs_that_are_known(tables: dict[str, pa.Table], band: int, pairs: int) -> None:
    """Counted on a line on which keys are further apart than any two times."""
    left, right = (
        np.sort((table["key"].to_numpy() << 40) + table["ts"].cast(pa.int64()).to_numpy() - START * SECOND)
        for table in tables.values()
    )
    reach = band * SECOND
    assert (np.searchsorted(right, left + reach, "right") - np.searchsorted(right, left - reach)).sum() == pairs


def test_text_changes_nothing_but_the_key(tables: dict[str, pa.Table]) -> None:
    for name, table in two.sides(1_000_000, 500, 10_000, text=True).items():
        assert table.drop(["key"]).equals(tables[name].drop(["key"]))
        assert table["key"][:100].to_pylist() == [f"key-{key}" for key in tables[name]["key"][:100].to_pylist()]
