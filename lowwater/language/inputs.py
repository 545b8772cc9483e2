"""The inputs of FROM, and what their windows say about a join: a band of time, a grid of windows, or counts of rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlglot import exp

from lowwater.language import trees
from lowwater.language.bands import Band
from lowwater.language.names import Scope, refused
from lowwater.language.windows import origin_of, range_of
from lowwater.query.window import rows_of


@dataclass
class Input:
    """An input of FROM: its names, its window, and the table function that it is."""

    scope: Scope
    clause: trees.WindowClause | None = None
    function: trees.TableFunction | None = None


def join_windows(inputs: Sequence[Input], band: Band, within: trees.WithinWindow | None) -> dict[str, Any]:
    """The options of join() that the windows of the inputs, the conditions on times and WINDOW give."""
    left, right = inputs
    clauses = (left.clause, right.clause)
    refuse_parts(inputs)
    if band.given:
        extra = next((one for one in (*clauses, within) if one is not None), None)
        if extra is not None:
            raise refused("The join has a window and a condition on times; leave one of them out.", extra)
        return band.options(left.scope.relation, right.scope.relation)
    if within is not None:
        if any(one is not None for one in clauses):
            raise refused("The join has windows on its inputs and WINDOW; leave one of them out.", within)
        return {"within": within.this.text}
    shared = clauses[1] if clauses[0] is None else None
    if shared is not None and (shared.args.get("tumbling") or shared.args.get("slide") is not None):
        options = {"window": shared.args["range"].text}
        if shared.args.get("slide") is not None:
            options["slide"] = shared.args["slide"].text
        if shared.args.get("origin") is not None:
            options["origin"] = origin_of(shared.args["origin"])
        return options | _over(inputs, (shared, shared))
    if clauses == (None, None):
        return {}
    if shared is not None:
        clauses = (shared, shared)
    for one in clauses:
        if one is not None and (one.args.get("tumbling") or one.args.get("slide") is not None or one.args.get("all")):
            raise refused(
                "The window of one input of a join has a RANGE alone; write RANGE TUMBLING or SLIDE behind the last "
                "input, for all of them.",
                one,
            )
    for one in clauses:
        if one is not None and one.args.get("origin") is not None:
            raise refused("ORIGIN is for RANGE TUMBLING and SLIDE; a window of RANGE alone moves with the rows.", one)
    spans = [None if one is None or one.args.get("range") is None else range_of(one) for one in clauses]
    counts = tuple(None if span is None else rows_of(span) for span in spans)
    options = _over(inputs, clauses)
    if counts != (None, None):
        options["rows"] = counts
        spans = [None if count is not None else span for span, count in zip(spans, counts, strict=True)]
    if any(span is not None for span in spans) or counts == (None, None):
        wait_left, wait_right = spans
        same = wait_left == wait_right and wait_left is not None
        options["within"] = wait_left if same else (None if wait_right is None else f"-{wait_right}", wait_left)
    return options


def refuse_parts(inputs: Sequence[Input]) -> None:
    """Refuses parts of windows that are for aggregates and that a join does not have."""
    for one in inputs:
        if one.function is not None:
            raise refused(
                f"{one.function.this.upper()} is a window to aggregate over; for a join write "
                "[RANGE TUMBLING 1 minute] behind its last input.",
                one.function,
            )
        if one.clause is not None:
            for part, word in (("pa", "PA"), ("rattr", "RATTR"), ("sattr", "SATTR"), ("period", "PERIOD")):
                if one.clause.args.get(part):
                    raise refused(f"The window of a join has no {word}; leave it out.", one.clause)


def _over(inputs: Sequence[Input], clauses: Sequence[trees.WindowClause | None]) -> dict[str, Any]:
    """The times that the windows name, if they are others than the default ones."""
    names = []
    for one, clause in zip(inputs, clauses, strict=True):
        wa = clause.args.get("wa") if clause is not None else None
        column = one.scope.column(wa) if isinstance(wa, exp.Column) else None
        names.append(None if column == one.scope.relation.progress else column)
    return {} if names == [None] * len(names) else {"over": tuple(names)}


def waits_of(inputs: Sequence[Input], within: trees.WithinWindow | None) -> Any:
    if within is not None:
        return within.this.text
    refuse_parts(inputs)
    clauses = [one.clause for one in inputs]
    if all(one is None for one in clauses):
        return None
    if all(one is None for one in clauses[:-1]):
        clauses = [clauses[-1]] * len(inputs)
    for one in clauses:
        if one is not None and (
            one.args.get("tumbling") or one.args.get("slide") is not None or one.args.get("range") is None
        ):
            raise refused("A join of several inputs has windows of a RANGE alone; join two at a time for others.", one)
    return [None if one is None else range_of(one) for one in clauses]
