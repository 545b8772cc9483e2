"""A Spark SQL expression over the columns of an Arrow table: Spark's meaning in ANSI mode, evaluated without Spark.

`Expression.of` parses the text, resolves its columns and gives every part its type. It refuses anything outside the
subset. A bound expression can be pickled, and is not parsed again after that.

>>> rows = pa.table({"n": [6, 1, None], "d": [4, 0, 2]})
>>> ratio = Expression.of("CASE WHEN d <> 0 THEN n / d END", rows.schema)
>>> ratio.type, ratio.columns, ratio.evaluate(rows).to_pylist()
(DataType(double), ('d', 'n'), [1.5, None, None])
>>> try:
...     Expression.of("n / d", rows.schema).evaluate(rows)
... except LowwaterError as error:
...     print(error)
Cannot evaluate 'n / d': 1.0 is divided by 0.0; Spark raises too (ANSI mode), so guard it with CASE WHEN.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import pyarrow as pa

from lowwater.errors import LowwaterError
from lowwater.expressions import arithmetic, comparison, times
from lowwater.expressions.kernels import Fixed, Mask, Raised
from lowwater.expressions.tree import Call, Column, Literal, Node, Rows, walk, within
from lowwater.expressions.types import is_integer, spark_name

_TICKS = {"s": 1_000_000, "ms": 1_000, "us": 1}


@dataclass(frozen=True)
class Expression:
    """A bound expression.

    text      the text as it was written
    type      the type of the result in Spark
    columns   the columns that it reads, as the schema spells them
    shift     (column, ticks) if it is that column plus a constant, so that it progresses as the column does
    extreme   ("greatest" or "least", columns) if it is that function of plain columns
    renames   the column, if it is a column and nothing else
    """

    text: str
    root: Node
    columns: tuple[str, ...]
    shift: tuple[str, int] | None

    @classmethod
    def of(cls, text: str, schema: pa.Schema, timezone: str = "UTC", role: str = "The expression") -> Expression:
        """Binds a text to a schema, or refuses it. `role` is what a refusal calls it, such as `where()`."""
        if not isinstance(text, str):
            raise LowwaterError(f"An expression is SQL text such as 'n > 3', not {text!r}.")
        return _bound(text, schema, timezone, role)

    @classmethod
    def condition(cls, text: str, schema: pa.Schema, timezone: str = "UTC", role: str = "A filter") -> Expression:
        """Binds a text whose result must be boolean."""
        found = cls.of(text, schema, timezone, role)
        if not pa.types.is_boolean(found.type):
            raise LowwaterError(f"{role} needs a condition, but {text!r} is {spark_name(found.type)}.")
        return found

    @property
    def type(self) -> pa.DataType:
        return self.root.type

    @property
    def renames(self) -> str | None:
        return self.root.name if isinstance(self.root, Column) else None

    @property
    def extreme(self) -> tuple[str, tuple[str, ...]] | None:
        root = self.root
        if not isinstance(root, Call) or not isinstance(root.kernel, Fixed):
            return None
        if root.kernel.kernel is not comparison.extreme:
            return None
        names = tuple(child.name for child in root.children if isinstance(child, Column))
        kind = "greatest" if root.kernel.options == ("greater",) else "least"
        return (kind, names) if len(names) == len(root.children) else None

    def evaluate(self, table: pa.Table, where: Mask | None = None) -> pa.Array:
        """The value for every row; with a mask, null for the other rows. Raises an error where Spark does."""
        try:
            return self.root.evaluate(Rows(table)) if where is None else within(where, self.root, Rows(table))
        except Raised as error:
            raise LowwaterError(
                f"Cannot evaluate {self.text!r}: {error}; Spark raises too (ANSI mode), so guard it with CASE WHEN."
            ) from error


@lru_cache(maxsize=1024)
def _bound(text: str, schema: pa.Schema, timezone: str, role: str) -> Expression:
    """Every verb of the API plans its tree, and rules bind again: the same text is asked for many times."""
    from lowwater.expressions.reading import read

    root = read(text, schema, timezone, role)
    columns = tuple(dict.fromkeys(node.name for node in walk(root) if isinstance(node, Column)))
    return Expression(text, root, columns, _shift(root, schema))


def _shift(node: Node, schema: pa.Schema) -> tuple[str, int] | None:
    """The column and the constant of `column + constant`, in ticks of the column."""
    if isinstance(node, Column):
        return node.name, 0
    if not isinstance(node, Call) or not isinstance(node.kernel, Fixed):
        return None
    inner = _shift(node.children[0], schema)
    kernel, options = node.kernel.kernel, node.kernel.options
    if kernel is times.add_micros and inner is not None:
        stored = schema.field(inner[0]).type
        if stored.unit == "ns":
            return inner[0], inner[1] + options[0] * 1000
        ticks, rest = divmod(options[0], _TICKS[stored.unit])
        return None if rest else (inner[0], inner[1] + ticks)
    if len(node.children) == 1 and is_integer(node.type) and is_integer(node.children[0].type):
        return inner if kernel.__name__ == "_plain" else None  # a wider integer type
    if len(node.children) != 2:
        return None
    left, right = node.children
    if kernel is times.add_days and inner is not None and isinstance(right, Literal) and right.value is not None:
        return inner[0], inner[1] + options[0] * right.value
    if kernel is arithmetic.arithmetic and is_integer(node.type):
        sign = {"add": 1, "subtract": -1}.get(options[0])
        if isinstance(left, Literal) and options[0] == "add":
            left, right, inner = right, left, _shift(right, schema)
        if sign and inner is not None and isinstance(right, Literal) and right.value is not None:
            return inner[0], inner[1] + sign * right.value
    return None
