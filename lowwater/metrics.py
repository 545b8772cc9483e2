"""What a running query tells about itself: one record, the same from every backend."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any


@dataclass(frozen=True)
class SourceProgress:
    """How far one source of one input has come. Values are shown in the progressing attribute's own type."""

    input: str
    source: str
    low_watermark: str | None
    largest_seen: str | None
    rows: int
    holds_back: bool = False
    """Whether it is at the minimum, so that all others wait for it."""


@dataclass(frozen=True)
class Metrics:
    """Totals since the query first started, and the state it holds now."""

    rows: int = 0
    null_rows: int = 0
    late_rows: int = 0
    dropped_rows: int = 0
    result_rows: int = 0
    state_rows: int = 0
    state_bytes: int = 0
    ended_values: int = 0
    """Values, and ranges of them, that inputs of a join have ended and that are remembered, beside the rows."""
    low_watermark: str | None = None
    closed_below: int | None = None
    """All window ids below this one are complete: nothing more will be said of them."""
    sources: list[SourceProgress] = field(default_factory=list)

    @property
    def held_back_by(self) -> str | None:
        """The source at the minimum, the first where several are: everything waits for it. None once all have ended."""
        least = next((source for source in self.sources if source.holds_back), None)
        if least is None:
            return None
        return least.source if least.input == least.source else f"{least.input}/{least.source}"

    def as_dict(self) -> dict[str, Any]:
        return asdict(self) | {"held_back_by": self.held_back_by}

    @staticmethod
    def of_dict(values: dict[str, Any]) -> Metrics:
        known = {name: values[name] for name in Metrics.__dataclass_fields__ if name != "sources"}
        return Metrics(**known, sources=[SourceProgress(**source) for source in values["sources"]])

    @staticmethod
    def total(shards: list[Metrics]) -> Metrics:
        """Shards together. Every shard sees the facts of the whole input, so what was read is not added up."""
        if not shards:
            return Metrics()
        summed = ("late_rows", "dropped_rows", "result_rows", "state_rows", "state_bytes", "ended_values")
        first = shards[0]
        return Metrics(
            rows=first.rows,
            null_rows=first.null_rows,
            low_watermark=first.low_watermark,
            closed_below=first.closed_below,
            sources=first.sources,
            **{name: sum(getattr(shard, name) for shard in shards) for name in summed},
        )
