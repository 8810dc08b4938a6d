"""The size of the forward pass over depth."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from . import style

LABELS = {"sp": "SP, skips", "orthogonal": "orthogonal, no skips", "mupc": "Depth-μP, skips"}
COLOURS = dict(zip(("linear", "tanh", "relu"), style.COLOURS, strict=False))
MARKERS = {"linear": "o", "tanh": "s", "relu": "^"}


def draw_forward_pass(record: dict[str, Any], path: Path) -> None:
    """A panel for each parameterisation: mean |z| of the last hidden layer over the number of layers."""
    depths = sorted(record["config"]["layers"])
    with style.panels(1, len(LABELS), sharex=True) as (figure, axes):
        for panel, (kind, label) in zip(axes[0], LABELS.items(), strict=True):
            for activation in record["config"]["activations"]:
                rows = [row for row in record["data"] if (row["kind"], row["activation"]) == (kind, activation)]
                sizes = {layers: _size(rows, layers) for layers in depths}
                shown = {layers: size for layers, size in sizes.items() if size}
                look = {"marker": MARKERS[activation], "color": COLOURS[activation], "label": style.written(activation)}
                panel.plot(list(shown), list(shown.values()), **look)
            panel.set_xscale("log", base=2)
            panel.set_yscale("log")
            panel.set_title(label)
            panel.set_xlabel("layers L")
        axes[0, -1].set_ylim(0.1, 10)
        axes[0, 0].set_ylabel("mean |z|, last hidden layer")
        axes[0, 0].legend(loc="upper left")
        style.label_preset(figure, record["preset"])
        style.save(figure, path)


def _size(rows: list[dict[str, Any]], layers: int) -> float | None:
    """From the network with this many layers, else as the first layers of the deepest one."""
    exact = [row for row in rows if row["layers"] == layers] or [row for row in rows if row["layers"] > layers]
    size: float | None = exact[0]["sizes"][layers - 2] if exact else None
    return size
