"""The judge of random plans: runs them in process and compares what comes with what their definitions say.

python -m tests.judge WhenFinal 200        the plans of so many seeds that have a node of this kind
"""

from __future__ import annotations

import sys

from tests.trees import Case, case, shown


def judged(one: Case, shards: int | None = None) -> str:
    """What is wrong with a run, with the tree; the empty string if nothing is."""
    query = one.run(shards)
    wrong = one.difference(query)
    numbers = query.metrics()
    held = [operator.name for operator in numbers.operators if operator.state_rows]
    if held:
        wrong += f" held after the end: {held}"
    if numbers.late_rows or numbers.dropped_rows or query.late_output().num_rows:
        wrong += f" late: {query.late_output().to_pylist()[:3]}"
    if numbers.result_rows != query.result().num_rows:
        wrong += f" {numbers.result_rows} results are counted, {query.result().num_rows} came"
    return f"seed {one.seed}: {wrong}\n{shown(one.node)}" if wrong else ""


def main(kind: str, seeds: int) -> int:
    drawn = [one for one in map(case, range(seeds)) if any(type(node).__name__ == kind for node in one.node.walk())]
    wrong = [found for one in drawn if (found := judged(one))]
    print(*wrong, f"{len(drawn)} of {seeds} plans have {kind}, {len(wrong)} of them are wrong", sep="\n")
    return 1 if wrong or not drawn else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], int(sys.argv[2])))
