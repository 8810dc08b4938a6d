"""How much test accuracy and credit reach move when one choice is made otherwise."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from . import style

LINEAR = 1.0
"""Differences up to so many points are on a linear scale, larger ones on a logarithmic one."""
APART = 0.2
"""Between the markers of two depths, where lines are one apart."""


def draw_protocol_choices(
    record: dict[str, Any], path: Path, names: Sequence[str], found: Mapping[tuple[str, int], Any]
) -> None:
    """A line for each variant, a marker for each depth: the difference in accuracy, and the layers that learn."""
    depths = record["config"]["depths"]
    with style.figure(1, 2, width=8.4, height=1.2 + 0.32 * len(names)) as (figure, axes):
        moves, layers = axes
        moves.set_xscale("symlog", linthresh=LINEAR)
        layers.set_xscale("log", base=2)
        for index, (depth, colour, marker) in enumerate(zip(depths, style.ramp(len(depths)), "os^Dv", strict=False)):
            aside = APART * (index - (len(depths) - 1) / 2)
            known = {place + aside: found[name, depth] for place, name in enumerate(names) if (name, depth) in found}
            options = {"color": colour, "ms": 7, "label": f"H = {depth}"}
            moves.plot([one.move for one in known.values()], list(known), marker, **options)
            layers.plot([one.learning for one in known.values()], list(known), marker, **options)
        moves.axvline(0, color="black", lw=1, zorder=0)
        moves.xaxis.set_major_formatter(lambda value, _: f"{value:+g}" if value else "0")
        moves.set_xlabel("points from the reference")
        layers.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
        layers.set_xlabel("of H + 1 layers")
        moves.set_title("test accuracy")
        layers.set_title("layers that learn at the end")
        moves.set_yticks(range(len(names)), names)
        layers.set_yticks(range(len(names)), [])
        for panel in axes:
            panel.margins(x=0.1)
            panel.set_ylim(len(names) - 0.5, -0.5)
        figure.legend(*moves.get_legend_handles_labels(), loc="outside right center")
        style.label_preset(figure, record["preset"])
        style.save(figure, path)
