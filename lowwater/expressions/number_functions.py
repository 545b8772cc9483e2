"""Binders of arithmetic, with Spark's result types. Decimals have their own rules."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pyarrow as pa

from lowwater.expressions import arithmetic, decimals
from lowwater.expressions.binding import DOUBLE, NULL, Binder, constant, counted, doubles, ints, numbers, wrong
from lowwater.expressions.casts import cast
from lowwater.expressions.errors import OutsideSubset
from lowwater.expressions.kernels import Kernel, fixed
from lowwater.expressions.tree import Call, Literal, Node, folded
from lowwater.expressions.types import (
    INTEGERS,
    as_decimal,
    common,
    is_decimal,
    is_float,
    is_integer,
    is_number,
    product_type,
    promoted,
    quotient_type,
    spark_name,
    sum_type,
    tightest,
)


def _operands(name: str, args: Sequence[Node], zone: str) -> tuple[Node, Node]:
    """Two numbers in one type, or two decimals in their own types. Text next to a number is cast (ANSI)."""
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
    """An integer next to a decimal, as a decimal. A literal has as many digits as are written."""
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
        digits = decimals.dividend_digits(type, left.type, right.type)
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
