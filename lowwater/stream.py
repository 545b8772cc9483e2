"""The fluent API: describes a query, runs nothing. A backend gives frames that hold the rows and verbs that run it.

>>> import pyarrow as pa, lowwater as lw
>>> rows = pa.table({"ts": [1, 2, 11, 3], "k": ["a", "a", "b", "a"]})
>>> late_by_10 = lw.stream(rows, name="rows", progress="ts", disorder=10)
>>> counts = late_by_10.window(range=10).group_by("k").agg(n=lw.count())
>>> [(r["window_start"], r["window_end"], r["k"], r["n"]) for r in counts.collect().to_pylist()]
[(0, 10, 'a', 3), (10, 20, 'b', 1)]
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from lowwater.aggregates.base import Aggregate
from lowwater.errors import BadAggregate, BadProgress, BadWindow, LowwaterError, UnknownColumn
from lowwater.model.progress import declared_names
from lowwater.model.ticks import Length, Ticks
from lowwater.operators.bucket import WindowedAggregation, WindowKind
from lowwater.operators.flush import EAGER, Flush
from lowwater.query import planner
from lowwater.query.asked import Asked
from lowwater.query.disorder import Disorder, delay, idle
from lowwater.query.explain import Branch, explain
from lowwater.query.frame import Frame, RowFunction
from lowwater.query.plan import Ends, Input, Plan
from lowwater.query.refuse import progress_field
from lowwater.query.window import over_of, window_of
from lowwater.windows.context_aware import Session
from lowwater.windows.context_free import ContextFree

if TYPE_CHECKING:
    from lowwater.joined import Joined


@dataclass(frozen=True)
class _Branch:
    frame: Frame
    input: Input
    steps: tuple[str, ...] = ()


@dataclass(frozen=True)
class Stream:
    """A progressing stream: rows and one attribute on which they progress, from one input or several melded ones."""

    progress: str
    _branches: tuple[_Branch, ...]

    @property
    def schema(self) -> pa.Schema:
        return self._branches[0].frame.schema

    def where(self, condition: str) -> Stream:
        """Rows for which a condition holds. Progress is still learned from all rows."""
        return self._each(lambda frame: frame.where(condition), f"Select  {condition}")

    filter = where

    def with_column(self, name: str, expression: str) -> Stream:
        """Adds or replaces a column by an expression over the others."""
        if name == self.progress:
            raise LowwaterError(
                f"with_column() may not replace the progressing attribute {name!r}; derive a new column."
            )
        if any(b.input.ends and name in (b.input.ends.attribute, *b.input.ends.columns) for b in self._branches):
            raise LowwaterError(
                f"with_column() may not replace {name!r} behind unique() or ends(), which speak of it; derive a new "
                "column, or replace it before them."
            )
        return self._each(lambda frame: frame.with_column(name, expression), f"Apply  {name} = {expression}")

    def select(self, *columns: str) -> Stream:
        """Some columns; the progressing attribute and the sources' column must be among them."""
        for column in self._progress_columns():
            if column not in columns:
                raise LowwaterError(f"select() must keep {column!r}, on which the stream progresses.")
        self._known(columns, "select()")
        return self._each(lambda frame: frame.select(columns), f"Project  {', '.join(columns)}")

    def apply(self, function: RowFunction, schema: pa.Schema) -> Stream:
        """A function from an Arrow table to one of as many rows in the same order, the progress columns kept."""
        ended = [b.input.ends.attribute for b in self._branches if b.input.ends]
        for column in ended:
            if column not in schema.names or schema.field(column).type != self.schema.field(column).type:
                raise LowwaterError(f"apply() must keep {column!r} as it is, since unique() or ends() speak of it.")
        for column in self._progress_columns():
            if column not in schema.names or schema.field(column).type != self.schema.field(column).type:
                raise LowwaterError(f"apply() must keep {column!r} as it is, since the stream progresses on it.")
        name = getattr(function, "__name__", type(function).__name__)
        return self._each(lambda frame: frame.apply(function, schema), f"Apply  {name}")

    def union(self, *others: Stream) -> Stream:
        """Meld: rows of all streams; progress is that of the slowest."""
        branches = self._branches
        if any(b.input.ends is not None for stream in (self, *others) for b in stream._branches):
            raise LowwaterError("union() comes before unique() and ends(): they speak of all rows of the union.")
        ours = self.schema.field(self.progress)
        for other in others:
            theirs = other.schema.field(other.progress)
            if (theirs.name, theirs.type) != (ours.name, ours.type):
                raise BadProgress(
                    f"union() needs the same progressing attribute on both sides; here {ours.name!r} ({ours.type}) "
                    f"meets {theirs.name!r} ({theirs.type})."
                )
            differing = sorted(set(other.schema.names) ^ set(self.schema.names))
            if differing:
                raise LowwaterError(f"union() needs the same columns on both sides; they differ in {differing}.")
            for name in self.schema.names:
                if other.schema.field(name).type != self.schema.field(name).type:
                    raise LowwaterError(
                        f"union() needs the same types on both sides; {name!r} is {self.schema.field(name).type} and "
                        f"{other.schema.field(name).type}."
                    )
            branches = branches + other._branches
        names = [b.input.name for b in branches]
        if len(set(names)) < len(names):
            raise LowwaterError(
                f"union() needs inputs of different names, but has {names}; name them by stream(..., name=)."
            )
        return dataclasses.replace(self, _branches=branches)

    def window(
        self,
        range: Length,
        slide: Length | None = None,
        *,
        origin: object = None,
        period: Length | None = None,
        partition_by: str | Sequence[str] = (),
        order: str | None = None,
    ) -> Windowed:
        """RANGE and SLIDE over the progressing attribute, or in rows, as in range="1000 rows", slide="10 rows".

        `slide` defaults to `range` (tumbling); range="all" is a landmark window, starting anew every `period` if given.
        Windows start at `origin` + k * slide, by default the epoch; origin="first" is the smallest value of the stream.
        A length of time that slides by rows, range="5 minutes", slide="1 row", ends a window at each (n-th) row.
        `partition_by` makes each key a stream of its own. Rows are counted in `order` of "time" or "arrival": by time
        within partitions, by arrival without.
        """
        partition = _names(partition_by)
        self._known(partition, "partition_by=")
        ticks = Ticks(self.schema.field(self.progress).type)
        window, anchored = window_of(ticks, range, slide, origin, period, bool(partition), order)
        return Windowed(self, window, anchored, partition, not isinstance(window, ContextFree))

    def session(self, gap: Length) -> Windowed:
        """Rows of a group with pauses shorter than `gap` between them, in order of the progressing attribute."""
        ticks = Ticks(self.schema.field(self.progress).type)
        return Windowed(self, Session(ticks.length(gap, "GAP")), True)

    def over(
        self,
        partition_by: str | Sequence[str] = (),
        *,
        rows: tuple[int | None, int] | None = None,
        range: tuple[Length | None, Length] | None = None,
    ) -> Windowed:
        """A window for each row: the rows of its partition around it, in order of the progressing attribute.

        rows=(3, 2) is ROWS BETWEEN 3 PRECEDING AND 2 FOLLOWING, range=("1 minute", "0 seconds") the same over time;
        None is UNBOUNDED. Each row comes back with its columns and the aggregates of its window.
        """
        partition = _names(partition_by)
        self._known(partition, "partition_by=")
        ticks = Ticks(self.schema.field(self.progress).type)
        return Windowed(self, over_of(ticks, rows, range), True, partition, True)

    def unique(self, column: str) -> Stream:
        """No two rows share a value of this column: each row ends its own value (PW 1.2), for joins."""
        return self._ending(Ends(column))

    def ends(self, column: str, when: str, value: str | None = None, range: tuple[str, str] | None = None) -> Stream:
        """Rows for which the boolean column `when` is true are punctuations: values of `column` have ended, for joins.

        Which ones is in the row: in `column` itself or in the column `value`, one or a list of them, or in two columns
        `range`, from the first up to the second, itself excluded.
        """
        if range is not None and (not isinstance(range, tuple | list) or len(range) != 2):
            raise LowwaterError(f"ends(range=) names two columns, as in range=('low', 'high'), not {range!r}.")
        low, high = range if range is not None else (None, None)
        return self._ending(Ends(column, when, None if range is not None else value or column, low, high))

    def _ending(self, ends: Ends) -> Stream:
        self._known([ends.attribute, *ends.columns], "unique() or ends()")
        if ends.when is not None and not pa.types.is_boolean(self.schema.field(ends.when).type):
            raise LowwaterError(f"ends(when=) names a boolean column, but {ends.when!r} is not; derive one first.")
        wanted = self.schema.field(ends.attribute).type
        for name in (name for name in (ends.value, ends.low, ends.high) if name is not None):
            given = self.schema.field(name).type
            if name == ends.value and (pa.types.is_list(given) or pa.types.is_large_list(given)):
                given = given.value_type
            if given != wanted:
                raise LowwaterError(f"ends() needs {name!r} of the type of {ends.attribute!r}, {wanted}, not {given}.")
        if any(b.input.ends is not None for b in self._branches):
            raise LowwaterError("A stream says once when values end: by unique() or by ends(), of one column.")
        if ends.low is not None and ends.attribute == self.progress:
            raise LowwaterError("ends(range=) cannot be of the progressing attribute; time has its own punctuation.")
        branches = [dataclasses.replace(b, input=dataclasses.replace(b.input, ends=ends)) for b in self._branches]
        return dataclasses.replace(self, _branches=tuple(branches))

    def join(
        self,
        other: Stream,
        on: str | Sequence[str | Sequence[str]],
        within: Length | tuple[Length | None, Length | None] | None = None,
        how: str = "inner",
        **options: Any,
    ) -> Joined:
        """Rows of both streams that are equal on the key and within each other's window.

        on         the key: a column of both, several, or pairs of names as in [("id", "seller")]
        within     other.time - self.time: at most this apart, or from a lower to an upper end; None is without end
        how        inner, left, right, full, semi, anti
        window     instead of within: rows of the same window, of this length and `slide`, from `origin`
        bounds     "[]", "[)", "(]" or "()": which ends of within belong to it
        rows       tuple-count windows: the newest so many rows of each side, or of one, as in rows=(100, None)
        per_key    whether rows are counted for each key or over the whole stream
        condition  SQL, or a function of an Arrow table of pairs, that must hold as well
        null_safe  whether null keys match each other
        """
        from lowwater.joined import joined

        return joined((self, other), on, within, how, **options)

    def _each(self, change: Callable[[Frame], Frame], step: str) -> Stream:
        branches = []
        for b in self._branches:
            frame = change(b.frame)
            branches.append(_Branch(frame, dataclasses.replace(b.input, keep=frame.keep), (*b.steps, step)))
        return dataclasses.replace(self, _branches=tuple(branches))

    def _progress_columns(self) -> list[str]:
        """The columns that progress is learned from."""
        marks = [name for b in self._branches for name in b.input.marks if name != b.input.keep]
        return list(dict.fromkeys([self.progress, *marks]))

    def _known(self, columns: Sequence[str], where: str) -> None:
        for column in columns:
            if column not in self.schema.names:
                raise UnknownColumn(column, self.schema.names, where)


