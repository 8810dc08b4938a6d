"""Weight optimisers and learning-rate schedules by name."""

from collections.abc import Callable
from typing import Any, TypeAlias

import jax
import optax

from ..io import checks
from ..network import Real

WARMUP_FRACTION = 0.05


def _adamw(rate: Real) -> optax.GradientTransformation:
    return optax.adamw(rate, weight_decay=0.0)


def _lion(rate: Real) -> optax.GradientTransformation:
    return optax.lion(rate, weight_decay=0.0)


OPTIMISERS: dict[str, Callable[..., optax.GradientTransformation]] = {
    "adam": optax.adam,
    "adamw": _adamw,
    "adagrad": optax.adagrad,
    "lion": _lion,
    "momentum": lambda rate: optax.sgd(rate, momentum=0.9),
    "nadam": optax.nadam,
    "rmsprop": optax.rmsprop,
    "sgd": optax.sgd,
}

DECOUPLED = ("adamw", "lion")
"""Those that let weights decay beside their update. Optax would do so unasked, here only the energy's do."""


def _constant(steps: int) -> optax.Schedule:
    return optax.constant_schedule(1.0)


def _cosine(steps: int) -> optax.Schedule:
    return optax.cosine_decay_schedule(1.0, steps)


def _linear(steps: int) -> optax.Schedule:
    return optax.linear_schedule(1.0, 0.0, steps)


def _warmup_cosine(steps: int) -> optax.Schedule:
    warmup = max(1, round(WARMUP_FRACTION * steps))
    return optax.warmup_cosine_decay_schedule(0.0, 1.0, warmup, max(steps, warmup + 1))


SCHEDULES: dict[str, Callable[[int], optax.Schedule]] = {
    "constant": _constant,
    "cosine": _cosine,
    "linear": _linear,
    "warmup-cosine": _warmup_cosine,
}
"""What each schedule multiplies the learning rate with, given the number of steps of the whole run."""

Optimiser: TypeAlias = str | optax.GradientTransformation


def check_optimiser(optimiser: Optimiser, weight_lr: Real, schedule: str) -> None:
    """Raises if one of them is not known or out of range."""
    checks.lookup("schedule", schedule, SCHEDULES)
    if isinstance(optimiser, optax.GradientTransformation):
        if schedule != "constant":
            raise ValueError(
                f"schedule={schedule!r} has no rate to act on, as an optax transformation brings its own. Make the "
                'schedule part of it, or name an optimiser such as "adam".'
            )
        return
    if callable(optimiser):
        name = getattr(optimiser, "__name__", repr(optimiser))
        raise TypeError(f"optimiser is the function {name} itself: call it, such as optax.adam(1e-3), or give a name.")
    checks.lookup("optimiser", optimiser, OPTIMISERS)
    checks.number("weight_lr", weight_lr, above=0)


def decoupled(optimiser: Optimiser) -> bool:
    """Whether weight decay is no part of the gradient that the optimiser sees, and comes beside its update."""
    return isinstance(optimiser, str) and optimiser in DECOUPLED


def update_rule(
    optimiser: Optimiser,
    weight_lr: Real,
    schedule: str,
    steps: int,
    step: jax.Array,
    decay: Callable[[Any], Any] | None = None,
) -> optax.GradientTransformation:
    """The update rule at one step. The rate may be traced: a new one does not compile anew.

    An optax transformation comes back as it is, with its own rate. `decay` of the weights, times the rate, is taken off
    beside the update.
    """
    if isinstance(optimiser, optax.GradientTransformation):
        return optimiser
    rate = weight_lr * SCHEDULES[schedule](steps)(step)
    own = OPTIMISERS[optimiser](rate)
    if decay is None:
        return own
    beside = optax.stateless(lambda updates, weights: jax.tree.map(lambda u, d: u - rate * d, updates, decay(weights)))
    return optax.chain(own, beside)
