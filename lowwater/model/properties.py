"""Properties of a relation: facts about its rows that are known before any row arrives.

The planner, the refusals and the bounds on state read only properties, whether the relation is an input, an
aggregation, a join or a union.

>>> import pyarrow as pa
>>> rows = Properties(pa.schema({"ts": pa.int64(), "k": pa.string()}), (Progressing("ts", 5),))
>>> rows.progressing("ts").behind, rows.attribute
(5, 'ts')
>>> [p.attribute for p in rows.keeping(["k"]).progress]
[]
>>> of_sources = replace(rows, progress=(Progressing("ts", 5, by=("k",)),))
>>> of_sources.closes_by("ts", ["k"]), replace(of_sources, derived=True).closes_by("ts", ["k"])
('k', None)
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import dataclass, replace

import pyarrow as pa

GREATEST, LEAST = "__lw_greatest", "__lw_least"
"""The derived attributes of a join result: the greatest and the least of its timestamps (mission J8)."""
JOINT = "__lw_joint"
"""What a follower asks of a join to get promises on both times together, instead of one per time."""


@dataclass(frozen=True)
class Progressing:
    """An attribute on which rows progress.

    `behind` is the number of ticks by which the low-watermark can be behind the newest row; None if it is not known.
    If `nullable`, rows of an outer join can lack the attribute, and windows over it are refused. `by` are columns whose
    values progress on their own, each at its own pace: the source column of an input. It counts for rows of inputs
    only (`Properties.closes_by`), so an operator need not clear it.
    """

    attribute: str
    behind: int | None = None
    nullable: bool = False
    by: tuple[str, ...] = ()

    def among(self, columns: Sequence[str]) -> Progressing:
        """The same, by those of its columns that are left. Progress by all of them is none by some of them."""
        return self if set(self.by) <= set(columns) else replace(self, by=())


@dataclass(frozen=True)
class Properties:
    """See the module text. The first attribute of `progress` is the default attribute of windows."""

    schema: pa.Schema
    """All columns, the hidden ones included."""
    progress: tuple[Progressing, ...] = ()
    ends: tuple[str, ...] = ()
    """Columns whose values are reported as ended."""
    apart: bool = False
    """Whether rows come from several sources, whose progress can differ."""
    united: bool = False
    """Whether rows come from several inputs of a union. It counts where groups close by the progress of their own
    sources, so for rows of inputs only."""
    hidden: tuple[str, ...] = ()
    """Columns that later operators may use and that results do not show, such as `window_time`."""
    silent: str | None = None
    """If the rows do not progress before the end, the reason."""
    again: str | None = None
    """If a later row can replace an earlier one, the reason. No operator can follow such a relation."""
    skewed: bool = False
    """Whether most groups have few rows in a window."""
    dense: bool = False
    """Whether a declaration says that they have many."""
    identified: tuple[str, ...] | None = None
    """Columns that, together with the time, identify a row, so that there are no ties; None if no columns do."""
    derived: bool = False
    """Whether rows are results of another operator, whose order of arrival is not defined."""
    together: tuple[str, ...] = ()
    """The times of a join, of all of which GREATEST and LEAST are the extremes; none once one of them has changed."""
    measured: str | None = None
    """The attribute that grows in the long run although nothing is promised of it; for joins without a window."""

    @property
    def attribute(self) -> str | None:
        """The attribute that windows are over by default."""
        known = [p for p in self.progress if p.attribute in self.schema.names]
        whole = [p.attribute for p in known if not p.nullable]
        return next(iter([*whole, *(p.attribute for p in known)]), None)

    @property
    def visible(self) -> pa.Schema:
        """The columns that results show."""
        return pa.schema([field for field in self.schema if field.name not in self.hidden])

    def progressing(self, attribute: str) -> Progressing | None:
        return next((p for p in self.progress if p.attribute == attribute), None)

    def extreme(self, kind: str, columns: Sequence[str]) -> Progressing | None:
        """Progress on GREATEST or LEAST of columns, if it is known of them.

        The greatest of some of the times is behind the greatest of all, but their least is not behind the least of all.
        """
        known = set(columns) == set(self.together) or (kind == LEAST and set(columns) <= set(self.together))
        return self.progressing(kind) if known else None

    def closes_by(self, attribute: str, key: Sequence[str]) -> str | None:
        """The column of a key by which groups progress on their own on an attribute; None if they do not.

        Results of an operator do not: what it promises is the progress of the slowest source.
        """
        own = None if self.derived else self.progressing(attribute)
        return own.by[0] if own is not None and own.by and set(own.by) <= set(key) else None

    def keeping(self, columns: Sequence[str]) -> Properties:
        """The properties of a projection. Facts about dropped columns are dropped."""
        together = self._together(set(self.schema.names) - set(columns))
        named = (GREATEST, LEAST) if together else ()
        return replace(
            self,
            schema=pa.schema([self.schema.field(name) for name in columns]),
            progress=tuple(p.among(columns) for p in self.progress if p.attribute in columns or p.attribute in named),
            together=together,
            ends=tuple(name for name in self.ends if name in columns),
            hidden=tuple(name for name in self.hidden if name in columns),
            measured=self.measured if self.measured in columns else None,
        )

    def with_column(self, field: pa.Field, progress: Sequence[Progressing] = ()) -> Properties:
        """The properties with one column added or replaced. `progress` states whether the new column progresses."""
        at = self.schema.get_field_index(field.name)
        schema = self.schema.append(field) if at < 0 else self.schema.set(at, field)
        others = [name for name in self.schema.names if name != field.name]
        together = self._together({field.name})
        gone = (field.name, *(() if together else (GREATEST, LEAST)))
        kept = tuple(p.among(others) for p in self.progress if p.attribute not in gone)
        return replace(
            self,
            schema=schema,
            progress=(*kept, *(p.among(others) for p in progress)),
            together=together,
            ends=tuple(name for name in self.ends if name != field.name),
            hidden=tuple(name for name in self.hidden if name != field.name),
            identified=None if field.name in (self.identified or ()) else self.identified,
            measured=None if field.name == self.measured else self.measured,
        )

    def _together(self, changed: Set[str]) -> tuple[str, ...]:
        """What is left of `together` when columns are dropped or replaced: all or nothing."""
        return () if changed & set(self.together) else self.together
