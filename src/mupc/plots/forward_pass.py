"""The size of the forward pass over depth."""

from . import style
from .style import PathLike, Record

LABELS = {"sp": "SP, skips", "orthogonal": "orthogonal, no skips", "mupc": "Depth-μP, skips"}
LOOKS = {
    "linear": {"marker": "o", "color": style.BLUE},
    "tanh": {"marker": "s", "color": style.RED},
    "relu": {"marker": "^", "color": style.GREEN},
}


def draw_forward_pass(record: Record, path: PathLike) -> None:
    """Draw a panel for each parameterisation: mean |z| of the last hidden layer over the number of layers."""
    depths = sorted(record["config"]["layers"])
    with style.saved_panels(path, 1, len(LABELS), record, sharex=True) as (_, axes):
        for panel, (kind, label) in zip(axes[0], LABELS.items(), strict=True):
            for activation in record["config"]["activations"]:
                rows = style.select(record["data"], kind=kind, activation=activation)
                sizes = {layers: _size(rows, layers) or None for layers in depths}
                style.plot_points(panel, sizes, label=style.written(activation), **LOOKS[activation])
            style.size_axis(panel, "layers L")
            panel.set(yscale="log", title=label)
        axes[0, -1].set_ylim(0.1, 10)
        axes[0, 0].set_ylabel("mean |z|, last hidden layer")
        axes[0, 0].legend(loc="upper left")


def _size(rows: list[Record], layers: int) -> float | None:
    """Return the size in the network with this many layers, or else after as many layers of a deeper one."""
    found = style.select(rows, layers=layers) or [row for row in rows if row["layers"] > layers]
    return found[0]["sizes"][layers - 2] if found else None
