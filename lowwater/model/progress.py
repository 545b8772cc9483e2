"""Progress: derives the low-watermark of every source from the rows that arrive (TH 4, 8.1).

A *policy* (policy.py) bounds the later rows of a source by those that have arrived. It works in two places. Where rows
are read, `observe` condenses a run of rows into one fact per source. Where state is kept, `Progress` folds in the facts
of all runs and computes the low-watermark of every source. The low-watermark of the input is the minimum over its
sources, and the source at the minimum holds the input back.

No policy reads a clock. Time that passes without data arrives as a `tick`: if a source has been silent for
`idle.after`, its low-watermark moves to the tick minus `idle.lag`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lowwater.errors import BadProgress
from lowwater.model.columns import whole
from lowwater.model.policy import Int, Policy
from lowwater.model.ticks import END, NEVER

NULL = "<null>"
"""The name of the source whose rows have null in the source column."""
_NO_NAMES = pa.array([], pa.string())


def names_of(values: pa.Array) -> pa.Array:
    """The names of sources: the values of a source column as Arrow writes them as text, and `NULL` for null.

    >>> names_of(pa.array([7, None, 2**40])).to_pylist()
    ['7', '<null>', '1099511627776']
    """
    try:
        text = values.cast(pa.string())
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):  # nested values, and bytes that are no text
        text = pa.array([None if value is None else str(value) for value in values.to_pylist()], pa.string())
    return pc.fill_null(text, NULL)


def declared_names(values: Sequence[object], type: pa.DataType) -> tuple[str, ...]:
    """The names of sources that a query declares: strings unchanged, other values as `names_of` writes them.

    >>> declared_names(["north", 7], pa.int64()), declared_names([True], pa.bool_())
    (('north', '7'), ('true',))
    """
    if pa.types.is_string(type) or pa.types.is_large_string(type):
        return tuple(NULL if value is None else str(value) for value in values)
    try:
        return tuple(v if isinstance(v, str) else names_of(pa.array([v], type))[0].as_py() for v in values)
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError, OverflowError) as error:
        raise BadProgress(f"sources= holds a value that is not of the source column's type, {type}.") from error


@dataclass(frozen=True)
class Facts:
    """The facts of one run of rows in arrival order, as columns with one element per source.

    `memory` belongs to the policy.
    """

    source: pa.Array
    rows: Int
    least: Int
    most: Int
    promised: Int
    memory: Int

    @staticmethod
    def none() -> Facts:
        empty = np.empty(0, np.int64)
        return Facts(_NO_NAMES, empty, empty, empty, empty, np.empty((0, 0), np.int64))


@dataclass(frozen=True)
class Idle:
    """Advances a source that has been silent for `after` microseconds of system time to the clock minus `lag`."""

    after: int
    lag: int


def observe(
    policy: Policy, time: Int, source: Int, names: pa.Array, promised: Int | None = None, before: Int | None = None
) -> Facts:
    """The facts of a run of rows in arrival order.

    source    for each row, the index of its source in `names`, which are distinct
    promised  per source, the low-watermark that the data promises
    before    per source, the largest value of the earlier rows of the same run, if there are any
    """
    n = len(names)
    if before is None:
        before = np.full(n, NEVER)
    least, most = np.full(n, -NEVER), np.full(n, NEVER)
    if n == 1 and len(time):  # one source is the common case, and a plain minimum is many times faster
        rows, least[0], most[0] = np.array([len(time)]), min(-NEVER, time.min()), max(NEVER, time.max())
    else:
        rows = np.bincount(source, minlength=n).astype(np.int64)
        np.minimum.at(least, source, time)
        np.maximum.at(most, source, time)
    return Facts(
        names,
        rows,
        least,
        most,
        np.full(n, NEVER) if promised is None else promised,
        policy.observe(time, source, before),
    )


@dataclass
class Progress:
    """The progress of one input. Keeps a few numbers per source and the memory of its policy."""

    policy: Policy
    declared: tuple[str, ...] = ()
    idle: Idle | None = None
    run: bool = False
    """Whether this is the progress of a single run, whose facts are folded into the progress of the input later."""
    source: pa.Array = field(default_factory=lambda: _NO_NAMES)
    most: Int = field(default_factory=lambda: np.empty(0, np.int64))
    least: Int = field(default_factory=lambda: np.empty(0, np.int64))
    bound: Int = field(default_factory=lambda: np.empty(0, np.int64))
    active: Int = field(default_factory=lambda: np.empty(0, np.int64))
    memory: Int = field(default_factory=lambda: np.empty((0, 0), np.int64))
    clock: int = NEVER
    rows: Int = field(default_factory=lambda: np.empty(0, np.int64))
    promised: Int = field(default_factory=lambda: np.empty(0, np.int64))
    ended: bool = False

    def __post_init__(self) -> None:
        if not len(self.source):
            self.memory = self.policy.empty(0)
            self._know(pa.array(self.declared, pa.string()).unique())

    def _know(self, names: pa.Array) -> Int:
        """The positions of named sources, which are distinct. Appends sources that are new."""
        if not len(self.source):
            self._add(names)
            return np.arange(len(names))
        if len(names) < len(self.source):  # build the hash table from the shorter of the two lists
            at = np.full(len(names), -1)
            found = pc.index_in(self.source, value_set=names)
            here = np.flatnonzero(found.is_valid())
            at[found.drop_null().to_numpy()] = here
        else:
            at = pc.fill_null(pc.index_in(names, value_set=self.source), -1).to_numpy(zero_copy_only=False)
        at = at.astype(np.int64)
        new = at < 0
        if new.any():
            at[new] = len(self.source) + np.arange(np.count_nonzero(new))
            self._add(names.filter(pa.array(new)))
        return at

    def _add(self, names: pa.Array) -> None:
        new = len(names)
        self.source = pa.concat_arrays([self.source, names])
        self.most = np.concatenate([self.most, np.full(new, NEVER)])
        self.least = np.concatenate([self.least, np.full(new, -NEVER)])
        self.bound = np.concatenate([self.bound, np.full(new, NEVER)])
        self.active = np.concatenate([self.active, np.full(new, self.clock)])
        self.rows = np.concatenate([self.rows, np.zeros(new, np.int64)])
        self.promised = np.concatenate([self.promised, np.full(new, NEVER)])
        self.memory = np.concatenate([self.memory, self.policy.empty(new)])

    def reached(self, names: pa.Array) -> Int:
        """The largest value that each named source has sent so far."""
        at = self._know(names)
        return self.most[at]

    def learn(self, facts: Facts) -> None:
        """Folds in one run. Runs of the same source must come in their order of arrival."""
        at = self._know(facts.source)
        old = self.memory[at]
        self.memory[at] = (
            self.policy.extend(old, facts.memory, facts.rows)
            if self.run
            else self.policy.fold(old, facts.memory, facts.rows, self.most[at])
        )
        self.most[at] = np.maximum(self.most[at], facts.most)
        self.least[at] = np.minimum(self.least[at], facts.least)
        self.rows[at] += facts.rows
        self.promised[at] = np.maximum(self.promised[at], facts.promised)
        known = np.maximum(self.policy.bound(self.most[at], self.memory[at]), facts.promised)
        self.bound[at] = np.maximum(self.bound[at], known)
        self.active[at] = self.clock

    def facts(self) -> Facts:
        """Everything learned so far, as the facts of one long run."""
        return Facts(self.source, self.rows, self.least, self.most, self.promised, self.memory)

    def hear(self, clock: int) -> None:
        """Sets the system time, in microseconds. Sources of rows learned from now on are active at this time."""
        self.active[self.active == NEVER] = clock
        self.clock = max(self.clock, clock)

    def tick(self, clock: int) -> None:
        """Advances silent sources to the clock of a heartbeat. Called after the rows that came before the heartbeat."""
        self.hear(clock)
        if self.idle is not None:
            silent = self.clock - self.active >= self.idle.after
            self.bound[silent] = np.maximum(self.bound[silent], self.clock - self.idle.lag)

    def wake(self) -> None:
        """Called when the query has been down. No source counts as silent for that time."""
        self.active[:] = NEVER

    def end(self) -> None:
        """Ends the input: the low-watermark of every source becomes END."""
        self.bound[:] = END
        self.ended = True

    @property
    def low_watermark(self) -> int:
        if self.ended:
            return END
        return int(self.bound.min()) if len(self.bound) else NEVER

    def tables(self) -> dict[str, pa.Table]:
        """Arrow tables for the state."""
        columns = {name: pa.array(getattr(self, name)) for name in _NUMBERS}
        memory = pa.FixedSizeListArray.from_arrays(pa.array(self.memory.ravel()), max(1, self.memory.shape[1]))
        sources = pa.table({"source": self.source, **columns})
        if self.memory.size:
            sources = sources.append_column("memory", memory)
        return {"progress": sources, "clock": pa.table({"clock": [self.clock], "ended": [self.ended]})}

    def restore(self, tables: dict[str, pa.Table]) -> None:
        """Reads the tables of `tables`."""
        sources = tables["progress"]
        for name in _NUMBERS:
            setattr(self, name, sources.column(name).to_numpy().copy())
        self.source = whole(sources.column("source"))
        self.memory = self.policy.empty(len(self.source))
        if self.memory.size:
            flat = whole(sources.column("memory")).flatten()
            self.memory = flat.to_numpy(zero_copy_only=False).reshape(self.memory.shape).copy()
        ((self.clock, self.ended),) = [(row["clock"], row["ended"]) for row in tables["clock"].to_pylist()]
        self._declare()

    def _declare(self) -> None:
        """Follows `declared` if it has changed: waits for sources that are new in it, from the low-watermark on, and no
        longer for those that are not in it any more and have never been heard of."""
        declared = pa.array(self.declared, pa.string()).unique()
        heard = (self.rows > 0) | (self.most > NEVER) | (self.promised > NEVER)
        if not heard.all():
            kept = heard | pc.is_in(self.source, value_set=declared).to_numpy(zero_copy_only=False)
            self.source, self.memory = self.source.filter(pa.array(kept)), self.memory[kept]
            for name in _NUMBERS:
                setattr(self, name, getattr(self, name)[kept])
        known, low = len(self.source), self.low_watermark
        self._know(declared)
        self.bound[known:] = low


_NUMBERS = ("most", "least", "bound", "active", "rows", "promised")
