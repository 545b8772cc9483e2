"""Ticks: the values of a progressing attribute as int64, exact and reversible; also lengths such as "10 minutes".

    timestamp   microseconds (or the unit of the type) since the epoch     date      days
    integers    the number itself                                         decimal   the unscaled number

Inside lowwater, times are always ticks. They are converted only where rows enter and where results leave.
Floating-point attributes are refused, because windows over them would depend on rounding.

>>> Ticks(pa.timestamp("us", "UTC")).length("10 minutes", "RANGE")
600000000
>>> Ticks(pa.int64()).length(10, "RANGE")
10
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal, InvalidOperation

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lowwater.errors import BadProgress, BadWindow

NEVER = -(2**62)
"""The low-watermark of a source without progress. It is far from the ends of int64, so that adding lengths is safe."""
END = 2**63 - 1
"""The low-watermark of a source that has ended (the all-matching punctuation)."""

Length = str | int | float | Decimal | timedelta

_MICROSECONDS = {
    "microsecond": 1,
    "millisecond": 1_000,
    "second": 1_000_000,
    "minute": 60_000_000,
    "hour": 3_600_000_000,
    "day": 86_400_000_000,
    "week": 604_800_000_000,
}
_SHORT = {
    "us": "microsecond",
    "ms": "millisecond",
    "s": "second",
    "sec": "second",
    "min": "minute",
    "h": "hour",
    "d": "day",
}
_PER_SECOND = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}


def microseconds(length: Length, what: str) -> int:
    """A length of time in microseconds, from text such as "90 seconds" or from a timedelta."""
    if isinstance(length, timedelta):
        return length // timedelta(microseconds=1)
    if _is_zero(length):
        return 0
    found = re.fullmatch(r"\s*(?:interval\s+)?([+-]?\d+(?:\.\d+)?)\s*([a-z]+)\s*", str(length), re.IGNORECASE)
    if not found:
        raise BadWindow(f"{what} {length!r} is not a length of time; write a number and a unit, as in '10 minutes'.")
    number, unit = Decimal(found[1]), found[2].lower()
    unit = _SHORT.get(unit, unit.removesuffix("s"))
    if unit not in _MICROSECONDS:
        hint = (
            "months and years vary in length; use days"
            if unit in ("month", "year")
            else "use " + ", ".join(_MICROSECONDS)
        )
        raise BadWindow(f"{what} {length!r} has a unit that lowwater does not know: {hint}.")
    exact = number * _MICROSECONDS[unit]
    if exact != int(exact):
        raise BadWindow(f"{what} {length!r} is finer than a microsecond.")
    return int(exact)


def positive(value: int, what: str, written: Length | None = None) -> int:
    """Checks a length in ticks or rows: it must be above zero, and small enough not to overflow.

    A refusal shows the length as it was written.
    """
    shown = as_written(value if written is None else written)
    if value <= 0:
        raise BadWindow(f"{what} must be greater than zero, but is {shown}.")
    if value >= 1 << 61:
        raise BadWindow(f"{what} must be below 2^61 ticks, but is {shown}; longer windows would overflow.")
    return value


def not_negative(value: int, what: str, written: Length) -> int:
    """Checks a length in ticks that may be zero. A refusal shows the length as it was written."""
    if value < 0:
        raise BadWindow(f"{what} must not be negative, but is {as_written(written)}.")
    return value


def as_written(length: object) -> str:
    """A length, or a tuple of lengths, for a refusal. Python writes a negative timedelta as a day less and a rest.

    >>> as_written(timedelta(minutes=-1)), as_written(("-1 hour", 0))
    ('-timedelta(seconds=60)', "('-1 hour', 0)")
    """
    if isinstance(length, tuple):
        return f"({', '.join(as_written(one) for one in length)})"
    if not isinstance(length, timedelta):
        return repr(length)
    sign = "-" if length < timedelta(0) else ""
    return sign + repr(abs(length)).removeprefix("datetime.")


@dataclass(frozen=True)
class Ticks:
    """Converts values and lengths of one type of progressing attribute to ticks, and back."""

    type: pa.DataType

    def __post_init__(self) -> None:
        t = self.type
        if not (pa.types.is_timestamp(t) or pa.types.is_date32(t) or pa.types.is_integer(t) or self._small_decimal()):
            raise BadProgress(
                f"A progressing attribute must be a timestamp, date, integer or decimal of up to 18 digits, not {t}; "
                "cast it first."
            )

    def _small_decimal(self) -> bool:
        return bool(pa.types.is_decimal(self.type)) and self.type.precision <= 18

    @property
    def is_time(self) -> bool:
        return bool(pa.types.is_timestamp(self.type) or pa.types.is_date32(self.type))

    def encode(self, column: pa.Array) -> npt.NDArray[np.int64]:
        """Ticks of a column without nulls."""
        if column.null_count:
            raise BadProgress("Null progress values must be removed before they are converted to ticks.")
        if self._small_decimal():
            return decimal_words(column)
        if pa.types.is_date32(self.type):
            column = column.cast(pa.int32())
        return np.asarray(column.cast(pa.int64()).to_numpy(zero_copy_only=False), np.int64)

    @property
    def wide(self) -> pa.DataType:
        """The type of window bounds: the type of the attribute, or a wider one if a bound can lie outside that type."""
        if self._small_decimal():
            return pa.decimal128(18, self.type.scale)
        return pa.int64() if pa.types.is_integer(self.type) else self.type

    def decode(self, ticks: npt.NDArray[np.int64]) -> pa.Array:
        """Values of type `wide`."""
        if self._small_decimal():
            return words_decimal(ticks, self.wide)
        if pa.types.is_date32(self.type):
            return pa.array(ticks.astype(np.int32)).cast(self.type)
        return pa.array(ticks).cast(self.wide)

    def positive(self, length: Length, what: str) -> int:
        """A RANGE, SLIDE, GAP or PERIOD in ticks."""
        return positive(self.length(length, what), what, length)

    def not_negative(self, length: Length, what: str) -> int:
        """A length in ticks that may be zero."""
        return not_negative(self.length(length, what), what, length)

    def length(self, length: Length, what: str) -> int:
        """A RANGE, SLIDE or delay in ticks. Refuses a unit that does not fit the attribute. Zero needs no unit."""
        timed = isinstance(length, timedelta) or (isinstance(length, str) and not _is_number(length))
        if isinstance(length, str) and re.fullmatch(r"\s*\d+\s*(rows?|tuples?)\s*", length, re.IGNORECASE):
            raise BadWindow(
                f"{what} {length!r} counts rows, but the window is over a {self.type}; give a length in its unit."
            )
        if not self.is_time:
            if timed:
                raise BadWindow(
                    f"{what} {length!r} is a length of time, but progress is by {self.type}; give a number."
                )
            return self._number(length, what)
        if not timed and not _is_zero(length):
            raise BadWindow(f"{what} {length!r} has no unit, but progress is by {self.type}; write e.g. '10 seconds'.")
        micros = microseconds(length, what)
        if pa.types.is_timestamp(self.type):
            ticks, rest = divmod(micros * _PER_SECOND[self.type.unit], 1_000_000)
        else:
            ticks, rest = divmod(micros, _MICROSECONDS["day"])
        if rest:
            raise BadWindow(f"{what} {length!r} is finer than the progressing attribute, which is {self.type}.")
        return ticks

    def _number(self, length: Length, what: str) -> int:
        try:
            number = Decimal(str(length))
        except InvalidOperation:
            number = Decimal("NaN")
        if not number.is_finite():
            raise BadWindow(f"{what} must be a number, not {length!r}.")
        scaled = number.scaleb(self.type.scale) if self._small_decimal() else number
        if scaled != int(scaled):
            raise BadWindow(f"{what} {number} is finer than the progressing attribute, which is {self.type}.")
        return int(scaled)

    def point(self, value: object, what: str) -> int:
        """A point (such as an origin) in ticks, from a value of the type of the attribute."""
        try:
            scalar = pa.scalar(value, self.type) if not isinstance(value, str) else pa.scalar(value).cast(self.type)
        except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError, OverflowError) as error:
            zone = " with an offset such as +00:00" if getattr(self.type, "tz", None) and isinstance(value, str) else ""
            raise BadWindow(f"{what} {value!r} is not a value of type {self.type}{zone}.") from error
        return int(self.encode(pa.array([scalar.as_py()], self.type))[0])


def _is_number(text: str) -> bool:
    return re.fullmatch(r"\s*[+-]?\d+(\.\d+)?\s*", text) is not None


def _is_zero(length: Length) -> bool:
    """Whether a length is zero without a unit, which is the same in every unit."""
    return not isinstance(length, timedelta) and _is_number(str(length)) and Decimal(str(length)) == 0


def decimal_words(column: pa.Array) -> npt.NDArray[np.int64]:
    """The unscaled values of a decimal column of up to 18 digits: the low word of each 128-bit integer."""
    wide = column.cast(pa.decimal128(column.type.precision, column.type.scale))
    data = np.frombuffer(wide.buffers()[1], np.int64)
    return data[2 * wide.offset : 2 * (wide.offset + len(wide)) : 2].copy()


def words_decimal(words: npt.NDArray[np.int64], type: pa.DataType) -> pa.Array:
    """The inverse of `decimal_words`. The high word repeats the sign."""
    pairs = np.empty(2 * len(words), np.int64)
    pairs[0::2] = words
    pairs[1::2] = words >> 63
    return pa.Array.from_buffers(
        pa.decimal128(type.precision, type.scale), len(words), [None, pa.py_buffer(pairs.tobytes())]
    ).cast(type)


def checked(ticks: npt.NDArray[np.int64], what: str) -> npt.NDArray[np.int64]:
    """Refuses values so large that adding a window length could overflow."""
    if len(ticks) and (int(pc.min(pa.array(ticks)).as_py()) < NEVER or int(ticks.max()) > -NEVER):
        raise BadProgress(f"{what} holds values beyond 2^62 in ticks; windows over them would overflow.")
    return ticks
