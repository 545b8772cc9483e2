"""Names of columns as Spark reads them: in backticks, so that dots, blanks and backticks are part of the name."""

from __future__ import annotations


def quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"
