"""A described plan as a picture: boxes from the results, at the top, down to the inputs.

Every leaf has a column of its own, and a node stands over the middle of its leaves, so that no two boxes meet. All
nodes of one depth begin at the same height.
"""

from __future__ import annotations

from io import StringIO

from matplotlib import rc_context
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch, Rectangle

from lowwater.query.described import Described
from lowwater.query.explain import COLOURS, WIDTH, box, titled

SIZE = 9.0
"""Points of the letters."""
LINE = SIZE * 1.35
LETTER = SIZE * 0.62
"""Points of a line, and of a letter of a monospaced font, with room to spare."""
GAP = 26.0
EDGE = 8.0


def drawn(plan: Described) -> str:
    """The picture as SVG. Its text stays text, so that it can be searched and copied."""
    depths: dict[int, int] = {}
    middles: dict[int, float] = {}
    leaves = _place(plan, 0, 0, depths, middles)
    levels = max(depths.values()) + 1
    tallest = [0.0] * levels
    for node in plan.walk():
        tallest[depths[id(node)]] = max(tallest[depths[id(node)]], _height(node))
    tops = [EDGE + sum(tallest[:depth]) + GAP * depth for depth in range(levels)]
    column = max(_width(node) for node in plan.walk()) + GAP
    width, height = EDGE * 2 + leaves * column, tops[-1] + tallest[-1] + EDGE
    with rc_context({"svg.fonttype": "none", "svg.hashsalt": "lowwater"}):
        figure = Figure(figsize=(width / 72, height / 72))
        canvas = FigureCanvasSVG(figure)
        axes = figure.add_axes((0.0, 0.0, 1.0, 1.0))
        axes.set_axis_off()
        axes.set_xlim(0, width)
        axes.set_ylim(height, 0)
        for node in plan.walk():
            x, top = EDGE + middles[id(node)] * column, tops[depths[id(node)]]
            wide, high = _width(node), _height(node)
            left = x - wide / 2
            axes.add_patch(Rectangle((left, top), wide, high, facecolor=COLOURS[node.kind], edgecolor="#444444"))
            for number, line in enumerate(box(node)):
                indent = len(line) - len(line.lstrip())  # as a distance, because SVG drops blanks in front of a text
                axes.text(
                    left + EDGE + indent * LETTER,
                    top + EDGE + number * LINE,
                    line.strip().replace("$", r"\$"),
                    fontsize=SIZE,
                    family="monospace",
                    va="top",
                    weight="bold" if number < len(titled(node)) else "normal",
                )
            for one in node.inputs:
                start = (EDGE + middles[id(one)] * column, tops[depths[id(one)]])
                axes.add_patch(FancyArrowPatch(start, (x, top + high), arrowstyle="-|>", mutation_scale=9, shrinkB=0))
        file = StringIO()
        canvas.print_svg(file, metadata={"Date": None, "Creator": "lowwater"})  # type: ignore[no-untyped-call]
    return file.getvalue()


def _place(node: Described, depth: int, leaves: int, depths: dict[int, int], middles: dict[int, float]) -> int:
    """Gives a node and all below it a depth and a column. Returns the number of columns that are taken."""
    depths[id(node)] = depth
    first = leaves
    for one in node.inputs:
        leaves = _place(one, depth + 1, leaves, depths, middles)
    leaves = max(leaves, first + 1)
    middles[id(node)] = (first + leaves) / 2
    return leaves


def _width(node: Described) -> float:
    return min(WIDTH, max(len(line) for line in box(node))) * LETTER + 2 * EDGE


def _height(node: Described) -> float:
    return len(box(node)) * LINE + 2 * EDGE
