"""Coordinate checks: how the sizes of things go with the width or the depth of a network, and from layer to layer."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from . import style

GROUPS = ("input", "first", "middle", "last", "readout")
NAMES = dict(zip(GROUPS, ("input layer", "first third", "middle third", "last third", "readout"), strict=True))
PANEL = (4.0, 1.9)
LEAST = 10
"""The top of an axis over its bottom, at least: what hardly changes shall look so."""
TITLES = {
    "activities": r"activities $|z|$",
    "branches": r"branches $|z_\ell - z_{\ell-n}|$",
    "drift": r"drift $|z_t - z_0|$",
    "output": "output",
    "output error": "output error",
    "errors": r"errors $|e|$",
    "activity updates": r"activity updates $|\delta z|$",
    "weight updates": r"weight updates $|\Delta W|$",
}

Row = Mapping[str, Any]


def draw_coordinate_scaling(
    rows: Sequence[Row], axis: str, path: str | Path, expected: Mapping[tuple[int, str, str], float] | None = None
) -> None:
    """Draws sizes over width or depth into a PNG file: a row of panels per quantity, on the left before training and
    on the right after the last step, a line per group of layers, with one standard deviation over seeds.

    **Arguments:** rows as `mupc.CoordinateCheck.sizes` has them, as dictionaries; `"width"` or `"depth"`; the file; and
    the slopes `{(step, quantity, group): slope}` to draw as dashed lines.

    **Example:**

    ```python
    from mupc.plots.coordinates import draw_coordinate_scaling

    common = {"hidden_layers": 8, "seed": 0, "step": 0, "quantity": "activities", "group": "last"}
    rows = [{**common, "width": n, "size": 0.9} for n in (64, 128, 256)]
    draw_coordinate_scaling(rows, "width", "coordinates-width.png")
    ```
    """
    key = "width" if axis == "width" else "hidden_layers"
    quantities = [name for name in TITLES if any(row["quantity"] == name for row in rows)]
    steps = sorted({0, max(row["step"] for row in rows)})
    ticks = sorted({row[key] for row in rows})
    width, height = PANEL[0] * len(steps), PANEL[1] * len(quantities) + 0.9
    with style.figure(width=width, height=height) as (figure, only):
        only.remove()
        axes = figure.subplots(len(quantities), len(steps), squeeze=False, sharex=True)
        for (line, quantity), (column, step) in ((a, b) for a in enumerate(quantities) for b in enumerate(steps)):
            chosen = [row for row in rows if row["quantity"] == quantity and row["step"] == step]
            _panel(axes[line, column], chosen, key, {} if expected is None else expected)
            axes[line, column].set_title(TITLES[quantity], fontsize=10)
        for column, step in enumerate(steps):
            name = "before training" if step == 0 else f"after {step} step{'s' * (step > 1)}"
            axes[0, column].annotate(
                name, (0.5, 1.25), xycoords="axes fraction", ha="center", fontsize=12, annotation_clip=False
            )
            axes[-1, column].set_xlabel("width $N$" if axis == "width" else "hidden layers $H$")
        for panel in axes.flat:
            panel.set_xscale("log", base=2)
            panel.set_xticks(ticks, [str(tick) for tick in ticks])
            panel.minorticks_off()
        handles = {
            label: handle
            for panel in axes.flat
            for handle, label in zip(*panel.get_legend_handles_labels(), strict=True)
        }
        order = [name for name in (*NAMES.values(), "expected") if name in handles]
        figure.legend([handles[name] for name in order], order, loc="outside lower center", ncols=3, fontsize=10)
        figure.supylabel("mean absolute entry", fontsize=11)
        style.save(figure, path)


def _panel(axes: Any, rows: Sequence[Row], key: str, expected: Mapping[tuple[int, str, str], float]) -> None:
    import numpy as np

    missing = []
    for group, colour in zip(GROUPS, style.COLOURS, strict=False):
        own = [row for row in rows if row["group"] == group]
        x = np.array(sorted({row[key] for row in own}), float)
        runs = [[row["size"] for row in own if row[key] == value] for value in x]
        values = np.array(runs, float)
        if values.size and not (np.all(np.isfinite(values)) and np.all(values > 0)):
            missing.append(NAMES[group])
        if not values.size or NAMES[group] in missing:
            continue
        middle, spread = np.mean(np.log(values), axis=1), np.std(np.log(values), axis=1)
        axes.plot(x, np.exp(middle), color=colour, marker="o", label=NAMES[group])
        axes.fill_between(x, np.exp(middle - spread), np.exp(middle + spread), color=colour, alpha=style.BAND, lw=0)
        slope = expected.get((own[0]["step"], own[0]["quantity"], group))
        if slope is not None:
            line = np.exp(middle[0]) * (x / x[0]) ** slope
            axes.plot(x, line, color="#666666", ls="--", lw=1, zorder=1, label="expected")
    if axes.lines:
        low, high = axes.dataLim.intervaly
        room = max(1.2, (LEAST * low / high) ** 0.5, (high / low) ** 0.05)
        axes.set_ylim(low / room, high * room)
        style.log_ticks(axes)
    else:
        axes.set_yticks([])
    if missing:
        untrained = {(row["quantity"], row["step"]) for row in rows} == {("drift", 0)}
        text = "none before training" if untrained else f"zero or not finite: {', '.join(missing)}"
        place = {"x": 0.02, "y": 0.06, "ha": "left"} if axes.lines else {"x": 0.5, "y": 0.5, "ha": "center"}
        axes.text(s=text, **place, transform=axes.transAxes, color="#666666", fontsize=9)


def draw_layer_sizes(rows: Sequence[Row], path: str | Path) -> None:
    """Draws the sizes of one network's layers into a PNG file.

    **Arguments:** dictionaries with `quantity`, `layer` and `size`, and the file.

    **Example:**

    ```python
    from mupc.plots.coordinates import draw_layer_sizes

    draw_layer_sizes([{"quantity": "activities", "layer": n, "size": 1.0} for n in (1, 2, 3)], "sizes.png")
    ```
    """
    quantities = [name for name in TITLES if any(row["quantity"] == name for row in rows)]
    colours = [colour for colour in style.COLOURS if colour != style.COLOURS[6]]  # yellow is too pale for a line
    with style.figure(width=8.0, height=4.2) as (figure, axes):
        for quantity, colour in zip(quantities, colours, strict=False):
            own = [(row["layer"], row["size"]) for row in rows if row["quantity"] == quantity and row["size"] > 0]
            if own:
                single = {"markersize": 8} if len(own) == 1 else {}
                axes.plot(*zip(*own, strict=True), color=colour, marker="o", label=TITLES[quantity], **single)
        style.log_ticks(axes)
        axes.set(xlabel=r"layer $\ell$ (the last is the readout)", ylabel="mean absolute entry")
        if axes.lines:
            figure.legend(loc="outside right upper", fontsize=10)
        style.save(figure, path)
