"""How a call is bound: arguments are brought to the types that Spark would bring them to, and the result gets its type.

A binder takes the name of the call, its bound arguments and the session's time zone, and returns a node or refuses.
`functions.py` lists which binder serves which name.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa

from lowwater.expressions import arithmetic, comparison, decimals
from lowwater.expressions.casts import cast
from lowwater.expressions.errors import Mismatch, OutsideSubset
from lowwater.expressions.tree import Both, Call, Case, Coalesce, Kernel, Literal, Node, fixed, folded
from lowwater.expressions.types import (
    INTEGERS,
    as_decimal,
    common,
    inside,
    is_decimal,
    is_float,
    is_integer,
    is_number,
    product_type,
    promoted,
    quotient_type,
    remainder_type,
    spark_name,
    sum_type,
    tightest,
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


# -- parameters: one argument brought to a type -----------------------------------------------------------------------


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
    """A number of any type; text and null become doubles."""
    return node if is_number(node.type) else doubles(name, node, zone)


def anything(name: str, node: Node, zone: str) -> Node:
    return node


# -- binders of plain functions ---------------------------------------------------------------------------------------


def of(kernel: Kernel, result: pa.DataType, *parameters: Parameter, optional: int = 0, strict: bool = True) -> Binder:
    """A kernel whose parameters have fixed types; the last `optional` ones may be absent."""

    def bind(name: str, args: Sequence[Node], zone: str) -> Node:
        counted(name, args, len(parameters) - optional, len(parameters))
        taken = tuple(take(name, arg, zone) for take, arg in zip(parameters, args, strict=False))
        return folded(Call(kernel, taken, result, strict))

    return bind


def each(kernel: Kernel, result: pa.DataType, parameter: Parameter, least: int = 1, strict: bool = True) -> Binder:
    """A kernel of any number of arguments, all brought to one type."""

    def bind(name: str, args: Sequence[Node], zone: str) -> Node:
        counted(name, args, least, max(least, len(args)))
        return folded(Call(kernel, tuple(parameter(name, arg, zone) for arg in args), result, strict))

    return bind


def constant(name: str, node: Node) -> Any:
    if not isinstance(node, Literal):
        raise OutsideSubset(f"{name}() with an argument that varies per row")
    return node.value


def alike(name: str, args: Sequence[Node], zone: str, strings: bool = True) -> tuple[tuple[Node, ...], pa.DataType]:
    """All arguments in their common type."""
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


# -- arithmetic -------------------------------------------------------------------------------------------------------


def _operands(name: str, args: Sequence[Node], zone: str) -> tuple[Node, Node]:
    """Two numbers in one type, or two decimals in their own. Text beside a number is cast (ANSI)."""
    counted(name, args, 2)
    left, right = args
    if type := promoted(left.type, right.type):
        left, right = cast(left, type, zone), cast(right, type, zone)
    if left.type == right.type == NULL:
        left, right = cast(left, DOUBLE, zone), cast(right, DOUBLE, zone)
    if NULL in (left.type, right.type):
        type = tightest(left.type, right.type)
        left, right = cast(left, type, zone), cast(right, type, zone)
    for node in (left, right):
        if not is_number(node.type):
            names = f"{spark_name(args[0].type)} and {spark_name(args[1].type)}"
            raise OutsideSubset(f"{name!r} between {names}")
    if is_decimal(left.type) != is_decimal(right.type) and not (is_float(left.type) or is_float(right.type)):
        return _decimal(name, left, zone), _decimal(name, right, zone)
    if is_decimal(left.type) and is_decimal(right.type):
        return left, right
    type = common((left.type, right.type), name)
    return cast(left, type, zone), cast(right, type, zone)


def _decimal(name: str, node: Node, zone: str) -> Node:
    """An integer beside a decimal; a literal has as many digits as it shows."""
    if isinstance(node, Literal) and is_integer(node.type) and node.value is not None:
        if not node.written:
            raise OutsideSubset(
                f"{name!r} between a decimal and an integer literal with a suffix or a cast",
                "write the integer plainly",
            )
        return cast(node, pa.decimal128(len(str(abs(node.value))), 0), zone)
    return cast(node, as_decimal(node.type), zone)


def add(operation: str) -> Binder:
    """Adds, subtracts, multiplies."""

    def bind(name: str, args: Sequence[Node], zone: str) -> Node:
        left, right = _operands(name, args, zone)
        if is_decimal(left.type):
            rule = product_type if operation == "multiply" else sum_type
            type = rule(left.type, right.type, f"The result of {name!r}")
            kernel: Kernel = fixed(decimals.arithmetic, operation, type)
        else:
            type, kernel = left.type, fixed(arithmetic.arithmetic, operation)
        return folded(Call(kernel, (left, right), type))

    return bind


def try_add(operation: str) -> Binder:
    def bind(name: str, args: Sequence[Node], zone: str) -> Node:
        left, right = _operands(name, args, zone)
        if is_decimal(left.type):
            raise wrong(name, left)
        return folded(Call(fixed(arithmetic.try_arithmetic, operation), (left, right), left.type))

    return bind


def divide(name: str, args: Sequence[Node], zone: str) -> Node:
    left, right = _operands(name, args, zone)
    if is_decimal(left.type):
        type = quotient_type(left.type, right.type, f"The result of {name!r}")
        digits = left.type.precision + type.scale + 1 + right.type.scale - left.type.scale
        if type.scale + right.type.precision > 37 or digits + right.type.precision + 1 > decimals.MOST:
            raise OutsideSubset(f"{name!r} between {spark_name(left.type)} and {spark_name(right.type)}")
        return folded(Call(fixed(decimals.divide, type), (left, right), type, last_first=True))
    taken = (cast(left, DOUBLE, zone), cast(right, DOUBLE, zone))
    kernel = arithmetic.divide if name == "/" else arithmetic.try_divide
    return folded(Call(kernel, taken, DOUBLE, last_first=True))


def try_divide(name: str, args: Sequence[Node], zone: str) -> Node:
    if any(is_decimal(arg.type) for arg in args) and not any(is_float(arg.type) for arg in args):
        raise OutsideSubset("try_divide() of decimal")
    return divide(name, args, zone)


def integral(name: str, args: Sequence[Node], zone: str) -> Node:
    left, right = _operands(name, args, zone)
    for node in (left, right):
        if node.type not in INTEGERS:
            raise wrong(name, node)
    taken = (cast(left, pa.int64(), zone), cast(right, pa.int64(), zone))
    return folded(Call(arithmetic.integral_divide, taken, pa.int64(), last_first=True))


def remainder(kernel: Kernel) -> Binder:
    def bind(name: str, args: Sequence[Node], zone: str) -> Node:
        left, right = _operands(name, args, zone)
        if is_decimal(left.type):
            remainder_type(left.type, right.type, name)
            raise wrong(name, left)
        return folded(Call(kernel, (left, right), left.type, last_first=True))

    return bind


def unary(plain: Kernel, of_decimals: Kernel) -> Binder:
    """A function that keeps the type of its number."""

    def bind(name: str, args: Sequence[Node], zone: str) -> Node:
        counted(name, args, 1)
        node = numbers(name, args[0], zone)
        kernel = of_decimals if is_decimal(node.type) else plain
        return folded(Call(kernel, (node,), node.type))

    return bind


def whole(plain: Kernel, of_decimals: Callable[..., pa.Array]) -> Binder:
    """`floor` and `ceil`: a bigint, or a decimal without fraction."""

    def bind(name: str, args: Sequence[Node], zone: str) -> Node:
        counted(name, args, 1)
        node = numbers(name, args[0], zone)
        if is_decimal(node.type):
            if node.type.scale == 0:
                return node
            type = pa.decimal128(node.type.precision - node.type.scale + 1, 0)
            return folded(Call(fixed(of_decimals, type), (node,), type))
        if is_integer(node.type):
            return cast(node, pa.int64(), zone)
        return folded(Call(plain, (cast(node, DOUBLE, zone),), pa.int64()))

    return bind


def rounding(even: bool) -> Binder:
    def bind(name: str, args: Sequence[Node], zone: str) -> Node:
        counted(name, args, 1, 2)
        node = numbers(name, args[0], zone)
        digits = 0 if len(args) == 1 else constant(name, ints(name, args[1], zone))
        if digits is None:
            raise OutsideSubset(f"{name}() to NULL digits")
        if is_decimal(node.type):
            return _round_decimal(node, digits, "half_to_even" if even else "half_towards_infinity")
        if is_integer(node.type):
            kernel = fixed(arithmetic.round_integer, digits, even)
            return node if digits >= 0 else folded(Call(kernel, (node,), node.type))
        kernel = fixed(arithmetic.round_half_even if even else arithmetic.round_half_up, digits)
        return folded(Call(kernel, (node,), node.type))

    return bind


def _round_decimal(node: Node, digits: int, mode: str) -> Node:
    p, s = node.type.precision, node.type.scale
    if digits >= s:
        type = pa.decimal128(min(38, p - s + 1 + s), s)
    else:
        scale = max(0, digits)
        least = p - s + 1
        type = pa.decimal128(min(38, max(least, 1 - digits) if digits < 0 else least + scale), scale)
    return folded(Call(fixed(decimals.rounded, type, min(digits, s), mode), (node,), type))


def logarithm(name: str, args: Sequence[Node], zone: str) -> Node:
    counted(name, args, 1, 2)
    taken = tuple(doubles(name, arg, zone) for arg in args)
    return folded(Call(arithmetic.ln if len(args) == 1 else arithmetic.log, taken, DOUBLE))
