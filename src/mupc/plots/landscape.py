"""Energy over a plane of activities, as contours, with the path of inference on top."""

from collections.abc import Sequence

from . import style
from .style import ArrayLike, Axes, PathLike, ScalarMappable

LEVELS, DECADES = 24, 8
"""The number of contours, and the decades of energy that they span at most."""
SIDE = 3.6
"""Width and height of a panel, in inches."""


def draw_landscape(
    energies: Sequence[ArrayLike],
    axis: ArrayLike,
    path: PathLike,
    *,
    titles: Sequence[str],
    path_points: Sequence[ArrayLike | None] | None = None,
    labels: tuple[str, str] = (r"$\hat{v}_{\min}$", r"$\hat{v}_{\max}$"),
) -> None:
    """Draw energies over a plane into a PNG file: a square panel each, with contours at even steps of the logarithm of
    the energy above its smallest value there.

    **Arguments:**

    - `energies`: for each panel a table (n, n); `energies[i][j]` lies at (x, y) = (`axis[j]`, `axis[i]`).
    - `axis`: the n coordinates in both directions; one for all panels, or one for each.
    - `titles`: of the panels.
    - `path_points`: for each panel the points (steps, 2) of a path, or None.
    - `labels`: of the two directions.

    **Example:**

    ```python
    import numpy as np
    from mupc.plots import draw_landscape

    axis = np.linspace(-2, 2, 41)
    energy = axis[None, :] ** 2 + 50 * axis[:, None] ** 2
    descent = [(-2.0, 1.0), (-1.8, -0.5), (-1.6, 0.2)]
    draw_landscape([energy], axis, "landscape.png", titles=["κ = 50"], path_points=[descent])
    ```
    """
    import numpy as np
    from matplotlib.ticker import LogLocator

    count = len(energies)
    axes = np.broadcast_to(np.asarray(axis, float), (count, len(np.asarray(energies[0]))))
    paths = path_points or [None] * count
    with style.saved_panels(path, 1, count, size=(SIDE * count + 1.6, SIDE + 0.4)) as (figure, panels):
        for panel, energy, at, points, title in zip(panels[0], energies, axes, paths, titles, strict=True):
            filled = plot_contours(panel, energy, at, points)
            bar = figure.colorbar(filled, cax=panel.inset_axes((1.04, 0, 0.05, 1)), ticks=LogLocator(numticks=6))
            bar.ax.minorticks_off()
            panel.set(title=title, xlabel=labels[0], ylabel=labels[1], aspect="equal")
        bar.set_label("energy above its minimum")


def plot_contours(panel: Axes, energies: ArrayLike, axis: ArrayLike, points: ArrayLike | None = None) -> ScalarMappable:
    """Draw one panel without labels: the contours, and the path if there is one. Return what a colour bar needs."""
    import numpy as np
    from matplotlib.colors import LogNorm

    at, grid = np.asarray(axis, float), np.asarray(energies, float)
    above = grid - np.nanmin(grid)
    top = max(np.nanmax(above), np.finfo(float).tiny / 10.0**-DECADES)  # zero where the landscape is flat
    low = min(max(np.min(above[above > 0], initial=top), top * 10.0**-DECADES), top / 10)
    levels = np.geomspace(low, top, LEVELS)
    height = np.clip(above, low, top)
    filled = panel.contourf(at, at, height, levels, norm=LogNorm(low, top), cmap="Blues", alpha=0.9)
    panel.contour(at, at, height, levels[1::2], colors="white", linewidths=0.6)
    if points is not None:
        x, y = np.asarray(points, float).T
        panel.plot(x, y, color=style.RED, marker="o", ms=2.5, lw=1.5, label="gradient descent")
        panel.plot(x[0], y[0], color=style.RED, marker="s", ms=7)
        style.legend_under(panel, fontsize=9)
    panel.set(xlim=at[[0, -1]], ylim=at[[0, -1]])
    panel.grid(False)
    return filled
