"""Choices from statistics: sparse groups are noticed in rows that are there, and the choice holds what it promises."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import lowwater as lw
from lowwater.backends.opened import first_rows
from lowwater.generate import keyed
from lowwater.language import read
from lowwater.language.declaration import declaration_of
from lowwater.query.statistics import ENOUGH

SECOND = 1000


def packets(groups: int, n: int = 2 * ENOUGH, seed: int = 1) -> pa.Table:
    """Ten minutes of rows, evenly over groups, up to a second out of order."""
    rng = np.random.default_rng(seed)
    ts = np.sort(rng.integers(0, 600 * SECOND, n))
    ts = ts[np.argsort(ts + rng.integers(0, SECOND, n), kind="stable")]
    return pa.table({"ts": ts, "k": rng.integers(0, groups, n), "v": rng.normal(size=n)})


def query(rows: pa.Table, slide: int, strategy: str = "auto", groups: str | None = None) -> lw.Relation:
    stream = lw.stream(rows, name="rows", progress="ts", disorder=SECOND, groups=groups)
    return stream.window(60 * SECOND, slide).group_by("k").agg(strategy, n=lw.count(), total=lw.sum("v"))


def most_bytes(relation: lw.Relation) -> int:
    return max(relation.node.backend.analyze(relation.node, batch_rows=1000).state_bytes.values())


@pytest.mark.parametrize("slide", [60 * SECOND, 10 * SECOND])
@pytest.mark.parametrize(("groups", "sparse"), [(10, False), (1000, False), (ENOUGH, True), (1_000_000, True)])
def test_the_choice_holds_the_least_state(groups: int, sparse: bool, slide: int) -> None:
    """In bytes, by a run of both: AdaptWID where it saves a quarter and more, and partials where it does not."""
    rows = packets(groups)
    chosen = query(rows, slide).plan.spec
    partials = "wid" if slide == 60 * SECOND else "panes"
    assert chosen.tactic == ("adaptive" if sparse else partials)  # type: ignore[attr-defined]
    ratio = most_bytes(query(rows, slide, "adaptive")) / most_bytes(query(rows, slide, partials))
    assert (ratio < 0.75) == sparse


def test_explain_gives_the_statistics_as_the_reason() -> None:
    shown = query(packets(ENOUGH), 60 * SECOND).explain()
    assert "AdaptWID aggregate" in shown
    assert "groups are sparse (of the first 20,000 rows, a group has 1.0 per window: 5" in shown


def test_results_do_not_depend_on_the_choice() -> None:
    rows = packets(ENOUGH)
    assert query(rows, 10 * SECOND).collect().equals(query(rows, 10 * SECOND, "panes").collect())


def test_a_declaration_and_a_strategy_are_not_overruled() -> None:
    rows = packets(ENOUGH)
    assert query(rows, 60 * SECOND, groups="dense").plan.spec.tactic == "wid"  # type: ignore[attr-defined]
    assert query(rows, 60 * SECOND, strategy="wid").plan.spec.tactic == "wid"  # type: ignore[attr-defined]


def test_few_rows_and_no_rows_decide_nothing() -> None:
    few = packets(ENOUGH, ENOUGH - 1)
    for rows in (few, few.schema.empty_table()):
        assert query(rows, 60 * SECOND).plan.spec.tactic == "wid"  # type: ignore[attr-defined]


def test_a_step_in_between_changes_rows_so_that_they_decide_nothing() -> None:
    stream = lw.stream(packets(ENOUGH), name="rows", progress="ts", disorder=SECOND)
    derived = stream.with_column("k", "k % 3").window(60 * SECOND).group_by("k").agg(n=lw.count())
    assert derived.plan.spec.tactic == "wid"  # type: ignore[attr-defined]


def test_groups_that_become_dense_leave_their_rows() -> None:
    """A wrong first impression costs little: AdaptWID, while it runs, keeps partials of groups that become dense."""
    sparse, dense = packets(ENOUGH, ENOUGH), packets(10, 3 * ENOUGH, seed=2)
    later = dense.set_column(0, "ts", pa.array(dense["ts"].to_numpy() + 600 * SECOND))
    relation = query(pa.concat_tables([sparse, later]), 60 * SECOND)
    running = relation.start()
    held = []
    for at in range(0, 4 * ENOUGH, 1000):
        running.push(pa.concat_tables([sparse, later]).slice(at, 1000))
        held.append(running.metrics().state_rows)
    assert max(held[: ENOUGH // 1000]) > 1000
    assert held[-1] < 200


def test_a_join_expects_the_state_that_it_then_holds() -> None:
    """By rate times window; a run holds that on average, and at its end at most a batch more."""
    a, b = (
        lw.stream(packets(100, seed=seed), name=name, progress="ts", disorder=SECOND)
        for seed, name in ((1, "a"), (2, "b"))
    )
    joined = a.join(b, on="k", within=5 * SECOND)
    (line, _) = [text for word, text in joined.plan.spec.lines() if word == "expects"]
    expected = int(line.split("about ")[1].split(" rows")[0].replace(",", ""))
    held = max(joined.node.backend.analyze(joined.node, batch_rows=500).state_rows.values())
    assert expected == pytest.approx(5 * 2 * ENOUGH / 600, rel=0.05)
    assert 2 * expected * 0.8 < held < 2 * expected * 2.5


def test_a_punctuated_join_expects_less_by_equation_1() -> None:
    rows = packets(50)
    marked = rows.append_column("over", pa.array(np.arange(rows.num_rows) % 1000 == 0))
    a = lw.stream(rows, name="a", progress="ts", disorder=SECOND)
    b = lw.stream(marked, name="b", progress="ts", disorder=SECOND).ends("k", when="over")
    lines = [text for word, text in a.join(b, on="k", within=5 * SECOND).plan.spec.lines() if word == "expects"]
    assert "Equation (1)" in lines[0]
    assert "rate times window" in lines[1]
    rate = ENOUGH / (rows["ts"].slice(0, ENOUGH).to_numpy().max() - rows["ts"].slice(0, ENOUGH).to_numpy().min())
    by_hand = rate * 5 * SECOND * (1 - 20 / 50)
    assert int(lines[0].split("about ")[1].split(" rows")[0].replace(",", "")) == pytest.approx(by_hand, rel=0.01)


SOURCES = ("parquet OPTIONS (path '{}')", "csv OPTIONS (path '{}')", "kafka OPTIONS (subscribe 'a')")


@pytest.mark.parametrize("where", SOURCES)
def test_files_can_be_looked_at_and_other_sources_cannot(where: str, tmp_path: Path) -> None:
    """A file of another format than declared is left to Spark, which refuses it."""
    pq.write_table(keyed(100, 60, 5, seed=1), tmp_path / "a.parquet")
    columns = "(ts TIMESTAMP, key BIGINT, val DOUBLE)"
    (statement,) = read(f"CREATE STREAM R {columns} PROGRESS ts DISORDER 3 SECONDS FROM {where.format(tmp_path)}")
    found = first_rows(declaration_of(statement.tree), 30)
    assert (None if found is None else found.num_rows) == (30 if where.startswith("parquet") else None)
