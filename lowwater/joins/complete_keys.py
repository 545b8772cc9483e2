"""Keys of which all rows have come on all inputs, if the number of rows per key is expected. Their rows can leave.

No trace of such a key is kept: it would have to stay until the buffers are cut behind its value, like the rows, and
where the scrambling factor is not known that may be the end. So a row beyond the expected number is not noticed if it
comes in a later micro-batch: it meets none of the rows that have left, and is neither late nor counted as lost. If rows
without a partner are results, it becomes one.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from lowwater.joins.keyed import Keyed
from lowwater.joins.side import Side


def leave(sides: Sequence[Side], keyed: Keyed, multiplicities: Sequence[int]) -> None:
    """Removes the rows of the keys of a batch of which as many as expected are on every side.

    Keys that share a code are judged by the first. The rows of others stay until their buffer is cut.
    """
    first = keyed.starts[:-1]
    keys = Keyed(keyed.rows.take(first), keyed.on, keyed.codes, keyed.at[first])
    complete = np.logical_and.reduce([side.count(keys) >= n for side, n in zip(sides, multiplicities, strict=True)])
    if complete.any():
        for side in sides:
            side.purge(keys.where(complete))
