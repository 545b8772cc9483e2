"""The language: a text and the Python API give the same plan, names resolve as in Spark, and errors have a place."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

import lowwater as lw
from lowwater.backends.opened import opened
from lowwater.errors import LowwaterError
from lowwater.language import BadQuery, Declaration, Options, bind, read, write
from tests.language_runs import QUERIES

STAMP = pa.timestamp("us", "UTC")
PACKET = pa.schema([("ts", STAMP), ("link", pa.string()), ("ip", pa.string()), ("len", pa.int64())])
EARLIER = ("-1 minute", "0 seconds")


def packets(name: str) -> lw.Relation:
    return lw.stream(PACKET.empty_table(), name=name, progress="ts", disorder="5 seconds")


Main, Back, Control = packets("Main"), packets("Back"), packets("Control")
STREAMS = {"Main": Main, "Back": Back, "Control": Control}
N = ("window_start", "window_end", "n")
BY_IP = ("window_start", "window_end", "ip", "n")


SAME: dict[str, Callable[[], lw.Relation]] = {
    "SELECT * FROM Main WHERE len > 100": lambda: Main.where("len > 100"),
    "SELECT ts, ip, len * 2 AS twice FROM Main": lambda: (
        Main.with_column("twice", "len * 2").select("ts", "ip", "twice")
    ),
    "SELECT ip, count(*) [RANGE 10 minutes, SLIDE 1 minute, WA ts] AS n FROM Main GROUP BY ip": lambda: (
        Main.window("10 minutes", "1 minute", over="ts").group_by("ip").agg(n=lw.count()).select(*BY_IP)
    ),
    "SELECT count(*) [RANGE TUMBLING 5 minutes, WA ts] AS n FROM Main UNION Back": lambda: (
        Main.union(Back).window("5 minutes").agg(n=lw.count()).select(*N)
    ),
    "SELECT ip, max(len) [RANGE 100 rows, SLIDE 10 rows, WA row-num, PA ip] AS n FROM Main": lambda: (
        Main.window("100 rows", "10 rows", partition_by="ip", order="arrival").agg(n=lw.max("len")).select(*BY_IP)
    ),
    "SELECT count(*) [RANGE 5 minutes, RATTR ts, SLIDE 5 rows, SATTR rank(ts)] AS n FROM Main": lambda: (
        Main.window("5 minutes", "5 rows", order="time").agg(n=lw.count()).select(*N)
    ),
    "SELECT window.start AS window_start, count(*) AS n FROM Main "
    "GROUP BY window(ts, '10 minutes', '5 minutes')": lambda: (
        Main.window("10 minutes", "5 minutes").agg(n=lw.count()).select("window_start", "n")
    ),
    "SELECT ip, count(*) AS n FROM Main GROUP BY session_window(ts, '5 minutes'), ip": lambda: (
        Main.session("5 minutes").group_by("ip").agg(n=lw.count()).select("ip", "n")
    ),
    "SELECT window_end, count(*) AS n FROM CUMULATE(TABLE Main, DESCRIPTOR(ts), INTERVAL '1' MINUTE, "
    "INTERVAL '1' HOUR) GROUP BY window_start, window_end": lambda: (
        Main.window("all", "1 minute", period="1 hour").agg(n=lw.count()).select("window_end", "n")
    ),
    "SELECT *, sum(len) OVER (PARTITION BY ip ORDER BY ts ROWS BETWEEN 3 PRECEDING "
    "AND CURRENT ROW) AS n FROM Main": lambda: (
        Main.over("ip", rows=(3, 0)).agg(n=lw.sum("len"))
    ),
    "SELECT ip, count(*) [RANGE 1 minute] AS n FROM Main GROUP BY ip HAVING count(*) > 3": lambda: (
        Main.window("1 minute").group_by("ip").agg(n=lw.count()).where("n > 3").select(*BY_IP)
    ),
    "SELECT count(*) [RANGE 1 minute] AS n FROM Main EMIT EARLY, ALLOWED LATENESS 1 minute": lambda: (
        Main.window("1 minute").emit(early=True, allowed_lateness="1 minute").agg(n=lw.count()).select(*N)
    ),
    "SELECT * FROM Main [RANGE 3 minutes, WA ts], Back [RANGE 2 minutes, WA ts] WHERE Main.ip = Back.ip": lambda: (
        Main.join(Back, on="ip", within=("-2 minutes", "3 minutes"))
    ),
    "SELECT * FROM Main LEFT JOIN Back ON Main.ip = Back.ip AND "
    "Back.ts BETWEEN Main.ts - INTERVAL 1 MINUTE AND Main.ts": lambda: (
        Main.join(Back, on="ip", within=EARLIER, how="left")
    ),
    "SELECT * FROM Main LEFT ANTI JOIN Back ON Main.ip = Back.ip AND Back.ts >= Main.ts - INTERVAL 1 MINUTE "
    "AND Back.ts <= Main.ts AND Back.len > Main.len": lambda: (
        Main.join(Back, on="ip", within=EARLIER, how="anti", condition="Back_len > Main_len")
    ),
    "SELECT * FROM Main, Back [RANGE TUMBLING 5 minutes, WA ts] WHERE Main.ip = Back.ip": lambda: (
        Main.join(Back, on="ip", window="5 minutes")
    ),
    "SELECT * FROM Main m JOIN Back b ON m.ip = b.ip WINDOW 1 min": lambda: (
        Main.named("m").join(Back.named("b"), on="ip", within="1 min")
    ),
    "SELECT * FROM Main, Back, Control [RANGE 1 minute] WHERE Main.ip = Back.ip AND Back.ip = Control.ip": lambda: (
        lw.join([Main, Back, Control], on="ip", within="1 minute")
    ),
    "SELECT ts, ip FROM Main UNION ALL SELECT ts, ip FROM Back": lambda: (
        Main.select("ts", "ip").union(Back.select("ts", "ip"))
    ),
    "SELECT DISTINCT ts, ip FROM Main": lambda: Main.select("ts", "ip").distinct(),
    "WITH c AS (SELECT ip, count(*) [RANGE 1 minute] AS n FROM Main GROUP BY ip) "
    "SELECT max(n) [RANGE 1 hour] AS n FROM c": lambda: (
        Main.window("1 minute").group_by("ip").agg(n=lw.count()).select(*BY_IP).named("c")
        .window("1 hour").agg(n=lw.max("n")).select(*N)
    ),
    "SELECT sum(len) FILTER (WHERE len > 9) [RANGE 1 minute] AS n FROM Main": lambda: (
        Main.with_column("CASE WHEN len > 9 THEN len END", "CASE WHEN len > 9 THEN len END")
        .window("1 minute").agg(n=lw.sum("CASE WHEN len > 9 THEN len END")).select(*N)
    ),
}  # fmt: skip


@pytest.mark.parametrize("text", SAME)
def test_a_text_gives_the_plan_of_the_python_api(text: str) -> None:
    found, made = lw.sql(text, **STREAMS), SAME[text]()
    assert found.explain() == made.explain()
    assert found.schema == made.schema
    assert found.plan.meaning == made.plan.meaning


@pytest.mark.parametrize("text", SAME)
def test_a_text_is_read_again_from_what_is_written(text: str) -> None:
    (statement,) = read(text)
    (again,) = read(write(statement))
    assert again.tree == statement.tree


def test_names_resolve_without_regard_to_case_and_backticks_quote() -> None:
    assert lw.sql("select IP, Ts from MAIN", **STREAMS).schema.names == ["ip", "ts"]
    odd = lw.stream(pa.table({"ts": [1], "a b": [2], "order": [3]}), progress="ts", disorder=0)
    found = lw.sql("SELECT ts, `a b` + 1 AS `c d`, `order` FROM odd WHERE `a b` > 1", odd=odd)
    assert found.collect().to_pylist() == [{"ts": 1, "c d": 3, "order": 3}]


BAD = {
    "SELECT ts,\n  foo FROM Main": (2, 3, "no column 'foo'"),
    "SELECT ts FROM Nope": (1, 16, "no stream 'Nope'"),
    "SELECT count(*) FROM Main": (1, None, "neither a window nor a group"),
    "SELECT count(*) [RANGE 3 foo] FROM Main": (1, 26, "in the window"),
    "SELECT count(*) [RANGE 0 minutes] FROM Main": (1, None, "must be greater than zero"),
    "SELECT ts FROM Main ORDER BY ts": (1, None, "ORDER BY stands in OVER"),
    "SELECT ts, ip FROM Main ORDERED BY ip": (1, 36, "a column that progresses (ts), not of 'ip'"),
    "SELECT ts FROM Main LIMIT 3": (1, None, "LIMIT"),
    "SELECT ip FROM Main, Back [RANGE 1 minute] WHERE Main.len = Back.len": (1, 8, "ambiguous"),
    "SELECT * FROM Main, Back [RANGE 1 minute]": (1, None, "has no key"),
    "SELECT max(len, ip) [RANGE 1 minute] FROM Main": (1, None, "number of arguments"),
    "SELECT 'a": (1, 8, "close its quotes"),
    "SELECT ts, 'a' /* b */\n FROM `Main WHERE ts > 3": (2, 7, "close its quotes"),
    "SELECT ts -- it's\n FROM Main /* it": (2, 12, "close its quotes"),
    "DROP TABLE x": (1, 1, "Expected SELECT"),
    "SELECT ts FROM Main WHERE": (1, None, ""),
    "SELECT *, sum(len) OVER (ORDER BY len) FROM Main": (1, None, "ORDER BY ts"),
    "SELECT count(*) [RANGE 1 minute] FROM Main EMIT SOON": (1, 49, "behind EMIT"),
    "": (1, 1, "no statement"),
}


@pytest.mark.parametrize("text", BAD)
def test_errors_have_line_column_caret_and_a_sentence(text: str) -> None:
    line, column, words = BAD[text]
    with pytest.raises(BadQuery) as caught:
        lw.sql(text, **STREAMS)
    error = caught.value
    assert error.line == line
    assert column is None or error.column == column
    assert words in error.sentence
    assert str(error).splitlines()[-1].strip() == "^"
    assert error.sentence.rstrip().endswith(".")


def test_a_file_of_several_queries_shares_views_streams_and_scans(tmp_path: Path) -> None:
    script = read(
        """CREATE STREAM R PROGRESS ts DISORDER 3 SECONDS
           FROM keyed OPTIONS (rows 100, seconds 60, keys 3, seed 1);
           CREATE VIEW big AS SELECT * FROM R WHERE val > 0;
           SELECT count(*) [RANGE 10 seconds] AS n FROM big;
           INSERT INTO parquet OPTIONS (path 'out') SELECT key, count(*) [RANGE 10 seconds] AS n FROM r GROUP BY key;
           INSERT INTO LATE console;
           EXPLAIN FORMAT JSON SELECT * FROM big;""",
        "file.sql",
    )
    opens: list[str] = []

    def once(declared: object) -> lw.Relation:
        opens.append(declared.name)  # type: ignore[attr-defined]
        return opened(declared)  # type: ignore[arg-type]

    first, second, third = bind(script, {}, once)
    assert opens == ["R"]
    scans = {id(n) for one in (first, second, third) for n in one.relation.node.walk() if not n.inputs}
    assert len(scans) == 1
    assert first.results is None
    assert second.results is not None
    assert (second.results.format, dict(second.results.options)) == ("parquet", {"path": "out"})
    assert second.late is not None
    assert second.late.format == "console"
    assert third.explain is not None
    assert (third.explain.format, third.explain.analyze) == ("json", False)
    assert sum(first.relation.collect()["n"].to_pylist()) > 0


def test_secrets_come_from_the_environment_and_are_never_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LW_SECRET", "s3cr3t-value")
    text = (
        "CREATE STREAM R PROGRESS ts DISORDER 0 "
        "FROM parquet OPTIONS (path '/nowhere/${LW_SECRET}', token '${LW_SECRET}');"
        "SELECT * FROM R"
    )
    script = read(text)
    seen: list[Options] = []

    def failing(declared: object) -> lw.Relation:
        seen.append(declared.options)  # type: ignore[attr-defined]
        raise RuntimeError("cannot connect with s3cr3t-value")

    for opener in (opened, failing):
        with pytest.raises(LowwaterError) as caught:
            bind(script, {}, opener)
        error: BaseException | None = caught.value
        while error is not None:
            assert "s3cr3t" not in str(error)
            error = error.__cause__
    assert seen[0].resolved()["token"] == "s3cr3t-value"
    assert "s3cr3t" not in repr(seen[0])
    assert "s3cr3t" not in write(script)
    monkeypatch.delenv("LW_SECRET")
    with pytest.raises(LowwaterError, match="no variable LW_SECRET"):
        bind(script, {}, opened)


def test_random_edits_of_good_files_give_an_error_with_a_place_or_a_query() -> None:
    rng = random.Random(1)
    files = sorted(QUERIES.glob("*.sql"))
    signs = b"abz019 .,;()[]'`*=<>-+\n\x00\xc3\xff\"\\"
    made: dict[str, lw.Relation] = {}
    refused = 0
    for _ in range(600):
        data = bytearray(rng.choice(files).read_bytes())
        for _ in range(rng.choice([1, 1, 2, 5])):
            at = rng.randrange(len(data))
            data[at : at + rng.choice([0, 1, 1, 7])] = bytes([rng.choice(signs)])
        text = data.decode(errors="replace")
        error = refusal_of(text, made)
        if error is not None:
            refused += 1
            assert 1 <= error.line <= text.count("\n") + 1
            assert error.column >= 1
            assert "^" in str(error)
            assert error.sentence.endswith(".")
    assert 200 < refused < 600


def refusal_of(text: str, made: dict[str, lw.Relation]) -> BadQuery | None:
    """The error of a text. Streams are opened once for all texts, because many texts declare the same."""

    def once(declared: Declaration) -> lw.Relation:
        key = repr(declared)
        if key not in made:
            made[key] = opened(declared)
        return made[key]

    try:
        bind(read(text), {}, once)
    except BadQuery as error:
        return error
    return None
