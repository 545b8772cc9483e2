"""The fluent API: one class for streams and for results. Its verbs describe a query (runnable.py runs it).

Every verb adds a node to the logical tree (query/logical/). Whatever a stream can do, a result can do too.

>>> import pyarrow as pa, lowwater as lw
>>> rows = pa.table({"ts": [1, 2, 11, 3], "k": ["a", "a", "b", "a"]})
>>> late_by_10 = lw.stream(rows, name="rows", progress="ts", disorder=10)
>>> counts = late_by_10.window(range=10).group_by("k").agg(n=lw.count())
>>> [(r["window_start"], r["window_end"], r["k"], r["n"]) for r in counts.collect().to_pylist()]
[(0, 10, 'a', 3), (10, 20, 'b', 1)]
>>> busiest = counts.window(range=10).agg(most=lw.max("n"))         # a window over the results of a window
>>> [(r["window_start"], r["most"]) for r in busiest.collect().to_pylist()]
[(0, 3), (10, 1)]
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from lowwater.errors import BadProgress, LowwaterError, UnknownColumn
from lowwater.grouped import Grouped, names
from lowwater.joins.spec import HOW
from lowwater.model.columns import spelled
from lowwater.model.report import DisorderReport
from lowwater.model.ticks import Length, Ticks
from lowwater.plan.inputs import Ends
from lowwater.query.frame import RowFunction
from lowwater.query.join_options import joined
from lowwater.query.logical import Derive, Distinct, Ending, Filter, Map, Node, Order, Project, Union
from lowwater.query.measured import disorder_report
from lowwater.query.oblivious_options import measured_key, oblivious
from lowwater.query.refuse import refuse_time
from lowwater.query.refuse_steps import refuse_column, refuse_ending, refuse_function, refuse_selection, refuse_union
from lowwater.query.window import over_of, time_of, window_of
from lowwater.runnable import Runnable
from lowwater.windows.context_aware import Session
from lowwater.windows.context_free import ContextFree

JOINED = {"bounds": "[]", "per_key": True, "null_safe": False}
"""Options of join() that are not None where they are left out."""
MARKS = ("lw_left", "lw_right")
"""Columns that mark the sides of a join which shows them."""


class Relation(Runnable):
    """Rows and the attributes on which they progress: a stream, or the results of a query over streams.

    Frozen. Every verb returns a new relation and refuses at once what cannot be planned.
    """

    def named(self, name: str) -> Relation:
        """The same relation under a name. A join prefixes columns that both sides have with it."""
        if not isinstance(name, str) or not name:
            raise LowwaterError(f"named() takes a name, as in named('per_minute'), not {name!r}.")
        return Relation(self.node, name)

    # -- rows ------------------------------------------------------------------------------------------------------

    def where(self, condition: Any) -> Relation:
        """Keeps the rows for which a condition in Spark SQL holds. Progress is still learned from all rows.

        Behind an aggregation this is HAVING: `counts.where("n > 10")`. On Spark it may also be a `Column`.
        """
        return self._of(Filter(self.node, self._text(condition, "where()")))

    filter = where

    def with_column(self, name: str, expression: Any) -> Relation:
        """Adds or replaces a column with an expression in Spark SQL, or on Spark a `Column`, over the others.

        A time plus a constant progresses as that time does. Behind a join, so do `greatest` and `least` of its times.
        """
        if not isinstance(name, str):
            raise LowwaterError(f"with_column() takes a name and an expression, not {name!r} as the name.")
        before = spelled(name, self.node.schema.names, self.node.backend.exact_names) or name
        refuse_column(self.node, before)
        made = Derive(self.node, name, self._text(expression, "with_column()"))
        if before in self.node.properties.hidden:  # the new column shows, and comes last as any new one
            return self._of(Project(made, (*self.node.properties.visible.names, name), before != name))
        if before == name:
            return self._of(made)
        shown = self.node.properties.visible.names  # a column whose name differs in case only is replaced, as by Spark
        return self._of(Project(made, tuple(name if column == before else column for column in shown)))

    def select(self, *columns: str | Sequence[str]) -> Relation:
        """Keeps some columns. Of a stream, the columns that progress is learned from must be among them."""
        kept = self._named("select()", *columns)
        refuse_selection(self.node, kept)
        return self._of(Project(self.node, kept))

    def apply(self, function: RowFunction, schema: pa.Schema) -> Relation:
        """Applies a function from an Arrow table to one with as many rows, in the same order.

        `schema` is that of the function's result. The function must return columns that progress unchanged.
        """
        if not callable(function) or not isinstance(schema, pa.Schema):
            raise LowwaterError("apply() takes a function of an Arrow table and the Arrow schema of what it returns.")
        refuse_function(self.node, schema)
        return self._of(Map(self.node, function, schema))

    def union(self, *others: Relation) -> Relation:
        """The rows of all relations, which must have the same columns. Progress is that of the slowest."""
        relations = (self, *others)
        refuse_others(relations, "union()")
        refuse_union([r.node for r in relations])
        return self._of(Union(tuple(r.node for r in relations)), "_".join(r.name for r in relations))

    def distinct(self, *columns: str | Sequence[str]) -> Relation:
        """Each row once, or each combination of these columns once. One of the columns must progress."""
        before = self.node.properties
        on = self._named("distinct()", *columns) or tuple(before.visible.names)
        times = sorted((p for p in before.progress if p.attribute in on), key=lambda p: p.nullable)
        if not times:
            raise BadProgress(
                "distinct() would remember every row for ever; keep a column that progresses among its columns, use "
                "window().distinct(), or drop_duplicates(on=, within=)."
            )
        return self._of(Distinct(self.node, on, times[0].attribute))

    def drop_duplicates(self, on: str | Sequence[str], within: Length | None = None) -> Relation:
        """Of rows that agree on `on` and are at most `within` apart, the one with the smallest time.

        In order of time, a row survives if no survivor with its key is at most `within` before it. Of rows with one key
        and one time the smallest by value survives. A row leaves as soon as progress proves that it survives.
        """
        columns = self._named("drop_duplicates(on=)", on)
        time = time_of(self.node.properties, None, "drop_duplicates() would not decide")
        ticks = Ticks(self.node.schema.field(time).type)
        if within is None and time not in columns:
            raise BadProgress(
                f"drop_duplicates() would remember every {', '.join(columns)} for ever; give within=, as in "
                "within='10 minutes'."
            )
        length = 0 if within is None else ticks.not_negative(within, "drop_duplicates(within=)")
        return self._of(Distinct(self.node, columns, time, length))

    def in_order(self, over: str | None = None) -> Relation:
        """The same rows in order of a time, from the first result to the last. Rows of one time come by their values.

        `over` names another time than the default one. All rows go through one shard, and wait there until progress
        has passed them.
        """
        exactly = self.node.backend.exact_names
        return self._of(Order(self.node, time_of(self.node.properties, over, "Rows would not leave", exactly)))

    # -- windows and groups ----------------------------------------------------------------------------------------

    def window(
        self,
        range: Length,
        slide: Length | None = None,
        *,
        over: str | None = None,
        origin: object = None,
        period: Length | None = None,
        partition_by: str | Sequence[str] = (),
        order: str | None = None,
    ) -> Grouped:
        """Windows of length RANGE every SLIDE, over a progressing attribute or in rows (range="1000 rows").

        `over` names the attribute: by default the stream's own, behind a window `window_time` (the last tick inside the
        window), behind a join the first time that every result has.
        `slide` defaults to `range` (tumbling); range="all" is a landmark window, starting anew every `period` if given.
        Windows start at `origin` + k * slide, by default the epoch; origin="first" is the smallest value of the stream.
        A length of time that slides by rows, range="5 minutes", slide="1 row", ends a window at each (n-th) row.
        `partition_by` makes each key a stream of its own. Rows are counted in `order` of "time" or "arrival": by time
        within partitions, by arrival without.
        """
        partition = self._named("partition_by=", partition_by)
        time = time_of(self.node.properties, over, exactly=self.node.backend.exact_names)
        ticks = Ticks(self.node.schema.field(time).type)
        window, anchored = window_of(ticks, range, slide, origin, period, bool(partition), order)
        refuse_time(window, time, partition, self.node.properties)
        return Grouped(self, window, time, anchored, partition, not isinstance(window, ContextFree))

    def session(self, gap: Length, *, over: str | None = None) -> Grouped:
        """Rows of a group with pauses shorter than `gap` between them, in order of the progressing attribute."""
        time = time_of(self.node.properties, over, exactly=self.node.backend.exact_names)
        ticks = Ticks(self.node.schema.field(time).type)
        window = Session(ticks.positive(gap, "GAP"))
        refuse_time(window, time, (), self.node.properties)
        return Grouped(self, window, time)

    def over(
        self,
        partition_by: str | Sequence[str] = (),
        *,
        rows: tuple[int | None, int] | None = None,
        range: tuple[Length | None, Length] | None = None,
    ) -> Grouped:
        """A window per row: the rows of its partition around it, in order of the progressing attribute.

        rows=(3, 2) is ROWS BETWEEN 3 PRECEDING AND 2 FOLLOWING, range=("1 minute", "0 seconds") the same over time;
        None is UNBOUNDED. Results are the rows, each with the aggregates of its window.
        """
        partition = self._named("partition_by=", partition_by)
        time = time_of(self.node.properties)
        ticks = Ticks(self.node.schema.field(time).type)
        window = over_of(ticks, rows, range)
        refuse_time(window, time, partition, self.node.properties)
        return Grouped(self, window, time, True, partition, True)

    def group_by(self, *columns: str | Sequence[str]) -> Grouped:
        """A group-by without a window. A group is answered when punctuation proves that it is complete."""
        return Grouped(self, None, None, True, self._named("group_by()", *columns))

    groupBy = group_by

    # -- joins -----------------------------------------------------------------------------------------------------

    def unique(self, column: str) -> Relation:
        """Declares, for joins, that no two rows share a value of this column: each row ends its own value (PW 1.2)."""
        return self._ending(Ends(column))

    def ends(self, column: str, when: str, value: str | None = None, range: tuple[str, str] | None = None) -> Relation:
        """Declares, for joins, which rows are punctuations: where the boolean column `when` is true, values have ended.

        The row holds the ended values of `column`: in `column` itself, in the column `value` (one value or a list), or
        in the two columns `range`, from the first up to the second, which is excluded.
        """
        if range is not None and (not isinstance(range, tuple | list) or len(range) != 2):
            raise LowwaterError(f"ends(range=) names two columns, as in range=('low', 'high'), not {range!r}.")
        low, high = range if range is not None else (None, None)
        return self._ending(Ends(column, when, None if range is not None else value or column, low, high))

    def _ending(self, ends: Ends) -> Relation:
        ends = ends.spelled(lambda column: self._known([column], "unique() or ends()")[0])
        refuse_ending(self.node.properties, ends)
        return self._of(Ending(self.node, ends))

    def join(
        self,
        other: Relation,
        on: str | Sequence[str | Sequence[str]],
        within: Length | tuple[Length | None, Length | None] | None = None,
        how: str = "inner",
        *,
        window: Length | None = None,
        slide: Length | None = None,
        origin: object = None,
        over: str | Sequence[str | None] | None = None,
        bounds: str = "[]",
        rows: int | tuple[int | None, int | None] | None = None,
        per_key: bool = True,
        condition: Any = None,
        null_safe: bool = False,
        side: str | None = None,
    ) -> Relation:
        """Rows of both relations that are equal on the key and within each other's window.

        on         the key: a column of both, several, or pairs of names as in [("id", "seller")]
        within     other.time - self.time: at most this apart, or from a lower to an upper end; None is without end
        how        inner, left, right, full, semi, anti
        window     instead of within: rows of the same window, of this length and `slide`, from `origin`
        over       the times that within and window compare, as in over=("window_end", "ts"); None is the default one
        bounds     "[]", "[)", "(]" or "()": which ends of within belong to it
        rows       tuple-count windows: the newest so many rows of each side, or of one, as in rows=(100, None)
        per_key    whether rows are counted per key or over the whole stream
        condition  Spark SQL, or a function of an Arrow table of pairs, that must hold as well
        null_safe  whether null keys match each other
        side       of an outer join: the name of a column that has "both", or "left" or "right" for a row alone

        A key column that progresses on both sides, such as window_start of two aggregations, needs no `within`. If the
        disorder of a stream is measured() only, the join is an `oblivious_join`.
        """
        options = {
            "window": window,
            "slide": slide,
            "origin": origin,
            "over": over,
            "bounds": bounds,
            "rows": rows,
            "per_key": per_key,
            "condition": condition,
            "null_safe": null_safe,
            "side": side,
        }
        given = {name: one for name, one in options.items() if not (one is None or one == JOINED.get(name, ...))}
        return joined_relation((self, other), on, within, how, **given)

    def disorder_report(self) -> DisorderReport:
        """Measures the disorder of a finite input, and suggests a `disorder=` under which no row is late."""
        return disorder_report(self.name, self.node)

    # -- checks ----------------------------------------------------------------------------------------------------

    def _of(self, node: Node, name: str | None = None) -> Relation:
        """A relation over this one. Plans it, so that what cannot be planned is refused now."""
        relation = Relation(node, name or self.name)
        node.properties  # noqa: B018  derives them, which refuses unknown columns and types
        _ = relation.planned
        return relation

    def _text(self, expression: Any, role: str) -> str:
        if isinstance(expression, str):
            if self.node.backend.exact_names:
                from lowwater.expressions.reading import refuse_other_case  # a parser, which workers do not need

                refuse_other_case(expression, self.node.schema.names, role)
            return expression
        return self.node.backend.text_of(expression, self.node.schema, role)

    def _named(self, where: str, *columns: str | Sequence[str]) -> tuple[str, ...]:
        """The columns that a verb names, one by one or as lists."""
        return self._known(names(where, *columns), where)

    def _known(self, columns: Sequence[str], where: str) -> tuple[str, ...]:
        """The columns in the spelling that they have. Refuses those that the relation lacks."""
        exactly = self.node.backend.exact_names
        found = [(column, spelled(column, self.node.schema.names, exactly)) for column in columns]
        for column, own in found:
            if own is None:
                raise UnknownColumn(column, self.schema.names, where)
        return tuple(own for _, own in found if own is not None)


def joined_relation(relations: Sequence[Relation], on: Any, within: Any, how: str, **options: Any) -> Relation:
    """See `Relation.join` and `lowwater.join`."""
    if len(relations) < 2:
        raise LowwaterError("join() needs two streams or more.")
    refuse_others(relations, "join()")
    side = options.pop("side", None)
    if side is not None:
        return _with_side(relations, side, on, within, how, **options)
    if within is None and how in HOW[:4] and not options and measured_key([r.node for r in relations], on):
        return oblivious_relation(relations, on, how=how)
    node = joined([(r.name, r.node) for r in relations], on, within, how, **options)
    node.refuse()
    return relations[0]._of(node, "_".join(r.name for r in relations))


def refuse_others(relations: Sequence[Relation], verb: str) -> None:
    """Refuses what is no relation."""
    for relation in relations:
        if not isinstance(relation, Relation):
            raise LowwaterError(f"{verb} takes streams, as lw.stream() makes them, not {type(relation).__name__}.")


def _with_side(relations: Sequence[Relation], side: str, on: Any, within: Any, how: str, **options: Any) -> Relation:
    """An outer join with a column that says which sides a row has: each side is marked, and a missing one is null."""
    if how not in ("left", "right", "full"):
        raise LowwaterError(f"join(side=) is for outer joins, where a side can be missing, not for how={how!r}.")
    if side in {name for relation in relations for name in relation.schema.names}:
        raise LowwaterError(f"join(side={side!r}) would hide a column of that name; choose another name.")
    marked = [one.with_column(mark, "true") for one, mark in zip(relations, MARKS, strict=True)]
    made = joined_relation(marked, on, within, how, **options)
    left, right = MARKS
    case = f"CASE WHEN {right} IS NULL THEN 'left' WHEN {left} IS NULL THEN 'right' ELSE 'both' END"
    shown = [name for name in made.schema.names if name not in MARKS]
    return made.with_column(side, case).select(*shown, side)


def oblivious_relation(relations: Sequence[Relation], on: Any, **options: Any) -> Relation:
    """See `lowwater.oblivious_join`."""
    if len(relations) < 2 or not all(isinstance(relation, Relation) for relation in relations):
        raise LowwaterError("oblivious_join() takes a list of two streams or more, as lw.stream() makes them.")
    node = oblivious([(r.name, r.node) for r in relations], on, **options)
    return relations[0]._of(node, "_".join(r.name for r in relations))
