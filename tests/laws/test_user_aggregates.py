"""Aggregates of users: what they may be, how they fail, and that they travel."""

from __future__ import annotations

import pickle
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark import cloudpickle

import lowwater as lw
from lowwater.aggregates.base import Differential
from lowwater.errors import BadAggregate

SCHEMA = pa.schema([("v", pa.int64()), ("w", pa.float64()), ("k", pa.string())])
TIME, GROUP = np.zeros(4, np.int64), np.array([0, 0, 0, 1])
VALUES = pa.array([2, 5, None, 7])


class total(lw.UserAggregate):
    """A sum with an exact inverse. It counts how many partials were combined."""

    state, result, exact_inverse = (pa.int64(),), pa.int64(), True

    def lift(self, values: Any) -> Any:
        return (values.to_numpy(),)

    def combine(self, a: Any, b: Any) -> Any:
        global combined
        combined += len(a[0])
        return (a[0] + b[0],)

    def inverse(self, a: Any, b: Any) -> Any:
        return (a[0] - b[0],)

    def lower(self, partial: Any) -> Any:
        return partial[0]


combined = 0


class covariance(lw.UserAggregate):
    """Of two columns."""

    state, result = (pa.int64(), pa.float64(), pa.float64(), pa.float64()), pa.float64()

    def lift(self, values: Any) -> Any:
        x, y = (column.cast(pa.float64()).to_numpy() for column in values.flatten())
        return np.ones(len(x), np.int64), x, y, x * y

    def combine(self, a: Any, b: Any) -> Any:
        return tuple(x + y for x, y in zip(a, b, strict=True))

    def lower(self, partial: Any) -> Any:
        n, x, y, xy = partial
        return xy / n - x * y / n**2


@dataclass
class above(lw.UserAggregate):
    """With a parameter: how many values exceed it."""

    least: int
    name, state, result = "above", (pa.int64(),), pa.int64()

    def lift(self, values: Any) -> Any:
        return ((values.to_numpy() > self.least).astype(np.int64),)

    def combine(self, a: Any, b: Any) -> Any:
        return (a[0] + b[0],)

    def lower(self, partial: Any) -> Any:
        return pa.array(partial[0])


def test_groups_without_values_are_null_and_the_others_are_combined() -> None:
    kernel = lw.udaf("v", total()).bind(SCHEMA)
    partial = kernel.lift(pa.array([2, 5, None, None]), TIME, GROUP, 2)
    assert kernel.lower(partial).to_pylist() == [7, None]
    assert kernel.lower(kernel.merge(partial, tuple(c[::-1] for c in partial))).to_pylist() == [7, 7]


def test_an_exact_inverse_spares_combining_windows_anew() -> None:
    kernel, rows = lw.udaf("v", total()).bind(SCHEMA), np.arange(1000)
    partial = kernel.lift(pa.array(rows), rows * 0, rows, 1000)
    lo, hi = np.arange(900), np.arange(900) + 100
    global combined
    combined = 0
    assert kernel.roll(partial, lo, hi).to_pylist() == [sum(range(i, i + 100)) for i in range(900)]
    assert combined <= 2 * len(rows)
    assert lw.udaf("v", total()).differential is Differential.FULL
    assert lw.udaf("v", above(3)).differential is Differential.NO


def test_several_columns_count_where_none_is_null() -> None:
    aggregate = lw.udaf(["v", "w"], covariance())
    rows = pa.table([[1, 2, 3, None], [2.0, 4.0, None, 9.0], list("aaaa")], SCHEMA)
    kernel = aggregate.bind(SCHEMA)
    partial = kernel.lift(aggregate.argument(rows), TIME, TIME, 1)
    assert kernel.lower(partial).to_pylist() == [0.5]
    assert (str(aggregate), aggregate.columns) == ("covariance(v, w)", ("v", "w"))


