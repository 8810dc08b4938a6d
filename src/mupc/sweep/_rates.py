"""The grid of learning rates that `transfer` tries by default, and its edge."""

from collections.abc import Collection

RatePair = tuple[float, float | None]
"""The learning rates of the weights and of the activities; None for a solver without a rate."""
WEIGHT_FACTORS = (5, 2, 1, 0.5, 0.2, 0.1)
"""Learning rates of the weights, as multiples of an algorithm's own."""
ACTIVITY_LRS = (0.8, 0.4, 0.2, 0.1, 0.05, 0.02)
AT_EDGE = "the optimum lies at the edge of the grid: better rates may lie beyond it"


def at_edge(rate: int | float | None, rates: Collection[int | float | None]) -> bool:
    """Return whether a rate is the lowest or the highest of several."""
    known = [each for each in rates if each is not None]
    return bool(known) and min(known) < max(known) and rate in (min(known), max(known))


def weight_lrs(default: float) -> tuple[float, ...]:
    """Return the rates to try for an algorithm whose own is `default`."""
    return tuple(float(f"{factor * default:.6g}") for factor in WEIGHT_FACTORS)
