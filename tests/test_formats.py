"""Formats that cannot be read or written are refused where they stand, before anything runs."""

from __future__ import annotations

import pytest

from lowwater.language import BadQuery, bind, read
from lowwater.shell.files import columns_only

STREAM = "CREATE STREAM R (t BIGINT)\nPROGRESS t DISORDER 0\nFROM {};\n"


def refused(text: str) -> str:
    with pytest.raises(BadQuery) as error:
        bind(read(text), {}, columns_only)
    return str(error.value)


@pytest.mark.parametrize("format", ["memory", "Console", "noop OPTIONS (a 'b')"])
def test_a_stream_is_not_read_from_what_is_only_written_to(format: str) -> None:
    said = refused(STREAM.format(format))
    name = format.split()[0]
    assert said.startswith(f"Line 3, column 6: Rows are written to {name!r} and not read from it; read FROM parquet,")
    assert f"FROM {format};\n" in said
    assert said.endswith("\n         ^")


@pytest.mark.parametrize("format", ["rate", "socket", "keyed"])
@pytest.mark.parametrize("into", ["INSERT INTO {} SELECT * FROM R", "SELECT * FROM R; INSERT INTO LATE {}"])
def test_rows_are_not_written_to_what_is_only_read(into: str, format: str) -> None:
    said = refused(STREAM.format("rate") + into.format(format))
    column = into.index("{}") + 1
    assert said.startswith(f"Line 4, column {column}: Rows are read from {format!r} and not written to it; write INTO ")


def test_a_format_that_spark_alone_knows_is_not_taken_for_granted() -> None:
    assert "Whether there is a format 'nosuch'" in refused(STREAM.format("nosuch") + "SELECT * FROM R")
