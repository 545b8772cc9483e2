"""Errors of queries: they point at the word that is wrong, and their next step is in the words of the language."""

from __future__ import annotations

import re

import pyarrow as pa
import pytest

import lowwater as lw
from lowwater.backends.opened import opened
from lowwater.language import BadQuery, bind, read
from lowwater.language.wording import WORDS, reworded
from tests.test_language import STREAMS

WORD = pa.table({"ts": [1, 2], "select": [1, 2], "case": [1, 2], "from": [1, 2]})
ODD = {"Odd": lw.stream(WORD, name="Odd", progress="ts", disorder=0)}


def refusal(text: str, **streams: lw.Relation) -> BadQuery:
    with pytest.raises(BadQuery) as caught:
        lw.sql(text, **(streams or STREAMS))
    assert caught.value.sentence.endswith(".")
    return caught.value


@pytest.mark.parametrize(
    ("text", "column", "word"),
    [
        ("SELECT ts, select FROM Odd", 12, "select"),
        ("SELECT ts FROM Odd WHERE case > 3", 26, "case"),
        ("SELECT ts FROM Odd WHERE ts = 1 AND SELECT = 1", 37, "SELECT"),
        ("SELECT ts FROM Odd WHERE from > 3", 26, "from"),
    ],
)
def test_a_word_of_sql_as_a_column_must_be_quoted(text: str, column: int, word: str) -> None:
    error = refusal(text, **ODD)
    assert (error.line, error.column) == (1, column)
    assert error.sentence == f"{word!r} is a word of SQL as well as a column; quote the column, as in `{word}`."
    quoted = text[: column - 1] + f"`{word}`" + text[column - 1 + len(word) :]
    assert lw.sql(quoted, **ODD).schema.names


def test_a_declared_word_of_sql_must_be_quoted() -> None:
    with pytest.raises(BadQuery, match="'select' is a word of SQL, so quote it as in `select`") as caught:
        read("CREATE STREAM X (ts BIGINT,\n select INT) PROGRESS ts DISORDER 0 FROM csv")
    assert (caught.value.line, caught.value.column) == (2, 2)
    declared = "CREATE STREAM X (ts BIGINT, `select` INT) PROGRESS ts DISORDER 0 FROM csv;\n"
    with pytest.raises(BadQuery, match="quote the column, as in `select`") as caught:
        read(f"{declared}SELECT ts, select FROM X")
    assert (caught.value.line, caught.value.column) == (2, 12)


def test_an_error_about_a_part_that_the_parser_adds_points_into_its_statement() -> None:
    error = refusal("SELECT ts\n, from FROM Main")
    assert (error.line, error.sentence) == (2, "FROM stands twice; quote a column of this name, as in `from`.")


@pytest.mark.parametrize(
    ("text", "column", "words"),
    [
        ("SELECT count(*) [RANGE 1 minute] FROM Main ORDERED BY ts", 55, "no column 'ts'"),
        ("SELECT count(*) [RANGE 1 minute] FROM Main EMIT EARLY ORDERED", 55, "ORDERED cannot follow"),
        ("SELECT ts FROM Main EMIT EARLY", 21, "EMIT is for windows"),
        ("(SELECT ts FROM Main) UNION ALL (SELECT ts FROM Back) EMIT EARLY", 55, "EMIT belongs to one SELECT"),
        ("SELECT * FROM Main m [RANGE 1 minute], Back b WHERE m.ip = b.ip WINDOW 1 min", 65, "leave one of them out"),
        ("SELECT * FROM TUMBLE(TABLE Main, DESCRIPTOR(ts), INTERVAL 1 MINUTE)", 15, "nothing to window"),
        ("SELECT ip, count(*) [RANGE 1 minute] FROM Main", 8, "neither in GROUP BY nor in an aggregate"),
        ("SELECT len + 2, count(*) [RANGE 1 minute] FROM Main GROUP BY len + 1", 8, "add it to GROUP BY"),
        ("SELECT sum(count(*)) [RANGE 1 minute] FROM Main", 12, "write the inner one in a sub-query"),
        ("SELECT count(*) FILTER (WHERE max(len) > 3) [RANGE 1 minute] FROM Main", 31, "inside another one"),
        ("SELECT ip, count(*) [RANGE 1 minute] FROM Main GROUP BY ROLLUP(ip)", 64, "GROUP BY ROLLUP is not"),
        (
            "SELECT ip, count(*) [RANGE 1 minute] FROM Main GROUP BY GROUPING SETS ((ip), ())",
            73,
            "GROUPING SETS is not",
        ),
        ("SELECT * FROM Main, Main [RANGE 3 seconds] WHERE Main.ip = Main.ip", 21, "named 'Main'"),
    ],
)
def test_an_error_points_at_the_word_that_is_wrong(text: str, column: int, words: str) -> None:
    error = refusal(text)
    assert (error.line, error.column) == (1, column)
    assert words in error.sentence


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("SELECT ip, count(*) FROM Main GROUP BY ip", "or write a window, as in [RANGE 1 minute]"),
        ("SELECT * FROM Main m JOIN Back b ON m.ip = b.ip", "bound it by a condition on both times"),
        ("SELECT ip FROM Main", "SELECT must keep 'ts'"),
        ("SELECT ts, len AS ts FROM Main", "two columns named 'ts'"),
        ("SELECT count(*) [RANGE 1 minute, WA len] FROM Main", "name one behind WA"),
        ("SELECT count(*) [RANGE 1 minute, PERIOD 1 hour] FROM Main", "[RANGE ALL, SLIDE 1 minute]"),
        ("SELECT count(*) [RANGE 1 minute] FROM Main EMIT EARLY, FLUSH LAZY(2)", "EMIT FLUSH delays answers"),
        (
            "SELECT max(n) [RANGE 1 hour] FROM (SELECT count(*) [RANGE 1 minute] n FROM Main EMIT EARLY) q",
            "EMIT EARLY or ALLOWED LATENESS revises",
        ),
        ("SELECT sum(ip) [RANGE 1 minute] FROM Main", "sum(ip) takes a column"),
    ],
)
def test_the_next_step_is_in_the_words_of_the_language(text: str, words: str) -> None:
    sentence = refusal(text).sentence
    assert words in sentence
    assert not re.search(r"lw\.|\b(group_by|window|join|select|with_column|emit|unique|ends)\(|\w+=(?!\S)", sentence)


