"""Plans of the thesis from the text of its queries: the operators of a plan as one operator, fed by hand.

The experiments feed rows and punctuation one by one and look at the state in between, so they run no query but its
operators, connected as the planner has connected them.
"""

from __future__ import annotations

import lowwater as lw
from lowwater.experiments.thesis.links import Link
from lowwater.model.punctuation import Punctuation
from lowwater.operators.aggregate import AggregateSpec
from lowwater.operators.base import Batch, Emit, Held, Message, Operator, Payload
from lowwater.plan.plan import Plan
from lowwater.state.store import Store


def plan_of(text: str, **links: Link) -> Plan:
    """The plan of a query over links, which are in order."""
    streams = {
        name: lw.stream(link.rows, name=name, progress="ts", disorder=lw.ordered()) for name, link in links.items()
    }
    return lw.sql(text, **streams).plan


def aggregate_of(plan: Plan) -> AggregateSpec:
    """The one window aggregation of a plan."""
    (found,) = [placed.spec for placed in plan.operators if isinstance(placed.spec, AggregateSpec)]
    return found


class PlannedOperator(Operator):
    """All operators of a plan in one stage, as one operator. Its ports are inputs of the plan, by name."""

    def __init__(self, plan: Plan, *inputs: str) -> None:
        super().__init__()
        assert plan.stages == 1, "the operators of several stages are not in one place"
        self._plan = plan
        names = {name: port for port, name in enumerate(inputs)}
        self.ports = len(inputs)
        self._entries = sorted(plan.entries, key=lambda entry: names[plan.inputs[entry.input].name])
        self._operators = [placed.spec.open(Store(), 1) for placed in plan.operators]

    def on_rows(self, port: int, rows: Payload, emit: Emit) -> None:
        self._enter(port, rows, emit)

    def on_punctuation(self, port: int, punctuation: Punctuation, emit: Emit) -> None:
        self._enter(port, punctuation, emit)

    def _enter(self, port: int, message: Message, emit: Emit) -> None:
        entry = self._entries[port]
        self._pass(entry.operator, entry.port, message, emit)

    def _pass(self, number: int, port: int, message: Message, emit: Emit) -> None:
        self._operators[number].take(port, message, lambda out: self._emitted(number, out, emit))

    def _emitted(self, number: int, message: Message, emit: Emit) -> None:
        for edge in self._plan.edges:
            if edge.source == number:
                self._pass(edge.operator, edge.port, message, emit)
        if number == self._plan.root:
            emit(Batch(message.rows.select(list(self._plan.shown))) if isinstance(message, Batch) else message)

    def held(self) -> Held:
        each = [operator.held() for operator in self._operators]
        return Held(sum(h.rows for h in each), sum(h.bytes for h in each))
