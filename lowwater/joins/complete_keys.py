"""Keys of which all rows have come on all inputs, if the number of rows per key is expected. Their rows can leave."""

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
