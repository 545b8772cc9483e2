"""Measures a finite input as it arrives, before any operator reads it."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lowwater.aggregates.grouped import factorise
from lowwater.errors import LowwaterError
from lowwater.model.columns import whole
from lowwater.model.report import DisorderReport
from lowwater.model.ticks import Ticks, checked
from lowwater.query.logical.node import Node
from lowwater.query.logical.scan import reading, scan_like


def disorder_report(name: str, node: Node) -> DisorderReport:
    """The report of a stream, over all rows with a time; filters do not count, as in progress."""
    if not scan_like(node):
        raise LowwaterError(
            f"disorder_report() measures streams as they arrive, and {name!r} are results of another operator; "
            "measure the streams that it reads."
        )
    found = reading(node)
    declared = found.scan.input
    columns = [declared.time, *([declared.source] if declared.source else [])]
    table = found.frame.arrived(columns)
    table = table.filter(pc.is_valid(table.column(declared.time)))
    type: pa.DataType = table.schema.field(declared.time).type
    time = checked(Ticks(type).encode(whole(table.column(declared.time))), declared.time)
    source = np.zeros(len(time), np.int64)
    if declared.source:
        source = factorise(table.select([declared.source]))[0]
    return DisorderReport.of(name, time, source, Ticks(type))
