"""How much test accuracy and credit reach change when one choice is made differently."""

from collections.abc import Mapping, Sequence

from . import style
from .style import Number, PathLike, Record

LINEAR = 1.0
"""Differences up to this many points are on a linear scale, larger ones on a logarithmic one."""
APART = 0.2
"""The distance between the markers of two depths, where lines are one apart."""


def draw_protocol_choices(
    record: Record, path: PathLike, names: Sequence[str], found: Mapping[tuple[str, int], tuple[Number, Number]]
) -> None:
    """Draw a line for each variant with a marker for each depth: the difference in accuracy, and how many layers learn.

    **Arguments:** the record, the file, the variants from top to bottom, and for each (variant, depth) the
    difference in points from the reference and the number of layers that learn.
    """
    depths, count = record["config"]["depths"], len(names)
    with style.saved_panels(path, 1, 2, record, size=(8.4, 1.2 + 0.32 * count)) as (figure, axes):
        moves, layers = axes[0]
        for index, ((depth, colour), marker) in enumerate(zip(style.ramped(depths), "os^Dv", strict=False)):
            aside = APART * (index - (len(depths) - 1) / 2)
            known = {place + aside: found[name, depth] for place, name in enumerate(names) if (name, depth) in found}
            look = {"color": colour, "ms": 7, "label": f"H = {depth}"}
            moves.plot([move for move, _ in known.values()], list(known), marker, **look)
            layers.plot([learning for _, learning in known.values()], list(known), marker, **look)
        moves.axvline(0, color="black", lw=1, zorder=0)
        moves.set_xscale("symlog", linthresh=LINEAR)
        layers.set_xscale("log", base=2)
        moves.xaxis.set_major_formatter(lambda value, _: f"{value:+g}" if value else "0")
        layers.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
        moves.set(title="test accuracy", xlabel="points from the reference")
        layers.set(title="layers that learn at the end", xlabel="of H + 1 layers")
        moves.set_yticks(range(count), names)
        layers.set_yticks(range(count), [])
        for panel in axes[0]:
            panel.margins(x=0.1)
            panel.set_ylim(count - 0.5, -0.5)
        style.legend_outside(figure, moves)
