"""Weight optimisers and learning-rate schedules by name."""

from collections.abc import Callable
from typing import TypeAlias

import jax
import optax

from . import _check
from ._types import Real

WARMUP_FRACTION = 0.05

OPTIMISERS: dict[str, Callable[..., optax.GradientTransformation]] = {
    "adam": optax.adam,
    "adamw": optax.adamw,
    "adagrad": optax.adagrad,
    "lion": optax.lion,
    "momentum": lambda rate: optax.sgd(rate, momentum=0.9),
    "nadam": optax.nadam,
    "rmsprop": optax.rmsprop,
    "sgd": optax.sgd,
}


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


def check(optimiser: Optimiser, weight_lr: Real, schedule: str) -> None:
    """Raises if one of them is not known or out of range."""
    _check.lookup("schedule", schedule, SCHEDULES)
    if isinstance(optimiser, optax.GradientTransformation):
        return
    _check.lookup("optimiser", optimiser, OPTIMISERS)
    _check.number("weight_lr", weight_lr, above=0)


def rule(
    optimiser: Optimiser, weight_lr: Real, schedule: str, steps: int, step: jax.Array
) -> optax.GradientTransformation:
    """The update rule at one step. The rate may be traced: a new one does not compile anew.

    An optax transformation comes back as it is, with its own rate.
    """
    if isinstance(optimiser, optax.GradientTransformation):
        return optimiser
    return OPTIMISERS[optimiser](weight_lr * SCHEDULES[schedule](steps)(step))
