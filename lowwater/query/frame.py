"""The interface of a backend: frames that hold the rows of an input, and verbs that run a plan over them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import pyarrow as pa

RowFunction = Callable[[pa.Table], pa.Table]


class Frame(Protocol):
    """Rows of one input as a backend holds them. Expressions are Spark SQL, evaluated by the backend."""

    @property
    def schema(self) -> pa.Schema:
        """The user's columns, without marks."""

    @property
    def backend(self) -> Backend: ...

    @property
    def how(self) -> str:
        """How values become columns, in words; empty where there is one way only."""

    def with_column(self, name: str, expression: str) -> Frame: ...

    def select(self, columns: Sequence[str]) -> Frame: ...

    def apply(self, function: RowFunction, schema: pa.Schema) -> Frame: ...

    def first_rows(self, n: int) -> pa.Table | None:
        """The first n rows or fewer, in order of arrival, if they can be looked at and nothing need run for it."""

    def arrived(self, columns: Sequence[str]) -> pa.Table:
        """Columns of all rows of a finite input, in order of arrival; or a refusal."""


class Backend(Protocol):
    """Runs a plan over its frames. A backend refuses verbs that it does not have with a sentence."""

    name: str

    @property
    def exact_names(self) -> bool:
        """Whether upper and lower case of the names of columns differ."""

    def type_of(self, expression: str, schema: pa.Schema, role: str) -> pa.DataType:
        """The type of an expression over rows of this schema, or a refusal."""

    def text_of(self, column: object, schema: pa.Schema, role: str) -> str:
        """A column object of the backend, over rows of this schema, as Spark SQL; or a refusal."""

    def call_of(self, column: object) -> str | None:
        """The call of an aggregate that a column object of the backend is; None if it is no such object."""

    @property
    def outside(self) -> bool:
        """Whether the backend can evaluate expressions between two operators that Arrow cannot."""

    @property
    def collect(self) -> Callable[..., pa.Table]: ...

    @property
    def analyze(self) -> Callable[..., Any]:
        """Runs a query and returns what it measured (analyzed.py)."""

    @property
    def to_spark(self) -> Callable[..., Any]: ...

    @property
    def start(self) -> Callable[..., Any]: ...
