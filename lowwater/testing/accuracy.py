"""The output accuracy of a run (WO, Equation 1): the share of the batch answer that it has produced."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa

from lowwater.aggregates.grouped import factorise
from lowwater.query.logical.node import Node
from lowwater.query.logical.oblivious_join import Limits, ObliviousJoin
from lowwater.relation import Relation


def output_accuracy(results: pa.Table, of: Relation) -> float:
    """The share of the rows of the batch answer that are among the results; 1 if there are none.

    results   what a run of the query has produced, as of `query.result()` or read from where it was written
    of        the query over all rows that the run has read. It is answered at once, as by `collect()`, and without the
              memory limits of its joins

    While a query runs, `metrics()` estimates the same without the batch answer (`OperatorMetrics.output_accuracy`).

    >>> import lowwater as lw
    >>> a, b = (
    ...     lw.stream(pa.table({"t": t, n: t}), name=n, progress="t", disorder=lw.measured())
    ...     for n, t in (("a", [1, 2, 3, 4, 5]), ("b", [1, 2, 4, 5, 3]))
    ... )
    >>> joined = lw.oblivious_join([a, b], on="t", expect=lw.expect(scrambling=0))   # the 3 comes after the 5
    >>> query = joined.start()
    >>> for name, rows in (("a", a), ("b", b)):
    ...     for at in range(5):
    ...         _ = query.push(rows.node.frame.table.slice(at, 1), name)
    >>> output_accuracy(query.result(), joined)
    0.8
    """
    whole = of._of(_unlimited(of.node)).collect()
    if not whole.num_rows:
        return 1.0
    both = pa.concat_tables([whole, results.select(whole.column_names).cast(whole.schema)])
    code, distinct = factorise(both)
    expected, found = (
        np.bincount(own, minlength=distinct.num_rows) for own in (code[: len(whole)], code[len(whole) :])
    )
    return float(np.minimum(expected, found).sum() / len(whole))


def _unlimited(node: Node) -> Node:
    """The same query without memory limits, which can lose results."""
    own = node.over(*(_unlimited(one) for one in node.inputs)) if node.inputs else node
    return replace(own, limits=Limits()) if isinstance(own, ObliviousJoin) else own
