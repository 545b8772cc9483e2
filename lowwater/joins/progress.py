"""Progress of a join: how far its inputs have come, and what that promises of its results (TH 7.1.2, Fig. 7-5).

    b_i                  low-watermark of input i: no row with t < b_i comes any more; if one does, it is late
    bound_i              min over the others of b_j, minus wait_i: no later row joins a row of i below bound_i
    individual output    no result with t_i < min(b_i, bound_i) comes any more      (a slab, Fig. 7-5a)
    joint output         no result with all t_i < b_i comes any more                (a box, Fig. 7-5b: without windows)

Over a grid, both sides of each of these comparisons are window numbers (erratum 3). Results then progress on
window_start and window_end too: no result comes of a window before the first that the slowest input has reached.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from lowwater.joins.spec import WINDOW, WindowJoin
from lowwater.model.punctuation import ALL, Punctuation, Range
from lowwater.model.ticks import END, NEVER
from lowwater.operators.base import Emit, Operator, Promises
from lowwater.state.store import Store


@dataclass
class Bounds:
    """The low-watermarks of the inputs and the bounds emitted to the output, as a record of the state."""

    low: list[int] = field(default_factory=list)
    told: list[int] = field(default_factory=list)
    """The last bound emitted for the time of each input. Checkpoints contain this name."""


class ProgressingJoin(Operator):
    """The part of a join that knows no rows: low-watermarks in, promises out.

    The output has one low-watermark per time of the result. `joint` requests low-watermarks that hold for all times of
    a result together as well: they complete groups of both times earlier, and those of each time close the windows of
    what follows such groups. It takes effect for inner joins of two inputs whose times both appear in the
    results. For other joins no result would lie in a box, and later operators would not progress before the end.

    `extremes` requests linear punctuation on two derived attributes, the greatest and the least time of a result. It
    takes effect if all times have the same type.
    """

    GREATEST: ClassVar[str] = "__lw_greatest"
    LEAST: ClassVar[str] = "__lw_least"

    def __init__(self, what: WindowJoin, joint: bool, extremes: bool, store: Store | None) -> None:
        super().__init__(store)
        self.what = what
        self.ports = len(what.sides)
        self.joint = joint and what.how == "inner" and len(what.sides) == len(set(what.times)) == 2
        self.extremes = extremes and len({side.schema.field(side.time).type for side in what.sides}) == 1
        self._bounds = self.store.record("told", Bounds([NEVER] * self.ports, [NEVER] * self.ports))
        self._promises = self.store.record("promises", Promises())

    @property
    def low(self) -> list[int]:
        """The low-watermarks of the inputs."""
        return self._bounds.low

    @property
    def promised(self) -> list[int]:
        """The last bound emitted for the time of each input."""
        return self._bounds.told

    @property
    def demands(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(side.time for side in self.what.sides))

    def _bound(self, port: int) -> int:
        """The least position at which a row of this side may still find a partner among later rows."""
        reached = min(self.what.axis.reached(low) for i, low in enumerate(self.low) if i != port)
        wait = self.what.waits[port]
        if reached in (NEVER, END):
            return reached
        return NEVER if wait is None else reached - wait

    def _promise(self, emit: Emit) -> None:
        """Emits the promises about the output that hold now and were not emitted before."""
        if min(self.low) == END:
            new = min(self.promised) < END
            self._bounds.told = [END] * self.ports
            if new:
                emit(ALL)
            return
        if self.joint:
            self._box(emit)
            slabs = ((name, self._slab(i)) for i, name in enumerate(self.what.times))
            self._promises.emit({name: low for name, low in slabs if NEVER < low < END}, emit)
        else:
            self._slabs(emit)
        if self.extremes:
            bounds = zip((self.GREATEST, self.LEAST), self._extremes(), strict=True)
            self._promises.emit({name: low for name, low in bounds if NEVER < low < END}, emit)
        self._promises.emit(self._windows(), emit)

    def _least(self) -> int:
        """The least position of a result to come.

        A pair to come has a row to come, and that is in no window before the first that its input has reached. A row
        that comes out alone was kept, so the others have not passed its window.
        """
        return min(self.what.axis.reached(low) for low in self.low)

    def _windows(self) -> dict[str, int]:
        """The least start and end of the window of a result to come."""
        reached = self._least()
        if self.what.grid is None or reached in (NEVER, END):
            return {}
        start, end = self.what.grid.interval(np.array([reached], np.int64))
        assert start is not None
        return dict(zip(WINDOW, (int(start[0]), int(end[0])), strict=True))

    def _slab(self, port: int) -> int:
        """The least time of one input in any later result."""
        return min(self.low[port], self.what.axis.since(self._bound(port)))

    def _extremes(self) -> tuple[int, int]:
        """Lower bounds of the greatest and of the least time of any later result; missing times are ignored.

        At least one row of a later pair has not arrived yet. It comes on some input i and has t_i >= b_i, so the
        greatest time is at least the smallest b_i. A row that is emitted without a partner was stored and is not below
        its bound. The least time of a result is the time of one of its rows, each of which is in its slab (mission J8).
        """
        if self.what.one_sided:
            return self._slab(0), self._slab(0)
        alone = [self._slab(i) for i, keeps in enumerate(self.what.keeps) if keeps]
        return min([*self.low, *alone]), min(self._slab(i) for i in range(self.ports))

    def _slabs(self, emit: Emit) -> None:
        """Emits one low-watermark per time, under the name that the time has in the result.

        If time is part of the key, the sides share one name, and a row of any side can appear under it without a
        partner. The bound is then the smallest of the sides.
        """
        lows: dict[str, int] = {}
        for i, name in enumerate(self.what.times[:1] if self.what.one_sided else self.what.times):
            lows[name] = min(self._slab(i), lows.get(name, END))
        for name, low in lows.items():
            i = self.what.times.index(name)
            if low > self.promised[i]:
                self.promised[i] = low
                emit(ALL if low == END else Punctuation.linear(name, low))

    def _box(self, emit: Emit) -> None:
        """Emits joint punctuation if its box has a point of the window that no earlier box had (Fig. 7-5b)."""
        if min(self.low) == NEVER:
            return
        new = False
        for i, (low, before) in enumerate(zip(self.low, self.promised, strict=True)):
            wait = self.what.waits[1 - i] if self.ports == 2 else None
            reach = self.what.axis.since(self.what.axis.reached(before))
            new |= low > before and (wait is None or before == NEVER or reach - wait < self.low[1 - i])
        if not new:
            return
        self._bounds.told = list(self.low)
        names: dict[str, int] = {}
        for name, low in zip(self.what.times, self.low, strict=True):
            names[name] = min(low, names.get(name, END))
        emit(Punctuation({name: Range(None, None if low == END else low) for name, low in names.items()}))
