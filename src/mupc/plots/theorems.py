"""The theorems in numbers: convexity, the limit to backpropagation, and the free output."""

from collections.abc import Iterable

from . import style
from .style import Axes, PathLike, Record


def draw_theorems(record: Record, path: PathLike) -> None:
    """Draw smallest eigenvalues over the scale of weights, distances over L/N, and descent to the forward pass."""
    config, data = record["config"], record["data"]
    with style.saved_panels(path, 1, 3, record, size=(3 * style.PANEL[0], style.PANEL[1] + 0.7)) as (_, axes):
        convex, limit, free = axes[0]
        _plot_convexity(convex, data, config["scaled_depths"])
        _plot_limit(limit, data, config["depths"])
        rows = [row for row in data if "distances" in row]
        for row, colour in style.ramped(rows):
            free.plot(row["shown"], row["distances"], color=colour, label=f"H = {row['free_depth']}")
        free.set(title="free output: forward pass", xlabel="inference step", ylabel="relative distance to it")
        free.set_xscale("symlog", linthresh=1)
        style.legend_under(free, fontsize=8, ncols=3)
        for panel, name in ((convex, "scale"), (limit, "aspect")):
            if any(name in row for row in data):
                style.log_ticks(panel, "x", decades=2)
        for panel in (limit, free):
            style.log_ticks(panel)


def _plot_convexity(panel: Axes, data: Iterable[Record], depths: list[int]) -> None:
    """Theorem A.1: the smallest eigenvalue is positive for predictive coding, not for equilibrium propagation."""
    for depth, colour in style.ramped(depths):
        rows = [row for row in style.select(data, depth=depth) if "scale" in row]
        for name, dashes, label in (("smallest", "-", f"H = {depth}"), ("ep_smallest", "--", None)):
            style.plot_points(panel, style.medians(rows, "scale", name), dashes, color=colour, label=label)
    panel.plot([], [], "k-", label="PC")
    panel.plot([], [], "k--", label="EP, free phase")
    panel.axhline(0, color="black", lw=1, ls=":")
    panel.set_yscale("symlog", linthresh=1e-2, linscale=0.5)
    panel.set(title="Theorem A.1: convexity", xlabel="scale of the weights", ylabel=r"$\lambda_{\min}$")
    style.legend_under(panel, fontsize=8, ncols=3)


def _plot_limit(panel: Axes, data: Iterable[Record], depths: list[int]) -> None:
    """Theorem 1: how far μPC's and SP's weight gradients are from backpropagation's."""
    for parameterisation, marker in (("mupc", "o"), ("sp", "x")):
        for depth, colour in style.ramped(depths):
            rows = style.select(data, parameterisation=parameterisation, depth=depth)
            label = f"μPC, H = {depth}" if parameterisation == "mupc" else None
            distances = style.medians(rows, "aspect", "gradient_distance")
            style.plot_points(panel, distances, f"{marker}-", color=colour, lw=1, label=label)
    panel.plot([], [], "kx-", lw=1, label="SP, same colours")
    panel.set(title="Theorem 1: limit to BP", xlabel="L / N", ylabel=r"$\|g_{PC} - g_{BP}\| / \|g_{BP}\|$")
    style.legend_under(panel, fontsize=8, ncols=2)
