"""Generated streams by name, with their settings as text: the formats of CREATE STREAM that need no files.

packets                    one link of `packets`, or all of them: link, rows, seconds, seed, skew, ...
keyed                      measurements with a skewed key: rows, seconds, keys, seed, max_delay
side                       one side of a join: rows, seconds, keys, seed
sensors                    readings of a sensor by epoch, some lost, some delayed: epochs, seed, lost, delay
persons, auctions, bids    the streams of an online auction: auctions, seed, hours, disorder
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lowwater.errors import LowwaterError
from lowwater.generate import auctions as sale
from lowwater.generate.arrival import arrival_order
from lowwater.generate.disordered import keyed, packets
from lowwater.generate.two import side

SENSED = pa.schema({"epoch": pa.int64(), "reading": pa.float64()})


def sensors(epochs: int, seed: int, lost: float = 0.1, delay: int = 5) -> pa.Table:
    """One reading per epoch, in arrival order. A share of them is lost, and each is at most `delay` epochs late.

    >>> sensors(5, seed=1, lost=0, delay=2)["epoch"].to_pylist()
    [0, 1, 2, 3, 4]
    """
    rng = np.random.default_rng(seed)
    epoch = np.flatnonzero(rng.random(epochs) >= lost).astype(np.int64)
    late = np.minimum(rng.exponential(max(delay, 1) / 6, len(epoch)), delay) * 1000
    epoch = epoch[arrival_order(epoch, epoch * 1000 + late.astype(np.int64))]
    return pa.Table.from_arrays([pa.array(epoch), pa.array(rng.normal(20, 3, len(epoch)))], schema=SENSED)


def _packets(
    rows: int,
    seconds: float,
    seed: int,
    link: str | None = None,
    skew: float = 5.0,
    quiet: float = 0.001,
    max_delay: float = 3.0,
    hosts: int = 1000,
    zipf: float = 1.3,
) -> pa.Table:
    table = packets(rows, seconds, seed, quiet=quiet, skew=skew, max_delay=max_delay, hosts=hosts, zipf=zipf).table
    return table if link is None else table.filter(pc.equal(table["link"], link))


def _sale(of: str) -> Callable[..., pa.Table]:
    def made(auctions: int, seed: int, hours: float = 48, bids: float = 10, disorder: float = 0.0) -> pa.Table:
        found = sale.auctions(auctions, seed, seconds=hours * sale.HOUR, bids=bids, disorder=disorder)
        return getattr(found, of)

    return made


GENERATORS: dict[str, Callable[..., pa.Table]] = {
    "packets": _packets,
    "keyed": keyed,
    "side": side,
    "sensors": sensors,
    "persons": _sale("persons"),
    "auctions": _sale("auctions"),
    "bids": _sale("bids"),
}


SIZES = ("rows", "epochs", "auctions")
"""Settings that say how long a stream is."""
FEW = 100


def columns_of(name: str, settings: Mapping[str, str]) -> pa.Schema:
    """The columns of a generator, from a short stream with the same settings. Bad settings are refused as always.

    >>> columns_of("sensors", {"epochs": "1000000000", "seed": "1"}).names
    ['epoch', 'reading']
    """
    few = {one: str(min(int(text), FEW)) if one in SIZES and text.isdigit() else text for one, text in settings.items()}
    return generated(name, few).schema


def generated(name: str, settings: Mapping[str, str]) -> pa.Table:
    """The stream of a generator in arrival order. Settings are texts, as OPTIONS has them."""
    make = GENERATORS[name]
    known = inspect.signature(make, eval_str=True).parameters
    given: dict[str, Any] = {}
    for setting, text in settings.items():
        if setting not in known:
            raise LowwaterError(f"The generator {name} has no option {setting!r}, only: {', '.join(known)}.")
        given[setting] = _read(name, setting, text, known[setting].annotation)
    missing = [one.name for one in known.values() if one.default is one.empty and one.name not in given]
    if missing:
        raise LowwaterError(f"The generator {name} needs the option {missing[0]!r}, as in OPTIONS ({missing[0]} 10).")
    try:
        return make(**given)
    except ValueError as error:
        reason = str(error).rstrip(".")
        raise LowwaterError(f"The generator {name} cannot use its options: {reason}.") from error


def _read(name: str, setting: str, text: str, wanted: Any) -> Any:
    if wanted not in (int, float):
        return text
    try:
        return wanted(text)
    except ValueError:
        raise LowwaterError(f"Option {setting!r} of the generator {name} is a number, not {text!r}.") from None
