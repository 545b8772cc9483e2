"""Writes trees as text: the writer of each node that the language adds. Reading the text again gives the same tree."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sqlglot import exp

from lowwater.language import trees

Writer = Callable[[Any, Any], str]


def _clause(self: Any, node: trees.WindowClause) -> str:
    args = node.args
    parts = []
    if args.get("all"):
        parts.append("RANGE ALL")
    elif args.get("unbounded"):
        parts.append("RANGE UNBOUNDED")
    elif args.get("range") is not None:
        parts.append(f"RANGE {'TUMBLING ' if args.get('tumbling') else ''}{self.sql(node, 'range')}")
    for name, word in (("slide", "SLIDE"), ("wa", "WA"), ("rattr", "RATTR"), ("sattr", "SATTR")):
        if args.get(name) is not None:
            parts.append(f"{word} {self.sql(node, name)}")
    if args.get("pa"):
        parts.append(f"PA ({', '.join(self.sql(one) for one in args['pa'])})")
    for name in ("origin", "period"):
        if args.get(name) is not None:
            parts.append(f"{name.upper()} {self.sql(node, name)}")
    return f"[{', '.join(parts)}]"


def _length(self: Any, node: trees.Length) -> str:
    number, _, unit = node.text.partition(" ")
    plain = number.lstrip("+-").replace(".", "", 1).isdigit() and (not unit or unit.isalpha())
    return node.text if plain else f"'{node.text}'"


def _aliased(self: Any, node: Any, text: str) -> str:
    alias = self.sql(node, "alias")
    return f"{text} AS {alias}" if alias else text


def _joined(self: Any, node: Any) -> str:
    return "".join(self.sql(join) for join in node.args.get("joins") or [])


def _input(self: Any, node: trees.WindowedInput) -> str:
    return _aliased(self, node, f"{self.sql(node, 'this')} {self.sql(node, 'clause')}") + _joined(self, node)


def _union(self: Any, node: trees.InputUnion) -> str:
    return _aliased(self, node, f"({' UNION '.join(self.sql(one) for one in node.expressions)})") + _joined(self, node)


def _table_function(self: Any, node: trees.TableFunction) -> str:
    by = ", ".join(self.sql(one) for one in node.args.get("pa") or [])
    table = f"TABLE {self.sql(node, 'input')}" + (f" PARTITION BY ({by})" if by else "")
    lengths = [f"INTERVAL {self.sql(one)}" for one in node.args["lengths"]]
    parts = [table, f"DESCRIPTOR({self.sql(node, 'time')})", *lengths]
    return _aliased(self, node, f"{node.this.upper()}({', '.join(parts)})")


def _emit(self: Any, node: trees.Emit) -> str:
    parts = ["EARLY"] if node.args.get("early") else []
    for name, words in (
        ("lateness", "ALLOWED LATENESS"),
        ("flush", "FLUSH"),
        ("strategy", "STRATEGY"),
        ("late", "LATE"),
    ):
        if node.args.get(name) is not None:
            parts.append(f"{words} {self.sql(node, name)}")
    return f"EMIT {', '.join(parts)}"


def _flush(self: Any, node: trees.Flush) -> str:
    numbers = ", ".join(self.sql(one) for one in node.expressions)
    return f"{node.this.upper()}({numbers})" if numbers else node.this.upper()


def _ordered(self: Any, node: trees.Ordered) -> str:
    return f"ORDERED BY {self.sql(node, 'this')}" if node.this else "ORDERED"


def _disorder(self: Any, node: trees.Disorder) -> str:
    kind = node.args["kind"]
    if kind == "ordered":
        return "ORDERED"
    if kind == "measured":
        return "DISORDER MEASURED"
    if kind == "learned":
        settings = ", ".join(self.sql(one) for one in node.args.get("settings") or [])
        return f"DISORDER LEARNED({settings})" if settings else "DISORDER LEARNED"
    if kind == "punctuated":
        flags = "".join(f" {flag.upper()}" for flag in node.args.get("flags") or [])
        return f"DISORDER PUNCTUATED WHEN {self.sql(node, 'when')} UPTO {self.sql(node, 'upto')}{flags}"
    return f"DISORDER {self.sql(node, 'this')}"


def _ends(self: Any, node: trees.Ends) -> str:
    if node.args.get("when") is None:
        return f"UNIQUE {self.sql(node, 'this')}"
    text = f"ENDS {self.sql(node, 'this')} WHEN {self.sql(node, 'when')}"
    if node.args.get("value") is not None:
        return f"{text} VALUE {self.sql(node, 'value')}"
    if node.args.get("low") is not None:
        return f"{text} RANGE ({self.sql(node, 'low')}, {self.sql(node, 'high')})"
    return text


def _place(self: Any, node: trees.Place) -> str:
    options = ", ".join(self.sql(one) for one in node.args.get("options") or [])
    return f"{self.sql(node, 'this')} OPTIONS ({options})" if options else self.sql(node, "this")


def _option(self: Any, node: trees.Option) -> str:
    return f"{self.sql(exp.Literal.string(node.this))} {self.sql(node, 'expression')}"


def _stream(self: Any, node: trees.StreamDefinition) -> str:
    args = node.args
    parts = [f"CREATE STREAM {self.sql(node, 'this')}"]
    if args.get("columns"):
        parts.append(f"({', '.join(self.sql(one) for one in args['columns'])})")
    parts.append(f"PROGRESS {self.sql(node, 'progress')}")
    if args.get("disorder") is not None:
        parts.append(self.sql(node, "disorder"))
    if args.get("source") is not None:
        parts.append(f"SOURCE {self.sql(node, 'source')}")
    if args.get("sources"):
        parts.append(f"IN ({', '.join(self.sql(one) for one in args['sources'])})")
    if args.get("after") is not None:
        parts.append(f"IDLE AFTER {self.sql(node, 'after')} LAG {self.sql(node, 'lag')}")
    if args.get("ends") is not None:
        parts.append(self.sql(node, "ends"))
    if args.get("groups"):
        parts.append(f"GROUPS {args['groups'].upper()}")
    return " ".join([*parts, f"FROM {self.sql(node, 'place')}"])


def _explained(self: Any, node: trees.Explained) -> str:
    analyze = "ANALYZE " if node.args.get("analyze") else ""
    shown = f"FORMAT {node.args['format'].upper()} " if node.args.get("format") else ""
    return f"EXPLAIN {analyze}{shown}{self.sql(node, 'this')}"


WRITERS: dict[type[exp.Expression], Writer] = {
    trees.Length: _length,
    trees.WindowClause: _clause,
    trees.Windowed: lambda self, node: f"{self.sql(node, 'this')} {self.sql(node, 'clause')}",
    trees.WindowedInput: _input,
    trees.InputUnion: _union,
    trees.TableFunction: _table_function,
    trees.WithinWindow: lambda self, node: f"WINDOW {self.sql(node, 'this')}",
    trees.Emit: _emit,
    trees.Flush: _flush,
    trees.Ordered: _ordered,
    trees.Disorder: _disorder,
    trees.Ends: _ends,
    trees.Place: _place,
    trees.Option: _option,
    trees.StreamDefinition: _stream,
    trees.ViewDefinition: lambda self, node: f"CREATE VIEW {self.sql(node, 'this')} AS {self.sql(node, 'expression')}",
    trees.InsertInto: lambda self, node: f"INSERT INTO {self.sql(node, 'place')} {self.sql(node, 'expression')}",
    trees.InsertLateRows: lambda self, node: f"INSERT INTO LATE {self.sql(node, 'place')}",
    trees.Explained: _explained,
}
