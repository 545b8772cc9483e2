"""Turns the arguments of `oblivious_join()` into a node: keys, and what the user expects of each input."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from lowwater.errors import LowwaterError, UnknownColumn
from lowwater.joins.oblivious_cost import Characteristics
from lowwater.query.join_options import On, keys_of, rows_of
from lowwater.query.logical.node import Node
from lowwater.query.logical.oblivious_join import ObliviousJoin, progressing_place

Expect = Characteristics | Mapping[str, Characteristics] | None


def expect(scrambling: int, rate: float = 1.0, multiplicity: int = 1) -> Characteristics:
    """What is known of a stream before it runs.

    scrambling     its scrambling factor: no row comes more than so many rows after one with a key as large
    rate           rows per second, for the expected memory; only the ratio of rates counts
    multiplicity   the largest number of rows with one key, for joins over the results
    """
    if scrambling < 0 or rate <= 0 or multiplicity < 1:
        raise LowwaterError(
            "expect() needs a scrambling factor of 0 or more, a rate above 0 and a multiplicity of 1 or more, not "
            f"{scrambling}, {rate} and {multiplicity}."
        )
    return Characteristics(max(scrambling, multiplicity - 1), rate, multiplicity)


def oblivious(sides: Sequence[tuple[str, Node]], on: On, expect: Expect = None) -> ObliviousJoin:
    """The node of a join without a window; see `lowwater.oblivious_join`."""
    names, nodes = [name for name, _ in sides], [node for _, node in sides]
    keys = keys_of(on, len(sides))
    for (name, node), key in zip(sides, keys, strict=True):
        for column in key:
            if column not in node.schema.names:
                raise UnknownColumn(column, node.properties.visible.names, f"oblivious_join(on=) of {name!r}")
    place = progressing_place(names, nodes, keys)
    each = _expected(names, expect)
    return ObliviousJoin(tuple(nodes), tuple(rows_of(node) for node in nodes), tuple(names), tuple(keys), place, each)


def measured_key(nodes: Sequence[Node], on: On) -> bool:
    """Whether a join is on a key that grows on all sides although one of them promises nothing."""
    keys = keys_of(on, len(nodes))
    if not any(node.properties.measured in key for node, key in zip(nodes, keys, strict=True)):
        return False
    columns = zip(*keys, strict=True)
    return any(
        all(node.properties.measured == c or node.properties.progressing(c) for node, c in zip(nodes, one, strict=True))
        for one in columns
    )


def _expected(names: Sequence[str], expect: Expect) -> tuple[Characteristics | None, ...]:
    if expect is None or isinstance(expect, Characteristics):
        return (expect,) * len(names)
    if not isinstance(expect, Mapping) or not all(isinstance(one, Characteristics) for one in expect.values()):
        raise LowwaterError(
            "oblivious_join(expect=) is lw.expect(...), or one per relation as in {'a': lw.expect(scrambling=100)}, "
            f"not {expect!r}."
        )
    unknown = [name for name in expect if name not in names]
    if unknown:
        raise LowwaterError(
            f"oblivious_join(expect=) names {unknown[0]!r}, which it does not join: {', '.join(names)}."
        )
    return tuple(expect.get(name) for name in names)
