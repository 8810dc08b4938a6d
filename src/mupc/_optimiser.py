"""Weight optimisers and learning-rate schedules by name."""

from collections.abc import Callable

import optax

from . import _check

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


def _constant(rate: float, steps: int) -> optax.Schedule:
    return optax.constant_schedule(rate)


def _cosine(rate: float, steps: int) -> optax.Schedule:
    return optax.cosine_decay_schedule(rate, steps)


def _linear(rate: float, steps: int) -> optax.Schedule:
    return optax.linear_schedule(rate, 0.0, steps)


def _warmup_cosine(rate: float, steps: int) -> optax.Schedule:
    warmup = max(1, round(WARMUP_FRACTION * steps))
    return optax.warmup_cosine_decay_schedule(0.0, rate, warmup, max(steps, warmup + 1))


SCHEDULES: dict[str, Callable[[float, int], optax.Schedule]] = {
    "constant": _constant,
    "cosine": _cosine,
    "linear": _linear,
    "warmup-cosine": _warmup_cosine,
}


def make_optimiser(
    optimiser: str | optax.GradientTransformation, weight_lr: float, schedule: str, steps: int
) -> optax.GradientTransformation:
    """An optax optimiser from its name, rate and schedule, or the one given, which brings its own rate."""
    rate = _check.lookup("schedule", schedule, SCHEDULES)
    if isinstance(optimiser, optax.GradientTransformation):
        return optimiser
    _check.number("weight_lr", weight_lr, above=0)
    make = _check.lookup("optimiser", optimiser, OPTIMISERS)
    return make(weight_lr if schedule == "constant" else rate(weight_lr, steps))
