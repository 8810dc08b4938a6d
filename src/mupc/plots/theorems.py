"""The theorems in numbers: convexity, the limit to backpropagation, and the free output."""

from __future__ import annotations

import statistics
from pathlib import Path
from typing import Any

from . import style

Record = dict[str, Any]


def draw_theorems(record: Record, path: Path) -> None:
    """Smallest eigenvalues over the scale of weights, distances over L/N, and descent to the forward pass."""
    config, data = record["config"], record["data"]
    with style.panels(1, 3) as (figure, axes):
        convex, limit, free = axes[0]
        for depth, colour in zip(config["scaled_depths"], style.ramp(len(config["scaled_depths"])), strict=True):
            for name, line in (("smallest", "-"), ("ep_smallest", "--")):
                values = {
                    scale: [row[name] for row in data if (row.get("scale"), row.get("depth")) == (scale, depth)]
                    for scale in config["scales"]
                }
                shown = {scale: statistics.median(found) for scale, found in values.items() if found}
                label = f"H = {depth}" if name == "smallest" else None
                convex.plot(list(shown), list(shown.values()), line, color=colour, label=label)
        convex.plot([], [], "k-", label="PC")
        convex.plot([], [], "k--", label="EP, free phase")
        convex.axhline(0, color="black", lw=1, ls=":")
        convex.set_yscale("symlog", linthresh=1e-2, linscale=0.5)
        convex.set(title="Theorem A.1: convexity", xlabel="scale of the weights", ylabel=r"$\lambda_{\min}$")
        convex.legend(fontsize=8, loc="lower left")
        for parameterisation, marker, name in (("mupc", "o", "μPC"), ("sp", "x", "SP")):
            for depth, colour in zip(config["depths"], style.ramp(len(config["depths"])), strict=True):
                far: dict[float, list[float]] = {}
                for row in data:
                    if (row.get("parameterisation"), row.get("depth")) == (parameterisation, depth):
                        far.setdefault(row["aspect"], []).append(row["gradient_distance"])
                points = {aspect: statistics.median(found) for aspect, found in sorted(far.items())}
                label = f"{name}, H = {depth}" if parameterisation == "mupc" else None
                limit.plot(list(points), list(points.values()), marker + "-", color=colour, lw=1, label=label)
        limit.plot([], [], "kx-", lw=1, label="SP, same colours")
        limit.set(title="Theorem 1: limit to BP", xlabel="L / N", ylabel=r"$\|g_{PC} - g_{BP}\| / \|g_{BP}\|$")
        limit.legend(fontsize=7)
        rows = [row for row in data if "distances" in row]
        for row, colour in zip(rows, style.ramp(len(rows)), strict=True):
            free.plot(row["shown"], row["distances"], color=colour, label=f"H = {row['free_depth']}")
        free.set(title="free output: forward pass", xlabel="inference step", ylabel="relative distance to it")
        free.set_xscale("symlog", linthresh=1)
        if rows:
            free.legend(fontsize=8)
        for panel, name in ((convex, "scale"), (limit, "aspect")):
            if any(name in row for row in data):
                style.log_ticks(panel, "x", decades=2)
        for panel in (limit, free):
            style.log_ticks(panel)
        style.label_preset(figure, record["preset"])
        style.save(figure, path)
