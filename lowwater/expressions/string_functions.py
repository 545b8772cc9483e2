"""Binders of string functions whose pattern is one literal for all rows."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from lowwater.expressions import strings
from lowwater.expressions.binding import constant, counted, texts
from lowwater.expressions.errors import OutsideSubset
from lowwater.expressions.kernels import Kernel, fixed
from lowwater.expressions.tree import Call, Literal, Node, folded

STRING = pa.string()


def _pattern(name: str, node: Node, zone: str) -> str | None:
    """The literal text of an argument; None for NULL."""
    found = constant(name, texts(name, node, zone))
    return None if found is None else str(found)


def _matched(name: str, kernel: Kernel, node: Node, type: pa.DataType, zone: str) -> Node:
    return folded(Call(kernel, (texts(name, node, zone),), type))


def replace(name: str, args: Sequence[Node], zone: str) -> Node:
    counted(name, args, 2, 3)
    pattern = _pattern(name, args[1], zone)
    by = "" if len(args) == 2 else _pattern(name, args[2], zone)
    if pattern is None or by is None:
        return Literal(None, STRING)
    return _matched(name, fixed(strings.replace, pattern, by), args[0], STRING, zone)


def position(name: str, args: Sequence[Node], zone: str) -> Node:
    """`instr(text, part)` and `locate(part, text)`."""
    counted(name, args, 2)
    text, part = args if name == "instr" else args[::-1]
    found = _pattern(name, part, zone)
    if found is None:
        return Literal(None, pa.int32())
    return _matched(name, fixed(strings.position, found), text, pa.int32(), zone)


def split(name: str, args: Sequence[Node], zone: str) -> Node:
    counted(name, args, 2)
    type = pa.list_(STRING)
    separator = _pattern(name, args[1], zone)
    if separator is None:
        return Literal(None, type)
    if not separator or strings.META & set(separator):
        raise OutsideSubset(f"split() by the regular expression {separator!r}", "split by plain text")
    return _matched(name, fixed(strings.split, separator), args[0], type, zone)


def like(name: str, args: Sequence[Node], zone: str) -> Node:
    """`LIKE` with `%` and `_` and without an escape."""
    pattern = _pattern(name, args[1], zone)
    if pattern is None:
        return Literal(None, pa.bool_())
    if "\\" in pattern:
        raise OutsideSubset(f"LIKE {pattern!r} with an escape", "use contains(), startswith() or endswith()")
    return _matched(name, fixed(strings.like, pattern), args[0], pa.bool_(), zone)
