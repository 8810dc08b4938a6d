"""How the gradient falls from the readout down to the first layer, against what the optimiser needs."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from . import style

DECADES_BELOW = 8
"""How far the axis goes below the smallest entry that learns. Layers further down stand still all the same."""
SMALLEST_SHARE = 1e-8
FEW_LAYERS = 80
"""Up to so many, each layer gets a dot."""


def draw_credit_reach(reach: Mapping[str, Any], path: str | Path) -> None:
    """Draws the `credit_reach` of a run's `summary.json` into a PNG file: the gradient of every layer beside
    backpropagation's, its direction, and the layers' shares of the energy.

    **Example:**

    ```python
    import json
    from mupc.plots.credit_reach import draw_credit_reach

    with open("summary.json") as file:
        draw_credit_reach(json.load(file)["credit_reach"], "credit-reach.png")
    ```
    """
    layers = range(1, reach["layers"] + 1)
    blue, red = style.COLOURS[:2]
    shape = {"marker": "o" if reach["layers"] <= FEW_LAYERS else None}
    with style.panels(1, 3) as (figure, ((left, middle, right),)):
        for key, label, colour in (("backprop_sizes", "BP", red), ("entry_sizes", "PC", blue)):
            left.plot(layers, _positive(reach[key]), color=colour, label=label, **shape)
        left.set(title="Gradient", ylabel="RMS gradient entry", yscale="log")
        least = reach["threshold"]
        if least > 0:
            sizes = (*reach["backprop_sizes"], *reach["entry_sizes"], least)
            shown = [size for size in _numbers(sizes) if 0 < size < float("inf")]
            left.set_ylim(max(min(shown) / 2, least * 10**-DECADES_BELOW), 2 * max(shown))
            left.axhline(least, color="#666666", linestyle="--", lw=1.5, label="needed to learn")
        left.legend(loc="lower right", fontsize=9)
        middle.plot(layers, _numbers(reach["backprop_cosines"]), color=blue, **shape)
        middle.set(title="Direction", ylabel="cosine to BP", ylim=(min(0, middle.get_ylim()[0]), 1.03))
        right.plot(layers, [100 * share for share in _positive(reach["energy_shares"])], color=blue, **shape)
        right.set(title="Energy", ylabel="share of the energy (%)", yscale="log")
        right.set_ylim(max(SMALLEST_SHARE, right.get_ylim()[0]), 200)
        for axes in (left, middle, right):
            axes.set(xlabel="layer (1 is next to the input)", xlim=(0, reach["layers"] + 1))
        about = f"{reach['learning_layers']} of {reach['layers']} layers learn, regime: {reach['regime']}"
        figure.suptitle(about, fontsize=12)
        style.save(figure, path)


def _numbers(values: Sequence[float | None]) -> list[float]:
    return [float("nan") if value is None else value for value in values]


def _positive(values: Sequence[float | None]) -> list[float]:
    return [value if value > 0 else float("nan") for value in _numbers(values)]