@dataclass(frozen=True)
class Windowed:
    """A stream with a window over it."""

    _stream: Stream
    _window: WindowKind
    _anchored: bool
    _groups: tuple[str, ...] = ()
    _partitioned: bool = False
    """Whether windows are defined by the rows of a partition, so that grouping further has no meaning."""
    _early: bool = False
    _lateness: int = 0
    _flush: Flush = EAGER

    def group_by(self, *columns: str) -> Windowed:
        """One result for each value of these columns in each window; null is a value."""
        self._stream._known(columns, "group_by()")
        if self._partitioned:
            raise BadWindow(
                "group_by() would split windows that rows of a partition define; name the columns in partition_by= "
                "instead, so that each key counts its own rows."
            )
        return dataclasses.replace(self, _groups=(*self._groups, *columns))

    groupBy = group_by

    def emit(
        self, *, early: bool | None = None, allowed_lateness: Length | None = None, flush: Flush | None = None
    ) -> Windowed:
        """When results leave. By default each once, when its window closes.

        early             also before, after each batch that changed a window; such rows are marked "early"
        allowed_lateness  closed windows take late rows so much longer; new answers are marked "revised"
        flush             lw.slow_flush() or lw.lazy_flush(): many answers leave a few at a time
        """
        ticks = Ticks(self._stream.schema.field(self._stream.progress).type)
        lateness = self._lateness
        if allowed_lateness is not None:
            lateness = ticks.length(allowed_lateness, "allowed_lateness")
        if lateness < 0:
            raise BadWindow("allowed_lateness must not be negative.")
        early = self._early if early is None else early
        return dataclasses.replace(self, _early=early, _lateness=lateness, _flush=flush or self._flush)

    def agg(
        self, strategy: str = "auto", late: str = "include", table: int | None = None, **aggregates: Aggregate
    ) -> Query:
        """What to compute; the keyword is the name of the result column.

        strategy  how: auto, or wid, panes, landmark, buffer, adaptive where they fit
        late      a row late for some of its windows: "include" it in the open ones, or "drop" it from all
        table     entries of the low-level table in which sources reduce rows; by default as many as are needed
        """
        for option, value, type in (("strategy", strategy, str), ("late", late, str), ("table", table, int | None)):
            if not isinstance(value, type):
                raise BadAggregate(
                    f"agg() takes aggregates by name, as in agg(n=lw.count()), and {option!r} is no such name."
                )
        for name, aggregate in aggregates.items():
            if not isinstance(aggregate, Aggregate):
                raise BadAggregate(
                    f"agg({name}=...) takes an aggregate such as lw.count() or lw.sum('len'), not {aggregate!r}."
                )
        what = WindowedAggregation(
            self._window,
            self._stream.progress,
            self._stream.schema,
            self._groups,
            tuple(aggregates.items()),
            self._anchored,
            late,
            self._early,
            self._lateness,
        )
        branches = self._stream._branches
        if any(b.input.ends is not None for b in branches):
            raise LowwaterError("unique() and ends() are for joins; a window aggregation has no use of ended values.")
        plan = planner.plan([b.input for b in branches], what, strategy, self._flush, table)
        return Query(plan, tuple(b.frame for b in branches), tuple(Branch(b.input.name, b.steps) for b in branches))


