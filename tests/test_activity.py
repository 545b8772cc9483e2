"""The time of operators: each has its own, without that of the operators that it emits to."""

from __future__ import annotations

from lowwater.runtime.activity import Activity


def test_the_time_of_a_follower_is_not_that_of_its_leader() -> None:
    ticks = iter([0, 10, 13, 20, 100, 105])
    activity = Activity(lambda: next(ticks))
    with activity.of(1), activity.of(2):  # 1 from 0 to 10, 2 from 10 to 13, 1 again from 13 to 20
        pass
    with activity.of(2):
        pass
    assert activity.nanoseconds == {1: 17, 2: 8}
