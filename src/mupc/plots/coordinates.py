"""Coordinate checks: how the sizes of activities, errors and updates depend on width, on depth, and on the layer."""

from collections.abc import Mapping, Sequence

from . import style
from .style import Axes, PathLike, Record

GROUPS = {
    "input": "input layer",
    "first": "first third",
    "middle": "middle third",
    "last": "last third",
    "readout": "readout",
}
"""Groups of layers, and their names in the legend."""
PANEL = (4.0, 1.9)
"""Width and height of a panel, in inches."""
LEAST_RANGE = 10
"""The top of an axis is at least this many times its bottom, so that what hardly changes looks flat."""
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
ENTRY = "mean absolute entry"
Slopes = Mapping[tuple[int, str, str], float]
"""The slope that is expected at each (step, quantity, group)."""


def draw_coordinate_scaling(
    rows: Sequence[Record], axis: str, path: PathLike, expected: Slopes | None = None, depth: str = "hidden_layers"
) -> None:
    """Draw sizes over width or depth into a PNG file: a row of panels per quantity, on the left before training and
    on the right after the last step, a line per group of layers, with one standard deviation over seeds.

    **Arguments:** rows as `mupc.CoordinateCheck.sizes` has them, as dictionaries; `"width"` or `"depth"`; the file; and
    the slopes `{(step, quantity, group): slope}` to draw as dashed lines. `depth`: what the number of `hidden_layers`
    of these networks counts.

    **Example:**

    ```python
    from mupc.plots import draw_coordinate_scaling

    common = {"hidden_layers": 8, "seed": 0, "step": 0, "quantity": "activities", "group": "last"}
    rows = [{**common, "width": n, "size": 0.9} for n in (64, 128, 256)]
    draw_coordinate_scaling(rows, "width", "coordinates-width.png")
    ```
    """
    labels = {"width": "width $N$", "hidden_layers": "hidden layers $H$"}
    key = "width" if axis == "width" else "hidden_layers"
    label = labels.get(depth, depth) if axis == "depth" else labels[key]
    quantities = _quantities(rows)
    steps = sorted({0, max(row["step"] for row in rows)})
    ticks = sorted({row[key] for row in rows})
    size = PANEL[0] * len(steps), PANEL[1] * len(quantities) + 0.9
    with style.saved_panels(path, len(quantities), len(steps), size=size, sharex=True) as (figure, axes):
        for panels, quantity in zip(axes, quantities, strict=True):
            for panel, step in zip(panels, steps, strict=True):
                _plot_groups(panel, style.select(rows, quantity=quantity, step=step), key, expected or {})
                panel.set_title(TITLES[quantity], fontsize=10)
                style.size_axis(panel, ticks=ticks)
        for column, step in enumerate(steps):
            name = "before training" if step == 0 else f"after {step} step{'s' * (step > 1)}"
            axes[0, column].annotate(
                name, (0.5, 1.25), xycoords="axes fraction", ha="center", fontsize=12, annotation_clip=False
            )
            axes[-1, column].set_xlabel(label)
        order = (*GROUPS.values(), "expected")
        style.legend_outside(figure, *axes.flat, order=order, loc="outside lower center", ncols=3, fontsize=10)
        figure.supylabel(ENTRY, fontsize=11)


def draw_layer_sizes(rows: Sequence[Record], path: PathLike) -> None:
    """Draw the sizes of one network's layers into a PNG file.

    **Arguments:** dictionaries with `quantity`, `layer` and `size`, and the file.

    **Example:**

    ```python
    from mupc.plots import draw_layer_sizes

    draw_layer_sizes([{"quantity": "activities", "layer": n, "size": 1.0} for n in (1, 2, 3)], "sizes.png")
    ```
    """
    colours = [colour for colour in style.COLOURS if colour != style.YELLOW]  # too pale for a line
    with style.saved_panels(path, size=(8.0, 4.2)) as (figure, ((panel,),)):
        for quantity, colour in zip(_quantities(rows), colours, strict=False):
            own = {row["layer"]: row["size"] for row in style.select(rows, quantity=quantity) if row["size"] > 0}
            if own:
                single = {"markersize": 8} if len(own) == 1 else {}
                style.plot_points(panel, own, color=colour, marker="o", label=TITLES[quantity], **single)
        style.log_ticks(panel)
        panel.set(xlabel=r"layer $\ell$ (the last is the readout)", ylabel=ENTRY)
        style.legend_outside(figure, panel, loc="outside right upper", fontsize=10)


def _quantities(rows: Sequence[Record]) -> list[str]:
    return [name for name in TITLES if style.select(rows, quantity=name)]


def _plot_groups(panel: Axes, rows: Sequence[Record], key: str, expected: Slopes) -> None:
    """Draw a line for each group of layers; a group with sizes that a logarithmic axis cannot show is named instead."""
    import numpy as np

    missing = []
    for (group, name), colour in zip(GROUPS.items(), style.COLOURS, strict=False):
        own = style.select(rows, group=group)
        x = np.array(sorted({row[key] for row in own}), float)
        values = np.array([[row["size"] for row in own if row[key] == value] for value in x], float)
        if not values.size:
            continue
        if not (np.all(np.isfinite(values)) and np.all(values > 0)):
            missing.append(name)
            continue
        middle, spread = np.mean(np.log(values), axis=1), np.std(np.log(values), axis=1)
        panel.plot(x, np.exp(middle), color=colour, marker="o", label=name)
        style.fill(panel, x, np.exp(middle - spread), np.exp(middle + spread), colour)
        slope = expected.get((own[0]["step"], own[0]["quantity"], group))
        if slope is not None:
            line = np.exp(middle[0]) * (x / x[0]) ** slope
            panel.plot(x, line, color=style.GREY, ls="--", lw=1, zorder=1, label="expected")
    if panel.lines:
        low, high = panel.dataLim.intervaly
        room = max(1.2, (LEAST_RANGE * low / high) ** 0.5, (high / low) ** 0.05)
        panel.set_ylim(low / room, high * room)
        style.log_ticks(panel)
    else:
        panel.set_yticks([])
    if missing:
        untrained = {(row["quantity"], row["step"]) for row in rows} == {("drift", 0)}
        text = "none before training" if untrained else f"zero or not finite: {', '.join(missing)}"
        where: tuple[float, float, str] = (0.02, 0.06, "left") if panel.lines else (0.5, 0.5, "center")
        panel.text(*where[:2], text, ha=where[2], transform=panel.transAxes, color=style.GREY, fontsize=9)
