"""Declares a stream: the column it progresses on, how late its rows can be, and the column that names its sources."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pyarrow as pa

from lowwater.errors import BadProgress, LowwaterError, UnknownColumn
from lowwater.model.columns import spelled
from lowwater.model.progress import declared_names
from lowwater.model.ticks import Length, Ticks
from lowwater.plan.inputs import Input
from lowwater.query.disorder import Disorder, delay, idle
from lowwater.query.frame import Frame
from lowwater.query.logical import Scan
from lowwater.query.refuse import progress_field
from lowwater.relation import Relation


def open_stream(
    frame: Frame,
    name: str,
    progress: str | None,
    disorder: Disorder | Length | None,
    source: str | None,
    sources: Sequence[str],
    idle_after: idle | None,
    groups: str | None = None,
) -> Relation:
    """A stream over a backend's frame; see `lowwater.stream`."""
    known, exactly = frame.schema.names, frame.backend.exact_names
    progress, source = (one and (spelled(one, known, exactly) or one) for one in (progress, source))
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
        when, upto = (spelled(one, known, exactly) or one for one in (how.punctuation.when, how.punctuation.upto))
        how = replace(how, punctuation=replace(how.punctuation, when=when, upto=upto))
        assert how.punctuation is not None
        named += [how.punctuation.when, how.punctuation.upto]
        given = frame.schema.field(upto).type if upto in known else field.type
        if given != field.type:
            raise BadProgress(
                f"Punctuation column {upto!r} must have the type of {progress!r}, {field.type}, not {given}."
            )
    for column in named:
        if column not in known:
            raise UnknownColumn(column, known, f"stream {name!r}")
    if how.punctuation is not None and not pa.types.is_boolean(frame.schema.field(how.punctuation.when).type):
        given = frame.schema.field(how.punctuation.when).type
        raise BadProgress(f"Punctuation column {how.punctuation.when!r} must be boolean, not {given}.")
    if isinstance(sources, str):
        raise BadProgress(
            f"sources= of stream {name!r} is a list of sources, as in sources=[{sources!r}], not {sources!r}."
        )
    if sources and source is None:
        raise BadProgress(f"sources= of stream {name!r} needs source=, the column that tells them apart.")
    if groups not in (None, "dense", "skewed"):
        raise LowwaterError(f"groups={groups!r} of stream {name!r} is unknown; use 'dense' or 'skewed'.")
    resolved = None if idle_after is None else idle_after.resolved(ticks, name)
    waited = declared_names(sources, frame.schema.field(source).type) if source is not None else ()
    skewed = groups == "skewed"
    assert progress is not None
    declared = Input(
        name, progress, how.policy(ticks), source, waited, resolved, how.punctuation, skewed, groups is None
    )
    return Relation(Scan(declared, progress, frame), name)
