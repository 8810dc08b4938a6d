"""How the gradient falls from the readout to the first layer, compared with what the optimiser needs."""

from collections.abc import Sequence

from . import style
from .style import Axes, Number, PathLike, Record

DECADES_BELOW = 8
"""How far the axis goes below the smallest entry that learns. Layers further down do not learn either."""
SMALLEST_SHARE = 1e-8
"""The bottom of the axis of energies, in per cent."""
MLP_STACKS = 3
"""Input, hidden layers and readout: no more need be said than the numbers of layers."""
FEW_LAYERS = 80
"""Up to this many layers, each gets a dot."""


def draw_credit_reach(reach: Record, path: PathLike) -> None:
    """Draw the `credit_reach` of a run's `summary.json` into a PNG file: the gradient of every layer next to
    backpropagation's, its direction, and the layers' shares of the energy.

    **Example:**

    ```python
    import json
    from mupc.plots import draw_credit_reach

    with open("summary.json") as file:
        draw_credit_reach(json.load(file)["credit_reach"], "credit-reach.png")
    ```
    """
    layers = range(1, reach["layers"] + 1)
    marker = "o" if reach["layers"] <= FEW_LAYERS else None
    with style.saved_panels(path, 1, 3) as (figure, ((left, middle, right),)):
        left.plot(layers, _positive(reach["backprop_sizes"]), color=style.RED, label="BP", lw=5)  # PC may lie on it
        left.plot(layers, _positive(reach["entry_sizes"]), color=style.BLUE, label="PC", marker=marker)
        left.set(title="Gradient", ylabel="RMS gradient entry", yscale="log")
        least = reach["threshold"]
        if least > 0:
            sizes = style.numbers((*reach["backprop_sizes"], *reach["entry_sizes"], least))
            shown = [size for size in sizes if 0 < size < float("inf")]
            left.set_ylim(max(min(shown) / 2, least * 10**-DECADES_BELOW), 2 * max(shown))
            left.axhline(least, color=style.GREY, linestyle="--", lw=1.5, label="needed to learn")
        style.legend_outside(figure, left, loc="outside lower center", ncols=3, fontsize=10)
        middle.plot(layers, style.numbers(reach["backprop_cosines"]), color=style.BLUE, marker=marker)
        middle.set(title="Direction", ylabel="cosine to BP", ylim=(min(0, middle.get_ylim()[0]), 1.03))
        shares = [100 * share for share in _positive(reach["energy_shares"])]
        right.plot(layers, shares, color=style.BLUE, marker=marker)
        right.set(title="Energy", ylabel="share of the energy (%)", yscale="log")
        right.set_ylim(max(SMALLEST_SHARE, right.get_ylim()[0]), 200)
        for panel in (left, middle, right):
            panel.set(xlabel="layer (1 is next to the input)", xlim=(0, reach["layers"] + 1))
            _name_stacks(panel, reach.get("names") or ())
        about = f"{reach['learning_layers']} of {reach['layers']} layers learn, regime: {reach['regime']}"
        figure.suptitle(about, fontsize=12)


def _name_stacks(panel: Axes, names: Sequence[str]) -> None:
    """Name the beginnings of stacks of equal layers, if there are several."""
    first = {name.partition(".")[0]: index for index, name in reversed(list(enumerate(names, start=1)))}
    if MLP_STACKS < len(first) < len(names):
        panel.set_xticks(list(first.values()), list(first), rotation=60, ha="right", rotation_mode="anchor", fontsize=8)
        panel.set_xlabel("layer, from the input to the readout")


def _positive(values: Sequence[Number | None]) -> list[Number]:
    return style.numbers(value if value is not None and value > 0 else None for value in values)
