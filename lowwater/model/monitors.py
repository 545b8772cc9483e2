"""Monitors of one stream while it runs: scrambling factor, lateness, and where it reached which value (WO 2.2, 5).

A monitor takes the summaries of runs in order of arrival. It keeps the staircase of the running maximum, in groups that
are coarser the further back they are, and the scrambling factors of recent runs. It forgets factors that are further
back than `horizon` rows: a burst of disorder counts until so many rows have followed it.

State: about 45 steps per doubling of the rows seen, so less than 2,800; and at most `RECENT` factors.

`StreamMonitor` adds what the cost model of a join needs of a stream: ranks, from which lags follow, multiplicity and
rate. Operators have no clock, so the rate is in rows per micro-batch; only the ratio of two rates counts.

>>> monitor = Monitor(horizon=1000)
>>> for values in ([1, 4, 2, 3], [5, 4], [6, 7]):
...     monitor.learn(Scrambling.of(np.array(values)))
>>> monitor.rows, monitor.factor, monitor.late_by, monitor.reached(monitor.rows - monitor.factor - 1)
(8, 4, 2, 4)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from lowwater.model.lag import Ranks, lag
from lowwater.model.scrambling import NONE, Ints, Rises, Scrambling

HORIZON = 1 << 20
"""Rows after which a monitor has forgotten what it saw."""
BATCHES = 16
"""The number of micro-batches over which a rate is measured."""
RECENT = 64
"""The number of recent maxima that are kept. More of them are merged, so that a maximum is forgotten later."""


@dataclass
class Recent:
    """Maxima of the last rows: at each position in `at`, the largest value since the position before it."""

    at: Ints = field(default_factory=lambda: NONE)
    most: Ints = field(default_factory=lambda: NONE)

    def learn(self, position: int, value: int, since: int) -> None:
        """Adds a value seen at a position, and forgets those before `since`. Keeps only values above all later ones."""
        keep = (self.most > value) & (self.at >= since)
        self.at = np.append(self.at[keep], position)
        self.most = np.append(self.most[keep], value)
        if len(self.at) > RECENT:  # the larger value of two neighbours counts until the later of both is forgotten
            self.at, self.most = np.append(self.at[1::2], position), np.append(self.most[:-1:2], value)

    @property
    def largest(self) -> int:
        return int(self.most.max(initial=0))


class Monitor:
    """See the module text. Positions count from 0."""

    def __init__(self, horizon: int = HORIZON) -> None:
        self.horizon = horizon
        self.rows = 0
        self.rises = Rises(NONE, NONE, NONE)
        self._factors, self._lateness = Recent(), Recent()

    def learn(self, run: Scrambling) -> None:
        """Takes the summary of the next run."""
        if not run.rows:
            return
        before = Scrambling(self.rows, 0, 0, self.rises, NONE, NONE)
        both = before.then(run)
        self.rows = both.rows
        since = self.rows - self.horizon
        self._factors.learn(self.rows, both.factor, since)
        self._lateness.learn(self.rows, both.late_by, since)
        self.rises = both.rises.thinned(self.rows)

    @property
    def factor(self) -> int:
        """The scrambling factor of the rows of the horizon, rounded up by a few percent."""
        return self._factors.largest

    @property
    def late_by(self) -> int:
        """The largest lateness of the rows of the horizon, in ticks."""
        return self._lateness.largest

    def reached(self, position: int) -> int | None:
        """The largest value up to a position, rounded down; None if nothing is known of it."""
        return self.rises.reached(position)

    def first_above(self, value: int) -> int:
        """The first position with a value above this one, rounded down; the next position if there is none."""
        found = self.rises.first_above(value)
        return self.rows if found is None else found

    @property
    def most(self) -> int | None:
        """The largest value so far; None before any."""
        return int(self.rises.top[-1]) if len(self.rises.top) else None

    def first_reaching(self, values: Ints) -> Ints:
        """The first position at which each value was reached, rounded down; the next position if it was not."""
        found = np.full(len(values), self.rows)
        since, reached = self.rises.first_at_least(values)
        found[reached] = since
        return found

    def tables(self) -> dict[str, pa.Table]:
        """The state as tables."""
        rises = self.rises
        recent = {"factor_at": self._factors, "late_at": self._lateness}
        return {
            "rises": pa.table({"since": rises.since, "least": rises.least, "top": rises.top}),
            "rows": pa.table({"rows": [self.rows]}),
            **{name: pa.table({"at": one.at, "most": one.most}) for name, one in recent.items()},
        }

    def restore(self, tables: dict[str, pa.Table]) -> None:
        """Continues from a state."""
        rises = tables["rises"]
        self.rises = Rises(*(rises.column(name).to_numpy() for name in ("since", "least", "top")))
        self.rows = tables["rows"].column(0)[0].as_py()
        self._factors, self._lateness = (
            Recent(tables[name].column("at").to_numpy(), tables[name].column("most").to_numpy())
            for name in ("factor_at", "late_at")
        )


@dataclass(frozen=True, eq=False)
class Summary:
    """What a run of tuples tells the monitors of its stream: its disorder and its ranks. It travels with the run."""

    disorder: Scrambling
    ranks: Ranks

    @staticmethod
    def of(values: Ints) -> Summary:
        return Summary(Scrambling.of(values).thinned(), Ranks.of(values).thinned())

    @staticmethod
    def coarse(values: Ints, steps: int) -> Summary:
        """A summary in so many steps of the run, for metrics: much cheaper than the exact one."""
        step = len(values) // steps
        return Summary(Scrambling.coarse(values, step).thinned(), Ranks.sampled(values, step).thinned())

    def then(self, later: Summary) -> Summary:
        """The summary of this run and of the one that follows it."""
        return Summary(self.disorder.then(later.disorder).thinned(), Ranks.merged([self.ranks, later.ranks]).thinned())

    @property
    def rows(self) -> int:
        return self.disorder.rows

    def tables(self) -> dict[str, pa.Table]:
        return {**self.disorder.tables(), "ranks": self.ranks.table()}

    @staticmethod
    def of_tables(tables: dict[str, pa.Table]) -> Summary:
        return Summary(Scrambling.of_tables(tables), Ranks.of_table(tables["ranks"]))


class StreamMonitor(Monitor):
    """A monitor of disorder, ranks, multiplicity and rate. State: that of a monitor, and at most POINTS ranks."""

    def __init__(self, horizon: int = HORIZON) -> None:
        super().__init__(horizon)
        self.ranks = Ranks.of(NONE)
        self._multiplicities = Recent()
        self._ends: Ints = NONE
        """The rows at the ends of the last micro-batches."""

    def read(self, runs: Sequence[Summary], forget: int | None = None) -> None:
        """Takes the summaries of the next runs. Ranks of values up to `forget` are of no use any more."""
        for run in runs:
            self.learn(run.disorder)
        if runs:
            ranks = self.ranks if forget is None else self.ranks.since(forget)
            merged = Ranks.merged([ranks, *(run.ranks for run in runs)])
            self._multiplicities.learn(self.rows, merged.multiplicity, self.rows - self.horizon)
            self.ranks = merged.thinned()

    def end(self) -> None:
        """A micro-batch ends."""
        self._ends = np.append(self._ends, self.rows)[-BATCHES - 1 :]

    @property
    def multiplicity(self) -> int:
        """The largest number of tuples with one value in the horizon; 1 before any."""
        return max(1, self._multiplicities.largest)

    @property
    def rate(self) -> float:
        """Rows per micro-batch, over the last micro-batches."""
        first = int(self._ends[0]) if len(self._ends) > BATCHES else 0
        return (self.rows - first) / max(1, min(len(self._ends), BATCHES))

    def lag(self, other: StreamMonitor) -> int:
        """The lag to another stream by Definition 2.6, over what has arrived (lag.py)."""
        return lag(self.rows, self.ranks, other.rows, other.ranks)

    def tables(self) -> dict[str, pa.Table]:
        recent = self._multiplicities
        return {
            **super().tables(),
            "ranks": self.ranks.table(),
            "multiplicity_at": pa.table({"at": recent.at, "most": recent.most}),
            "ends": pa.table({"rows": self._ends}),
        }

    def restore(self, tables: dict[str, pa.Table]) -> None:
        super().restore(tables)
        if "ranks" not in tables:  # the state of an earlier version: ranks begin behind the rows so far
            self.ranks = Ranks(self.rises.top[-1:], np.array([self.rows]), np.ones(1, np.int64))
            return
        self.ranks = Ranks.of_table(tables["ranks"])
        recent = tables["multiplicity_at"]
        self._multiplicities = Recent(recent.column("at").to_numpy(), recent.column("most").to_numpy())
        self._ends = tables["ends"].column("rows").to_numpy()
