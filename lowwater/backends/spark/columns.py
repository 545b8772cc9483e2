"""A `Column` as text in Spark SQL. In a classic session Spark writes it; on Spark Connect it is written here.

The caller has Spark read the text again and compares: a text with another meaning is refused, so a form that is missing
here refuses a Column and changes no answer.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession

from lowwater.backends.spark.connect import is_connect

_INFIX = {
    "==": "=",
    "<=>": "<=>",
    "and": "AND",
    "or": "OR",
    "like": "LIKE",
    "ilike": "ILIKE",
    "rlike": "RLIKE",
    **{sign: sign for sign in ("<", "<=", ">", ">=", "!=", "+", "-", "*", "/", "%", "&", "|", "^")},
}
_PREFIX = {"not": "NOT", "negative": "-", "~": "~"}
_BEHIND = {"isNull": "IS NULL", "isNotNull": "IS NOT NULL"}
_NUMBERS = {"byte": "Y", "short": "S", "integer": "", "long": "L", "double": "D"}
_EPOCH = dt.datetime(1970, 1, 1)


def sql_of(column: Column, selected: DataFrame) -> str | None:
    """A Column that was selected as the only column of a DataFrame; None if it has no text."""
    given: Any = selected
    if is_connect(selected):
        return written(_tree(column, selected.sparkSession))
    return str(given._jdf.queryExecution().analyzed().expressions().apply(0).child().sql())


def call_text(column: Column, spark: SparkSession) -> str:
    """The call that a Column is, such as sum(n), before Spark has analysed it."""
    given: Any = column
    if is_connect(spark):
        tree = _tree(column, spark)
        if tree.WhichOneof("expr_type") == "expression_string":  # the whole text: no parentheses around it
            return str(tree.expression_string.expression)
        return written(tree) or str(column)
    return str(given._jc.toString())


def _tree(column: Any, spark: Any) -> Any:
    """The expression as Spark Connect's protocol has it."""
    return column.to_plan(spark.client)


def written(tree: Any) -> str | None:
    """An expression of Spark Connect's protocol as SQL; None if it has a form that is not written here."""
    kind = tree.WhichOneof("expr_type")
    if kind == "literal":
        return _literal(tree.literal)
    if kind == "unresolved_attribute":
        return str(tree.unresolved_attribute.unparsed_identifier)
    if kind == "unresolved_star":
        return "*"
    if kind == "expression_string":
        return f"({tree.expression_string.expression})"
    if kind == "unresolved_function":
        call = tree.unresolved_function
        arguments = [written(argument) for argument in call.arguments]
        known = [argument for argument in arguments if argument is not None]
        return _call(call.function_name, known, call.is_distinct) if len(known) == len(arguments) else None
    if kind == "cast":
        return _cast(tree.cast)
    if kind == "alias" and len(tree.alias.name) == 1:
        inner = written(tree.alias.expr)
        return None if inner is None else f"{inner} AS {tree.alias.name[0]}"
    return None


def _call(name: str, arguments: Sequence[str], distinct: bool) -> str:
    if name in _INFIX and len(arguments) == 2:
        return f"({arguments[0]} {_INFIX[name]} {arguments[1]})"
    if name in _PREFIX and len(arguments) == 1:
        return f"({_PREFIX[name]} {arguments[0]})"
    if name in _BEHIND:
        return f"({arguments[0]} {_BEHIND[name]})"
    if name == "in":
        return f"({arguments[0]} IN ({', '.join(arguments[1:])}))"
    if name == "when":
        pairs = zip(arguments[0::2], arguments[1::2], strict=False)
        cases = "".join(f" WHEN {condition} THEN {value}" for condition, value in pairs)
        return f"CASE{cases}{f' ELSE {arguments[-1]}' if len(arguments) % 2 else ''} END"
    return f"{name}({'DISTINCT ' if distinct else ''}{', '.join(arguments)})"


def _cast(cast: Any) -> str | None:
    from pyspark.sql.connect.types import proto_schema_to_pyspark_data_type

    inner = written(cast.expr)
    if inner is None:
        return None
    type = cast.type_str or proto_schema_to_pyspark_data_type(cast.type).simpleString()
    word = "TRY_CAST" if cast.eval_mode == cast.EvalMode.EVAL_MODE_TRY else "CAST"
    return f"{word}({inner} AS {type})"


def _literal(literal: Any) -> str | None:
    kind = literal.WhichOneof("literal_type")
    value = getattr(literal, kind)
    if kind == "null":
        return "NULL"
    if kind == "boolean":
        return "true" if value else "false"
    if kind in _NUMBERS:
        return f"{value!r}{_NUMBERS[kind]}"
    if kind == "decimal":
        return f"{value.value}BD"
    if kind == "string":
        return "'" + str(value).replace("\\", "\\\\").replace("'", "\\'") + "'"
    if kind == "date":
        return f"DATE '{(_EPOCH + dt.timedelta(days=value)).date()}'"
    if kind == "timestamp":
        return f"TIMESTAMP '{_EPOCH + dt.timedelta(microseconds=value)}Z'"
    if kind == "timestamp_ntz":
        return f"TIMESTAMP_NTZ '{_EPOCH + dt.timedelta(microseconds=value)}'"
    return None
