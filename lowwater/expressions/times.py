"""Functions of dates and timestamps, in the proleptic Gregorian calendar and in UTC.

Dates are days and timestamps microseconds since 1970. The calendar is computed here and not by Arrow, whose own ends at
the year 32767.

>>> days = pa.array([-1, 0, 59], pa.int32()).cast(pa.date32())
>>> part("month", days).to_pylist(), truncate_date("quarter", days).to_pylist()[2], part("dayofweek", days).to_pylist()
([12, 1, 3], datetime.date(1970, 1, 1), [4, 5, 1])
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lowwater.expressions.arithmetic import java_long
from lowwater.expressions.kernels import Mask, numbers, raising, refuse, with_nulls

SECOND = 1_000_000
DAY = 86_400 * SECOND
UNITS = {
    "microsecond": 1,
    "millisecond": 1000,
    "second": SECOND,
    "minute": 60 * SECOND,
    "hour": 3600 * SECOND,
    "day": DAY,
}
Ints = npt.NDArray[np.int64]
BEYOND = "{} is outside the range of timestamps"


def micros(ts: pa.Array) -> Ints:
    return np.asarray(numbers(ts.cast(pa.int64())), np.int64)


def days(d: pa.Array) -> Ints:
    """Days since 1970 of dates or of timestamps."""
    if d.type == pa.date32():
        return numbers(d.cast(pa.int32())).astype(np.int64)
    return micros(d) // DAY


def dates(day: Ints) -> pa.Array:
    return pa.array(day.astype(np.int32)).cast(pa.date32())


def timestamps(micro: Ints, type: pa.DataType) -> pa.Array:
    return pa.array(micro).cast(type)


def civil(day: Ints) -> tuple[Ints, Ints, Ints]:
    """Year, month and day of days since 1970 (Howard Hinnant, chrono-compatible low-level date algorithms)."""
    z = day + 719_468
    era = z // 146_097
    doe = z - era * 146_097
    yoe = (doe - doe // 1460 + doe // 36_524 - doe // 146_096) // 365
    doy = doe - (365 * yoe + yoe // 4 - yoe // 100)
    mp = (5 * doy + 2) // 153
    month = np.where(mp < 10, mp + 3, mp - 9)
    return yoe + era * 400 + (month <= 2), month, doy - (153 * mp + 2) // 5 + 1


def day_of(year: Ints, month: Ints, day: Ints | int) -> Ints:
    """Days since 1970 of a year, month and day."""
    y = year - (month <= 2)
    era = y // 400
    yoe = y - era * 400
    doy = (153 * (month + np.where(month > 2, -3, 9)) + 2) // 5 + day - 1
    return np.asarray(era * 146_097 + yoe * 365 + yoe // 4 - yoe // 100 + doy - 719_468, np.int64)


def month_length(year: Ints, month: Ints) -> Ints:
    after = year * 12 + month
    return day_of(after // 12, after % 12 + 1, 1) - day_of(year, month, 1)


def part(name: str, d: pa.Array) -> pa.Array:
    """A field of dates or timestamps, as an int."""
    if name in ("hour", "minute", "second"):
        within = micros(d) % (UNITS[name] * (24 if name == "hour" else 60))
        return pa.array((within // UNITS[name]).astype(np.int32))
    day = days(d)
    if name == "dayofweek":
        found = (day + 4) % 7 + 1
    elif name == "weekday":
        found = (day + 3) % 7
    else:
        found = _of_calendar(name, day)
    return pa.array(found.astype(np.int32))


def _of_calendar(name: str, day: Ints) -> Ints:
    year, month, of_month = civil(day)
    if name == "dayofyear":
        return day - day_of(year, np.ones_like(month), 1) + 1
    return {"year": year, "quarter": (month + 2) // 3, "month": month, "day": of_month}[name]


def _first(unit: str, day: Ints) -> Ints:
    """The first day of the year, quarter, month or week of a day."""
    if unit == "week":
        return day - (day + 3) % 7
    year, month, _ = civil(day)
    first = {"year": np.ones_like(month), "quarter": (month - 1) // 3 * 3 + 1, "month": month}
    return day_of(year, first[unit], 1)


def truncate_date(unit: str, d: pa.Array) -> pa.Array:
    return dates(_first(unit, days(d)))


def truncate(unit: str, ts: pa.Array) -> pa.Array:
    at = micros(ts)
    found = at - at % UNITS[unit] if unit in UNITS else _first(unit, at // DAY) * DAY
    return timestamps(found, ts.type)


def to_seconds(per: int, ts: pa.Array) -> pa.Array:
    """Whole units since 1970, rounded down; `per` is the microseconds of a unit."""
    return pa.array(micros(ts) // per)


def to_seconds_truncated(ts: pa.Array) -> pa.Array:
    """Whole seconds, rounded towards zero, as `unix_timestamp` returns before 1970."""
    at = micros(ts)
    return pa.array(at // SECOND + ((at < 0) & (at % SECOND != 0)))


@raising
def from_units(per: int, type: pa.DataType, n: pa.Array) -> pa.Array:
    count = numbers(n).astype(np.int64)
    found, wrong = multiplied(count, per)
    refuse(wrong, (n,), BEYOND)
    return timestamps(found, type)


def multiplied(count: Ints, by: int) -> tuple[Ints, Mask]:
    with np.errstate(all="ignore"):
        found = count * by
    return found, found // by != count


def from_fractions(type: pa.DataType, n: pa.Array) -> pa.Array:
    """Timestamps from doubles in seconds: null for NaN and infinities, limited to the range of a long."""
    x = numbers(n).astype(np.float64)
    with np.errstate(all="ignore"):
        return with_nulls(timestamps(java_long(x * SECOND), type), ~np.isfinite(x))


def add_days(sign: int, d: pa.Array, n: pa.Array) -> pa.Array:
    with np.errstate(all="ignore"):
        moved = numbers(d.cast(pa.int32())) + sign * numbers(n).astype(np.int32)
    return pa.array(moved).cast(pa.date32())


def days_between(end: pa.Array, start: pa.Array) -> pa.Array:
    return pa.array((days(end) - days(start)).astype(np.int32))


@raising
def add_micros(shift: int, ts: pa.Array) -> pa.Array:
    at = micros(ts)
    with np.errstate(all="ignore"):
        found = at + np.int64(shift)
    refuse(((at ^ found) & (np.int64(shift) ^ found)) < 0, (ts.cast(pa.int64()),), BEYOND)
    return timestamps(found, ts.type)


def _months_later(months: int, day: Ints) -> Ints:
    """The same day of a later month, or its last day if that month is shorter."""
    year, month, of_month = civil(day)
    count = year * 12 + month - 1 + months
    year, month = count // 12, count % 12 + 1
    return day_of(year, month, np.minimum(of_month, month_length(year, month)))


def add_months(months: int, d: pa.Array) -> pa.Array:
    if d.type == pa.date32():
        return dates(_months_later(months, days(d)))
    at = micros(d)
    return timestamps(_months_later(months, at // DAY) * DAY + at % DAY, d.type)


def date_to_timestamp(type: pa.DataType, d: pa.Array) -> pa.Array:
    return timestamps(days(d) * DAY, type)


def timestamp_to_date(ts: pa.Array) -> pa.Array:
    return dates(micros(ts) // DAY)


def relabelled(type: pa.DataType, ts: pa.Array) -> pa.Array:
    """A timestamp as a local time in UTC, and back. The number stays the same."""
    return timestamps(micros(ts), type)


def seconds(ts: pa.Array) -> pa.Array:
    return pa.array(micros(ts) / SECOND)
