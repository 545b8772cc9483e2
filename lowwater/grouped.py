"""The step between `window()` or `group_by()` and `agg()`: a relation with a window or groups, without aggregates."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Any

from lowwater.aggregates.base import Aggregate
from lowwater.errors import BadAggregate, BadWindow, LowwaterError
from lowwater.model.ticks import Length, Ticks
from lowwater.model.words import listed
from lowwater.operators.bucket import WindowKind
from lowwater.operators.flush import EAGER, Flush
from lowwater.query import logical
from lowwater.windows.describe import describe

if TYPE_CHECKING:
    from lowwater.relation import Relation


@dataclass(frozen=True, eq=False, repr=False)
class Grouped:
    """A relation with a window or groups. Without a window, punctuation proves when a group is complete."""

    _of: Relation
    _window: WindowKind | None
    _time: str | None
    _anchored: bool = True
    _groups: tuple[str, ...] = ()
    _partitioned: bool = False
    """Whether the rows of a partition define the windows. Further grouping then has no meaning."""
    _early: bool = False
    _lateness: int = 0
    _flush: Flush = EAGER

    def group_by(self, *columns: str | Sequence[str]) -> Grouped:
        """One result per window and value of these columns. Null is a value."""
        by = self._of._named("group_by()", *columns)
        if self._partitioned:
            raise BadWindow(
                "group_by() would split windows that rows of a partition define; name the columns in partition_by= "
                "instead, so that each key counts its own rows."
            )
        return dataclasses.replace(self, _groups=(*self._groups, *by))

    groupBy = group_by

    def emit(
        self, *, early: bool | None = None, allowed_lateness: Length | None = None, flush: Flush | None = None
    ) -> Grouped:
        """Sets when results leave. By default each leaves once, when its window closes.

        early             also before, after each batch that changed a window; these rows are marked "early"
        allowed_lateness  closed windows take late rows for this long; new answers are marked "revised"
        flush             lw.slow_flush() or lw.lazy_flush(): answers leave a few per batch

        Nothing can follow a relation with early or revised answers.
        """
        if self._window is None or self._time is None:
            raise BadWindow("emit() is for windows; a group without one is answered when it is complete.")
        ticks = Ticks(self._of.node.schema.field(self._time).type)
        lateness = self._lateness
        if allowed_lateness is not None:
            lateness = ticks.not_negative(allowed_lateness, "allowed_lateness")
        early = self._early if early is None else early
        return dataclasses.replace(self, _early=early, _lateness=lateness, _flush=flush or self._flush)

    def distinct(self, *columns: str | Sequence[str]) -> Relation:
        """Each combination of these columns, or of the groups, once per window (DupElim)."""
        if self._window is None:
            raise LowwaterError("distinct() behind group_by() needs a window; use distinct() on the rows themselves.")
        if self._partitioned:
            raise BadWindow("distinct() has no meaning over windows that rows define; use a window over time.")
        of = self.group_by(*columns) if columns else self
        if not of._groups:
            raise LowwaterError("distinct() over windows needs columns, as in window('1 minute').distinct('user').")
        return of._aggregated({}, "auto", "include", None)

    def agg(
        self, strategy: str = "auto", late: str = "include", table: int | None = None, **aggregates: Any
    ) -> Relation:
        """Computes aggregates. The keyword is the name of the result column, as in agg(n=lw.count()).

        On Spark an aggregate may also be a `Column`, as in agg(total=F.sum("bytes")).

        strategy  auto, or wid, panes, landmark, buffer, adaptive where they fit; results are the same
        late      a row that is late for some of its windows: "include" it in the open ones, or "drop" it from all
        table     entries of the table in which rows are reduced at the source; by default as many as are needed
        """
        for option, value, type in (("strategy", strategy, str), ("late", late, str), ("table", table, int | None)):
            if not isinstance(value, type):
                raise BadAggregate(
                    f"agg() takes aggregates by name, as in agg(n=lw.count()), and {option!r} is no such name."
                )
        if not aggregates:
            raise BadAggregate("agg() needs at least one aggregate, as in agg(n=lw.count()).")
        schema = self._of.node.schema
        exactly = self._of.node.backend.exact_names
        computed = {name: self._aggregate(name, given).spelled(schema, exactly) for name, given in aggregates.items()}
        if exactly:
            from lowwater.expressions.reading import refuse_other_case  # a parser, which workers do not need

            for one in computed.values():
                refuse_other_case(getattr(one, "where", ""), schema.names, f"where= of {one}")
        return self._aggregated(computed, strategy, late, table)

    def __repr__(self) -> str:
        return f"<Grouped {self._of.name}: {self._shown}>"

    def _repr_html_(self) -> str:
        return f"<div><strong>{escape(self._of.name)}</strong>: {escape(self._shown)}</div>"

    @property
    def _shown(self) -> str:
        parts = []
        if self._window is not None and self._time is not None:
            window = describe(self._window, Ticks(self._of.node.schema.field(self._time).type))
            parts.append(f"{window} over {self._time}")
        if self._groups:
            parts.append(f"by {listed(self._groups)}")
        return f"{', '.join(parts) or 'one group'}; agg() computes results"

    def _aggregate(self, name: str, given: Any) -> Aggregate:
        if isinstance(given, Aggregate):
            return given.resolved(self._of.node.schema)
        call = self._of.node.backend.call_of(given)
        if call is None:
            raise BadAggregate(
                f"agg({name}=...) takes an aggregate such as lw.count() or lw.sum('len'), not {given!r}."
            )
        from lowwater.query.called import aggregate_of  # imports a parser, which workers of Spark do not need

        return aggregate_of(call).resolved(self._of.node.schema)

    def _aggregated(self, aggregates: dict[str, Aggregate], strategy: str, late: str, table: int | None) -> Relation:
        named = tuple(aggregates.items())
        if self._window is None:
            if strategy != "auto":
                raise LowwaterError(
                    f"strategy={strategy!r} is for windows; a group-by without one has one way only, so leave it out."
                )
            return self._of._of(logical.GroupBy(self._of.node, self._groups, named))
        assert self._time is not None
        node = logical.Aggregate(
            self._of.node,
            self._window,
            self._time,
            self._groups,
            named,
            self._anchored,
            late,
            self._early,
            self._lateness,
            self._flush,
            strategy,
            table,
        )
        return self._of._of(node)


def names(where: str, *columns: str | Sequence[str]) -> tuple[str, ...]:
    """Columns as users name them: one by one, or as lists."""
    found: list[str] = []
    for one in columns:
        listed = one if isinstance(one, list | tuple) else [one]
        for name in listed:
            if not isinstance(name, str):
                example = f"{where}'user'" if where.endswith("=") else where.replace("()", "('user')")
                raise LowwaterError(f"{where} takes the names of columns, as in {example}, not {name!r}.")
            found.append(name)
    return tuple(found)
