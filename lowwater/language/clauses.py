"""The clauses of the papers: windows in brackets, lengths, and EMIT, read from tokens."""

from __future__ import annotations

from typing import Any, TypeVar

from sqlglot import exp
from sqlglot.parser import Parser
from sqlglot.tokenizer_core import TokenType

from lowwater.language import trees

OPENERS = ("RANGE", "SLIDE", "WA", "WATTR", "PA", "RATTR", "SATTR", "ROWS", "ORIGIN", "PERIOD")
LENGTHS = {
    "TUMBLE": ("SIZE", "OFFSET"),
    "HOP": ("SLIDE", "SIZE", "OFFSET"),
    "CUMULATE": ("STEP", "SIZE", "OFFSET"),
    "SESSION": ("GAP",),
}
"""Flink's table functions, and the names of their lengths in the order in which they stand without names."""
UNITS = {
    *("us", "ms", "s", "sec", "secs", "min", "mins", "h", "d", "row", "tuple"),
    *("microsecond", "millisecond", "second", "minute", "hour", "day", "week", "month", "year"),
}


def is_unit(text: str) -> bool:
    return text.lower() in UNITS or text.lower().removesuffix("s") in UNITS


Node = TypeVar("Node", bound=exp.Expression)


class ClauseParser(Parser):
    """Reads the clauses that stand in brackets and behind queries."""

    def _word(self, *words: str) -> bool:
        return bool(self._match_text_seq(*words))

    @staticmethod
    def _placed(node: Node, at: Any) -> Node:
        """The node with the place of the word that it begins with, for errors about it."""
        node.meta["start"] = at.start
        return node

    def _at_clause(self) -> bool:
        return (
            self._curr.token_type == TokenType.L_BRACKET
            and self._next.text.upper() in OPENERS
            and self._next.token_type not in (TokenType.STRING, TokenType.IDENTIFIER)
        )

    def _clause(self) -> trees.WindowClause:
        """`[RANGE 10 minutes, SLIDE 1 minute, WA ts]`: the parameters in any order, between commas."""
        opened = self._curr
        self._match(TokenType.L_BRACKET)
        args: dict[str, Any] = {}
        while True:
            at = self._curr
            for name, value in self._parameter().items():
                if name in args:
                    self.raise_error(f"The window has two {at.text.upper()}", at)
                args[name] = value
            if not self._match(TokenType.COMMA):
                break
        if not self._match(TokenType.R_BRACKET):
            self.raise_error("Expected , or ] in the window")
        return self._placed(self.expression(trees.WindowClause(**args)), opened)

    def _parameter(self) -> dict[str, Any]:
        if self._word("RANGE"):
            if self._word("ALL"):
                return {"range": None, "all": True}
            if self._word("UNBOUNDED"):
                return {"range": None, "unbounded": True}
            tumbling = self._word("TUMBLING")
            return {"range": self._length(), **({"tumbling": True} if tumbling else {})}
        if self._word("SLIDE"):
            return {"slide": self._length()}
        if self._word("ROWS"):
            return {"range": self.expression(trees.Length(this=f"{self._number()} rows"))}
        if self._word("WA") or self._word("WATTR"):
            return {"wa": self._attribute()}
        if self._word("PA"):
            return {"pa": self._attributes()}
        if self._word("RATTR"):
            return {"rattr": self._attribute()}
        if self._word("SATTR"):
            return {"sattr": self._attribute()}
        if self._word("ORIGIN"):
            return {"origin": exp.var("FIRST") if self._word("FIRST") else self._parse_unary()}
        if self._word("PERIOD"):
            return {"period": self._length()}
        self.raise_error(f"Expected a parameter of a window, one of {', '.join(OPENERS)}")
        return {}

    def _attribute(self) -> Any:
        """A column, `row-num`, or `rank(ts)`."""
        if self._at_dashed("ROW", "NUM"):
            self._advance(3)
            return exp.var("row-num")
        if self._curr.text.upper() == "RANK" and self._next.token_type == TokenType.L_PAREN:
            self._advance(2)
            of = self._parse_column()
            self._match_r_paren()
            return self.expression(exp.Anonymous(this="rank", expressions=[of]))
        column = self._parse_column()
        if not isinstance(column, exp.Column):
            self.raise_error("Expected a column")
        return column

    def _attributes(self) -> list[Any]:
        if self._match(TokenType.L_PAREN):
            found = self._parse_csv(self._attribute)
            self._match_r_paren()
            return found
        return [self._attribute()]

    def _at_dashed(self, first: str, second: str) -> bool:
        """Whether the next tokens are two words with a dash between them."""
        tokens = self._tokens[self._index : self._index + 3]
        return len(tokens) == 3 and [t.text.upper() for t in tokens] == [first, "-", second]

    def _number(self) -> str:
        sign = "-" if self._match(TokenType.DASH) else ""
        if not self._match(TokenType.NUMBER):
            self.raise_error("Expected a number")
        return sign + self._prev.text

    def _length(self) -> trees.Length:
        """`10 minutes`, `1000 rows`, `10`, `'10 minutes'`, `INTERVAL 10 MINUTES`, `INTERVAL '10' MINUTE`."""
        self._match(TokenType.INTERVAL)
        text = self._prev.text if self._match(TokenType.STRING) else self._number()
        if is_unit(self._curr.text) and self._curr.token_type not in (TokenType.STRING, TokenType.IDENTIFIER):
            text += f" {self._curr.text}"
            self._advance()
        return self.expression(trees.Length(this=text.strip()))

    # -- table functions -------------------------------------------------------------------------------------------

    def _at_table_function(self) -> bool:
        """Whether a table function of Flink follows: TUMBLE(TABLE t, ...) or TABLE(TUMBLE(...))."""
        at = self._index
        if self._curr.token_type == TokenType.TABLE and self._next.token_type == TokenType.L_PAREN:
            at += 2
        words = self._tokens[at : at + 2]
        return len(words) == 2 and words[0].text.upper() in LENGTHS and words[1].token_type == TokenType.L_PAREN

    def _table_function(self) -> Any:
        wrapped = self._match(TokenType.TABLE) and self._match(TokenType.L_PAREN)
        at = self._curr
        args: dict[str, Any] = {"this": at.text.lower()}
        known = LENGTHS[at.text.upper()]
        lengths: dict[str, trees.Length] = {}
        self._advance(2)
        while True:
            name = known[min(len(lengths), len(known) - 1)]
            if self._next.token_type == TokenType.FARROW:
                name = self._curr.text.upper()
                self._advance(2)
            if self._match(TokenType.TABLE):
                args["input"] = self._parse_table()
                if self._match(TokenType.PARTITION_BY):
                    args["pa"] = self._attributes()
            elif self._word("DESCRIPTOR"):
                self._match_l_paren()
                args["time"] = self._attribute()
                self._match_r_paren()
            elif name not in known or name in lengths:
                self.raise_error(f"{at.text.upper()} takes each of these lengths once: {', '.join(known)}")
            else:
                lengths[name] = self._length()
            if not self._match(TokenType.COMMA):
                break
        args["lengths"] = [lengths[name] for name in known if name in lengths]
        self._match_r_paren()
        if wrapped:
            self._match_r_paren()
        if args.get("input") is None or args.get("time") is None:
            self.raise_error(
                "Expected TABLE and DESCRIPTOR, as in TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL 1 MINUTE)", at
            )
        found = self._placed(self.expression(trees.TableFunction(**args)), at)
        alias = self._parse_table_alias(alias_tokens=self.TABLE_ALIAS_TOKENS)
        if alias is not None:
            found.set("alias", alias)
        return found

    def _emit(self) -> trees.Emit:
        args: dict[str, Any] = {}
        while True:
            if self._word("EARLY"):
                args["early"] = True
            elif self._word("ALLOWED", "LATENESS"):
                args["lateness"] = self._length()
            elif self._word("FLUSH"):
                args["flush"] = self._flush()
            elif self._word("STRATEGY"):
                args["strategy"] = self._parse_id_var()
            elif self._word("LATE"):
                args["late"] = self._parse_id_var(any_token=True)
            else:
                self.raise_error("Expected EARLY, ALLOWED LATENESS, FLUSH, STRATEGY or LATE behind EMIT")
            if not self._match(TokenType.COMMA):
                return self.expression(trees.Emit(**args))

    def _flush(self) -> trees.Flush:
        if not self._match_texts(("SLOW", "LAZY")):
            self.raise_error("Expected SLOW or LAZY behind FLUSH")
        kind = self._prev.text.lower()
        numbers = []
        if self._match(TokenType.L_PAREN):
            numbers = self._parse_csv(lambda: exp.Literal.number(self._number()))
            self._match_r_paren()
        return self.expression(trees.Flush(this=kind, expressions=numbers))
