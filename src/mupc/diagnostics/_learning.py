"""Which layers an optimiser moves, told from the size of their gradient entries. Nothing else knows about its ε."""

from typing import Any, NamedTuple

import numpy as np

from ..io import checks


class Limit(NamedTuple):
    """The smallest entries that learn: `epsilon` itself, or `share` times the entries of the largest layer."""

    epsilon: float = 0.0
    share: float = 0.0


ADAM_EPSILON = 1e-8
UNNORMALISED = Limit(share=1e-3)
"""Without normalisation a layer's step is as small as its gradient."""

LIMITS = {
    "adam": Limit(ADAM_EPSILON),
    "adamw": Limit(ADAM_EPSILON),
    "nadam": Limit(ADAM_EPSILON),
    "rmsprop": Limit(1e-4),  # optax adds its ε = 1e-8 to the square
    "adagrad": UNNORMALISED,  # optax starts the sum of squares at 0.1, far above what gradients of deep networks add
    "lion": Limit(),  # the sign: whatever is not zero moves
    "momentum": UNNORMALISED,
    "sgd": UNNORMALISED,
}
"""For each of the optimisers of `mupc.fit`. At an ε exactly, the step is at least half of what it would be without."""


def threshold(entry_sizes: np.ndarray, optimiser: Any = "adam") -> float:
    """The size from which on gradient entries move their weights. Any other optax transformation counts as Adam."""
    limit = checks.lookup("optimiser", optimiser, LIMITS) if isinstance(optimiser, str) else LIMITS["adam"]
    return max(limit.epsilon, limit.share * float(np.max(entry_sizes)))


def learning(entry_sizes: np.ndarray, optimiser: Any = "adam", epsilon: int | float | None = None) -> np.ndarray:
    """Which layers learn, given the root mean square entry of each layer's gradient; `epsilon` overrides the table."""
    least = threshold(entry_sizes, optimiser) if epsilon is None else epsilon
    return (entry_sizes > 0) & (entry_sizes >= least)
