"""Parses the text of an expression with sqlglot and binds it to the columns of a schema.

The grammar is sqlglot's dialect "spark" without its table of functions. A call keeps its name and arguments as written,
and `functions.py` alone defines its meaning. This module is imported only when text is parsed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from decimal import Decimal, InvalidOperation
from typing import Any, ClassVar

import pyarrow as pa
from sqlglot import exp
from sqlglot.dialects.spark import Spark
from sqlglot.errors import SqlglotError, TokenError
from sqlglot.parsers.spark import SparkParser

from lowwater.errors import LowwaterError, UnknownColumn
from lowwater.expressions import binding
from lowwater.expressions.casts import cast, in_utc
from lowwater.expressions.errors import AggregateInside, OutsideSubset
from lowwater.expressions.functions import AGGREGATES, CASTS, FUNCTIONS, OPERATORS
from lowwater.expressions.time_functions import Interval, moved
from lowwater.expressions.tree import Column, Literal, Node
from lowwater.expressions.types import NTZ, canonical, inside
from lowwater.model.columns import spelled


class Names(Spark):
    """Spark's grammar, in which every function is parsed as a name with arguments."""

    class Tokenizer(Spark.Tokenizer):
        STRING_ESCAPES: ClassVar[list[str]] = ["'", "\\", '"']  # a doubled quote is a quote since Spark 4

    class Parser(SparkParser):
        STRICT_CAST = True
        FUNCTIONS: ClassVar[dict[str, Any]] = {}
        FUNCTION_PARSERS: ClassVar[dict[str, Any]] = {n: SparkParser.FUNCTION_PARSERS[n] for n in ("CAST", "TRY_CAST")}
        NO_PAREN_FUNCTIONS: ClassVar[dict[Any, Any]] = {}


BINARY: dict[type[exp.Expression], str] = {
    exp.EQ: "=",
    exp.NEQ: "<>",
    exp.LT: "<",
    exp.LTE: "<=",
    exp.GT: ">",
    exp.GTE: ">=",
    exp.NullSafeEQ: "<=>",
    exp.And: "AND",
    exp.Or: "OR",
    exp.Like: "LIKE",
    exp.Mul: "*",
    exp.Div: "/",
    exp.IntDiv: "div",
    exp.Mod: "%",
    exp.DPipe: "||",
}

PREDICATES = (exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.NullSafeEQ, exp.Like, exp.In, exp.Between, exp.Is)

ARGUMENTS = {
    *("this", "expression", "expressions", "is_string", "quoted", "typed", "safe", "coalesce", "to", "unit", "negate"),
    *("ifs", "default", "true", "false", "low", "high", "table", "db", "catalog"),
}
"""The parts of a parsed node that this module reads. A node with another part is refused."""

TYPES = {
    "BOOLEAN": "boolean",
    "TINYINT": "tinyint",
    "SMALLINT": "smallint",
    "INT": "int",
    "BIGINT": "bigint",
    "FLOAT": "float",
    "DOUBLE": "double",
    "TEXT": "string",
    "DATE": "date",
}


def read(text: str, schema: pa.Schema, timezone: str, role: str) -> Node:
    """The bound tree of an expression."""
    if not text.strip():
        raise LowwaterError(f"An expression is SQL text such as 'n > 3', not {text!r}.")
    if "\\" in text:
        raise OutsideSubset(f"A backslash in {text!r}", "write the character itself")
    try:
        several = any(token.token_type.name == "SEMICOLON" for token in Names().tokenize(text))
    except TokenError as error:
        raise LowwaterError(f"Cannot read the expression {text!r}: a quote is not closed.") from error
    if several:
        raise LowwaterError(f"{text!r} is not one expression; write one, without a semicolon, as in 'n > 3'.")
    try:
        parsed = Names().parse(text)
    except SqlglotError as error:
        _refuse_reserved(text, schema)
        raise LowwaterError(f"Cannot read the expression {text!r}: {_position(error)}.") from error
    if len(parsed) != 1 or parsed[0] is None:
        raise LowwaterError(f"{text!r} is not one expression; write one, as in 'n > 3'.")
    if isinstance(parsed[0], exp.Query):
        _refuse_reserved(text, schema)
    found = _Reader(schema, timezone, role).node(parsed[0])
    if isinstance(found, Interval):
        raise OutsideSubset(f"The interval {text!r} as a value")
    return found


