"""Spark SQL expressions on Arrow tables: a listed subset with exactly Spark's meaning, and a refusal for the rest.

>>> import pyarrow as pa
>>> Expression.of("ts + INTERVAL 10 MINUTES", pa.schema({"ts": pa.timestamp("us", "UTC")})).shift
('ts', 600000000)
"""

from lowwater.expressions.errors import OutsideSubset
from lowwater.expressions.expression import Expression
from lowwater.expressions.types import zone_of

__all__ = ["Expression", "OutsideSubset", "zone_of"]
