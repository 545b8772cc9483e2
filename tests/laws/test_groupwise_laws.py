"""The law of group-wise progress: where the source is part of the key, every source is answered as if it were alone.

For every source, the results of each micro-batch and the late rows are those of a run over the rows of that source
alone, in the same micro-batches. At the end all results are those of the definition. Restarts and shards change
nothing. The local backend asserts the bound on state after each micro-batch.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pytest

import lowwater as lw
from lowwater.backends.local import LocalQuery
from tests.compare import multiset
from tests.soak import sampled
from tests.tree_oracle import Arrived, evaluate, unlike
from tests.trees import Clock

Row = dict[str, Any]
LINKS = ("a", "b", "c", None)
STAMPS, NUMBERS = Clock(True), Clock(False)

Kind = Callable[[lw.Relation, Clock], lw.Relation]


def windowed(range: int, slide: int, *groups: str, **emission: Any) -> Kind:
    def query(rows: lw.Relation, clock: Clock) -> lw.Relation:
        window = rows.window(clock.length(range), clock.length(slide)).group_by(*groups)
        return window.agg(n=lw.count(), s=lw.sum("v"), m=lw.median("v"), **emission)

    return query


def moved(rows: lw.Relation, clock: Clock) -> lw.Relation:
    later = rows.with_column("later", clock.shifted("ts", 7)).where("v > 0")
    return later.window(clock.length(10), clock.length(5), over="later").group_by("link").agg(n=lw.count())


def united(rows: lw.Relation, clock: Clock) -> lw.Relation:
    return rows.where("v > 2").union(rows.where("v <= 4")).window(clock.length(8)).group_by("link").agg(n=lw.count())


def sessions(rows: lw.Relation, clock: Clock) -> lw.Relation:
    return rows.session(clock.length(4)).group_by("link", "k").agg(n=lw.count(), s=lw.sum("v"))


def distinct(rows: lw.Relation, clock: Clock) -> lw.Relation:
    return rows.distinct("ts", "link", "k")


def first_of_each(rows: lw.Relation, clock: Clock) -> lw.Relation:
    return rows.drop_duplicates(on=["k", "link"], within=clock.length(6))


def framed(rows: tuple[int | None, int] | None = None, range: tuple[int | None, int] | None = None) -> Kind:
    def query(relation: lw.Relation, clock: Clock) -> lw.Relation:
        span = None if range is None else tuple(None if n is None else clock.length(n) for n in range)
        return relation.over("link", rows=rows, range=span).agg(n=lw.count(), most=lw.max("v"))  # type: ignore[arg-type]

    return query


def numbered(rows: lw.Relation, clock: Clock) -> lw.Relation:
    return rows.window("4 rows", "3 rows", partition_by="link").agg(n=lw.count(), s=lw.sum("v"))


KINDS: dict[str, Kind] = {
    "tumbling": windowed(10, 10, "link"),
    "sliding": windowed(12, 4, "link"),
    "not aligned": windowed(7, 5, "k", "link"),
    "gaps": windowed(3, 5, "link", "k"),
    "by window id": windowed(12, 4, "link", strategy="wid"),
    "dropped from all": windowed(12, 4, "link", late="drop"),
    "moved time": moved,
    "united": united,
    "sessions": sessions,
    "distinct": distinct,
    "first of each key": first_of_each,
    "frames of rows": framed(rows=(2, 1)),
    "frames of time": framed(range=(9, 3)),
    "all before": framed(range=(None, 0)),
    "rows of each key": numbered,
}


@dataclass(frozen=True)
class Flow:
    """How rows of some sources arrive: (rows, clock) per micro-batch; None is a restart."""

    clock: Clock
    options: dict[str, Any]
    declared: bool
    batches: list[tuple[list[Row], int] | None]
    breaks: bool
    """Whether rows come that their own source has promised not to send."""

    @property
    def schema(self) -> pa.Schema:
        columns = [("ts", self.clock.type), ("link", pa.string()), ("k", pa.int64()), ("v", pa.int64())]
        return pa.schema([*columns, ("over", pa.bool_())])

    def stream(self, *links: str | None) -> lw.Relation:
        sources = {"sources": tuple("<null>" if link is None else link for link in links)} if self.declared else {}
        options = {"source": "link", **self.options, **sources}
        return lw.stream(self.schema.empty_table(), name="rows", progress="ts", **options)

    def only(self, link: str | None) -> list[tuple[list[Row], int] | None]:
        return [None if one is None else ([r for r in one[0] if r["link"] == link], one[1]) for one in self.batches]

    def rows(self) -> list[Row]:
        return [row for one in self.batches if one is not None for row in one[0]]


def flow(seed: int) -> Flow:
    """Sources that are out of step with each other, each in its own disorder, and now and then silent."""
    rng = random.Random(f"flow {seed}")
    clock, punctuated, breaks = rng.choice([STAMPS, NUMBERS]), rng.random() < 0.3, rng.random() < 0.3
    delay, declared = rng.choice([0, 3, 9]), rng.random() < 0.5
    skew = {link: rng.choice([0, 0, 15, 60]) for link in LINKS}
    arriving: list[tuple[float, Row]] = []
    for link in LINKS:
        for _ in range(rng.choice([3, 9, 16])):
            ts = rng.randrange(80) if rng.random() < 0.6 else rng.randrange(10)
            row = {"link": link, "k": rng.choice([1, 2]), "v": rng.randrange(-3, 8), "over": False}
            arriving.append((ts + rng.uniform(0, delay * (3 if breaks else 0.99)), {"ts": ts, **row}))
    arriving.sort(key=lambda one: one[0] + skew[one[1]["link"]])
    batches: list[list[Row]] = [[{"ts": 0, "link": link, "k": 1, "v": 1, "over": False} for link in LINKS]]
    if declared:
        batches = [[]]
    seen: dict[Any, float] = {}
    for at, row in arriving:
        if rng.random() < 0.3:
            batches.append([])
        seen[row["link"]] = max(seen.get(row["link"], 0), at)
        batches[-1].append(row)
        if punctuated and rng.random() < 0.3:
            batches[-1].append(row | {"ts": int(seen[row["link"]]) - delay - 1, "over": True})
    if punctuated and not clock.stamps:  # a source that ends before the others
        row = {"ts": 2**62, "link": "a", "k": 1, "v": 1, "over": True}
        batches.append([row])
        batches += [[r for r in batches.pop(-2) if r["link"] != "a" or breaks]] if len(batches) > 2 else []
    options: dict[str, Any] = {"disorder": lw.delay(clock.length(delay))}
    if punctuated:
        options = {"disorder": lw.punctuated(when="over", upto="ts")}
    if clock.stamps and rng.random() < 0.5:
        options["idle"] = lw.idle(after="20 seconds", lag="10 seconds")
        breaks = True
    timed: list[tuple[list[Row], int] | None] = []
    for number, rows in enumerate(batches):
        if number and rng.random() < 0.15:
            timed.append(None)
        timed.append(([row | {"ts": clock.value(row["ts"])} for row in rows], (number * 5 + 30) * 10**6))
    return Flow(clock, options, declared, timed, breaks)


def released(query: LocalQuery, batches: list[tuple[list[Row], int] | None], schema: pa.Schema) -> list[list[Row]]:
    """The results of each micro-batch, the end included."""
    out = []
    for one in batches:
        if one is None:
            query.restart()
        else:
            rows = pa.Table.from_pylist(one[0], schema=schema)
            out.append(query.push_all(dict.fromkeys(range(len(query.plan.inputs)), rows), one[1]).to_pylist())
    return [*out, query.finish().to_pylist()]


def of_link(rows: list[Row], link: str | None) -> list[str]:
    return multiset([row for row in rows if row["link"] == link])


SEEDS = 40


@pytest.mark.parametrize("seed", sampled(range(SEEDS), 2))
@pytest.mark.parametrize("kind", KINDS)
def test_every_source_is_answered_as_if_it_were_alone(kind: str, seed: int) -> None:
    given = flow(seed)
    all_links = KINDS[kind](given.stream(*LINKS), given.clock)
    assert "each link closes by its own progress" in all_links.explain()
    query = all_links.start(shards=1 + seed % 4)
    got = released(query, given.batches, given.schema)
    assert query.metrics().state_rows == 0
    late = query.late_output().to_pylist()
    for link in LINKS:
        alone = KINDS[kind](given.stream(link), given.clock).start()
        expected = released(alone, given.only(link), given.schema)
        for batch, (ours, theirs) in enumerate(zip(got, expected, strict=True)):
            assert of_link(ours, link) == multiset(theirs), f"{link} in micro-batch {batch}"
        assert of_link(late, link) == multiset(alone.late_output().to_pylist())
    assert query.metrics().late_rows == len(late)
    if not given.breaks:
        assert not late
        data = [row for row in given.rows() if not row["over"]]
        arrived = Arrived(pa.Table.from_pylist(data, schema=given.schema), list(range(len(data))))
        assert unlike(query.result(), evaluate(all_links.node, {"rows": arrived})) == ""
