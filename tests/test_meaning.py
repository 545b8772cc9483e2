"""What a checkpoint keeps of a query: settings that may change do not show, and others are named with both values."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import fields, replace
from typing import Any

import pyarrow as pa
import pytest

import lowwater as lw
from lowwater.errors import CheckpointMismatch, LowwaterError
from lowwater.plan.meaning import check_meaning
from lowwater.query.logical import Stateful
from tests.trees import case

TABLE = pa.table({"ts": [1], "k": ["a"], "j": ["a"], "v": [1], "end": [True]})


def stream(name: str = "rows", **more: Any) -> lw.Relation:
    return lw.stream(TABLE, **{"name": name, "progress": "ts", "disorder": 5, "source": "k", **more})


def query(of: lw.Relation | None = None, window: Any = 10, **more: Any) -> lw.Relation:
    return (of or stream()).window(window).emit(**more).group_by("j").agg(n=lw.count())


def joined(**more: Any) -> lw.Relation:
    return stream("l").join(stream("r"), **{"on": "k", "within": 5, **more})


MAY = {
    "delay": lambda: query(stream(disorder=9)),
    "sources": lambda: query(stream(sources=("a", "b"))),
    "flush": lambda: query(flush=lw.slow_flush(10)),
    "skew": lambda: query(stream(groups="skewed")),
    "condition": lambda: query(stream().where("v > 0")),
}


@pytest.mark.parametrize("setting", MAY)
def test_a_setting_that_state_does_not_depend_on_may_change(setting: str) -> None:
    then, now = query().plan, MAY[setting]().plan
    check_meaning(then.meaning, now.meaning)
    assert then.query == now.query


def test_idle_may_be_added() -> None:
    times = pa.table({"ts": pa.array([1], pa.timestamp("us", "UTC"))})

    def counted(**more: Any) -> lw.Relation:
        found = lw.stream(times, progress="ts", disorder="1 second", **more)
        return found.window("1 minute").agg(n=lw.count())

    assert counted().plan.query == counted(idle=lw.idle(after="1 second", lag="1 second")).plan.query


MAY_NOT: dict[str, tuple[Callable[[], lw.Relation], Callable[[], lw.Relation], str]] = {
    "window": (query, lambda: query(window=20), "window of its aggregate was 'RANGE 10 .*' and is now 'RANGE 20 "),
    "name": (query, lambda: query(stream("others")), "name of its input was 'rows' and is now 'others'"),
    "source": (query, lambda: query(stream(source=None)), "source of its input was 'k' and is now None"),
    "disorder": (
        query,
        lambda: query(stream(disorder=lw.delay_rows(9))),
        "disorder of its input was 'a delay in time' and is now 'delay of at most 9 rows'",
    ),
    "k": (
        lambda: query(stream(disorder=lw.delay_rows(9))),
        lambda: query(stream(disorder=lw.delay_rows(8))),
        "was 'delay of at most 9 rows' and is now 'delay of at most 8 rows'",
    ),
    "punctuated": (
        lambda: query(stream(disorder=lw.punctuated("end", "ts"))),
        lambda: query(stream(disorder=lw.punctuated("end", "ts", data=True))),
        "punctuated of its input was .*data=False.* and is now .*data=True",
    ),
    "aggregates": (
        query,
        lambda: stream().window(10).group_by("j").agg(n=lw.count(), s=lw.sum("v")),
        r"aggregates of its aggregate was n = .* and is now n = .*, s = ",
    ),
    "groups": (
        query,
        lambda: stream().window(10).group_by("k").agg(n=lw.count()),
        "group_by of its aggregate was .*j.* and is now .*k",
    ),
    "lateness": (query, lambda: query(allowed_lateness=3), "allowed_lateness of its aggregate was '0' and is now '3'"),
    "how": (joined, lambda: joined(how="left"), "how of its join was 'inner' and is now 'left'"),
    "within": (joined, lambda: joined(within=6), "within of its join was 5, 5 and is now 6, 6"),
    "operators": (
        query,
        lambda: query().window(30).agg(n=lw.count()),
        "the query was an aggregate over an input and is now an aggregate over an aggregate over an input",
    ),
    "step": (
        query,
        lambda: query().where("n > 1"),
        "the query was an aggregate over an input and is now a row-wise step over an aggregate over an input",
    ),
    "inputs": (
        query,
        lambda: query(stream("rows").union(stream("others"))),
        r"the query was an aggregate over an input and is now an aggregate over a union of \(an input, an input\)",
    ),
}


@pytest.mark.parametrize("setting", MAY_NOT)
def test_a_setting_that_state_depends_on_is_named_with_both_values(setting: str) -> None:
    then, now, sentence = MAY_NOT[setting]
    with pytest.raises(CheckpointMismatch, match=f"This checkpoint belongs to another query: .*{sentence}"):
        check_meaning(then().plan.meaning, now().plan.meaning)


SETTINGS = {("Aggregate", "flush"), ("Aggregate", "strategy")}
"""Parameters of nodes that state does not depend on. A checkpoint pins the strategy that was chosen."""


def changed(drawn: list[Stateful]) -> Iterator[tuple[Stateful, Stateful, str]]:
    """Nodes, and the same with one parameter of another node of their kind, where that makes another operator."""
    for node in drawn:
        others = [other for other in drawn if type(other) is type(node)]
        for field in fields(node):  # type: ignore[arg-type]
            for other in others if field.name not in ("of", "inputs") else []:
                now = replace(node, **{field.name: getattr(other, field.name)})  # type: ignore[type-var]
                try:
                    differs = now.spec() != node.spec()
                except (LowwaterError, LookupError, ValueError):
                    continue  # the other node has other columns
                if differs:
                    yield node, now, field.name
                    break


def test_a_node_with_another_parameter_has_another_meaning() -> None:
    drawn = [node for seed in range(40) for node in case(seed).node.walk() if isinstance(node, Stateful)]
    compared = set()
    for then, now, parameter in changed(drawn):
        of = (type(then).__name__, parameter)
        compared.add(of)
        if of not in SETTINGS:
            assert then.meaning() != now.meaning(), f"{parameter} is missing in the meaning of {then.line()}"
    assert compared >= {("Aggregate", "window"), ("Distinct", "within"), ("Join", "waits"), ("GroupBy", "groups")}