def test_both_kinds_run_in_a_query() -> None:
    rows = pa.table({"t": [0, 1, 2, 3], "v": [4, 2, 9, 1], "w": [1.0, 2.0, 3.0, 4.0]})
    query = lw.stream(rows, progress="t", disorder=lw.ordered()).window(range=2, slide=1)
    answers = query.agg(
        s=lw.udaf("v", total()), c=lw.udaf(["v", "w"], covariance()), h=lw.holistic("v", middle, pa.int64())
    ).collect()
    assert answers.column("s").to_pylist() == [4, 6, 11, 10, 1]
    assert answers.column("c").to_pylist() == [0.0, -0.5, 1.75, -2.0, 0.0]
    assert answers.column("h").to_pylist() == [4, 2, 2, 1, 1]


def middle(values: pa.Array) -> Any:
    return values[(len(values) - 1) // 2]


def test_functions_see_sorted_values_once_for_each_answer() -> None:
    seen = []

    def note(values: pa.Array) -> float:
        seen.append(values.to_pylist())
        return pc.sum(values)

    kernel = lw.holistic("v", note, pa.int64()).bind(SCHEMA)
    partial = kernel.lift(pa.array([5, 2, None, None]), TIME, GROUP, 2)
    assert kernel.lower(partial).to_pylist() == [7, None]
    assert kernel.roll(partial, np.array([0, 0]), np.array([1, 2])).to_pylist() == [7, 7]
    assert seen == [[2, 5], [2, 5], [2, 5]]


# -- failures ---------------------------------------------------------------------------------------------------------


class broken(lw.UserAggregate):
    """Fails where it is told to."""

    state, result = (pa.int64(),), pa.int64()

    def __init__(self, where: str, how: str) -> None:
        self.where, self.how = where, how

    def lift(self, values: Any) -> Any:
        return self.gives("lift", (values.to_numpy(),))

    def combine(self, a: Any, b: Any) -> Any:
        return self.gives("combine", a if self.how == "writes" else (a[0] + b[0],))

    def lower(self, partial: Any) -> Any:
        return self.gives("lower", partial)[0]

    def gives(self, method: str, state: Any) -> Any:
        if method != self.where or not len(state[0]):
            return state
        if self.how == "raises":
            raise ZeroDivisionError("by nothing")
        if self.how == "writes":
            state[0][:] = 0
        return {
            "one column more": (*state, state[0]),
            "no tuple": state[0],
            "fewer rows": (state[0][1:],),
            "doubles": (state[0] * 0.5,),
            "text": (np.array(["x"] * len(state[0])),),
        }[self.how]


FAILURES = {
    ("lift", "raises"): "broken(v) failed in lift(): ZeroDivisionError: by nothing.",
    ("combine", "raises"): "broken(v) failed in combine(): ZeroDivisionError: by nothing.",
    ("lower", "raises"): "broken(v) failed in lower(): ZeroDivisionError: by nothing.",
    ("combine", "writes"): "broken(v) failed in combine(): ValueError: assignment destination is read-only.",
    ("lift", "one column more"): "broken(v) failed in lift(): the state has 1 columns, not 2.",
    ("lift", "no tuple"): "broken(v) failed in lift(): the state has 1 columns, not ndarray.",
    ("lift", "fewer rows"): "broken(v) failed in lift(): 3 rows gave an array of shape (2,).",
    ("combine", "fewer rows"): "broken(v) failed in combine(): 1 rows gave an array of shape (0,).",
    ("combine", "doubles"): "broken(v) failed in combine(), which does not give its declared state: TypeError: "
    "Cannot cast array data from dtype('float64') to dtype('int64') according to the rule 'safe'.",
    ("lower", "fewer rows"): "broken(v) failed in lower(): 2 partials gave 1 results.",
    ("lower", "text"): "broken(v) failed in lower(), which does not give its declared result: ",
}


@pytest.mark.parametrize(("where", "how"), FAILURES, ids=[" ".join(case) for case in FAILURES])
def test_errors_of_a_definition_are_told_under_its_name(where: str, how: str) -> None:
    kernel = lw.udaf("v", broken(where, how)).bind(SCHEMA)
    with pytest.raises(BadAggregate) as told:
        kernel.lower(kernel.lift(VALUES, TIME, GROUP, 2))
    assert str(told.value).startswith(FAILURES[where, how])
    assert isinstance(told.value.__cause__, ZeroDivisionError) is (how == "raises")


def test_a_definition_that_does_not_fit_is_refused_before_anything_runs() -> None:
    with pytest.raises(BadAggregate, match=r"^above\(k\) failed in lift\(\): .*\(tried on no rows of string\)\.$"):
        lw.udaf("k", above(3)).bind(SCHEMA)


def fails(values: pa.Array) -> Any:
    raise KeyError("nothing here")


@pytest.mark.parametrize(
    ("function", "says"),
    [
        (fails, "fails(v) failed in its function: KeyError: 'nothing here'."),
        (list, "list(v) failed in its function, which does not give its declared int64: "),
    ],
)
def test_errors_of_a_function_are_told_under_its_name(function: Any, says: str) -> None:
    kernel = lw.holistic("v", function, pa.int64()).bind(SCHEMA)
    partial = kernel.lift(VALUES, TIME, GROUP, 2)
    for answer in (lambda: kernel.lower(partial), lambda: kernel.roll(partial, np.array([0]), np.array([2]))):
        with pytest.raises(BadAggregate) as told:
            answer()
        assert str(told.value).startswith(says)
        assert told.value.__cause__ is not None


def test_what_could_not_be_known_again_is_refused() -> None:
    with pytest.raises(BadAggregate, match=r"^above\(v\) has an attribute .* give its class a __repr__"):
        lw.udaf("v", above(lambda: 3))
    stateless = type("stateless", (above,), {"state": ()})
    with pytest.raises(BadAggregate, match=r"^stateless\(v\) needs a state of integers and floats, not none\.$"):
        lw.udaf("v", stateless(3))
    textual = type("textual", (above,), {"state": (pa.string(),)})
    with pytest.raises(BadAggregate, match=r"^textual\(v\) needs a state of integers and floats, not string\.$"):
        lw.udaf("v", textual(3))
    vague = type("vague", (above,), {"result": None})
    with pytest.raises(BadAggregate, match=r"^vague\(v\) needs a result"):
        lw.udaf("v", vague(3))


# -- travelling -------------------------------------------------------------------------------------------------------


def test_aggregates_are_known_by_name_and_parameters() -> None:
    assert repr(lw.udaf("v", broken("lift", "raises"))) == "udaf('v', broken(how='raises', where='lift'))"
    assert repr(lw.udaf("v", above(3))) == "udaf('v', above(least=3))"
    assert repr(lw.holistic("v", middle, pa.int64())) == "holistic('v', middle, int64)"
    assert lw.udaf("v", above(3)) == lw.udaf("v", above(3)) != lw.udaf("v", above(4))
    assert len({lw.udaf("v", above(3)), lw.udaf("v", above(3)), lw.udaf("w", above(3))}) == 2


@pytest.mark.parametrize("aggregate", [lw.udaf("v", above(3)), lw.holistic("v", middle, pa.int64())], ids=str)
def test_kernels_travel(aggregate: Any) -> None:
    assert pickle.loads(pickle.dumps(aggregate)) == aggregate
    kernel, back = aggregate.bind(SCHEMA), pickle.loads(pickle.dumps(aggregate.bind(SCHEMA)))
    assert back.lower(back.lift(VALUES, TIME, GROUP, 2)).equals(kernel.lower(kernel.lift(VALUES, TIME, GROUP, 2)))


def test_classes_that_no_module_knows_travel_as_spark_sends_them() -> None:
    class local(above):
        def lower(self, partial: Any) -> Any:
            return -partial[0]

    aggregate = lw.udaf("v", local(3))
    back = pickle.loads(cloudpickle.dumps(aggregate))
    kernel = back.bind(SCHEMA)
    assert repr(back) == repr(aggregate)
    assert kernel.lower(kernel.lift(VALUES, TIME, GROUP, 2)).to_pylist() == [-1, -1]
