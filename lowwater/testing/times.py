"""Times for the rows of tests."""

from __future__ import annotations

import datetime as dt

DAY = dt.date(2026, 1, 1)


def at(time: str, day: dt.date = DAY) -> dt.datetime:
    """A time of day in UTC, on the first of January 2026 unless another day is given.

    >>> at("12:00:03")
    datetime.datetime(2026, 1, 1, 12, 0, 3, tzinfo=datetime.timezone.utc)
    """
    return dt.datetime.combine(day, dt.time.fromisoformat(time), tzinfo=dt.UTC)
