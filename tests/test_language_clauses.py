"""Every clause of a query gives the plan of the Python API: windows in all their places and notations, joins, sets."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pytest

import lowwater as lw
from lowwater.language import BadQuery, read, write
from tests.test_language import BY_IP, EARLIER, STREAMS, Back, Control, Main, N

MINUTE = "[RANGE 1 minute, WA ts]"
BAND = "b.ts BETWEEN m.ts - INTERVAL 1 MINUTE AND m.ts"
M, B, C = Main.named("m"), Back.named("b"), Control.named("c")


def minutes() -> lw.Relation:
    return Main.window("1 minute").group_by("ip").agg(n=lw.count()).select(*BY_IP)


def total(grouped: lw.Grouped) -> lw.Relation:
    return grouped.agg(n=lw.count()).select(*N)


WINDOWS: dict[str, Callable[[], lw.Relation]] = {
    # a window behind an aggregate, behind an input, behind the FROM list, and WINDOW
    f"SELECT ip, count(*) {MINUTE} AS n FROM Main GROUP BY ip": minutes,
    f"SELECT ip, count(*) AS n FROM Main {MINUTE} GROUP BY ip": minutes,
    f"SELECT ip, count(*) AS n FROM Main {MINUTE}, WHERE len > 1 GROUP-BY ip": lambda: (
        Main.where("len > 1").window("1 minute").group_by("ip").agg(n=lw.count()).select(*BY_IP)
    ),
    "SELECT count(*) AS n FROM Main UNION Back [RANGE TUMBLING 1 minute, WATTR ts]": lambda: (
        total(Main.union(Back).window("1 minute"))
    ),
    "SELECT count(*) AS n FROM (Main UNION ALL Back) AS u [RANGE 1 minute]": lambda: (
        total(Main.union(Back).named("u").window("1 minute"))
    ),
    "SELECT ip, count(*) AS n FROM Main GROUP BY ip WINDOW 1 min": lambda: (
        Main.window("1 minute", "1 row", order="time", partition_by="ip").agg(n=lw.count()).select(*BY_IP)
    ),
    # the parameters of the papers
    "SELECT count(*) [SLIDE 1 minute, RANGE ALL] AS n FROM Main": lambda: total(Main.window("all", "1 minute")),
    "SELECT count(*) [RANGE 90 seconds, SLIDE 1.5 minutes, WA ts] AS n FROM Main": lambda: (
        total(Main.window("90 seconds", "1.5 minutes"))
    ),
    "SELECT count(*) [RANGE 10, SLIDE 2, WA row-num] AS n FROM Main": lambda: (
        total(Main.window("10 rows", "2 rows", order="arrival"))
    ),
    "SELECT count(*) [RANGE 10 rows, SLIDE 2 tuples, WA rank(ts)] AS n FROM Main": lambda: (
        total(Main.window("10 rows", "2 rows", order="time"))
    ),
    "SELECT count(*) [RANGE 10 rows, WA row-num, PA (ip, link)] AS n FROM Main": lambda: (
        total(Main.window("10 rows", order="arrival", partition_by=["ip", "link"]))
    ),
    "SELECT count(*) [RANGE 5 minutes, RATTR ts, SLIDE 1 row, SATTR row-num] AS n FROM Main": lambda: (
        total(Main.window("5 minutes", "1 row", order="arrival"))
    ),
    "SELECT count(*) [RANGE 1 minute, ORIGIN FIRST] AS n FROM Main": lambda: (
        total(Main.window("1 minute", origin="first"))
    ),
    "SELECT count(*) [RANGE 1 minute, ORIGIN TIMESTAMP '2020-01-01 00:00:30'] AS n FROM Main": lambda: (
        total(Main.window("1 minute", origin="2020-01-01T00:00:30+00:00"))
    ),
    "SELECT count(*) [RANGE ALL, SLIDE 1 minute, PERIOD 1 hour] AS n FROM Main": lambda: (
        total(Main.window("all", "1 minute", period="1 hour"))
    ),
    # Spark's and Flink's notation
    "SELECT window.start, window.end, count(*) AS n FROM Main GROUP BY window(ts, '1 minute')": lambda: (
        total(Main.window("1 minute"))
    ),
    "SELECT window, count(*) AS n FROM Main GROUP BY window(ts, '2 minutes', '1 minute')": lambda: (
        total(Main.window("2 minutes", "1 minute"))
    ),
    "SELECT window(ts, '1 minute').start AS s, count(*) AS n FROM Main GROUP BY window(ts, '1 minute')": lambda: (
        Main.window("1 minute").agg(n=lw.count()).with_column("s", "window_start").select("s", "n")
    ),
    "SELECT window, count(*) AS n FROM Main GROUP BY window(ts, '1 minute', '1 minute', '30 seconds')": lambda: (
        total(Main.window("1 minute", origin="1970-01-01T00:00:30+00:00"))
    ),
    "SELECT window_start, window_end, count(*) AS n FROM TABLE(TUMBLE(TABLE Main, DESCRIPTOR(ts), "
    "INTERVAL '1' MINUTE)) GROUP BY window_start, window_end": lambda: total(Main.window("1 minute")),
    "SELECT window_start, window_end, count(*) AS n FROM HOP(TABLE Main, DESCRIPTOR(ts), INTERVAL '1' MINUTE, "
    "INTERVAL '3' MINUTES) GROUP BY window_start, window_end": lambda: total(Main.window("3 minutes", "1 minute")),
    "SELECT window_start, window_end, count(*) AS n FROM HOP(DATA => TABLE Main, TIMECOL => DESCRIPTOR(ts), "
    "SIZE => INTERVAL '3' MINUTES, SLIDE => INTERVAL '1' MINUTE) GROUP BY window_start, window_end": lambda: (
        total(Main.window("3 minutes", "1 minute"))
    ),
    "SELECT ip, count(*) AS n FROM SESSION(TABLE Main PARTITION BY ip, DESCRIPTOR(ts), INTERVAL '1' MINUTE) "
    "GROUP BY window_start, window_end, ip": lambda: (
        Main.session("1 minute").group_by("ip").agg(n=lw.count()).select("ip", "n")
    ),
    # OVER
    "SELECT *, sum(len) OVER (PARTITION BY ip ORDER BY ts RANGE BETWEEN INTERVAL 1 MINUTE PRECEDING AND "
    "INTERVAL 2 MINUTES FOLLOWING) AS s FROM Main": lambda: (
        Main.over("ip", range=("1 minute", "2 minutes")).agg(s=lw.sum("len"))
    ),
    "SELECT *, sum(len) OVER w AS s, count(*) OVER w AS n FROM Main "
    "WINDOW w AS (PARTITION BY ip ORDER BY ts ROWS 3 PRECEDING)": lambda: (
        Main.over("ip", rows=(3, 0)).agg(s=lw.sum("len"), n=lw.count())
    ),
    "SELECT *, count(*) OVER (ORDER BY ts) AS n FROM Main": lambda: (
        Main.over([], range=(None, "0 seconds")).agg(n=lw.count())
    ),
    f"SELECT *, sum(n) OVER (PARTITION BY ip ORDER BY window_end ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING) AS s "
    f"FROM (SELECT ip, count(*) {MINUTE} AS n FROM Main GROUP BY ip) q": lambda: (
        minutes().named("q").over("ip", rows=(1, 1)).agg(s=lw.sum("n"))
    ),
    # EMIT and ORDERED
    f"SELECT count(*) {MINUTE} AS n FROM Main EMIT FLUSH SLOW(1000), STRATEGY panes, LATE drop": lambda: (
        Main.window("1 minute").emit(flush=lw.slow_flush(1000))
        .agg(n=lw.count(), strategy="panes", late="drop").select(*N)
    ),
    f"SELECT count(*) {MINUTE} AS n FROM Main EMIT FLUSH LAZY(4)": lambda: (
        total(Main.window("1 minute").emit(flush=lw.lazy_flush(4)))
    ),
    f"SELECT ip, count(*) {MINUTE} AS n FROM Main GROUP BY ip ORDERED": lambda: minutes().in_order(),
    f"SELECT ip, count(*) {MINUTE} AS n FROM Main GROUP BY ip ORDERED BY Window_Start": lambda: (
        minutes().in_order("window_start")
    ),
    "SELECT ts, ip FROM Main UNION ALL SELECT ts, ip FROM Back ORDERED BY ts": lambda: (
        Main.select("ts", "ip").union(Back.select("ts", "ip")).in_order("ts")
    ),
    "SELECT ts, ip FROM Main UNION ALL (SELECT ts, ip FROM Back ORDERED)": lambda: (
        Main.select("ts", "ip").union(Back.select("ts", "ip").in_order())
    ),
}  # fmt: skip
SETS: dict[str, Callable[[], lw.Relation]] = {
    "SELECT * EXCEPT (len, LINK) FROM Main": lambda: Main.select("ts", "ip"),
    f"SELECT DISTINCT ip FROM Main {MINUTE}": lambda: (
        Main.select("ip", "ts").window("1 minute").distinct("ip").select("window_start", "window_end", "ip")
    ),
    "SELECT ts, ip FROM Main UNION SELECT ts, ip FROM Back": lambda: (
        Main.select("ts", "ip").union(Back.select("ts", "ip")).distinct()
    ),
    "SELECT * FROM (SELECT ts, ip FROM Main WHERE len > 1) AS s WHERE ip = 'a'": lambda: (
        Main.where("len > 1").select("ts", "ip").named("s").where("ip = 'a'")
    ),
    f"WITH a (s, e, who, many) AS (SELECT ip, count(*) {MINUTE} AS n FROM Main GROUP BY ip) SELECT * FROM a": lambda: (
        minutes().with_column("s", "window_start").with_column("e", "window_end").with_column("who", "ip")
        .with_column("many", "n").select("s", "e", "who", "many").named("a")
    ),
    "SELECT * FROM (SELECT ts, ip FROM Main) AS q (ts, who)": lambda: (
        Main.select("ts", "ip").with_column("who", "ip").select("ts", "who").named("q")
    ),
    "WITH a AS (SELECT * FROM Main WHERE len > 1), b AS (SELECT ts, ip FROM A) SELECT * FROM b": lambda: (
        Main.where("len > 1").named("a").select("ts", "ip").named("b")
    ),
    f"SELECT ip, count(*) {MINUTE} AS n FROM Main GROUP BY ALL": minutes,
    f"SELECT ip, count(*) {MINUTE} AS n FROM Main GROUP BY 1": minutes,
    f"SELECT upper(ip) AS u, count(*) {MINUTE} AS n FROM Main GROUP BY u": lambda: (
        Main.with_column("u", "upper(ip)").window("1 minute").group_by("u").agg(n=lw.count())
        .select("window_start", "window_end", "u", "n")
    ),
    f"SELECT ip, count(*) {MINUTE} AS n FROM Main GROUP BY ip HAVING n > 1 AND max(len) > 5": lambda: (
        Main.window("1 minute").group_by("ip").agg(n=lw.count(), **{"max(len)": lw.max("len")})
        .where("n > 1 AND `max(len)` > 5").select(*BY_IP)
    ),
    "SELECT count(*) FILTER (WHERE len > 9) [RANGE 1 minute] AS n FROM Main": lambda: (
        Main.with_column("CASE WHEN len > 9 THEN 1 END", "CASE WHEN len > 9 THEN 1 END").window("1 minute")
        .agg(n=lw.count("CASE WHEN len > 9 THEN 1 END")).select(*N)
    ),
    "SELECT count(*) [RANGE 1 minute] FILTER (WHERE len > 9) AS n FROM Main": lambda: (
        Main.with_column("CASE WHEN len > 9 THEN 1 END", "CASE WHEN len > 9 THEN 1 END").window("1 minute")
        .agg(n=lw.count("CASE WHEN len > 9 THEN 1 END")).select(*N)
    ),
    # joins
    **{
        f"SELECT * FROM Main m {words} JOIN Back b ON m.ip = b.ip AND {BAND}": lambda how=how: (  # type: ignore[misc]
            M.join(B, on="ip", within=EARLIER, how=how)
        )
        for words, how in {
            "": "inner", "INNER": "inner", "LEFT OUTER": "left", "RIGHT": "right", "FULL OUTER": "full",
            "LEFT SEMI": "semi", "LEFT ANTI": "anti",
        }.items()
    },
    f"SELECT m.* FROM Main m JOIN Back b USING (ip) WHERE {BAND}": lambda: (
        M.join(B, on="ip", within=EARLIER).with_column("ts", "m_ts").with_column("link", "m_link")
        .with_column("len", "m_len").select("ts", "link", "ip", "len")
    ),
    "SELECT * FROM Main m [RANGE 10 rows], Back b [RANGE 5 rows] WHERE m.ip = b.ip": lambda: (
        M.join(B, on="ip", rows=(10, 5))
    ),
    "SELECT * FROM Main m, Back b [RANGE 2 minutes, SLIDE 1 minute, WA ts] WHERE m.ip = b.ip": lambda: (
        M.join(B, on="ip", window="2 minutes", slide="1 minute")
    ),
    "SELECT * FROM Main m JOIN Back b ON m.ip <=> b.ip WINDOW 1 min": lambda: (
        M.join(B, on="ip", within="1 min", null_safe=True)
    ),
    "SELECT * FROM Main m FULL JOIN Back b ON m.ip = b.ip WINDOW 1 min": lambda: (
        M.join(B, on="ip", within="1 min", how="full")
    ),
    "SELECT * FROM Main m [RANGE 10, WA row-num], Back b [RANGE 5, WA row-num] WHERE m.ip = b.ip": lambda: (
        M.join(B, on="ip", rows=(10, 5))
    ),
    "SELECT * FROM Main m, Back b [RANGE TUMBLING 1 minute, ORIGIN '2020-01-01 00:00:30'] "
    "WHERE m.ip = b.ip": lambda: (
        M.join(B, on="ip", window="1 minute", origin="2020-01-01T00:00:30+00:00")
    ),
    f"SELECT * FROM Main m JOIN Back b ON m.ip = b.ip AND {BAND} LEFT JOIN Control c ON b.link = c.link "
    "AND c.ts >= m.ts AND c.ts < m.ts + INTERVAL 1 HOUR": lambda: (
        M.join(B, on="ip", within=EARLIER).join(
            C, on=[("b_link", "link")], within=("0 seconds", "1 hour"), how="left", bounds="[)", over=("m_ts", "ts")
        )
    ),
}  # fmt: skip
SAME = {**WINDOWS, **SETS}


@pytest.mark.parametrize("text", SAME)
def test_a_clause_gives_the_plan_of_the_python_api(text: str) -> None:
    found, made = lw.sql(text, **STREAMS), SAME[text]()
    assert found.explain() == made.explain()
    assert found.schema == made.schema
    assert found.plan.meaning == made.plan.meaning


@pytest.mark.parametrize("text", SAME)
def test_a_clause_is_read_again_from_what_is_written(text: str) -> None:
    (statement,) = read(text)
    (again,) = read(write(statement))
    assert again.tree == statement.tree


REFUSED = {
    "SELECT * FROM Main m NATURAL JOIN Back b": "write the key in ON",
    "SELECT * FROM Main m JOIN Back b ON m.len > b.len": "has no key",
    "SELECT * FROM Main INTERSECT SELECT * FROM Back": "LEFT SEMI",
    "SELECT ip, len FROM Main": "must keep 'ts'",
    "SELECT ts FROM Main WHERE ip IN (SELECT ip FROM Back)": "",
    "SELECT ts, (SELECT max(len) FROM Back) FROM Main": "stands in FROM",
    "SELECT count(*) [RANGE 10 rows, RATTR row-num, SLIDE 1 minute, SATTR ts] FROM Main": "SATTR is row-num",
    "SELECT count(*) [RANGE 1 minute], sum(len) [RANGE 2 minutes] FROM Main": "two windows",
    "SELECT count(*) [RANGE 1 month] FROM Main": "months and years",
    "SELECT count(*) FROM HOP(TABLE Main, DESCRIPTOR(ts), GAP => INTERVAL 1 MINUTE) GROUP BY window_start": "SLIDE",
    "SELECT *, row_number() OVER (ORDER BY ts) AS n FROM Main": "no aggregate row_number(); write count(*) OVER",
    "SELECT *, lag(len) OVER (ORDER BY ts) AS n FROM Main": "no aggregate lag()",
    "SELECT *, max(len) OVER (ORDER BY ts ROWS BETWEEN 2 PRECEDING AND 1 PRECEDING) AS n FROM Main": "FOLLOWING",
    "SELECT count_if(len > 5) [RANGE 1 minute] FROM Main": "write count(*) FILTER (WHERE ...)",
    "SELECT any_value(len) AS a FROM Main [RANGE 1 minute]": "no aggregate any_value(); write min(x)",
    "SELECT window(ts, '1 minute') AS w, count(*) AS n FROM Main GROUP BY window(ts, '1 minute')": "two columns",
    "SELECT * FROM (SELECT ts, ip FROM Main) AS s (ts)": "1 names for 2 columns",
    "SELECT * FROM (Main UNION Back) AS s (ts, a, b, c)": "write AS in a sub-query",
    "SELECT *, sum(len) OVER (ORDER BY ts DESC) AS n FROM Main": "ORDER BY ts",
    "SELECT * EXCEPT (foo) FROM Main": "no column 'foo'",
    "SELECT DISTINCT ON (ip) ts FROM Main": "DISTINCT ON",
    "SELECT ip, count(*) [RANGE 1 minute] FROM Main GROUP BY CUBE (ip)": "CUBE",
    "SELECT count(*) [RANGE 1 minute] FROM Main [RANGE 2 minutes]": "two windows",
    "SELECT ts FROM Main [RANGE 1 minute]": "nothing to window",
    "SELECT ts FROM Main EMIT EARLY": "EMIT is for windows",
    "WITH RECURSIVE a AS (SELECT * FROM Main) SELECT * FROM a": "RECURSIVE",
    "SELECT 1": "no FROM",
    "SELECT * FROM TUMBLE(TABLE Main, DESCRIPTOR(ts), INTERVAL 1 MINUTE) m JOIN Back b ON m.ip = b.ip WINDOW 1 min": (
        "a window to aggregate over"
    ),
    "SELECT * FROM Main m [RANGE 1 minute, PA ip], Back b [RANGE 1 minute] WHERE m.ip = b.ip": "no PA",
    "SELECT * FROM Main m [RANGE 1 minute, ORIGIN FIRST], Back b [RANGE 1 minute] WHERE m.ip = b.ip": "ORIGIN is for",
    "SELECT count(*) AS n FROM TUMBLE(TABLE Main [RANGE 1 minute], DESCRIPTOR(ts), INTERVAL 1 MINUTE) GROUP BY "
    "window_start, window_end": "inputs without windows",
}


@pytest.mark.parametrize("text", REFUSED)
def test_what_cannot_be_said_is_refused_at_its_place(text: str) -> None:
    with pytest.raises(BadQuery) as caught:
        lw.sql(text, **STREAMS)
    assert REFUSED[text] in caught.value.sentence
    assert caught.value.sentence.endswith(".")


def test_a_key_of_a_side_that_is_missing_is_null() -> None:
    left = lw.stream(pa.table({"ts": [1, 2], "k": ["a", "b"]}), name="l", progress="ts", disorder=0)
    right = lw.stream(pa.table({"ts": [1, 2], "k": ["b", "c"]}), name="r", progress="ts", disorder=0)
    streams = {"l": left, "r": right}
    joined = "FROM l {} JOIN r ON l.k = r.k AND r.ts BETWEEN l.ts - 5 AND l.ts + 5"

    def rows(text: str, kind: str) -> set[tuple[object, ...]]:
        found = lw.sql(f"{text} {joined.format(kind)}", **streams).collect().to_pylist()
        return {tuple(row.values()) for row in found}

    assert rows("SELECT l.k AS a, r.k AS b", "FULL") == {("a", None), ("b", "b"), (None, "c")}
    assert rows("SELECT l.k AS a, r.k AS b", "LEFT") == {("a", None), ("b", "b")}
    assert rows("SELECT l.k AS a, r.k AS b", "RIGHT") == {("b", "b"), (None, "c")}
    assert rows("SELECT k, l.k AS a", "FULL") == {("a", "a"), ("b", "b"), ("c", None)}
    assert rows("SELECT r.*", "LEFT") == {(None, None), (1, "b")}
    alone = lw.sql(f"SELECT l.k AS a {joined.format('LEFT')} WHERE r.k IS NULL", **streams)
    assert alone.collect().to_pylist() == [{"a": "a"}]
