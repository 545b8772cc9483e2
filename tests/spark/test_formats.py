"""Formats that Spark lacks, or cannot read as a stream, are refused in one sentence at their place."""

from __future__ import annotations

from typing import Any

import pytest

from lowwater.backends.spark.formats import writer
from lowwater.backends.spark.opened import opener
from lowwater.language import BadQuery, bind, read

pytestmark = pytest.mark.spark
STREAM = "CREATE STREAM R (t BIGINT)\nPROGRESS t DISORDER 0\nFROM {};\n"
KEYED = "CREATE STREAM R\nPROGRESS ts DISORDER 3 SECONDS\nFROM keyed OPTIONS (rows 10, seconds 10, keys 2, seed 1);\n"
REFUSED = {
    "absent": (
        STREAM.format("nosuch") + "SELECT * FROM R",
        "Line 3, column 6: This Spark has no format 'nosuch'; read",
    ),
    "absent class": (STREAM.format("`org.x.Y`") + "SELECT * FROM R", "Line 3, column 6: This Spark has no format 'org"),
    "no stream": (
        STREAM.format("jdbc OPTIONS (url 'jdbc:x')") + "SELECT * FROM R",
        "Line 3, column 6: Spark cannot read 'jdbc' as it is asked to here; read FROM parquet",
    ),
    "no path": (
        STREAM.format("parquet") + "SELECT * FROM R",
        "Line 3, column 6: The stream 'R' cannot be opened from parquet: ",
    ),
    "absent sink": (
        KEYED + "INSERT INTO nosuch SELECT * FROM R",
        "Line 4, column 13: This Spark has no format 'nosuch'; write INTO parquet",
    ),
    "absent sink of late rows": (
        KEYED + "SELECT * FROM R;\nINSERT INTO LATE nosuch",
        "Line 5, column 18: This Spark has no format 'nosuch'; write INTO parquet",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_format_is_refused_at_its_place_and_without_words_of_the_bridge(name: str, spark: Any) -> None:
    text, sentence = REFUSED[name]
    with pytest.raises(BadQuery) as error:
        bind(read(text), {}, opener(spark), writer(spark))
    said = str(error.value)
    assert said.startswith(sentence), said
    assert "^" in said
    assert "py4j" not in said.lower()
    assert "An error occurred" not in said


def test_a_socket_is_a_format(spark: Any) -> None:
    """Opening it connects to nothing."""
    text = (
        "CREATE STREAM R (timestamp TIMESTAMP, value STRING) PROGRESS timestamp DISORDER 0 "
        "FROM socket OPTIONS (host 'localhost', port 9, includeTimestamp true);"
        "SELECT value, count(*) [RANGE 1 second] AS n FROM R GROUP BY value"
    )
    (bound,) = bind(read(text), {}, opener(spark), writer(spark))
    assert bound.relation.schema.names == ["window_start", "window_end", "value", "n"]
