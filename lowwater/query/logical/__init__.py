"""The logical tree: what a query computes, one frozen node per verb of the API or of the language.

    scan.py       Scan       rows of a declared stream
                  Ending     how an input reports that values end
    rowwise.py    Filter     rows for which a condition holds (Mark: where rows are read)
                  Derive     a column added or replaced
                  Project    some columns
                  Map        a function over Arrow tables
    union.py      Union      rows of all inputs
    distinct.py   Distinct   each row once, or the first of each key
    aggregate.py  Aggregate  aggregates over windows
    group_by.py   GroupBy    aggregates without a window, closed by punctuation
    order.py      Order      the rows in order of a time
    join.py       Join       rows of all inputs that belong together
    roots.py      Roots      several queries as one

A node answers what the rest of the middle asks (node.py): its inputs, its properties (lowwater/model/properties.py),
which follow from those of its inputs, the columns that it reads, and the operator that computes it. So neither the
rules (query/rules/) nor the planner list the types of nodes: a new node is one new file here. It need not be listed
below; the names are here for short imports.
"""

from lowwater.query.logical.aggregate import Aggregate
from lowwater.query.logical.distinct import Distinct
from lowwater.query.logical.group_by import GroupBy
from lowwater.query.logical.join import Join
from lowwater.query.logical.node import Node, Stateful, Unary
from lowwater.query.logical.order import Order
from lowwater.query.logical.roots import Roots
from lowwater.query.logical.rowwise import Derive, Filter, Map, Mark, Project
from lowwater.query.logical.scan import Ending, Rowwise, Scan, meaning, scan_like
from lowwater.query.logical.union import Union

__all__ = [
    "Aggregate",
    "Derive",
    "Distinct",
    "Ending",
    "Filter",
    "GroupBy",
    "Join",
    "Map",
    "Mark",
    "Node",
    "Order",
    "Project",
    "Roots",
    "Rowwise",
    "Scan",
    "Stateful",
    "Unary",
    "Union",
    "meaning",
    "scan_like",
]
