"""Build what a training run needs from its flags: data, network, solver, energy and the settings of `fit`."""

import contextlib
import math
from collections.abc import Iterator
from typing import Any

import jax
import jax.random as jr

from .. import data
from ..data import Dataset
from ..inference import Energy
from ..io import checks
from ..learning import BP, PC, AbstractAlgorithm
from ..network import Network
from ..training import TrainConfig
from .config import TrainFlags
from .flags import FormFlags
from .solvers import make_solver

EVALUATIONS = 10


@contextlib.contextmanager
def number_format(precision: str) -> Iterator[None]:
    """Turn JAX's 64-bit mode on if the run asks for it, and off otherwise."""
    with jax.enable_x64(precision == "float64"):
        yield


def load_data(flags: TrainFlags) -> Dataset:
    """Load the data set, with its validation split."""
    dataset = data.load(flags.data, data_dir=flags.data_dir, verify=flags.verify_data)
    return dataset.with_validation(flags.validation, flags.seed) if flags.validation else dataset


def build(flags: TrainFlags, dataset: Dataset) -> tuple[Network, AbstractAlgorithm]:
    """Return the network, sized for a data set, and the algorithm that trains it."""
    network = Network(
        dataset.in_size,
        dataset.out_size,
        width=flags.width,
        hidden_layers=flags.hidden_layers,
        **network_options(flags),
        key=jr.key(checks.seed(flags.seed)),
    )
    return network, PC(make_solver(flags)) if flags.method == "pc" else BP()


def network_options(flags: FormFlags) -> dict[str, Any]:
    """Return the arguments of `mupc.Network` that do not depend on its size."""
    return {
        "activation": flags.activation,
        "parameterisation": flags.parameterisation,
        "skip": flags.skip,
        "use_bias": flags.bias,
        "init": flags.init,
    }


def make_energy(flags: TrainFlags) -> Energy:
    """Return the energy."""
    return Energy(
        loss=flags.loss,
        output_precision=flags.output_precision,
        activity_decay=flags.activity_decay if flags.method == "pc" else 0.0,
        weight_decay=flags.weight_decay,
        orthogonality=flags.orthogonality,
    )


def check_training(flags: TrainFlags, network: Network, algorithm: AbstractAlgorithm, dataset: Dataset) -> None:
    """Refuse what cannot be trained, before anything is compiled."""
    if flags.evaluate_every is not None:
        checks.integer("evaluate_every", flags.evaluate_every, 1)
    settings: dict[str, Any] = {"weight_lr": flags.chosen_weight_lr, "seed": flags.seed, "energy": make_energy(flags)}
    config = TrainConfig(**settings, **training_options(flags, dataset))
    config.check(network, dataset, algorithm)


def training_options(flags: TrainFlags, dataset: Dataset) -> dict[str, Any]:
    """Return the arguments of `fit` in which runs of one program must agree; `fit_many` takes them too."""
    return {
        "epochs": flags.epochs,
        "batch_size": flags.batch_size,
        "optimiser": flags.optimiser,
        "schedule": flags.schedule,
        "evaluate_every": evaluation_interval(flags, len(dataset.train)),
        "augment": flags.augment,
        "precision": flags.precision,
    }


def evaluation_interval(flags: TrainFlags, samples: int) -> int | None:
    """Return the steps between evaluations, by default ten in all and at least one an epoch: enough for a curve."""
    if flags.evaluate_every is not None or flags.batch_size < 1:
        return flags.evaluate_every
    per_epoch = samples // flags.batch_size
    return max(1, min(per_epoch, math.ceil(flags.epochs * per_epoch / EVALUATIONS)))
