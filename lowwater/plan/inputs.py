"""Inputs of a query: the streams that it declares, and how each of them progresses and reports ended values."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from lowwater.model.policy import Policy
from lowwater.model.progress import Idle, Progress


@dataclass(frozen=True)
class PunctuatedBy:
    """Rows that are punctuations: where column `when` is true, nothing up to column `upto` follows.

    `closed` includes that value itself. With `data` these rows are data, too.
    """

    when: str
    upto: str
    closed: bool = True
    data: bool = False


@dataclass(frozen=True)
class Ends:
    """How rows report that values of `attribute` have ended (PW 3.1).

    Rows for which column `when` is true are punctuations and no data. They end the value in column `value`, the values
    of the list in it, or the values from column `low` up to column `high`, which is excluded. Without `when` the
    attribute is a unique key: every row ends its own value.
    """

    attribute: str
    when: str | None = None
    value: str | None = None
    low: str | None = None
    high: str | None = None

    @property
    def columns(self) -> tuple[str, ...]:
        return tuple(name for name in (self.when, self.value, self.low, self.high) if name is not None)

    def spelled(self, own: Callable[[str], str]) -> Ends:
        """The same with the columns in their own spelling."""
        rest = (name and own(name) for name in (self.when, self.value, self.low, self.high))
        return Ends(own(self.attribute), *rest)

    def __str__(self) -> str:
        if self.when is None:
            return f"{self.attribute} is unique"
        what = self.value if self.value is not None else f"[{self.low}, {self.high})"
        ended = f"their {self.attribute}" if what == self.attribute else f"{self.attribute} = {what}"
        return f"rows with {self.when} end {ended}"


@dataclass(frozen=True)
class Input:
    """A declared stream: its name, the attribute it progresses on, and how its progress is known."""

    name: str
    time: str
    policy: Policy
    source: str | None = None
    sources: tuple[str, ...] = ()
    idle: Idle | None = None
    punctuation: PunctuatedBy | None = None
    skewed: bool = False
    """Whether most groups have few rows in a window."""
    open: bool = False
    """Whether that is not declared, so that statistics may decide it."""

    @property
    def marks(self) -> tuple[str, ...]:
        """The columns that progress is learned from."""
        promise = (self.punctuation.when, self.punctuation.upto) if self.punctuation else ()
        return tuple(dict.fromkeys(name for name in (self.time, self.source, *promise) if name))

    def progress(self) -> Progress:
        return Progress(self.policy, self.sources or (() if self.source else (self.name,)), self.idle)
