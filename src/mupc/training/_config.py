"""What a training run is asked to do, checked before anything is compiled."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import jax.numpy as jnp
import jax.random as jr

from ..data import Dataset
from ..inference import CROSS_ENTROPY, Energy, as_energy, check_solver, traced
from ..io import checks
from ..learning import Optimiser, check_backprop, check_optimiser
from ..network import Network, Real, check_network, resolve_precision
from ._step import Format, Job

METHODS = ("pc", "bp")
MOST_STEPS = 2**31
ON_DIVERGENCE = ("stop", "halve-lr")
RECORDED = (
    "step", "epoch", "total_steps", "seconds", "steps_per_second", "diverged", "back_to_step", "weight_lr", "energy",
    "train_loss", "test_loss", "validation_loss", "test_accuracy", "validation_accuracy", "learning_layers", "layers",
)  # fmt: skip
"""All that a record of `fit` may have besides metrics."""


class Plan(NamedTuple):
    """How many steps there are, in all, from one evaluation to the next, and in an epoch."""

    total: int
    interval: int
    per_epoch: int

    def next_evaluation(self, step: int) -> int:
        """The step of the first evaluation after this one."""
        return min(self.total, step + self.interval - step % self.interval)


@dataclasses.dataclass(frozen=True)
class Settings:
    """Those arguments of `fit` that all runs of `fit_many` share."""

    epochs: float | int
    method: str
    batch_size: int
    optimiser: Optimiser
    schedule: str
    evaluate_every: int | None
    unsupervised: bool
    augment: bool
    precision: str | None

    def job(
        self,
        network: Network,
        dataset: Any,
        solver: Any,
        energy: Energy | None,
        weight_lr: Real,
        seed: int,
    ) -> Job:
        """What to do, with everything checked."""
        validate(
            network, dataset, solver, self.epochs, self.batch_size, self.method, self.unsupervised, self.augment, energy
        )
        check_optimiser(self.optimiser, weight_lr, self.schedule)
        policy = resolve_precision(self.precision, network)
        return Job(
            solver=traced(solver),
            energy=as_energy(energy),
            raw=jnp.asarray(dataset.train.raw),
            targets=jnp.asarray(dataset.train.targets),
            key=jr.key(checks.seed(seed)),
            weight_lr=jnp.asarray(weight_lr, policy.dtype),
            optimiser=self.optimiser,
            schedule=self.schedule,
            total_steps=self.plan(dataset).total,
            format=Format(dataset.normalisation, dataset.classes, dataset.image_shape, self.unsupervised),
            augment=self.augment,
            precision=policy.name,
            batch_size=self.batch_size,
        )

    def plan(self, dataset: Dataset) -> Plan:
        """How long to train, and when to evaluate."""
        per_epoch = len(dataset.train) // self.batch_size
        total = max(1, round(self.epochs * per_epoch))
        every = self.evaluate_every
        return Plan(
            total, min(total, per_epoch if every is None else checks.integer("evaluate_every", every, 1)), per_epoch
        )


def validate(
    network: Network,
    dataset: Any,
    solver: Any,
    epochs: float | int,
    batch_size: int,
    method: str,
    unsupervised: bool,
    augment: bool,
    energy: Energy | None = None,
) -> None:
    """Raises for what cannot be trained, before anything is compiled."""
    check_network(network)
    if not isinstance(dataset, Dataset):
        raise TypeError(f'dataset must be a mupc.data.Dataset such as mupc.data.load("digits"), got {dataset!r}.')
    if method not in METHODS:
        raise checks.unknown("method", method, METHODS)
    checks.boolean("unsupervised", unsupervised)
    checks.boolean("augment", augment)
    if method == "pc" and solver is None:
        raise ValueError('method "pc" needs a solver, such as mupc.GradientDescent(lr=0.01, steps=128).')
    if method == "pc":
        check_solver(solver, ' For backpropagation leave it out, and give method="bp".')
    if method == "bp" and (solver is not None or unsupervised):
        what = "unsupervised training" if unsupervised else "a solver"
        raise ValueError(f'{what} needs inference, which method "bp" has not. Leave it out, or use method "pc".')
    checks.number("epochs", epochs, above=0)
    checks.integer("batch_size", batch_size, 1)
    if batch_size > len(dataset.train):
        raise ValueError(
            f"batch_size={batch_size} is more than the {len(dataset.train)} training samples of {dataset.name}. "
            "Use a smaller batch."
        )
    if epochs * (len(dataset.train) // batch_size) >= MOST_STEPS:
        raise ValueError(f"epochs={epochs:g} of {dataset.name} are {MOST_STEPS:,} steps or more. Use fewer.")
    wanted = (None, dataset.in_size) if unsupervised else (dataset.in_size, dataset.out_size)
    for name, size, want in zip(("in_size", "out_size"), (network.in_size, network.out_size), wanted, strict=True):
        if want is not None and size != want:
            raise ValueError(f"the network has {name}={size}, but {dataset.name} needs {want}. Make the network so.")
    if augment and dataset.image_shape is None:
        raise ValueError(f"augment needs images, and {dataset.name} has none. Leave it out.")
    check_energy(energy, dataset, method, unsupervised)


def check_energy(energy: Energy | None, dataset: Dataset, method: str, unsupervised: bool) -> None:
    """Raises for an energy that the method does not have, or whose loss the targets do not fit."""
    energy = as_energy(energy)
    if method == "bp":
        check_backprop(energy)
    if energy.loss == CROSS_ENTROPY and (unsupervised or dataset.classes is None):
        what = "the inputs themselves in unsupervised training" if unsupervised else f"numbers in {dataset.name}"
        raise ValueError(f'cross-entropy needs classes as targets, and they are {what}. Use the loss "mse".')


def check_hooks(metrics: Any, callbacks: Any, stop: Any) -> None:
    """Raises for metrics, callbacks or a `stop` that training could not call."""
    if metrics is not None and not isinstance(metrics, Mapping):
        raise TypeError(f'metrics must be a dictionary such as {{"norm": function_of_the_network}}, got {metrics!r}.')
    for name, metric in (metrics or {}).items():
        checks.function(f"the metric {name!r}", metric)
        if name in RECORDED:
            raise ValueError(f"the metric {name!r} has the name of what fit itself records. Give it another.")
    if not isinstance(callbacks, Sequence):
        raise TypeError(f"callbacks must be a list of functions such as [print], got {callbacks!r}.")
    for callback in callbacks:
        checks.function("each of the callbacks", callback)
    if stop is not None:
        checks.function("stop", stop)


def check_keeping(
    checkpoints: bool, checkpoint_every: int | None, keep: int, on_divergence: str, optimiser: Optimiser
) -> None:
    """Raises for what cannot be asked of checkpoints, or of a run that diverges."""
    if on_divergence not in ON_DIVERGENCE:
        raise checks.unknown("on_divergence", on_divergence, ON_DIVERGENCE)
    if on_divergence == "halve-lr" and not isinstance(optimiser, str):
        raise ValueError(
            'on_divergence="halve-lr" has no rate to halve, as an optax transformation brings its own. Name an '
            'optimiser such as "adam", or use on_divergence="stop".'
        )
    checks.integer("keep", keep, 1)
    if checkpoint_every is not None:
        checks.integer("checkpoint_every", checkpoint_every, 1)
        if not checkpoints:
            raise ValueError("checkpoint_every needs a folder: give checkpoints=DIR, or leave it out.")
