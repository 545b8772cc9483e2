"""Figures of curves and bars: panels one above the other, each with its axes and one line or bar per technique."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MARKED = 40
"""A curve with more points than this has no marks."""


@dataclass(frozen=True)
class Curve:
    """A line, or a mark if there is only one point. `names` are written next to the points."""

    label: str
    x: Sequence[float]
    y: Sequence[float]
    names: Sequence[str] = ()


@dataclass(frozen=True)
class Panel:
    """The labels of the axes, and the curves. `scale` is linear, log or symlog, for x and for y."""

    x: str
    y: str
    curves: Sequence[Curve]
    scale: tuple[str, str] = ("linear", "linear")

    def show(self, axes: Axes) -> None:
        axes.set_xscale(self.scale[0])
        axes.set_yscale(self.scale[1])
        for curve in self.curves:
            marker = "*" if len(curve.x) == 1 else "o" if len(curve.x) <= MARKED else ""
            axes.plot(curve.x, curve.y, marker=marker, markersize=6, label=curve.label)
            for x, y, name in zip(curve.x, curve.y, curve.names, strict=False):
                axes.annotate(name, (x, y), textcoords="offset points", xytext=(4, 5), fontsize=7)
        axes.set_xlabel(self.x)
        axes.set_ylabel(self.y)


@dataclass(frozen=True)
class Bars:
    """Bars in groups: per technique one height for each group."""

    y: str
    groups: Sequence[str]
    heights: Mapping[str, Sequence[float]]
    scale: str = "linear"

    def show(self, axes: Axes) -> None:
        width = 0.8 / len(self.heights)
        axes.set_yscale(self.scale)
        for nth, (label, heights) in enumerate(self.heights.items()):
            bars = axes.bar([at + nth * width for at in range(len(heights))], heights, width, label=label)
            axes.bar_label(bars, fmt="{:.3g}", fontsize=7)
        axes.set_xticks([at + 0.4 - width / 2 for at in range(len(self.groups))], self.groups)
        axes.set_ylabel(self.y)


def draw(panels: Sequence[Panel | Bars], file: Path) -> Path:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 4.2 * len(panels)), layout="constrained")
    for place, panel in enumerate(panels):
        axes = figure.add_subplot(len(panels), 1, place + 1)
        panel.show(axes)
        axes.grid(alpha=0.3)
        axes.legend(fontsize=8)
    figure.savefig(file, dpi=120)
    return file
