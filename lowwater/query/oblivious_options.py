"""Turns the arguments of `oblivious_join()` into a node: keys, what the user expects of each input, and the memory."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from lowwater.errors import LowwaterError, UnknownColumn
from lowwater.joins.oblivious_cost import Expected
from lowwater.joins.spec import HOW
from lowwater.joins.strategy import STRATEGIES
from lowwater.query.join_options import On, keys_of, rows_of
from lowwater.query.logical.node import Node
from lowwater.query.logical.oblivious_join import Limits, ObliviousJoin, progressing_place

Expect = Expected | Mapping[str, Expected] | None
UNITS = {"B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "KIB": 1 << 10, "MIB": 1 << 20, "GIB": 1 << 30}


def expect(scrambling: int, rate: float = 1.0, multiplicity: int | None = None) -> Expected:
    """What is known of a stream before it runs.

    scrambling     its scrambling factor: no row comes more than so many rows after one with a key as large
    rate           rows per second, for the expected memory; only the ratio of rates counts
    multiplicity   the largest number of rows with one value of the progressing column. If it is expected of all
                   streams, the rows of a key leave when all of them have come. A further row of that key finds none
                   of them: it is counted, and goes to the late output
    """
    if scrambling < 0 or rate <= 0 or (multiplicity is not None and multiplicity < 1):
        raise LowwaterError(
            "expect() needs a scrambling factor of 0 or more, a rate above 0 and a multiplicity of 1 or more, not "
            f"{scrambling}, {rate} and {1 if multiplicity is None else multiplicity}."
        )
    return Expected(max(scrambling, (multiplicity or 1) - 1), rate, multiplicity)


def oblivious(
    sides: Sequence[tuple[str, Node]],
    on: On,
    expect: Expect = None,
    memory: str | int | None = None,
    how: str = "inner",
    strategy: str | None = None,
    ahead: int | None = None,
) -> ObliviousJoin:
    """The node of a join without a window; see `lowwater.oblivious_join`."""
    names, nodes = [name for name, _ in sides], [node for _, node in sides]
    keys = keys_of(on, len(sides))
    for (name, node), key in zip(sides, keys, strict=True):
        for column in key:
            if column not in node.schema.names:
                raise UnknownColumn(column, node.properties.visible.names, f"oblivious_join(on=) of {name!r}")
    place = progressing_place(names, nodes, keys)
    each = _expected(names, expect)
    limits = Limits(None if memory is None else bytes_of(memory), _strategy(strategy), _ahead(ahead))
    if how not in HOW[:4]:
        raise LowwaterError(f"oblivious_join(how=) is one of {', '.join(HOW[:4])}, not {how!r}.")
    if how != "inner" and len(nodes) > 2:
        raise LowwaterError(f"A {how} join has two inputs; of {len(nodes)} only an inner join is defined.")
    schemas = tuple(rows_of(node) for node in nodes)
    return ObliviousJoin(tuple(nodes), schemas, tuple(names), tuple(keys), place, each, how, limits)


def bytes_of(memory: str | int) -> int:
    """A size in bytes, from a number or from text.

    >>> bytes_of("64 MB"), bytes_of("1.5 GiB"), bytes_of(4096)
    (64000000, 1610612736, 4096)
    """
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([A-Za-z]+)\s*", memory) if isinstance(memory, str) else None
    size = memory if isinstance(memory, int) and not isinstance(memory, bool) else 0
    if match is not None and match[2].upper() in UNITS:
        size = int(float(match[1]) * UNITS[match[2].upper()])
    if size < 1:
        raise LowwaterError(f"oblivious_join(memory=) is a size such as '64 MB' or '1 GiB', not {memory!r}.")
    return size


def _strategy(name: str | None) -> str | None:
    known = {one.lower(): one for one in STRATEGIES}
    if name is not None and (not isinstance(name, str) or name.lower() not in known):
        raise LowwaterError(f"oblivious_join(strategy=) is one of {', '.join(STRATEGIES)}, not {name!r}.")
    return None if name is None else known[name.lower()]


def _ahead(ahead: int | None) -> int | None:
    if ahead is not None and (not isinstance(ahead, int) or isinstance(ahead, bool) or ahead < 1):
        raise LowwaterError(f"oblivious_join(ahead=) is a number of rows of 1 or more, not {ahead!r}.")
    return ahead


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


def _expected(names: Sequence[str], expect: Expect) -> tuple[Expected | None, ...]:
    if expect is None or isinstance(expect, Expected):
        return (expect,) * len(names)
    if not isinstance(expect, Mapping) or not all(isinstance(one, Expected) for one in expect.values()):
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
