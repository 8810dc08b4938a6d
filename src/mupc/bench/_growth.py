"""How time and memory grow with each size: exponents of fits on log–log axes, next to the theory. No JAX."""

import math
import statistics
from collections.abc import Iterable, Mapping
from typing import Any

from ..plots import PERFORMANCE_SIZES, PerformanceLine, lines_over_sizes

LEAST_POINTS = 3
"""Two sizes would fit any exponent."""
MEMORY_THEORY = {"hidden_layers": "1", "width": "1 to 2", "batch_size": "0 to 1", "steps": "0"}
"""Weights take H·N² numbers and activities H·N·B. What inference keeps does not depend on T."""


def growth(rows: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Fit every line of at least three sizes, all other sizes being the same: time and memory, with their theory."""
    found: dict[tuple[str, PerformanceLine], dict[str, Any]] = {}
    for (quantity, size), lines in lines_over_sizes(rows).items():
        for line, points in lines.items():
            if len(points) < LEAST_POINTS:
                continue
            kind = "time" if quantity == "median_s" else "memory"
            theory = work_exponent(line, size) if kind == "time" else MEMORY_THEORY[size]
            row = found.setdefault((size, line), {"program": line.label, "over": PERFORMANCE_SIZES[size][0]})
            row |= {"from": min(points), "to": max(points), kind: fit_power(points) | {"theory": theory}}
    return list(found.values())


def work_exponent(line: PerformanceLine, size: str) -> str:
    """Return the exponent of the arithmetic: H·N²·B for a pass, and a pass for each of T inference steps, which
    backpropagation does not take."""
    infers = line.program != "backprop"
    steps_are_layers = infers and dict(line.fixed).get("T") == "H"
    return str({"hidden_layers": 1 + steps_are_layers, "width": 2, "batch_size": 1, "steps": int(infers)}[size])


def fit_power(points: Mapping[int, int | float]) -> dict[str, float]:
    """Return the exponent of the line through points on log–log axes, and the largest factor by which one is off."""
    x, y = ([math.log(value) for value in values] for values in (points, points.values()))
    slope, intercept = statistics.linear_regression(x, y)
    off = max(abs(b - intercept - slope * a) for a, b in zip(x, y, strict=True))
    return {"exponent": slope, "off": math.exp(off)}
