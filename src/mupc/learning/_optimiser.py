"""Weight optimisers and learning-rate schedules by name."""

from collections.abc import Callable
from typing import TypeAlias

import jax
import jax.numpy as jnp
import optax

from ..io import checks
from ..network import AbstractNetwork, BaseSize, LayerScale, Real, Scalar

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
"""Optimisers that decay weights separately from their update. Optax's own decay is off: only the energy sets
it."""


def _constant(step: Scalar, total: Scalar) -> Scalar:
    return jnp.ones_like(total)


def _cosine(step: Scalar, total: Scalar) -> Scalar:
    return 0.5 * (1 + jnp.cos(jnp.pi * jnp.minimum(step, total) / total))


def _linear(step: Scalar, total: Scalar) -> Scalar:
    return 1 - jnp.minimum(step, total) / total


def _warmup_cosine(step: Scalar, total: Scalar) -> Scalar:
    warmup = jnp.maximum(1, jnp.round(WARMUP_FRACTION * total))
    decay = jnp.maximum(total - warmup, 1)
    return jnp.where(step < warmup, 1 - _linear(step, warmup), _cosine(step - warmup, decay))


SCHEDULES: dict[str, Callable[[Scalar, Scalar], Scalar]] = {
    "constant": _constant,
    "cosine": _cosine,
    "linear": _linear,
    "warmup-cosine": _warmup_cosine,
}
"""The factor of the learning rate, from the steps taken so far and those of the whole run. Optax has the same formulas,
but compiles the length of the run into the program."""

Optimiser: TypeAlias = str | optax.GradientTransformation


def default_schedule(optimiser: Optimiser) -> str:
    """Return how rates change over a run if nothing else is asked for. They fall, so that the noise of the last batches
    does not decide how the run ends. An optax transformation has a schedule of its own."""
    return "cosine" if isinstance(optimiser, str) else "constant"


def check_optimiser(optimiser: Optimiser, weight_lr: Real | None, schedule: str | None) -> None:
    """Refuse an optimiser, rate or schedule that is not known or out of range."""
    if schedule is not None:
        checks.lookup("schedule", schedule, SCHEDULES)
    if weight_lr is not None:
        checks.number("weight_lr", weight_lr, above=0)
    if isinstance(optimiser, optax.GradientTransformation):
        if weight_lr is not None:
            raise checks.ArgumentError(
                "weight_lr",
                f"= {weight_lr:g} would have no effect, because an optax transformation brings its own rate.",
                'Leave it out, or name an optimiser such as "adam".',
            )
        if schedule not in (None, default_schedule(optimiser)):
            raise checks.ArgumentError(
                "schedule",
                f"= {schedule!r} does not have a rate to act on, because an optax transformation brings its own.",
                'Make the schedule part of it, or name an optimiser such as "adam".',
            )
        return
    if callable(optimiser):
        name = getattr(optimiser, "__name__", checks.literal(optimiser))
        raise checks.ArgumentTypeError(
            "optimiser", f"is the function {name} itself:", "call it, such as optax.adam(1e-3), or give a name."
        )
    checks.lookup("optimiser", optimiser, OPTIMISERS)


def is_decoupled(optimiser: Optimiser) -> bool:
    """Return whether weight decay is separate from the gradient that the optimiser sees."""
    return isinstance(optimiser, str) and optimiser in DECOUPLED


def update_rule(
    optimiser: Optimiser,
    rate: Real,
    base: BaseSize | None = None,
    decay: Callable[[optax.Params], optax.Params] | None = None,
) -> optax.GradientTransformation:
    """Return the update rule with this rate, which may be traced: a new one needs no new program.

    An optax transformation comes back as it is, with its own rate. With a `base` size, rates are scaled from there.
    `decay` of the weights, times the rate, is subtracted separately from the update. It is not scaled, so that weights
    of every size decay by the same share.
    """
    if isinstance(optimiser, optax.GradientTransformation):
        return optimiser
    rule = OPTIMISERS[optimiser](rate)
    if base is not None:
        rule = _rescaled(rule, base)
    if decay is None:
        return rule

    def subtract(updates: optax.Updates, weights: optax.Params) -> optax.Updates:
        return jax.tree.map(lambda u, d: u - rate * d, updates, decay(weights))

    return optax.chain(rule, optax.stateless(subtract))


def as_at_base(gradients: AbstractNetwork, base: BaseSize | None) -> AbstractNetwork:
    """Return gradients as large as those of a network of the base size; unchanged without one."""
    if base is None:
        return gradients
    growth = gradients.rate_scales(base).gradients
    return gradients.scaled([LayerScale(1 / weight, 1 / bias) for weight, bias in growth])


def _rescaled(rule: optax.GradientTransformation, base: BaseSize) -> optax.GradientTransformation:
    """Return a rule that works as at the base size: it gets gradients rescaled to that size, so that ε keeps its
    meaning, and its updates are multiplied by their factors."""

    def update(
        gradients: AbstractNetwork, state: optax.OptState, weights: optax.Params | None = None
    ) -> tuple[AbstractNetwork, optax.OptState]:
        updates, state = rule.update(as_at_base(gradients, base), state, weights)
        return updates.scaled(gradients.rate_scales(base).updates), state

    return optax.GradientTransformation(rule.init, update)
