"""Build what a training run needs from its flags: data, network, algorithm, energy and configuration."""

import functools
import math
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, NamedTuple

import jax
import jax.random as jr

from .. import data
from ..data import Dataset
from ..inference import ODE, AbstractSolver, Energy, ErrorSpace, ExactLinear, GradientDescent, Optax
from ..io import checks
from ..learning import BP, PC, AbstractAlgorithm
from ..network import Network
from ..training import TrainConfig, check_room
from .config import TrainFlags, pick
from .flags import FormFlags, InferenceFlags, SizeFlags
from .parsing import flag

EVALUATIONS = 10


def number_format(precision: str) -> AbstractContextManager[None]:
    """Return a context with JAX's 64-bit mode on if the run asks for it, and off otherwise."""
    return jax.enable_x64(precision == "float64")


def load_data(flags: TrainFlags) -> Dataset:
    """Load the data set, with its validation split."""
    dataset = data.load(flags.data, data_dir=flags.data_dir, verify=flags.verify_data)
    return dataset.with_validation(flags.validation, flags.seed) if flags.validation else dataset


def build(flags: TrainFlags, dataset: Dataset) -> tuple[Network, AbstractAlgorithm]:
    """Return the network, sized for a data set, and the algorithm that trains it. Refuse a network that does not fit
    into memory, before it is made."""
    options, key = pick(flags, SizeFlags) | network_options(flags), jr.key(checks.seed(flags.seed))
    make = functools.partial(Network, dataset.in_size, dataset.out_size, **options, key=key)
    check_room(make)
    return make(), PC(make_solver(flags)) if flags.method == "pc" else BP()


def network_options(flags: FormFlags) -> dict[str, Any]:
    """Return the arguments of `mupc.Network` that do not depend on its size."""
    options = pick(flags, FormFlags)
    return {"use_bias": options.pop("bias"), **options}


def make_energy(flags: TrainFlags) -> Energy:
    """Return the energy."""
    options = pick(flags, Energy)
    return Energy(**options if flags.method == "pc" else options | {"activity_decay": 0.0})


def train_config(flags: TrainFlags, dataset: Dataset, **settings: Any) -> TrainConfig:
    """Return the configuration of training, with further `settings` that are not flags of every command."""
    every = evaluation_interval(flags, len(dataset.train))
    chosen = {"weight_lr": flags.chosen_weight_lr, "energy": make_energy(flags), "evaluate_every": every}
    return TrainConfig(**pick(flags, TrainConfig) | chosen | settings)


def evaluation_interval(flags: TrainFlags, samples: int) -> int | None:
    """Return the steps between evaluations, by default ten in all and at least one an epoch: enough for a curve."""
    if flags.evaluate_every is not None or flags.batch_size < 1:
        return flags.evaluate_every
    per_epoch = samples // flags.batch_size
    return max(1, min(per_epoch, math.ceil(flags.epochs * per_epoch / EVALUATIONS)))


class SolverChoice(NamedTuple):
    """A function that makes a solver, the flags that it uses, and how many steps (None: as many as hidden layers) and
    which tolerance it has by default."""

    make: Callable[..., AbstractSolver]
    flags: tuple[str, ...]
    steps: int | None = None
    tol: float | None = None


SOLVERS = {
    "gd": SolverChoice(GradientDescent, ("activity_lr", "momentum", "inference_steps", "inference_tol")),
    "adam": SolverChoice(Optax.adam, ("activity_lr", "inference_steps", "inference_tol")),
    "error-space": SolverChoice(ErrorSpace, ("cg_steps", "inference_steps", "inference_tol"), 1),
    "exact-linear": SolverChoice(ExactLinear, ("inference_steps", "inference_tol"), 1),
    "ode": SolverChoice(ODE, ("end_time", "inference_steps", "inference_tol"), 4096, 1e-3),
}
ARGUMENTS = {"activity_lr": "lr", "inference_steps": "steps", "inference_tol": "tol", "end_time": "t1"}
"""Arguments of solvers whose flags have other names."""


def make_solver(flags: TrainFlags) -> AbstractSolver:
    """Return the solver that the flags ask for. Flags without an effect on it are refused."""
    choice = SOLVERS[flags.solver]
    for name, written in given_flags(flags).items():
        if name not in choice.flags:
            users = " or ".join(solver for solver, other in SOLVERS.items() if name in other.flags)
            wrong = f"{written} has no effect with --solver {flags.solver}"
            raise ValueError(f"{wrong}: leave it out, or use --solver {users}.")
    if flags.solver == "adam" and not isinstance(flags.chosen_activity_lr, float):
        raise ValueError(f"--activity-lr {flags.activity_lr} needs --solver gd: give adam a number, such as 0.01.")
    steps = None if flags.activity_lr == "auto" else choice.steps or flags.hidden_layers
    defaults = {"activity_lr": flags.chosen_activity_lr, "inference_steps": steps, "inference_tol": choice.tol}
    given = {name: getattr(flags, name) for name in choice.flags}
    chosen = {name: defaults.get(name) if value is None else value for name, value in given.items()}
    return choice.make(**{ARGUMENTS.get(name, name): value for name, value in chosen.items()})


def given_flags(flags: TrainFlags, *others: str) -> dict[str, str]:
    """Return the flags of solvers, and others, that differ from their defaults, as they are written."""
    names = dict.fromkeys((*others, *(name for choice in SOLVERS.values() for name in choice.flags)))
    given = {name: getattr(flags, name) for name in names if getattr(flags, name) != getattr(InferenceFlags, name)}
    return {name: f"{flag(name)} {value}" for name, value in given.items()}
