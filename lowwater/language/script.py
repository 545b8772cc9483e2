"""A file of queries: statements with their text and their place. `read` parses it, and binds nothing."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from typing import Any

from sqlglot import exp
from sqlglot.errors import ParseError, SqlglotError, TokenError
from sqlglot.tokenizer_core import Token, TokenType

from lowwater.language import trees
from lowwater.language.dialect import Language
from lowwater.language.errors import BadQuery, unclosed, unread


@dataclass(frozen=True)
class Statement:
    """One statement: its tree, its text, and where it begins in the file (an offset, and line and column from 1)."""

    tree: Any
    text: str
    start: int
    line: int
    column: int


class CreateStream(Statement):
    """CREATE STREAM: declares an input."""

    @property
    def name(self) -> str:
        return str(self.tree.this.name)


class CreateView(Statement):
    """CREATE VIEW: names a query."""

    @property
    def name(self) -> str:
        return str(self.tree.this.name)


class Query(Statement):
    """A query alone: its results go wherever the caller shows results."""


class Insert(Statement):
    """INSERT INTO: a query and the sink of its results."""


class InsertLate(Statement):
    """INSERT INTO LATE: the sink of the late rows of the query before it."""


class Explain(Statement):
    """EXPLAIN [ANALYZE] [FORMAT f]: a query to be explained."""

    @property
    def analyze(self) -> bool:
        return bool(self.tree.args.get("analyze"))

    @property
    def format(self) -> str | None:
        shown = self.tree.args.get("format")
        return None if shown is None else str(shown)


KINDS: dict[type[Any], type[Statement]] = {
    trees.StreamDefinition: CreateStream,
    trees.ViewDefinition: CreateView,
    trees.InsertInto: Insert,
    trees.InsertLateRows: InsertLate,
    trees.Explained: Explain,
}


@dataclass(frozen=True)
class Script:
    """The statements of a text in order. `file` is its name in errors."""

    text: str
    file: str | None
    statements: tuple[Statement, ...] = field(default=())

    def __iter__(self) -> Iterator[Statement]:
        return iter(self.statements)

    def error(self, sentence: str, start: int) -> BadQuery:
        return BadQuery(sentence, self.text, start, self.file)


def read(text: str, file: str | None = None, columns: Collection[str] = ()) -> Script:
    """Parses a whole file. Raises `BadQuery` at the first place that cannot be read.

    `columns` are names that the text may use, beside those that it declares: if one of them is a word of SQL, the
    error says to quote it.
    """
    script = Script(text, file)
    known = {name.lower() for name in columns}
    try:
        tokens = Language().tokenize(text)
    except (TokenError, ValueError) as error:
        raise _torn(error, script) from error
    statements: list[Statement] = []
    begin = 0
    for at in range(len(tokens) + 1):
        if at == len(tokens) or tokens[at].token_type == TokenType.SEMICOLON:
            if at > begin:
                statements.append(_statement(tokens[begin:at], script, known))
                declared = statements[-1].tree.args.get("columns") or []
                known |= {one.name.lower() for one in declared}
            begin = at + 1
    if not statements:
        raise script.error("The text has no statement; write a query, as in SELECT ... FROM ...", 0)
    return Script(text, file, tuple(statements))


def _statement(tokens: list[Any], script: Script, columns: Collection[str]) -> Statement:
    start, end = tokens[0].start, tokens[-1].end + 1
    try:
        found = Language().parser().parse(tokens, script.text)
    except ParseError as error:
        word = _to_be_quoted(tokens, script.text, columns)
        if word is not None:
            sentence = f"{word.text!r} is a word of SQL as well as a column; quote the column, as in `{word.text}`."
            raise script.error(sentence, word.start) from error
        raise unread(error, script.text, 0, script.file) from error
    except RecursionError:
        raise script.error("The query is nested too deeply; name parts of it by CREATE VIEW.", start) from None
    except (SqlglotError, ValueError, TypeError, AttributeError, IndexError, KeyError) as error:
        # sqlglot's own failures on text that is no SQL; nothing in it says where
        raise script.error("The statement cannot be read; see docs/language.md for the grammar.", start) from error
    (tree,) = found
    kind = KINDS.get(type(tree), Query)
    if kind is Query and not isinstance(tree, exp.Query):
        raise script.error("A statement is a query, a declaration or an INSERT; see docs/language.md.", start)
    begins = script.error("", start)
    return kind(tree, script.text[start:end], start, begins.line, begins.column)


def _to_be_quoted(tokens: list[Any], text: str, columns: Collection[str]) -> Token | None:
    """The word of SQL that is a column, if the statement can be read once the word is quoted."""
    for at, token in enumerate(tokens):
        if token.text.lower() not in columns or token.token_type in (TokenType.VAR, TokenType.IDENTIFIER):
            continue
        name = Token(TokenType.IDENTIFIER, token.text, token.line, token.col, token.start, token.end, token.comments)
        try:
            Language().parser().parse([*tokens[:at], name, *tokens[at + 1 :]], text)
        except Exception:  # whatever sqlglot raises, the text is not readable with this word quoted
            continue
        return token  # type: ignore[no-any-return]
    return None


def _torn(error: Exception, script: Script) -> BadQuery:
    """The error of text that is no sequence of words: mostly a quote that is not closed."""
    return script.error("The text from here on cannot be read; close its quotes and comments.", unclosed(script.text))


def write(tree: Any) -> str:
    """The text of a tree, or of a statement or script. Reading it again gives the same tree."""
    if isinstance(tree, Script):
        return ";\n".join(write(one) for one in tree) + ";\n"
    of = tree.tree if isinstance(tree, Statement) else tree
    return str(of.sql(Language, normalize_functions=False, comments=False))
