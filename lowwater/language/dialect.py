"""The grammar: Spark's by sqlglot, with the papers' window clauses. Every function is a name with arguments."""

from __future__ import annotations

from typing import Any, ClassVar

from sqlglot import exp
from sqlglot.generators.spark import SparkGenerator
from sqlglot.parsers.spark import SparkParser
from sqlglot.tokenizer_core import Token, TokenType

from lowwater.expressions.reading import Names
from lowwater.language import trees
from lowwater.language.clauses import ClauseParser
from lowwater.language.statements import StatementParser
from lowwater.language.writing import WRITERS

STARTS = {TokenType.SELECT, TokenType.WITH, TokenType.FROM, TokenType.VALUES}
"""What follows UNION between two queries. Anything else is an input of FROM."""


def _plain(token: Token, after: Token | None) -> Token:
    """WINDOW before a parenthesis is the function and no clause."""
    if token.token_type != TokenType.WINDOW or after is None or after.token_type != TokenType.L_PAREN:
        return token
    return Token(TokenType.VAR, token.text, token.line, token.col, token.start, token.end, token.comments)


class LanguageParser(StatementParser, ClauseParser, Names.Parser):
    """Spark's parser, with windows behind aggregates and inputs, unions of inputs, and the statements of a file."""

    QUERY_MODIFIER_PARSERS: ClassVar[dict[Any, Any]] = {
        **SparkParser.QUERY_MODIFIER_PARSERS,
        TokenType.WINDOW: lambda self: self._window_modifier(),
    }
    QUERY_MODIFIER_TOKENS: ClassVar[Any] = set(QUERY_MODIFIER_PARSERS)

    def parse(self, raw_tokens: Any, sql: str) -> Any:
        return super().parse([_plain(*pair) for pair in zip(raw_tokens, [*raw_tokens[1:], None], strict=True)], sql)

    def _parse_bracket(self, this: Any = None) -> Any:
        if this is not None and self._at_clause():
            if isinstance(this, exp.Table):
                return self.expression(trees.WindowedInput(this=this, clause=self._clause()))
            windowed = self.expression(trees.Windowed(this=this, clause=self._clause()))
            return self._parse_window(windowed)  # FILTER (WHERE ...) stands before the window or behind it
        return super()._parse_bracket(this)

    def _parse_window(self, this: Any, alias: bool = False) -> Any:
        found = super()._parse_window(this, alias)
        spec = found.args.get("spec") if isinstance(found, exp.Window) else None
        if spec is not None and not spec.args.get("end"):  # ROWS 3 PRECEDING
            spec.set("end", "CURRENT ROW")
        return found

    def _parse_table(self, *given: Any, **options: Any) -> Any:
        if options.get("schema") or options.get("is_db_reference"):
            return super()._parse_table(*given, **options)
        table = self._input(*given, **options)
        inputs = [table]
        while table is not None and self._at_union_of_inputs():
            self._advance()
            self._match(TokenType.ALL)
            inputs.append(self._input(*given, **options))
        if len(inputs) > 1:
            table = self._union(inputs)
        return self._windowed(table)

    def _union(self, inputs: list[Any]) -> Any:
        """The union of inputs. An alias or a window behind the last one is for all of them."""
        last = inputs[-1]
        clause = None
        if isinstance(last, trees.WindowedInput) and last.args.get("clause") is not None:
            clause = last.args["clause"]
            alias = last.args.get("alias") or last.this.args.get("alias")
            inputs[-1] = last.this
        else:
            alias = last.args.get("alias")
        inputs[-1].set("alias", None)
        union = self.expression(trees.InputUnion(expressions=inputs, alias=alias))
        return union if clause is None else self.expression(trees.WindowedInput(this=union, clause=clause))

    def _input(self, *given: Any, **options: Any) -> Any:
        """One input of FROM. In parentheses it may be a union of inputs."""
        if self._at_table_function():
            return self._table_function()
        if self._match(TokenType.L_PAREN, advance=False) and self._opens_inputs():
            self._match(TokenType.L_PAREN)
            inner = self._parse_table()
            self._match_r_paren()
            alias = self._parse_table_alias(alias_tokens=self.TABLE_ALIAS_TOKENS)
            if alias is not None and inner is not None:
                inner.set("alias", alias)
            return self._windowed(inner)
        return self._windowed(super()._parse_table(*given, **options))

    def _parse_table_alias(self, *given: Any, **options: Any) -> Any:
        if self._curr.text.upper() in ("EMIT", "ORDERED") and self._curr.token_type != TokenType.IDENTIFIER:
            return None  # a clause follows the input; behind AS they are names
        return super()._parse_table_alias(*given, **options)

    def _windowed(self, table: Any) -> Any:
        if table is None or not self._at_clause():
            return table
        found = self.expression(trees.WindowedInput(this=table, clause=self._clause()))
        alias = self._parse_table_alias(alias_tokens=self.TABLE_ALIAS_TOKENS)
        if alias is not None:
            found.set("alias", alias)
        if self._match(TokenType.COMMA, advance=False) and self._next.token_type == TokenType.WHERE:
            self._advance()  # the thesis writes a comma between the window of the FROM list and WHERE
        return found

    def _at_union_of_inputs(self) -> bool:
        if self._curr.token_type != TokenType.UNION:
            return False
        at = self._index + 1
        if at < len(self._tokens) and self._tokens[at].token_type in (TokenType.ALL, TokenType.DISTINCT):
            if self._tokens[at].token_type == TokenType.DISTINCT:
                return False
            at += 1
        while at < len(self._tokens) and self._tokens[at].token_type == TokenType.L_PAREN:
            at += 1
        return at < len(self._tokens) and self._tokens[at].token_type not in STARTS

    def _opens_inputs(self) -> bool:
        """Whether parentheses hold a union of inputs: (A UNION B)."""
        at = self._index
        while at < len(self._tokens) and self._tokens[at].token_type == TokenType.L_PAREN:
            at += 1
        if at >= len(self._tokens) or self._tokens[at].token_type in STARTS:
            return False
        depth = 0
        for token in self._tokens[self._index :]:
            depth += (token.token_type == TokenType.L_PAREN) - (token.token_type == TokenType.R_PAREN)
            if token.token_type == TokenType.UNION:
                return True
            if depth == 0 or token.token_type in STARTS or token.token_type == TokenType.JOIN:
                return False
        return False

    def _window_modifier(self) -> tuple[str, Any]:
        if self._next.token_type in (TokenType.NUMBER, TokenType.STRING, TokenType.INTERVAL):
            at = self._curr
            self._advance()
            return "within", self._placed(self.expression(trees.WithinWindow(this=self._length())), at)
        return "windows", self._parse_window_clause()

    def _parse_query_modifiers(self, this: Any) -> Any:
        this = super()._parse_query_modifiers(this)
        while isinstance(this, exp.Query) and self._curr:
            at = self._curr
            if self._word("EMIT"):
                this.set("emit", self._placed(self._emit(), at))
            elif self._word("ORDERED"):
                by = self._parse_column() if self._match_text_seq("BY") else None
                this.set("ordered", self._placed(self.expression(trees.Ordered(this=by)), at))
            else:
                break
        return this

    def _parse_group(self, *given: Any, **options: Any) -> Any:
        if self._curr.text.upper() == "GROUPBY" or self._at_dashed("GROUP", "BY"):
            self._advance(1 if self._curr.text.upper() == "GROUPBY" else 3)
            return super()._parse_group(skip_group_by_token=True)
        return super()._parse_group(*given, **options)


class Language(Names):
    """Spark's dialect with the papers' clauses."""

    class Tokenizer(Names.Tokenizer):
        COMMANDS: ClassVar[Any] = set()
        KEYWORDS: ClassVar[dict[str, Any]] = {
            **{word: kind for word, kind in Names.Tokenizer.KEYWORDS.items() if kind != TokenType.COMMAND},
            "GROUP-BY": TokenType.GROUP_BY,
            "GROUPBY": TokenType.GROUP_BY,
        }

    Parser = LanguageParser

    class Generator(SparkGenerator):
        TRANSFORMS: ClassVar[dict[Any, Any]] = {**SparkGenerator.TRANSFORMS, **WRITERS}
        EXPRESSIONS_WITHOUT_NESTED_CTES: ClassVar[Any] = set()  # a name of WITH may hide another one

        def query_modifiers(self, expression: Any, *sqls: str) -> str:
            added = [self.sql(expression, name) for name in ("within", "emit", "ordered")]
            return super().query_modifiers(expression, *sqls) + "".join(f" {text}" for text in added if text)