def test_a_declaration_without_disorder_names_the_clauses() -> None:
    text = "CREATE STREAM R PROGRESS ts FROM keyed OPTIONS (rows 5, seconds 4, keys 2, seed 3); SELECT * FROM R"
    with pytest.raises(BadQuery, match="write DISORDER 5 SECONDS, ORDERED, DISORDER LEARNED"):
        bind(read(text), {}, opened)


def test_longer_words_come_before_their_parts() -> None:
    """A part that came first would leave the rest of a longer word in the sentence."""
    words = list(WORDS)
    for at, word in enumerate(words):
        assert not any(word.startswith(earlier) for earlier in words[:at]), word
        assert reworded(f"a {word} b") == f"a {WORDS[word]} b"


PARENTHESES = {
    "(SELECT ts FROM Main)": "SELECT ts FROM Main",
    "(SELECT ts FROM Main) UNION ALL (SELECT ts FROM Back)": "SELECT ts FROM Main UNION ALL SELECT ts FROM Back",
    "WITH a AS (SELECT ts FROM Main) (SELECT * FROM a) UNION ALL SELECT ts FROM Back": (
        "WITH a AS (SELECT ts FROM Main) SELECT * FROM a UNION ALL SELECT ts FROM Back"
    ),
}


@pytest.mark.parametrize("text", PARENTHESES)
def test_a_query_may_stand_in_parentheses(text: str) -> None:
    assert lw.sql(text, **STREAMS).explain() == lw.sql(PARENTHESES[text], **STREAMS).explain()


@pytest.mark.parametrize("text", ["(1 + 2)", "(Main)", "()"])
def test_parentheses_without_a_query_are_refused(text: str) -> None:
    assert refusal(text).line == 1


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("SELECT ts FROM Main; INSERT INTO LATE SELECT ts FROM Main", "a format and no query behind INSERT INTO LATE"),
        ("EXPLAIN EXPLAIN SELECT ts FROM Main", "Expected a query, as in SELECT * FROM Main;"),
    ],
)
def test_a_statement_that_is_not_complete_is_refused_at_its_place(text: str, words: str) -> None:
    with pytest.raises(BadQuery, match=re.escape(words)):
        read(text)


@pytest.mark.parametrize("literal", ["'it''s'", '"it\'s"', r"'it\'s'"])
def test_a_quote_in_a_literal_is_evaluated_however_it_is_written(literal: str) -> None:
    (row, _) = lw.sql(f"SELECT ts, {literal} AS x FROM Odd", **ODD).collect().to_pylist()
    assert row["x"] == "it's"


@pytest.mark.parametrize("name", ["approx_percentile", "percentile_approx"])
def test_spark_s_names_of_an_aggregate_are_known(name: str) -> None:
    found = lw.sql(f"SELECT {name}(len, 0.5) [RANGE 1 minute] AS q FROM Main", **STREAMS)
    same = lw.sql("SELECT approx_quantile(len, 0.5) [RANGE 1 minute] AS q FROM Main", **STREAMS)
    assert found.explain() == same.explain()
