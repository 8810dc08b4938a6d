"""What a training run is asked to do, checked before anything is compiled."""

import dataclasses
from typing import Any, NamedTuple

import jax.numpy as jnp
import jax.random as jr

from . import _check, _optimiser, _precision
from ._energy import Energy
from ._network import Network
from ._optimiser import Optimiser
from ._solver import check_solver, traced
from ._step import Format, Job
from ._types import Real
from .data import Dataset

METHODS = ("pc", "bp")
ON_DIVERGENCE = ("stop", "halve-lr")


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
            network, dataset, solver, self.epochs, self.batch_size, self.method, self.unsupervised, self.augment
        )  # fmt: skip
        _optimiser.check(self.optimiser, weight_lr, self.schedule)
        policy = _precision.resolve(self.precision, network)
        return Job(
            solver=traced(solver),
            energy=Energy() if energy is None else energy,
            raw=jnp.asarray(dataset.train.raw),
            targets=jnp.asarray(dataset.train.targets),
            key=jr.key(_check.seed(seed)),
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
            total, min(total, per_epoch if every is None else _check.integer("evaluate_every", every, 1)), per_epoch
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
) -> None:
    """Raises for what cannot be trained, before anything is compiled."""
    if not isinstance(dataset, Dataset):
        raise TypeError(f'dataset must be a mupc.data.Dataset such as mupc.data.load("digits"), got {dataset!r}.')
    if method not in METHODS:
        raise ValueError(_check.unknown("method", method, METHODS))
    if method == "pc" and solver is None:
        raise ValueError('method "pc" needs a solver, such as mupc.GradientDescent(lr=0.01, steps=128).')
    if method == "pc":
        check_solver(solver, ' For backpropagation leave it out, and give method="bp".')
    if method == "bp" and (solver is not None or unsupervised):
        what = "unsupervised training" if unsupervised else "a solver"
        raise ValueError(f'{what} needs inference, which method "bp" has not. Leave it out, or use method "pc".')
    _check.number("epochs", epochs, above=0)
    _check.integer("batch_size", batch_size, 1)
    if batch_size > len(dataset.train):
        raise ValueError(
            f"batch_size={batch_size} is more than the {len(dataset.train)} training samples of {dataset.name}. "
            "Use a smaller batch."
        )
    wanted = (None, dataset.in_size) if unsupervised else (dataset.in_size, dataset.out_size)
    for name, size, want in zip(("in_size", "out_size"), (network.in_size, network.out_size), wanted, strict=True):
        if want is not None and size != want:
            raise ValueError(f"the network has {name}={size}, but {dataset.name} needs {want}. Make the network so.")
    if augment and dataset.image_shape is None:
        raise ValueError(f"augment needs images, and {dataset.name} has none. Leave it out.")


def check_keeping(
    checkpoints: bool, checkpoint_every: int | None, keep: int, on_divergence: str, optimiser: Optimiser
) -> None:
    """Raises for what cannot be asked of checkpoints, or of a run that diverges."""
    if on_divergence not in ON_DIVERGENCE:
        raise ValueError(_check.unknown("on_divergence", on_divergence, ON_DIVERGENCE))
    if on_divergence == "halve-lr" and not isinstance(optimiser, str):
        raise ValueError(
            'on_divergence="halve-lr" has no rate to halve, as an optax transformation brings its own. Name an '
            'optimiser such as "adam", or use on_divergence="stop".'
        )
    _check.integer("keep", keep, 1)
    if checkpoint_every is not None:
        _check.integer("checkpoint_every", checkpoint_every, 1)
        if not checkpoints:
            raise ValueError("checkpoint_every needs a folder: give checkpoints=DIR, or leave it out.")
