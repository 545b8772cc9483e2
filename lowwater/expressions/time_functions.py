"""Binders of functions of dates and timestamps, and of intervals added to them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from decimal import Decimal, InvalidOperation

import pyarrow as pa

from lowwater.expressions import times
from lowwater.expressions.binding import Binder, Parameter, constant, counted, ints, wrong
from lowwater.expressions.casts import cast, in_utc
from lowwater.expressions.errors import Mismatch, OutsideSubset
from lowwater.expressions.kernels import fixed
from lowwater.expressions.number_functions import add
from lowwater.expressions.tree import Call, Literal, Node, folded
from lowwater.expressions.types import is_float, is_instant, is_integer, is_time, is_timestamp, spark_name

INT = pa.int32()
DATE = pa.date32()
YEARS = ("year", "yyyy", "yy")
MONTHS = ("month", "mon", "mm")
TRUNCATED = {
    **dict.fromkeys(YEARS, "year"),
    "quarter": "quarter",
    **dict.fromkeys(MONTHS, "month"),
    "week": "week",
}
"""The units of `trunc`; `date_trunc` has those below as well."""
SHORTER = {"day": "day", "dd": "day", **{u: u for u in ("hour", "minute", "second", "millisecond", "microsecond")}}
UNITS = {**times.UNITS, "week": 7 * times.DAY}


@dataclass(frozen=True)
class Interval:
    """A literal interval: months, or microseconds. `whole_days` keeps a date a date."""

    months: int = 0
    micros: int = 0
    whole_days: bool = False

    type = pa.month_day_nano_interval()

    def __neg__(self) -> Interval:
        return replace(self, months=-self.months, micros=-self.micros)

    def __add__(self, other: Interval) -> Interval:
        if bool(self.months) != bool(other.months):
            raise Mismatch("An interval of months and days together is refused by Spark too; add one after the other.")
        both = self.whole_days and other.whole_days
        return Interval(self.months + other.months, self.micros + other.micros, both)

    @staticmethod
    def of(amount: str, unit: str) -> Interval:
        unit = unit.lower().removesuffix("s")
        try:
            count = Decimal(amount.strip())
        except InvalidOperation:
            raise OutsideSubset(f"INTERVAL {amount!r} {unit}") from None
        if unit in ("year", "month") and count == int(count):
            return Interval(months=int(count) * (12 if unit == "year" else 1))
        if unit not in UNITS or (count != int(count) and unit != "second"):
            raise OutsideSubset(f"INTERVAL {amount!r} {unit}")
        return Interval(micros=int(count * UNITS[unit]), whole_days=unit in ("day", "week"))

    @staticmethod
    def read(text: str) -> Interval:
        """`1 day 2 hours`."""
        words = text.split()
        if not words or len(words) % 2:
            raise OutsideSubset(f"INTERVAL {text!r}")
        pairs = [Interval.of(amount, unit) for amount, unit in zip(words[::2], words[1::2], strict=True)]
        found = pairs[0]
        for pair in pairs[1:]:
            found = found + pair
        return found


def moved(name: str, node: Node, by: Interval, zone: str) -> Node:
    """A date or timestamp and an interval."""
    if node.type == pa.null() or not is_time(node.type):
        raise OutsideSubset(f"{name!r} between {spark_name(node.type)} and an interval")
    if by.months:
        in_utc(zone, "An interval of months", node.type)
        return folded(Call(fixed(times.add_months, by.months), (node,), node.type))
    if node.type == DATE and by.whole_days:
        return folded(Call(fixed(times.add_days, 1), (node, Literal(by.micros // times.DAY, INT)), DATE))
    if node.type == DATE:
        node = cast(node, pa.timestamp("us", zone), zone)
    if by.micros % times.DAY == 0 or abs(by.micros) > times.DAY:
        in_utc(zone, "An interval of days", node.type)
    return folded(Call(fixed(times.add_micros, by.micros), (node,), node.type))


def plus(operation: str) -> Binder:
    """`+` and `-`, of numbers, or of a date and days."""
    numeric = add(operation)

    def bind(name: str, args: Sequence[Node], zone: str) -> Node:
        left, right = args
        if operation == "add" and right.type == DATE and is_integer(left.type):
            left, right = right, left
        if left.type == DATE and is_integer(right.type):
            return add_days(1 if operation == "add" else -1)(name, (left, right), zone)
        return numeric(name, (left, right), zone)

    return bind


# -- parameters -------------------------------------------------------------------------------------------------------


def a_date(name: str, node: Node, zone: str) -> Node:
    if not (is_time(node.type) or node.type in (pa.string(), pa.null())):
        raise wrong(name, node)
    return cast(node, DATE, zone)


def a_clock(name: str, node: Node, zone: str) -> Node:
    """A timestamp of either kind; dates and text become instants."""
    if not (is_time(node.type) or node.type in (pa.string(), pa.null())):
        raise wrong(name, node)
    in_utc(zone, f"{name}()", node.type, pa.timestamp("us", zone) if not is_timestamp(node.type) else node.type)
    return node if is_timestamp(node.type) else cast(node, pa.timestamp("us", zone), zone)


def an_instant(name: str, node: Node, zone: str) -> Node:
    return cast(a_clock(name, node, zone), pa.timestamp("us", zone), zone)


# -- binders ----------------------------------------------------------------------------------------------------------


def field(part: str, parameter: Parameter) -> Binder:
    """A field of a date or a timestamp, as an int."""

    def bind(name: str, args: Sequence[Node], zone: str) -> Node:
        counted(name, args, 1)
        return folded(Call(fixed(times.part, part), (parameter(name, args[0], zone),), INT))

    return bind


def date_trunc(name: str, args: Sequence[Node], zone: str) -> Node:
    counted(name, args, 2)
    unit = _unit(name, args[0], {**TRUNCATED, **SHORTER})
    node = an_instant(name, args[1], zone)
    return folded(Call(fixed(times.truncate, unit), (node,), node.type))


def trunc(name: str, args: Sequence[Node], zone: str) -> Node:
    counted(name, args, 2)
    unit = _unit(name, args[1], TRUNCATED)
    return folded(Call(fixed(times.truncate_date, unit), (a_date(name, args[0], zone),), DATE))


def _unit(name: str, node: Node, known: dict[str, str]) -> str:
    unit = str(constant(name, node)).lower()
    if unit not in known:
        raise OutsideSubset(f"{name}() to {unit!r}", f"use one of {', '.join(dict.fromkeys(known.values()))}")
    return known[unit]


def to_date(name: str, args: Sequence[Node], zone: str) -> Node:
    counted(name, args, 1)
    return a_date(name, args[0], zone)


def since_1970(per: int) -> Binder:
    def bind(name: str, args: Sequence[Node], zone: str) -> Node:
        counted(name, args, 1)
        node = args[0]
        if node.type == pa.string() or (node.type == DATE and name != "unix_timestamp"):
            raise wrong(name, node)
        kernel = times.to_seconds_truncated if name == "unix_timestamp" else fixed(times.to_seconds, per)
        taken = node if is_instant(node.type) else an_instant(name, node, zone)
        return folded(Call(kernel, (taken,), pa.int64()))

    return bind


def from_1970(per: int) -> Binder:
    def bind(name: str, args: Sequence[Node], zone: str) -> Node:
        counted(name, args, 1)
        (node,) = args
        type = pa.timestamp("us", zone)
        if node.type == pa.null():
            return Literal(None, type)
        if is_float(node.type) and per == times.SECOND:
            return folded(Call(fixed(times.from_fractions, type), (node,), type))
        if not is_integer(node.type):
            raise wrong(name, node)
        return folded(Call(fixed(times.from_units, per, type), (node,), type))

    return bind


def add_days(sign: int) -> Binder:
    def bind(name: str, args: Sequence[Node], zone: str) -> Node:
        counted(name, args, 2)
        if args[1].type == pa.int64():
            raise Mismatch(f"{name!r} adds an int to a date, not a bigint, which Spark refuses too; cast it to int.")
        taken = (a_date(name, args[0], zone), ints(name, args[1], zone))
        return folded(Call(fixed(times.add_days, sign), taken, DATE))

    return bind


def datediff(name: str, args: Sequence[Node], zone: str) -> Node:
    counted(name, args, 2)
    return folded(Call(times.days_between, tuple(a_date(name, arg, zone) for arg in args), INT))
