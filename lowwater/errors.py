"""Refusals. Each message is one sentence with the problem and the next step."""


class LowwaterError(ValueError):
    """Base of all refusals of lowwater."""


class UnknownColumn(LowwaterError):
    """A column was named that the stream does not have."""

    def __init__(self, column: str, known: list[str], where: str) -> None:
        super().__init__(f"{where} names column {column!r}, but the stream has only: {', '.join(known)}.")


class BadWindow(LowwaterError):
    """A window specification that defines no windows, or in the wrong unit."""


class BadProgress(LowwaterError):
    """The progressing attribute is missing, of a type without order, or the policy does not fit."""


class BadAggregate(LowwaterError):
    """An aggregate that does not fit its column, its window kind or its strategy."""


class CheckpointMismatch(LowwaterError):
    """State in the checkpoint belongs to another query or another number of shards."""


class NeedsConfiguration(LowwaterError):
    """The Spark session lacks something that lowwater cannot set by itself."""
