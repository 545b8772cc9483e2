"""CREATE STREAM declares what lw.stream() does, from files and generators, and its errors have a place."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

import lowwater as lw
from lowwater.backends.opened import opened
from lowwater.errors import LowwaterError
from lowwater.generate import keyed
from lowwater.language import BadQuery, bind, read, write
from lowwater.language.declaration import declaration_of

START = dt.datetime(2024, 1, 1, tzinfo=dt.UTC)
ROWS = pa.table(
    {
        "ts": pa.array([START + dt.timedelta(seconds=10 * i) for i in range(30)], pa.timestamp("us", "UTC")),
        "link": ["a", "b", "c"] * 10,
        "item": list(range(30)),
        "upto": pa.array([START + dt.timedelta(seconds=10 * i) for i in range(30)], pa.timestamp("us", "UTC")),
        "last": [i % 5 == 4 for i in range(30)],
        "v": [float(i) for i in range(30)],
    }
)
QUERY = "SELECT count(*) [RANGE 1 minute, WA ts] AS n FROM R"
CLAUSES: dict[str, dict[str, Any]] = {
    "DISORDER 5 SECONDS": {"disorder": "5 seconds"},
    "DISORDER 0": {"disorder": 0},
    "DISORDER INTERVAL '5' SECONDS": {"disorder": "5 seconds"},
    "DISORDER '5 seconds'": {"disorder": "5 seconds"},
    "DISORDER 100 ROWS": {"disorder": lw.delay_rows(100)},
    "DISORDER ORDERED": {"disorder": lw.ordered()},
    "ORDERED": {"disorder": lw.ordered()},
    "DISORDER LEARNED": {"disorder": lw.learned()},
    "DISORDER LEARNED (0.99, 2, 50)": {"disorder": lw.learned(0.99, 2, 50)},
    "DISORDER PUNCTUATED WHEN last UPTO upto": {"disorder": lw.punctuated("last", "upto")},
    "DISORDER PUNCTUATED WHEN LAST UPTO UPTO OPEN DATA": {"disorder": lw.punctuated("last", "upto", False, True)},
    "DISORDER 5 SECONDS SOURCE link": {"disorder": "5 seconds", "source": "link"},
    "SOURCE Link IN ('a', 'b', 'c') DISORDER 5 SECONDS": {
        "disorder": "5 seconds", "source": "link", "sources": ["a", "b", "c"],
    },
    "DISORDER 5 SECONDS SOURCE link IDLE AFTER 10 SECONDS LAG 1 MINUTE": {
        "disorder": "5 seconds", "source": "link", "idle": lw.idle("10 seconds", "1 minute"),
    },
    "DISORDER 5 SECONDS IDLE 10 SECONDS LAG 1 MINUTE": {
        "disorder": "5 seconds", "idle": lw.idle("10 seconds", "1 minute"),
    },
    "DISORDER 5 SECONDS GROUPS SKEWED": {"disorder": "5 seconds", "groups": "skewed"},
}  # fmt: skip


def file_of(tmp_path: Path) -> str:
    pq.write_table(ROWS, tmp_path / "rows.parquet")
    return f"FROM parquet OPTIONS (path '{tmp_path}')"


def one(text: str) -> lw.Relation:
    (bound,) = bind(read(text), {}, opened)
    return bound.relation


@pytest.mark.parametrize("clause", CLAUSES)
def test_a_clause_declares_as_the_python_api(clause: str, tmp_path: Path) -> None:
    text = f"CREATE STREAM R PROGRESS TS {clause} {file_of(tmp_path)}; {QUERY}"
    made = lw.stream(ROWS, name="R", progress="ts", **CLAUSES[clause])
    asked = made.window("1 minute", over="ts").agg(n=lw.count()).select("window_start", "window_end", "n")
    assert one(text).explain() == asked.explain()
    assert one(text).plan.meaning == asked.plan.meaning
    assert one(text).collect().num_rows > 0


ENDS = {
    "UNIQUE Item": lambda stream: stream.unique("item"),
    "ENDS item WHEN last": lambda stream: stream.ends("item", "last"),
    "ENDS ITEM WHEN Last VALUE item": lambda stream: stream.ends("item", "last", "item"),
    "ENDS item WHEN last RANGE (item, item)": lambda stream: stream.ends("item", "last", range=("item", "item")),
}


@pytest.mark.parametrize("clause", ENDS)
def test_ended_values_are_declared_as_in_the_python_api(clause: str, tmp_path: Path) -> None:
    text = f"CREATE STREAM R PROGRESS ts DISORDER 0 {clause} {file_of(tmp_path)}; "
    text += "SELECT item, sum(v) AS s FROM R GROUP BY item"
    made = ENDS[clause](lw.stream(ROWS, name="R", progress="ts", disorder=0))
    asked = made.group_by("item").agg(s=lw.sum("v"))
    assert one(text).explain() == asked.explain()
    assert one(text).plan.meaning == asked.plan.meaning


@pytest.mark.parametrize("clause", [*CLAUSES, *ENDS])
def test_a_declaration_is_read_again_from_what_is_written(clause: str) -> None:
    text = (
        "CREATE STREAM `a b` (ts TIMESTAMP, k STRING, n DECIMAL(9, 2), l ARRAY<INT>) PROGRESS ts "
        f"{clause} FROM kafka OPTIONS (subscribe 't', kafka.bootstrap.servers 'h:1', 'x.y' = 3, b true)"
    )
    (statement,) = read(text)
    (again,) = read(write(statement))
    assert again.tree == statement.tree


def test_columns_are_declared_cast_and_chosen(tmp_path: Path) -> None:
    pa.csv.write_csv(pa.table({"t": [1, 2], "price": ["3", "4"], "more": [0, 0]}), tmp_path / "a.csv")
    columns = "(T BIGINT, PRICE DECIMAL(9, 2))"
    text = f"CREATE STREAM R {columns} PROGRESS t DISORDER 0 FROM csv OPTIONS (path '{tmp_path}'); SELECT * FROM r"
    found = one(text).collect()
    assert found.schema.names == ["T", "PRICE"]
    assert [str(value) for value in found["PRICE"].to_pylist()] == ["3.00", "4.00"]


def test_a_generator_is_a_format() -> None:
    text = "CREATE STREAM R PROGRESS ts DISORDER 9 SECONDS FROM Keyed OPTIONS (rows 50, seconds 60, keys 3, seed 7);"
    assert one(f"{text} SELECT * FROM R").collect().num_rows == keyed(50, 60, 3, seed=7).num_rows


BAD = {
    "CREATE STREAM R (ts TIMESTAMP) DISORDER 0 FROM keyed": (1, "lacks PROGRESS"),
    "CREATE STREAM R PROGRESS ts DISORDER 0": (1, "Expected FROM and a format"),
    "CREATE STREAM R PROGRESS ts\nDISORDER 0 IDLE 10 SECONDS FROM keyed": (2, "Expected LAG"),
    "CREATE STREAM R PROGRESS ts DISORDER 0 DISORDER 1 FROM keyed": (1, "two DISORDER"),
    "CREATE STREAM R PROGRESS ts SOON FROM keyed": (1, "Expected PROGRESS, DISORDER"),
    "CREATE STREAM R (ts) PROGRESS ts DISORDER 0 FROM keyed": (1, "type of the column"),
    "CREATE TABLE R (ts INT)": (1, "Expected CREATE STREAM or CREATE VIEW"),
    "CREATE VIEW v SELECT 1": (1, "Expected AS"),
    "INSERT console SELECT 1": (1, "Expected INSERT INTO"),
    "INSERT INTO LATE console": (1, "is for the query before it"),
    "CREATE STREAM R PROGRESS ts DISORDER 0 FROM keyed OPTIONS (rows 5);\nSELECT * FROM R": (1, "needs the option"),
    "CREATE STREAM R PROGRESS ts DISORDER 0 FROM keyed OPTIONS (foo 5);\nSELECT * FROM R": (1, "no option 'foo'"),
    "CREATE STREAM R PROGRESS ts DISORDER 0 FROM kafka OPTIONS (a 'b');\nSELECT * FROM R": (1, "needs Spark"),
    "CREATE STREAM R PROGRESS ts DISORDER 0 FROM csv;\nSELECT * FROM R": (1, "needs OPTIONS (path"),
    "CREATE STREAM R (m MAP<INT, INT>) PROGRESS ts DISORDER 0 FROM csv": (1, "The type MAP"),
    "CREATE STREAM R PROGRESS ts FROM sensors OPTIONS (epochs 5, seed 1);\nSELECT * FROM R": (1, ""),
}


@pytest.mark.parametrize("text", BAD)
def test_a_bad_declaration_is_refused_at_its_place(text: str) -> None:
    line, words = BAD[text]
    with pytest.raises(BadQuery) as caught:
        bind(read(text), {}, opened)
    assert caught.value.line == line
    assert words in caught.value.sentence
    assert caught.value.sentence.endswith(".")


@pytest.mark.parametrize("option", ["password", "sasl.jaas.config", "API_TOKEN", "ssl.key.password", "accessKey"])
def test_a_secret_that_is_written_out_is_not_shown(option: str) -> None:
    text = f"CREATE STREAM R PROGRESS ts DISORDER 0 FROM kafka OPTIONS (`{option}` 's3cr3t-value'); SELECT * FROM R"
    script = read(text)

    def failing(declared: object) -> lw.Relation:
        raise RuntimeError("cannot log in with s3cr3t-value")

    with pytest.raises(LowwaterError) as caught:
        bind(script, {}, failing)
    assert "s3cr3t" not in str(caught.value)
    assert "s3cr3t" not in repr(caught.value.__cause__)


def test_a_secret_is_not_shown_where_a_declaration_cannot_be_read() -> None:
    with pytest.raises(BadQuery) as caught:
        read("CREATE STREAM R PROGRESS ts FROM kafka OPTIONS (sasl.password = 's3cr3t', path 3 4)")
    assert "s3cr3t" not in str(caught.value)
    assert "sasl.password = '******', path" in str(caught.value)


def test_options_are_shown_without_secrets() -> None:
    (statement,) = read("CREATE STREAM R PROGRESS ts FROM kafka OPTIONS (token 's3cr3t', a '${B}', c 'd')")
    assert repr(declaration_of(statement.tree).options) == "OPTIONS (token ***, a '${B}', c 'd')"