def refuse_other_case(text: str, names: Sequence[str], role: str) -> None:
    """Refuses columns that are known in another case only, where names are to be written exactly. Text that cannot be
    read is left to whoever reads it."""
    try:
        parsed = Names().parse(text)
    except SqlglotError:
        return
    for column in (one for tree in parsed if tree is not None for one in tree.find_all(exp.Column)):
        if not column.args.get("table") and column.name not in names and spelled(column.name, names) is not None:
            raise UnknownColumn(column.name, list(names), role)


def _refuse_reserved(text: str, schema: pa.Schema) -> None:
    """Refuses a column whose name is a word of SQL: the text cannot be read as it is, and quotes make it a name."""
    columns = {name.lower(): name for name in schema.names}
    for token in Names().tokenize(text):
        word = token.text.lower()
        if word in columns and word.upper() in Names.Tokenizer.KEYWORDS and token.token_type.name != "IDENTIFIER":
            raise LowwaterError(
                f"{token.text!r} in {text!r} is a word of SQL as well as a column; quote the column, as in "
                f"`{columns[word]}`."
            )


def _refuse_precedence(parsed: exp.Expression) -> None:
    """Refuses expressions that sqlglot and Spark group differently: `p = a < b` and `s || a + b`."""
    operands = [parsed.args.get(name) for name in ("this", "expression", "low", "high")]
    tests = isinstance(parsed, PREDICATES) and any(isinstance(o, (*PREDICATES, exp.Not)) for o in operands)
    if tests or (isinstance(parsed, exp.DPipe) and isinstance(parsed.expression, (exp.Add, exp.Sub))):
        raise LowwaterError(f"Write parentheses in {parsed.sql('spark')!r}, so that its order of operations is plain.")


def _position(error: SqlglotError) -> str:
    details = getattr(error, "errors", None)
    if not details:
        return str(error).splitlines()[0].rstrip(".")
    first = details[0]
    cause = next((ours for theirs, ours in CAUSES.items() if theirs in first["description"]), "it is no SQL")
    return f"{cause} at line {first['line']}, column {first['col']}"


CAUSES = {
    "Required keyword": "an operand is missing",
    "Expecting )": "a parenthesis is not closed",
    "Unexpected token": "a word or a sign is out of place",
}
"""What is wrong with a text, by the words of the parser. They are not shown, because some name its own parts."""


