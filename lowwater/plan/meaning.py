"""The meaning of a query: everything of its logical tree that state depends on, as plain values with names.

A checkpoint keeps it. If a query comes with another meaning, the first setting that differs is named.

>>> then = {"operator": "aggregate", "window": "RANGE 10", "inputs": [{"operator": "input", "name": "rows"}]}
>>> difference(then, then | {"window": "RANGE 20"})
"window of its aggregate was 'RANGE 10' and is now 'RANGE 20'"
>>> difference(then, then | {"inputs": [{"operator": "input", "name": "other"}]})
"name of its input was 'rows' and is now 'other'"
>>> difference(then, then["inputs"][0])
'the query was an aggregate over an input and is now an input'
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from lowwater.errors import CheckpointMismatch

FORMAT = 2
"""The version of what a checkpoint keeps about its query."""


def check_meaning(stored: str, ours: str) -> None:
    """Refuses a query with another meaning than that of the checkpoint, and names the setting."""
    found = difference(json.loads(stored), json.loads(ours))
    if found is not None:
        raise CheckpointMismatch(
            f"This checkpoint belongs to another query: {found}; restore that, or use a new checkpoint directory."
        )


def difference(then: Mapping[str, Any], now: Mapping[str, Any]) -> str | None:
    """The first difference between two meanings as a clause, from the root on; None if there is none."""
    if _shape(then) != _shape(now):
        return f"the query was {_shape(then)} and is now {_shape(now)}"
    for setting in [name for name in (*then, *(n for n in now if n not in then)) if name != "inputs"]:
        old, new = then.get(setting), now.get(setting)
        if old != new:
            return f"{setting} of its {then['operator']} was {_shown(old)} and is now {_shown(new)}"
    pairs = zip(then.get("inputs", ()), now.get("inputs", ()), strict=True)
    return next((found for old, new in pairs if (found := difference(old, new)) is not None), None)


def _shape(meaning: Mapping[str, Any]) -> str:
    """The operators of a tree as a phrase."""
    own = meaning["operator"]
    phrase = f"an {own}" if own[0] in "aei" else f"a {own}"
    inputs = [_shape(one) for one in meaning.get("inputs", ())]
    if not inputs:
        return phrase
    return f"{phrase} over {inputs[0]}" if len(inputs) == 1 else f"{phrase} of ({', '.join(inputs)})"


def _shown(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name} = {_plain(one)}" for name, one in value.items()) or "nothing"
    if isinstance(value, list):
        return ", ".join(map(_plain, value)) or "nothing"
    return repr(value)


def _plain(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)
