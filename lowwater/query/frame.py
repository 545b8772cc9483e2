"""What the fluent API knows of a backend: frames that hold rows, and verbs that run a plan over them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import pyarrow as pa

RowFunction = Callable[[pa.Table], pa.Table]


class Frame(Protocol):
    """Rows of one input as a backend holds them. Conditions and expressions are SQL text, evaluated by the backend."""

    @property
    def schema(self) -> pa.Schema: ...

    @property
    def keep(self) -> str | None:
        """The column that says which rows the selects let through: progress is learned from all rows."""

    @property
    def backend(self) -> Backend: ...

    def where(self, condition: str) -> Frame: ...

    def with_column(self, name: str, expression: str) -> Frame: ...

    def select(self, columns: Sequence[str]) -> Frame: ...

    def apply(self, function: RowFunction, schema: pa.Schema) -> Frame: ...


class Backend(Protocol):
    """What runs a plan over its frames. Verbs that a backend does not have it refuses with a sentence."""

    @property
    def collect(self) -> Callable[..., pa.Table]: ...

    @property
    def to_spark(self) -> Callable[..., Any]: ...

    @property
    def start(self) -> Callable[..., Any]: ...
