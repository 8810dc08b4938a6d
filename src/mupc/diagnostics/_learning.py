"""Which layers an optimiser moves, given the size of their gradient entries. The only module that knows its ε."""

from typing import NamedTuple

import numpy as np

from ..io import checks
from ..learning import Optimiser


class LearningLimit(NamedTuple):
    """The smallest entries that learn: `epsilon` itself, or `share` times the entries of the largest layer."""

    epsilon: float = 0.0
    share: float = 0.0


ADAM_EPSILON = 1e-8
UNNORMALISED = LearningLimit(share=1e-3)
"""Without normalisation a layer's step is as small as its gradient."""

LEARNING_LIMITS = {
    "adam": LearningLimit(ADAM_EPSILON),
    "adamw": LearningLimit(ADAM_EPSILON),
    "nadam": LearningLimit(ADAM_EPSILON),
    "rmsprop": LearningLimit(1e-4),  # optax adds its ε = 1e-8 to the square
    "adagrad": UNNORMALISED,  # optax starts the sum of squares at 0.1, far above what gradients of deep networks add
    "lion": LearningLimit(),  # steps by the sign: every entry but zero moves
    "momentum": UNNORMALISED,
    "sgd": UNNORMALISED,
}
"""For each optimiser of `mupc.fit`. An entry of exactly ε makes at least half the step that it would make without ε."""


def learning_threshold(entry_sizes: np.ndarray, optimiser: Optimiser = "adam") -> float:
    """Return the size from which gradient entries move their weights. Any other optax transformation counts as Adam."""
    name = optimiser if isinstance(optimiser, str) else "adam"
    limit = checks.lookup("optimiser", name, LEARNING_LIMITS)
    return max(limit.epsilon, limit.share * float(np.max(entry_sizes)))


def layers_that_learn(
    entry_sizes: np.ndarray, optimiser: Optimiser = "adam", epsilon: int | float | None = None
) -> np.ndarray:
    """Return which layers learn, given the root mean square entry of each layer's gradient. `epsilon` replaces the
    optimiser's threshold."""
    least = learning_threshold(entry_sizes, optimiser) if epsilon is None else epsilon
    return (entry_sizes > 0) & (entry_sizes >= least)
