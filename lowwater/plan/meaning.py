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
import re
from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from lowwater.errors import CheckpointMismatch
from lowwater.model.ticks import Ticks
from lowwater.model.words import length

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
            if setting == "within" and "time" in then:
                old, new = _length(then, old), _length(now, new)
            before, after = (_shown(value) for value in _differing(old, new))
            return f"{setting} of its {then['operator']} was {before} and is now {after}"
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


_FIELD = re.compile(r"pyarrow\.Field<(.*?): (.*)>")
_RECORD = re.compile(r"([A-Z]\w*)\((.*)\)")
_ENTRY = re.compile(r"(\w+)=('(?:[^'\\]|\\.)*'|[^,]+)")
_AGGREGATE = re.compile(r"([A-Z]\w*)\(column=(?:None|'([^']*)')")


def _differing(old: Any, new: Any) -> tuple[Any, Any]:
    """The parts of two values that differ, where both have parts with names."""
    if isinstance(old, dict) and isinstance(new, dict):
        names = [name for name in (*old, *(n for n in new if n not in old)) if old.get(name) != new.get(name)]
        return {n: old[n] for n in names if n in old}, {n: new[n] for n in names if n in new}
    records = [_RECORD.fullmatch(value) if isinstance(value, str) else None for value in (old, new)]
    if records[0] and records[1] and records[0][1] == records[1][1]:
        entries = [dict(_ENTRY.findall(record[2])) for record in records if record]
        parts = [{n: v for n, v in own.items() if entries[0].get(n) != entries[1].get(n)} for own in entries]
        if all(parts):
            before, after = (_Written(", ".join(f"{n}={v}" for n, v in part.items())) for part in parts)
            return before, after
    return old, new


class _Written(str):
    """A text that is shown without quotes."""


def _length(meaning: Mapping[str, Any], ticks: int | None) -> Any:
    """A length in ticks in the unit of the time of an operator."""
    unit = re.search(rf"(?m)^{re.escape(meaning['time'])}: timestamp\[(\w+)", meaning.get("columns", ""))
    return ticks if ticks is None or unit is None else length(ticks, Ticks(pa.timestamp(unit[1])))


def _shown(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name} = {_plain(one)}" for name, one in value.items()) or "nothing"
    if isinstance(value, list):
        return ", ".join(map(_plain, value)) or "nothing"
    written = isinstance(value, _Written) or (isinstance(value, str) and _FIELD.fullmatch(value))
    return _plain(value) if written else repr(value)


def _plain(value: Any) -> str:
    """Columns and aggregates as users write them."""
    if not isinstance(value, str):
        return json.dumps(value)
    value = _FIELD.sub(r"\1 (\2)", value)
    return _AGGREGATE.sub(lambda found: f"{_snake(found[1])}({found[2] or '*'}", value, count=1)


def _snake(name: str) -> str:
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower()
