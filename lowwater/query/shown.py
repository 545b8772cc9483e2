"""How a relation shows itself: in one line, and as HTML for notebooks.

A notebook shows the last value of a cell by itself. What a user wants to see there is what the relation yields and how
it will be computed, not its rows: those of a stream may never end.
"""

from __future__ import annotations

from html import escape

from lowwater.model.properties import Properties


def line(name: str, properties: Properties) -> str:
    """One line: the name, the columns with their types, and what they progress on."""
    columns = ", ".join(f"{field.name} {field.type}" for field in properties.visible)
    return f"<Relation {name}: {columns}; {_progress(properties)}>"


def html(name: str, properties: Properties, plan: str) -> str:
    """A small table of the columns, with the plan as text below it."""
    times = {progress.attribute for progress in properties.progress}
    rows = "".join(
        f"<tr><td>{escape(field.name)}</td><td>{escape(str(field.type))}</td>"
        f"<td>{'progresses' if field.name in times else ''}</td></tr>"
        for field in properties.visible
    )
    return (
        f"<div><strong>{escape(name)}</strong> ({escape(_progress(properties))})"
        f"<table><thead><tr><th>column</th><th>type</th><th></th></tr></thead><tbody>{rows}</tbody></table>"
        f"<details><summary>plan</summary><pre>{escape(plan)}</pre></details></div>"
    )


def _progress(properties: Properties) -> str:
    shown = properties.visible.names
    names = [progress.attribute for progress in properties.progress if progress.attribute in shown]
    return f"progresses on {', '.join(names)}" if names else "no column that it shows progresses"
