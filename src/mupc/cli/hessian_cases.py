"""The networks of `mupc hessian`, at initialisation or from a checkpoint, and the samples for their Hessians."""

import dataclasses
import functools
import itertools
from collections.abc import Callable
from typing import NamedTuple

import equinox as eqx
import jax
import jax.random as jr
import numpy as np

from ..inference import Energy
from ..io import checks
from ..network import Network
from . import config
from .hessian import EnergyFlags, HessianNetworkFlags
from .job import load_data
from .trained_model import open_checkpoint as open_checkpoint

Sample = tuple[np.ndarray, np.ndarray]

WIDTH, HIDDEN_LAYERS = 64, 16


class Case(NamedTuple):
    """A network of the analysis: its form (the arrays may be shapes), how to make that of a seed, and its sample."""

    form: Network
    make: Callable[[int], Network]
    sample: Callable[[int], Sample]


def find(network: HessianNetworkFlags, energy: EnergyFlags) -> tuple[list[Case], Energy]:
    """The networks that the flags ask for, and their energy: that of the run which trained them, but for flags."""
    cases, trained = (_grid(network), None) if network.checkpoint is None else _checkpoint(network)
    base = config.TrainConfig() if trained is None else trained
    given = {name: getattr(energy, name) for name in ("loss", "output_precision", "activity_decay")}
    return cases, Energy(**{name: getattr(base, name) if value is None else value for name, value in given.items()})


def _grid(flags: HessianNetworkFlags) -> list[Case]:
    """Networks at initialisation, every width with every depth; each is tried without its arrays first."""
    widths = (WIDTH,) if flags.width is None else flags.width
    depths = (HIDDEN_LAYERS,) if flags.hidden_layers is None else flags.hidden_layers
    if not (widths and depths):
        raise ValueError("--width and --hidden-layers take one or more numbers, such as --hidden-layers 8 16 32.")
    for width in widths:  # ahead of the sizes that follow from it
        checks.integer("--width", width, 1)
    cases = []
    for width, depth in itertools.product(dict.fromkeys(widths), dict.fromkeys(depths)):
        make = functools.partial(_initial, flags, width, depth)
        form = eqx.filter_eval_shape(make, flags.seed)
        cases.append(Case(form, make, functools.partial(_random_sample, form)))
    return cases


def _initial(flags: HessianNetworkFlags, width: int, depth: int, seed: int) -> Network:
    with jax.enable_x64(False):  # the weights that `mupc train` starts from, in any mode
        return Network(
            width if flags.in_size is None else flags.in_size,
            width if flags.out_size is None else flags.out_size,
            width=width,
            hidden_layers=depth,
            activation=flags.activation,
            parameterisation=flags.parameterisation,
            skip=flags.skip,
            init=flags.init,
            key=jr.key(checks.seed(seed)),
        )


def _random_sample(form: Network, seed: int) -> Sample:
    """A standard normal input and a random class."""
    rng = np.random.default_rng(seed % 2**64)  # numpy's seeds are not negative
    return rng.standard_normal(form.in_size), np.eye(form.out_size)[rng.integers(form.out_size)]


def _checkpoint(flags: HessianNetworkFlags) -> tuple[list[Case], config.TrainConfig | None]:
    """The network of a checkpoint and, where that belongs to a run, the run's configuration."""
    for field in dataclasses.fields(HessianNetworkFlags):
        value = getattr(flags, field.name)
        if field.name not in ("checkpoint", "seed") and value != field.default:
            flag = f"--{field.name.replace('_', '-')}"
            raise ValueError(f"{flag} has no effect with --checkpoint, which says what the network is: leave it out.")
    network, trained = open_checkpoint(str(flags.checkpoint))
    sample = functools.partial(_random_sample, network) if trained is None else functools.partial(_first, trained)
    return [Case(network, lambda seed: network, sample)], trained


def _first(trained: config.TrainConfig, seed: int) -> Sample:
    """The first training sample of a run."""
    dataset = load_data(trained)
    return dataset.normalisation(dataset.train.raw[:1])[0], dataset.encode(dataset.train.targets[:1])[0]
