"""Binders: cast the arguments of a call as Spark does, and determine the type of its result.

A binder takes the name of the call, its bound arguments and the session's time zone. It returns a node or refuses the
call. `functions.py` lists the binder of each name.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa

from lowwater.expressions import comparison
from lowwater.expressions.casts import cast
from lowwater.expressions.errors import Mismatch, OutsideSubset
from lowwater.expressions.kernels import Kernel, fixed
from lowwater.expressions.tree import Both, Call, Case, Coalesce, Literal, Node, folded
from lowwater.expressions.types import (
    common,
    inside,
    is_integer,
    is_number,
    spark_name,
)

Binder = Callable[[str, Sequence[Node], str], Node]
Parameter = Callable[[str, Node, str], Node]
BOOLEAN = pa.bool_()
DOUBLE = pa.float64()
NULL = pa.null()


def counted(name: str, args: Sequence[Node], least: int, most: int | None = None) -> None:
    most = least if most is None else most
    if not least <= len(args) <= most:
        raise OutsideSubset(f"{name}() with {len(args)} arguments", "see docs/expressions.md for the forms that it can")


def wrong(name: str, node: Node) -> OutsideSubset:
    return OutsideSubset(f"{name} of {spark_name(node.type)}")


# -- parameters: cast one argument to a type --------------------------------------------------------------------------


def doubles(name: str, node: Node, zone: str) -> Node:
    if not (is_number(node.type) or node.type in (pa.string(), NULL)):
        raise wrong(name, node)
    return cast(node, DOUBLE, zone)


def texts(name: str, node: Node, zone: str) -> Node:
    if not inside(node.type) or node.type == pa.binary():
        raise wrong(name, node)
    return cast(node, pa.string(), zone)


def ints(name: str, node: Node, zone: str) -> Node:
    if not (is_integer(node.type) or node.type == NULL):
        raise wrong(name, node)
    return cast(node, pa.int32(), zone)


def booleans(name: str, node: Node, zone: str) -> Node:
    if node.type not in (BOOLEAN, NULL, pa.string()):
        raise Mismatch(f"{name} needs a boolean, but its operand is {spark_name(node.type)}, which Spark refuses too.")
    return cast(node, BOOLEAN, zone)


def numbers(name: str, node: Node, zone: str) -> Node:
    """A number of any type. Text and null are cast to double."""
    return node if is_number(node.type) else doubles(name, node, zone)


def anything(name: str, node: Node, zone: str) -> Node:
    return node


# -- binders of plain functions ---------------------------------------------------------------------------------------


def of(kernel: Kernel, result: pa.DataType, *parameters: Parameter, optional: int = 0, strict: bool = True) -> Binder:
    """A binder for a kernel whose parameters have fixed types. The last `optional` parameters can be absent."""

    def bind(name: str, args: Sequence[Node], zone: str) -> Node:
        counted(name, args, len(parameters) - optional, len(parameters))
        taken = tuple(take(name, arg, zone) for take, arg in zip(parameters, args, strict=False))
        return folded(Call(kernel, taken, result, strict))

    return bind


def each(kernel: Kernel, result: pa.DataType, parameter: Parameter, least: int = 1, strict: bool = True) -> Binder:
    """A binder for a kernel with any number of arguments, all cast to one type."""

    def bind(name: str, args: Sequence[Node], zone: str) -> Node:
        counted(name, args, least, max(least, len(args)))
        return folded(Call(kernel, tuple(parameter(name, arg, zone) for arg in args), result, strict))

    return bind


def constant(name: str, node: Node) -> Any:
    if not isinstance(node, Literal):
        raise OutsideSubset(f"{name}() with an argument that varies per row")
    return node.value


def alike(name: str, args: Sequence[Node], zone: str, strings: bool = True) -> tuple[tuple[Node, ...], pa.DataType]:
    """All arguments cast to their common type, and that type."""
    for arg in args:
        if not inside(arg.type):
            raise wrong(name, arg)
    type = common((arg.type for arg in args), name, strings)
    return tuple(cast(arg, type, zone) for arg in args), type


# -- logic ------------------------------------------------------------------------------------------------------------


def compare(operation: str) -> Binder:
    def bind(name: str, args: Sequence[Node], zone: str) -> Node:
        counted(name, args, 2)
        taken, type = alike(name, args, zone)
        if operation == "null_safe":
            return folded(Call(comparison.null_safe_equal, taken, BOOLEAN, strict=False))
        if type == NULL:
            return Literal(None, BOOLEAN)
        return folded(Call(fixed(comparison.compare, operation), taken, BOOLEAN))

    return bind


def both(stop: bool) -> Binder:
    def bind(name: str, args: Sequence[Node], zone: str) -> Node:
        left, right = (booleans(name, arg, zone) for arg in args)
        return folded(Both(left, right, stop))

    return bind


def case(name: str, conditions: Sequence[Node], values: Sequence[Node], default: Node | None, zone: str) -> Node:
    values, type = alike(name, [*values, default or Literal(None, NULL)], zone)
    branches = zip((booleans(name, c, zone) for c in conditions), values[:-1], strict=True)
    return Case(tuple(branches), values[-1], type)


def between(name: str, args: Sequence[Node], zone: str) -> Node:
    value, low, high = args
    above = compare("greater_equal")(name, (value, low), zone)
    return both(False)("AND", (above, compare("less_equal")(name, (value, high), zone)), zone)


def among(name: str, args: Sequence[Node], zone: str) -> Node:
    """`IN` with literals."""
    (value, *options), type = alike(name, args, zone)
    if type == NULL:
        return Literal(None, BOOLEAN)
    found = [constant(name, option) for option in options]
    present = tuple(v for v in found if v is not None)
    return folded(Call(fixed(comparison.among, present, len(present) < len(found)), (value,), BOOLEAN))


def coalesce(name: str, args: Sequence[Node], zone: str) -> Node:
    counted(name, args, 2 if name != "coalesce" else 1, 2 if name != "coalesce" else max(1, len(args)))
    taken, type = alike(name, args, zone)
    return Coalesce(taken, type)


def nullif(name: str, args: Sequence[Node], zone: str) -> Node:
    counted(name, args, 2)
    same = compare("equal")(name, args, zone)
    return Case(((same, Literal(None, args[0].type)),), args[0], args[0].type)


def nvl2(name: str, args: Sequence[Node], zone: str) -> Node:
    counted(name, args, 3)
    return case(name, [Call(comparison.is_not_null, (args[0],), BOOLEAN, strict=False)], [args[1]], args[2], zone)


def nanvl(name: str, args: Sequence[Node], zone: str) -> Node:
    counted(name, args, 2)
    if {arg.type for arg in args} == {pa.float32()}:
        left, right = args
    else:
        left, right = (doubles(name, arg, zone) for arg in args)
    undefined = Call(comparison.is_nan, (left,), BOOLEAN, strict=False)
    return Case(((undefined, right),), left, left.type)


def conditional(name: str, args: Sequence[Node], zone: str) -> Node:
    counted(name, args, 3)
    return case(name, args[:1], args[1:2], args[2], zone)


def extreme(operation: str) -> Binder:
    def bind(name: str, args: Sequence[Node], zone: str) -> Node:
        counted(name, args, 2, max(2, len(args)))
        taken, type = alike(name, args, zone, strings=False)
        return folded(Call(fixed(comparison.extreme, operation), taken, type, strict=False))

    return bind
