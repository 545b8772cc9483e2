"""The committed state of operators, for tests that look at it or open another operator on it."""

from __future__ import annotations

import copy
from weakref import WeakKeyDictionary

from lowwater.backends.local import LocalQuery
from lowwater.operators.base import Operator
from lowwater.runtime.graph import Graph
from lowwater.state.store import Key, Saved, Store

_SAVED: WeakKeyDictionary[object, Saved] = WeakKeyDictionary()


def committed(of: Operator | Store) -> Saved:
    """All that is committed of a state, after a commit of what has changed."""
    store = of.store if isinstance(of, Operator) else of
    saved = _SAVED.setdefault(store._root, Saved())
    saved.apply(store.commit())
    return saved


def segments(of: Operator | Store) -> dict[Key, bytes]:
    """The segments of a state by path and id."""
    return dict(committed(of).segments)


def reopened(of: Operator | Store) -> Store:
    """The state of another, committed and opened anew; neither changes the other."""
    saved = copy.deepcopy(committed(of))
    store = saved.open()
    _SAVED[store._root] = saved
    return store


def move(old: LocalQuery, new: LocalQuery) -> None:
    """Has a query go on from the state of another one that it may read."""
    for i, graph in enumerate(old._graphs):
        new._graphs[i] = Graph(new.plan, graph.stage, graph.number, new.shards, reopened(graph.store))
