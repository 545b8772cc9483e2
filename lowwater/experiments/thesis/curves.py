"""Figures of curves: panels one above the other, each with its axes and one line per technique."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path


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


def draw(panels: Sequence[Panel], file: Path) -> Path:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 4.2 * len(panels)), layout="constrained")
    for place, panel in enumerate(panels):
        axes = figure.add_subplot(len(panels), 1, place + 1)
        axes.set_xscale(panel.scale[0])
        axes.set_yscale(panel.scale[1])
        for curve in panel.curves:
            axes.plot(curve.x, curve.y, marker="o" if len(curve.x) > 1 else "*", markersize=6, label=curve.label)
            for x, y, name in zip(curve.x, curve.y, curve.names, strict=False):
                axes.annotate(name, (x, y), textcoords="offset points", xytext=(4, 5), fontsize=7)
        axes.set_xlabel(panel.x)
        axes.set_ylabel(panel.y)
        axes.grid(alpha=0.3)
        axes.legend(fontsize=8)
    figure.savefig(file, dpi=120)
    return file
