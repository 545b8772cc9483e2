"""Devices that have been silent for ten minutes. No timer is needed: the readings of the others show that time passes.

A session is a run of readings with pauses shorter than ten minutes. It is over when the device has fallen silent.

Prints:

    at minute 12: []
    at minute 17: [('cellar', 5, 2)]
    at the end: [('attic', 19, 4)]
"""

import pyarrow as pa

import lowwater as lw

READING = pa.schema([("minute", pa.int64()), ("device", pa.string())])

readings = lw.stream(READING.empty_table(), name="readings", progress="minute", disorder=2)
runs = readings.session(gap=10).group_by("device").agg(last_heard=lw.max("minute"), readings=lw.count())
query = runs.start()


def silent(rows: pa.Table) -> list[tuple[str, int, int]]:
    return [(row["device"], row["last_heard"], row["readings"]) for row in rows.to_pylist()]


query.push([{"minute": 1, "device": "attic"}, {"minute": 5, "device": "cellar"}, {"minute": 4, "device": "cellar"}])
print("at minute 12:", silent(query.push([{"minute": 9, "device": "attic"}, {"minute": 12, "device": "attic"}])))
print("at minute 17:", silent(query.advance(to=17)))  # nobody has to send a reading for this
query.push([{"minute": 19, "device": "attic"}])
print("at the end:", silent(query.finish()))
