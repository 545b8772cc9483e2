"""The statements of a file: CREATE STREAM, CREATE VIEW, INSERT INTO, INSERT INTO LATE, EXPLAIN, and queries."""

from __future__ import annotations

from typing import Any, ClassVar

from sqlglot import exp
from sqlglot.tokenizer_core import TokenType

from lowwater.language import trees
from lowwater.language.clauses import ClauseParser


class StatementParser(ClauseParser):
    """Reads statements. Those of SQL that the language does not have are refused where they begin."""

    STATEMENT_PARSERS: ClassVar[dict[Any, Any]] = {}

    def _parse_statement(self) -> Any:
        if not self._curr:
            return None
        if self._word("CREATE"):
            return self._create()
        if self._match(TokenType.INSERT):
            return self._insert()
        if self._match(TokenType.DESCRIBE) or self._word("EXPLAIN"):
            return self._explain()
        return self._query("Expected SELECT, WITH, CREATE STREAM, CREATE VIEW, INSERT INTO or EXPLAIN")

    def _query(self, expected: str = "Expected a query, as in SELECT * FROM Main") -> Any:
        start = self._curr
        query = self._parse_select(nested=True)  # in parentheses, too
        if not isinstance(query, exp.Query):
            self.raise_error(expected, start or self._prev)
        return self._parse_query_modifiers(self._parse_set_operations(query))

    def _name(self, what: str) -> exp.Identifier:
        name = self._parse_id_var(any_token=False)
        if not isinstance(name, exp.Identifier):
            word = self._curr.text if self._curr else ""
            quoted = f"; {word!r} is a word of SQL, so quote it as in `{word}`" if word.isidentifier() else ""
            self.raise_error(f"Expected {what}{quoted}")
        return name  # type: ignore[return-value]

    def _create(self) -> Any:
        self._word("OR", "REPLACE")
        self._match(TokenType.TEMPORARY)
        if self._match(TokenType.VIEW):
            name = self._name("the name of the view")
            if not self._match(TokenType.ALIAS):
                self.raise_error("Expected AS and the query of the view")
            return self.expression(trees.ViewDefinition(this=name, expression=self._query()))
        if self._word("STREAM"):
            return self._stream()
        self.raise_error("Expected CREATE STREAM or CREATE VIEW")

    def _insert(self) -> Any:
        if not self._match(TokenType.INTO):
            self.raise_error("Expected INSERT INTO and a format, as in INSERT INTO console SELECT ...")
        if self._curr.text.upper() == "LATE" and self._curr.token_type != TokenType.IDENTIFIER:
            self._advance()
            if self._curr.token_type in (TokenType.SELECT, TokenType.WITH, TokenType.L_PAREN):
                self.raise_error(
                    "Expected a format and no query behind INSERT INTO LATE; it is for the query before it"
                )
            place = self._place()
            if self._curr:
                self.raise_error("INSERT INTO LATE ends behind its OPTIONS; it is for the query before it")
            return self.expression(trees.InsertLateRows(place=place))
        return self.expression(trees.InsertInto(place=self._place(), expression=self._query()))

    def _explain(self) -> Any:
        analyze = self._match(TokenType.ANALYZE) or self._word("ANALYZE")
        shown = None
        if self._match(TokenType.FORMAT) or self._word("FORMAT"):
            if not self._match_texts(("TEXT", "JSON", "DOT", "SVG")):
                self.raise_error("Expected TEXT, JSON, DOT or SVG behind FORMAT")
            shown = self._prev.text.lower()
        of = self._insert() if self._match(TokenType.INSERT) else self._query()
        return self.expression(trees.Explained(this=of, analyze=bool(analyze), format=shown))

    # -- streams ---------------------------------------------------------------------------------------------------

    def _stream(self) -> Any:
        args: dict[str, Any] = {"this": self._name("the name of the stream")}
        if self._match(TokenType.L_PAREN, advance=False):
            args["columns"] = self._parse_wrapped_csv(self._column)
        while self._curr and not self._match(TokenType.FROM):
            at = self._curr
            for name, value in self._property().items():
                if name in args:
                    self.raise_error(f"CREATE STREAM has two {at.text.upper()}", at)
                args[name] = value
        if self._prev.token_type != TokenType.FROM:
            self.raise_error("Expected FROM and a format, as in FROM parquet OPTIONS (path 'in')")
        args["place"] = self._place()
        if self._curr:
            self.raise_error("CREATE STREAM ends behind FROM and OPTIONS")
        if "progress" not in args:
            self.raise_error("CREATE STREAM lacks PROGRESS and a column, as in PROGRESS ts", self._prev)
        return self.expression(trees.StreamDefinition(**args))

    def _column(self) -> Any:
        name = self._name("the name of a column")
        kind = self._parse_types(schema=True)
        if not isinstance(kind, exp.DataType):
            self.raise_error("Expected the type of the column")
        return self.expression(exp.ColumnDef(this=name, kind=kind))

    def _property(self) -> dict[str, Any]:
        if self._word("PROGRESS"):
            return {"progress": self._name("the column that progresses")}
        if self._word("DISORDER"):
            return {"disorder": self._disorder()}
        if self._word("ORDERED"):
            return {"disorder": self.expression(trees.Disorder(kind="ordered"))}
        if self._word("SOURCE"):
            found: dict[str, Any] = {"source": self._name("the column of the sources")}
            if self._match(TokenType.IN):
                found["sources"] = self._parse_wrapped_csv(self._parse_string)
            return found
        if self._word("IDLE"):
            self._word("AFTER")
            after = self._length()
            if not self._word("LAG"):
                self.raise_error("Expected LAG and a length, as in IDLE 10 SECONDS LAG 5 SECONDS")
            return {"after": after, "lag": self._length()}
        if self._word("ENDS"):
            return {"ends": self._ends()}
        if self._match(TokenType.UNIQUE) or self._word("UNIQUE"):
            return {"ends": self.expression(trees.Ends(this=self._name("the column with unique values")))}
        if self._word("GROUPS"):
            if not self._match_texts(("SKEWED", "DENSE")):
                self.raise_error("Expected SKEWED or DENSE behind GROUPS")
            return {"groups": self._prev.text.lower()}
        self.raise_error("Expected PROGRESS, DISORDER, ORDERED, SOURCE, IDLE, ENDS, UNIQUE, GROUPS or FROM")
        return {}

    def _disorder(self) -> Any:
        if self._word("ORDERED"):
            return self.expression(trees.Disorder(kind="ordered"))
        if self._word("MEASURED"):
            return self.expression(trees.Disorder(kind="measured"))
        if self._word("LEARNED"):
            settings = []
            if self._match(TokenType.L_PAREN):
                settings = self._parse_csv(lambda: exp.Literal.number(self._number()))
                self._match_r_paren()
            return self.expression(trees.Disorder(kind="learned", settings=settings))
        if self._word("PUNCTUATED"):
            if not self._match(TokenType.WHEN):
                self.raise_error("Expected WHEN and UPTO, as in DISORDER PUNCTUATED WHEN last UPTO ts")
            when = self._name("the boolean column of the punctuations")
            if not self._word("UPTO"):
                self.raise_error("Expected UPTO and the column up to which no row follows")
            upto = self._name("the column up to which no row follows")
            flags = []
            while self._match_texts(("OPEN", "DATA")):
                flags.append(self._prev.text.lower())
            return self.expression(trees.Disorder(kind="punctuated", when=when, upto=upto, flags=flags))
        return self.expression(trees.Disorder(kind="delay", this=self._length()))

    def _ends(self) -> Any:
        args: dict[str, Any] = {"this": self._name("the column whose values end")}
        if not self._match(TokenType.WHEN):
            self.raise_error("Expected WHEN and a boolean column, as in ENDS item WHEN closed")
        args["when"] = self._name("the boolean column")
        if self._word("VALUE"):
            args["value"] = self._name("the column with the ended values")
        elif self._match(TokenType.RANGE) or self._word("RANGE"):
            ends = self._parse_wrapped_csv(lambda: self._name("a column"))
            if len(ends) != 2:
                self.raise_error("Expected two columns, as in RANGE (low, high)")
            args["low"], args["high"] = ends
        return self.expression(trees.Ends(**args))

    def _place(self) -> Any:
        """A format and its options. A name with dots is a table of the catalog."""
        if self._match(TokenType.TABLE):
            parts = [self._name("the name of the table")]
            while self._match(TokenType.DOT):
                parts.append(self._name("the name of the table"))
            name: Any = exp.to_identifier("table")
            options = [self._option("name", ".".join(part.name for part in parts))]
            return self.expression(trees.Place(this=name, options=options))
        name = self._name("a format, as in parquet")
        options = []
        if self._word("OPTIONS"):
            options = self._parse_wrapped_csv(self._written_option, optional=False)
        return self.expression(trees.Place(this=name, options=options))

    def _written_option(self) -> Any:
        parts = [self._name("the name of an option") if not self._match(TokenType.STRING) else self._prev.text]
        while self._match(TokenType.DOT):
            parts.append(self._name("the name of an option"))
        name = ".".join(part if isinstance(part, str) else part.name for part in parts)
        self._match(TokenType.EQ)
        if self._match(TokenType.STRING):
            return self._option(name, self._prev.text)
        if self._match_texts(("TRUE", "FALSE")):
            return self._option(name, self._prev.text.lower())
        return self._option(name, self._number())

    def _option(self, name: str, value: str) -> Any:
        return self.expression(trees.Option(this=name, expression=exp.Literal.string(value)))
