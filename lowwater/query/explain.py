"""EXPLAIN: the described plan as text, JSON, DOT or SVG, from the results to the inputs."""

from __future__ import annotations

import json
from collections.abc import Callable
from textwrap import wrap

from lowwater.errors import LowwaterError
from lowwater.extras import needs
from lowwater.query.described import Described

WIDTH = 60
"""Letters per line of a box."""
COLOURS = {
    "operator": "#dbe9f6",
    "step": "#f2f2f2",
    "input": "#e2f0d9",
    "again": "#dbe9f6",
    "query": "#fdf2d0",
    "queries": "#fdf2d0",
}
"""Boxes by kind of node, in DOT and in pictures."""


def explained(plan: Described, format: str = "text") -> str:
    """The plan in one of the formats."""
    if format not in FORMATS:
        raise LowwaterError(f"format={format!r} is unknown; use {', '.join(FORMATS)}.")
    return FORMATS[format](plan)


def as_text(plan: Described) -> str:
    """The plan as a tree; below an operator come its inputs."""
    return "\n".join(_lines(plan))


def _lines(node: Described) -> list[str]:
    lines = [node.title, *(f"   {word:8} {text}" for word, text in node.lines)]
    for one in node.inputs:
        (first, *others) = _lines(one)
        # A step has nothing of its own to print, so its input hangs right below its title.
        lines += [f"└─ {first}", *(f"   {line}" for line in others)]
    return lines


def as_json(plan: Described) -> str:
    return json.dumps(plan.values(), indent=2)


def as_dot(plan: Described) -> str:
    """The plan in the language of Graphviz. An edge goes as rows go: from an input up to the results."""
    lines = ["digraph plan {", "  rankdir=BT;", '  node [shape=box, style=filled, fontname="Helvetica"];']
    numbers = {id(node): number for number, node in enumerate(plan.walk())}
    for node in plan.walk():
        text = "".join(f"{_escaped(line)}\\l" for line in box(node))
        lines.append(f'  n{numbers[id(node)]} [label="{text}", fillcolor="{COLOURS[node.kind]}"];')
        for one in node.inputs:
            lines.append(f"  n{numbers[id(one)]} -> n{numbers[id(node)]};")
    return "\n".join([*lines, "}"])


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')


def titled(node: Described) -> list[str]:
    """The lines of the title of a node in a box."""
    return wrap(node.title, WIDTH) or [""]


def box(node: Described) -> list[str]:
    """The lines of a node in a box: its title, and its words."""
    lines = titled(node)
    for word, text in node.lines:
        lines += wrap(f"{word}: {text}", WIDTH, subsequent_indent="  ")
    return lines


def as_svg(plan: Described) -> str:
    with needs("A picture of a plan"):
        from lowwater.query.drawn import drawn  # matplotlib takes long to import, and few ask for a picture

    return drawn(plan)


FORMATS: dict[str, Callable[[Described], str]] = {"text": as_text, "json": as_json, "dot": as_dot, "svg": as_svg}