def _names(columns: str | Sequence[str]) -> tuple[str, ...]:
    return (columns,) if isinstance(columns, str) else tuple(columns)


@dataclass(frozen=True)
class Query(Asked):
    """A planned window aggregation."""

    plan: Plan

    def explain(self) -> str:
        return explain(self.plan, self._branches)


def open_stream(
    frame: Frame,
    name: str,
    progress: str | None,
    disorder: Disorder | Length | None,
    source: str | None,
    sources: Sequence[str],
    idle_after: idle | None,
    groups: str | None = None,
) -> Stream:
    """A stream over a backend's frame; see `lowwater.stream`."""
    field = progress_field(frame.schema, progress, name)
    ticks = Ticks(field.type)
    if disorder is None:
        raise BadProgress(
            f"Stream {name!r} does not say how late rows can be; give disorder='5 seconds', or lw.ordered(), "
            "lw.learned(), lw.delay_rows(), lw.punctuated()."
        )
    how = disorder if isinstance(disorder, Disorder) else delay(disorder)
    named = [source] if source else []
    if how.punctuation is not None:
        named += [how.punctuation.when, how.punctuation.upto]
        upto = how.punctuation.upto
        given = frame.schema.field(upto).type if upto in frame.schema.names else field.type
        if given != field.type:
            raise BadProgress(
                f"Punctuation column {upto!r} must have the type of {progress!r}, {field.type}, not {given}."
            )
    for column in named:
        if column not in frame.schema.names:
            raise UnknownColumn(column, frame.schema.names, f"stream {name!r}")
    if how.punctuation is not None and not pa.types.is_boolean(frame.schema.field(how.punctuation.when).type):
        given = frame.schema.field(how.punctuation.when).type
        raise BadProgress(f"Punctuation column {how.punctuation.when!r} must be boolean, not {given}.")
    if sources and source is None:
        raise BadProgress(f"sources= of stream {name!r} needs source=, the column that tells them apart.")
    if groups not in (None, "dense", "skewed"):
        raise LowwaterError(f"groups={groups!r} of stream {name!r} is unknown; use 'dense' or 'skewed'.")
    resolved = None if idle_after is None else idle_after.resolved(ticks, name)
    waited = declared_names(sources, frame.schema.field(source).type) if source is not None else ()
    skewed = groups == "skewed"
    single = Input(name, how.policy(ticks), source, waited, resolved, how.punctuation, frame.keep, skewed)
    assert progress is not None
    return Stream(progress, (_Branch(frame, single),))
