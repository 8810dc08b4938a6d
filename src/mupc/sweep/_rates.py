"""The grid of learning rates that `transfer` tries by default, and its edge."""

from collections.abc import Collection

RatePair = tuple[float, float]
"""The learning rates of the weights and of the activities."""
WEIGHT_LRS = (0.5, 0.2, 0.1, 0.05, 0.02, 0.01)
ACTIVITY_LRS = (0.8, 0.4, 0.2, 0.1, 0.05, 0.02)
AT_EDGE = "the optimum lies at the edge of the grid: better rates may lie beyond it"


def at_edge(rate: int | float, rates: Collection[int | float]) -> bool:
    """Return whether a rate is the lowest or the highest of several."""
    return min(rates) < max(rates) and rate in (min(rates), max(rates))