class _Reader:
    def __init__(self, schema: pa.Schema, timezone: str, role: str) -> None:
        self.schema = schema
        self.zone = timezone
        self.role = role

    def node(self, parsed: Any) -> Node | Interval:
        kind = type(parsed)
        unknown = [name for name, value in parsed.args.items() if value and name not in ARGUMENTS]
        if unknown:
            raise OutsideSubset(f"{parsed.sql('spark')!r} ({unknown[0]})")
        if parsed.args.get("negate"):
            plain = parsed.copy()
            plain.set("negate", None)
            return OPERATORS["NOT"]("NOT", [self.value(plain)], self.zone)
        _refuse_precedence(parsed)
        if kind in READ:
            return READ[kind](self, parsed)
        if kind in BINARY:
            return OPERATORS[BINARY[kind]](
                BINARY[kind], [self.value(parsed.this), self.value(parsed.expression)], self.zone
            )
        raise OutsideSubset(f"{parsed.sql('spark')!r} ({parsed.key})")

    def value(self, parsed: Any) -> Node:
        found = self.node(parsed)
        if isinstance(found, Interval):
            raise OutsideSubset("An interval that is not added to a date or a timestamp")
        return found

    def column(self, parsed: exp.Column) -> Node:
        if parsed.args.get("table") is not None:
            dotted = spelled(".".join(part.name for part in parsed.parts), self.schema.names)
            if dotted is not None:
                raise LowwaterError(f"{self.role} takes a column whose name has dots in backticks: `{dotted}`.")
            raise OutsideSubset(f"The qualified name {parsed.sql('spark')!r}", "name the column alone")
        name = parsed.name
        found = spelled(name, self.schema.names)
        if found is None:
            raise UnknownColumn(name, self.schema.names, self.role)
        return Column(found, canonical(self.schema.field(found).type, self.zone))

    def literal(self, parsed: exp.Literal, sign: str = "") -> Node:
        if parsed.is_string:
            return Literal(parsed.this, pa.string())
        text = sign + parsed.this
        if "e" in text.lower():
            try:
                return Literal(float(text), pa.float64())
            except ValueError:
                raise LowwaterError(f"Cannot read the number {text!r}.") from None
        if "." not in text:
            value = int(text)
            for type in (pa.int32(), pa.int64()):
                if abs(value + (value < 0)) < 2 ** (type.bit_width - 1):
                    return Literal(value, type, written=True)
        number = Decimal(text)
        _, digits, exponent = number.as_tuple()
        scale = -int(exponent)
        precision = max(len(digits), scale, 1)
        if precision > 38:
            raise OutsideSubset(f"The literal {text} of {precision} digits")
        return Literal(number, pa.decimal128(precision, scale), written=True)

    def negative(self, parsed: exp.Neg) -> Node | Interval:
        inner = parsed.this
        if isinstance(inner, exp.Literal) and not inner.is_string:
            return self.literal(inner, "-")
        if isinstance(inner, exp.Cast) and isinstance(inner.this, exp.Literal) and not inner.this.is_string:
            return self.suffixed(inner, "-")  # -128Y: the suffix applies to the signed number
        found = self.node(inner)
        return -found if isinstance(found, Interval) else OPERATORS["unary -"]("-", [found], self.zone)

    def sum(self, parsed: exp.Binary) -> Node | Interval:
        left, right = self.node(parsed.this), self.node(parsed.expression)
        name = "+" if isinstance(parsed, exp.Add) else "-"
        if isinstance(right, Interval):
            by = right if name == "+" else -right
            return left + by if isinstance(left, Interval) else moved(name, left, by, self.zone)
        if isinstance(left, Interval):
            if name == "-":
                raise OutsideSubset("An interval minus a value")
            return moved(name, right, left, self.zone)
        return OPERATORS[name](name, [left, right], self.zone)

    def interval(self, parsed: exp.Interval) -> Interval:
        amount, unit = parsed.this, parsed.args.get("unit")
        if not isinstance(amount, exp.Literal) or not (unit is None or isinstance(unit, exp.Var)):
            raise OutsideSubset(f"{parsed.sql('spark')!r}", "write a literal interval such as INTERVAL 10 MINUTES")
        return Interval.read(amount.this) if unit is None else Interval.of(amount.this, unit.name)

    def suffixed(self, parsed: exp.Cast, sign: str = "") -> Node:
        """A number and its type: `3Y`, `-0.0D`, and also `CAST(3 AS TINYINT)`."""
        to = self.type(parsed.to)
        value = self.literal(parsed.this, sign)
        if to == pa.float64() and value.type != pa.float64():
            return Literal(float(sign + parsed.this.this), to)
        return cast(value, to, self.zone)

    def cast(self, parsed: exp.Cast) -> Node:
        to = self.type(parsed.to)
        value = self.value(parsed.this)
        if isinstance(parsed.this, exp.Literal) and parsed.this.is_string and pa.types.is_decimal(to):
            return self.decimal(parsed.this.this, to)
        if not inside(value.type):
            raise binding.wrong("CAST", value)
        return cast(value, to, self.zone)

    def decimal(self, text: str, to: pa.DataType) -> Node:
        """A literal such as `1.5BD`, which sqlglot parses as a cast of the text."""
        try:
            return Literal(pa.scalar(Decimal(text), to).as_py(), to)
        except (InvalidOperation, pa.ArrowInvalid):
            raise OutsideSubset(f"CAST from string {text!r} to {to}") from None

    def type(self, parsed: exp.DataType) -> pa.DataType:
        name = parsed.this.name if hasattr(parsed.this, "name") else str(parsed.this)
        if name in TYPES and not parsed.expressions:
            return CASTS[TYPES[name]]
        if name == "TIMESTAMPNTZ":
            return NTZ
        if name in ("TIMESTAMPTZ", "TIMESTAMPLTZ"):
            in_utc(self.zone, "CAST to timestamp", pa.timestamp("us", self.zone))
            return pa.timestamp("us", self.zone)
        if name == "DECIMAL":
            digits = [int(p.name) for p in parsed.expressions]
            precision, scale = (*digits, 0)[:2] if digits else (10, 0)
            if 0 < precision <= 38 and 0 <= scale <= precision:
                return pa.decimal128(precision, scale)
        raise OutsideSubset(f"The type {parsed.sql('spark')}")

    def call(self, parsed: exp.Anonymous) -> Node:
        name = parsed.name.lower()
        if name in AGGREGATES:
            raise AggregateInside(f"{self.role} takes an expression over one row, but {name}() is over several")
        if name in CASTS and len(parsed.expressions) == 1:
            return cast(self.value(parsed.expressions[0]), CASTS[name], self.zone)
        if name not in FUNCTIONS:
            raise OutsideSubset(f"The function {name}()", "see docs/expressions.md for those that it can")
        return FUNCTIONS[name](name, [self.value(arg) for arg in parsed.expressions], self.zone)

    def case(self, parsed: exp.Case) -> Node:
        branches = parsed.args["ifs"]
        conditions = [self.value(branch.this) for branch in branches]
        if parsed.this is not None:
            subject = self.value(parsed.this)
            conditions = [OPERATORS["="]("CASE", [subject, c], self.zone) for c in conditions]
        values = [self.value(branch.args["true"]) for branch in branches]
        default = parsed.args.get("default")
        return binding.case("CASE", conditions, values, None if default is None else self.value(default), self.zone)

    def conditional(self, parsed: exp.If) -> Node:
        parts = [parsed.this, parsed.args.get("true"), parsed.args.get("false")]
        return FUNCTIONS["if"]("if", [self.value(part) for part in parts if part is not None], self.zone)

    def membership(self, parsed: exp.In) -> Node:
        options = parsed.expressions
        if not options:
            raise OutsideSubset(f"{parsed.sql('spark')!r}", "list literals in IN")
        return OPERATORS["IN"]("IN", [self.value(parsed.this), *(self.value(option) for option in options)], self.zone)

    def between(self, parsed: exp.Between) -> Node:
        parts = [parsed.this, parsed.args["low"], parsed.args["high"]]
        return OPERATORS["BETWEEN"]("BETWEEN", [self.value(part) for part in parts], self.zone)

    def test(self, parsed: exp.Is) -> Node:
        value = self.value(parsed.this)
        if isinstance(parsed.expression, exp.Null):
            return OPERATORS["IS NULL"]("IS NULL", [value], self.zone)
        if isinstance(parsed.expression, exp.Boolean):
            wanted = self.value(parsed.expression)
            return OPERATORS["<=>"]("IS", [binding.booleans("IS", value, self.zone), wanted], self.zone)
        raise OutsideSubset(f"{parsed.sql('spark')!r}")

    def joined(self, parsed: exp.Concat) -> Node:
        """Adjacent string literals, which Spark concatenates."""
        return Literal("".join(part.this for part in parsed.expressions), pa.string())


READ: dict[type[exp.Expression], Callable[[_Reader, Any], Node | Interval]] = {
    exp.Column: _Reader.column,
    exp.Literal: _Reader.literal,
    exp.Boolean: lambda _, parsed: Literal(bool(parsed.this), pa.bool_()),
    exp.Null: lambda _, __: Literal(None, pa.null()),
    exp.Paren: lambda reader, parsed: reader.node(parsed.this),
    exp.Neg: _Reader.negative,
    exp.Not: lambda reader, parsed: OPERATORS["NOT"]("NOT", [reader.value(parsed.this)], reader.zone),
    exp.Add: _Reader.sum,
    exp.Sub: _Reader.sum,
    exp.Interval: _Reader.interval,
    exp.Cast: _Reader.cast,
    exp.Anonymous: _Reader.call,
    exp.Case: _Reader.case,
    exp.If: _Reader.conditional,
    exp.In: _Reader.membership,
    exp.Between: _Reader.between,
    exp.Is: _Reader.test,
    exp.Concat: _Reader.joined,
}
