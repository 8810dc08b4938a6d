"""Build what a training run needs from its flags: data, network, algorithm, energy and configuration."""

import dataclasses
import functools
import math
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr

from .. import data
from ..data import Dataset
from ..inference import ODE, AbstractSolver, Energy, ErrorSpace, ExactLinear, GradientDescent, Optax, infer
from ..io import checks
from ..learning import BP, PC, AbstractAlgorithm
from ..network import PARAMETERISATIONS, Network
from ..training import TrainConfig, check_room
from .config import SOLVER_FLAGS, TrainFlags, pick
from .flags import ACTIVITY_LR, SOLVER, TEST, FormFlags, InferenceFlags, SizeFlags, SourceFlags
from .parsing import flag

EVALUATIONS = 10


def number_format(precision: str) -> AbstractContextManager[None]:
    """Return a context with JAX's 64-bit mode on if the run asks for it, and off otherwise."""
    return jax.enable_x64(precision == "float64")


def load_data(flags: TrainFlags) -> Dataset:
    """Load the data set, with its validation split."""
    dataset = load_source(flags)
    return dataset.with_validation(flags.validation, flags.seed) if flags.validation else dataset


def load_source(flags: SourceFlags) -> Dataset:
    """Load the data set without a validation split."""
    given = {name: getattr(flags, name) for name in ("target", "test", "context")} | {"one_hot": flags.one_hot or None}
    options: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    return data.load(flags.data, data_dir=flags.data_dir, verify=flags.verify_data, task=flags.task, **options)


def build(flags: TrainFlags, dataset: Dataset) -> tuple[Network, AbstractAlgorithm]:
    """Return the network, sized for a data set, and the algorithm that trains it. Refuse a network that does not fit
    into memory, before it is made."""
    algorithm, make = make_algorithm(flags), network_maker(flags, dataset)
    check_room(make)
    return make(), algorithm


def network_maker(flags: TrainFlags, dataset: Dataset) -> Callable[[], Network]:
    """Return a function that makes the network, sized for a data set."""
    options, key = pick(flags, SizeFlags) | network_options(flags), jr.key(checks.seed(flags.seed))
    return functools.partial(Network, dataset.in_size, dataset.out_size, **options, key=key)


def make_algorithm(flags: TrainFlags) -> AbstractAlgorithm:
    """Return the algorithm."""
    return PC(make_solver(flags)) if flags.method == "pc" else BP()


def check_run(flags: TrainFlags, dataset: Dataset, shapes: bool = True) -> None:
    """Refuse a run that cannot be trained. Nothing is computed but shapes; without them, settings alone are checked."""
    algorithm, config = make_algorithm(flags), train_config(flags, dataset)
    make = network_maker(flags, dataset)
    if not shapes:
        return
    with number_format(flags.precision):
        check_room(make)
        network = eqx.filter_eval_shape(make)
        config.check(network, dataset, algorithm)
        if isinstance(algorithm, PC):
            x, y = jnp.zeros((1, network.in_size)), jnp.zeros((1, network.out_size))
            eqx.filter_eval_shape(infer, network, x, y, algorithm.solver, energy=config.energy)


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
    config = TrainConfig(**pick(flags, TrainConfig) | {"energy": make_energy(flags)} | settings)
    return dataclasses.replace(config, evaluate_every=config.evaluate_every or evaluation_interval(config, dataset))


def as_used(flags: TrainFlags, dataset: Dataset, network: Network, algorithm: AbstractAlgorithm) -> TrainFlags:
    """Return the flags with every value that was left to a default. What has no meaning for the method or the solver is
    None."""
    config = train_config(flags, dataset).chosen(network, algorithm)
    chosen = ("weight_lr", "rate_scaling", "schedule", "precision", "evaluate_every")
    values = {name: getattr(config, name) for name in chosen}
    values["batch_size"] = config.batches(dataset).batch_size
    values |= {"init": flags.init or PARAMETERISATIONS[flags.parameterisation].init, "task": dataset.schema.task}
    values["context"] = dataset.schema.context
    if dataset.schema.columns is not None and flags.test is None:
        values["test"] = TEST
    values |= dict.fromkeys(("solver", *SOLVER_FLAGS))
    if flags.method == "pc":
        values["output_precision"] = config.objective.output_precision
        values |= {"solver": flags.solver or SOLVER} | solver_settings(flags)
    return dataclasses.replace(flags, **values)


def evaluation_interval(config: TrainConfig, dataset: Dataset) -> int:
    """Return the steps between ten evaluations in all, and at least one an epoch: enough for a curve."""
    per_epoch = config.batches(dataset).per_epoch
    return max(1, min(per_epoch, math.ceil(config.epochs * per_epoch / EVALUATIONS)))


class SolverChoice(NamedTuple):
    """A function that makes a solver, and the flags that it uses with their defaults. Steps without a default are as
    many as hidden layers."""

    make: Callable[..., AbstractSolver]
    flags: Mapping[str, float | int | None]


_ALL_STEPS = {"inference_steps": None, "inference_tol": None}
_ONE_STEP = {"inference_steps": 1, "inference_tol": None}
SOLVERS = {
    "gd": SolverChoice(GradientDescent, {"activity_lr": ACTIVITY_LR["gd"], "momentum": 0.0, **_ALL_STEPS}),
    "adam": SolverChoice(Optax.adam, {"activity_lr": ACTIVITY_LR["adam"], **_ALL_STEPS}),
    "error-space": SolverChoice(ErrorSpace, {"cg_steps": 2, **_ONE_STEP}),
    "exact-linear": SolverChoice(ExactLinear, _ONE_STEP),
    "ode": SolverChoice(ODE, {"end_time": 10.0, "inference_steps": 4096, "inference_tol": 1e-3}),
}
ARGUMENTS = {"activity_lr": "lr", "inference_steps": "steps", "inference_tol": "tol", "end_time": "t1"}
"""Arguments of solvers whose flags have other names."""


def make_solver(flags: TrainFlags) -> AbstractSolver:
    """Return the solver that the flags ask for."""
    settings = solver_settings(flags)
    return SOLVERS[flags.solver or SOLVER].make(**{ARGUMENTS.get(name, name): settings[name] for name in settings})


def solver_settings(flags: TrainFlags) -> dict[str, Any]:
    """Return the flags of the solver, as used. Flags without an effect on it are refused."""
    solver = flags.solver or SOLVER
    known = SOLVERS[solver].flags
    for name, written in given_flags(flags).items():
        if name not in known:
            users = " or ".join(other for other, choice in SOLVERS.items() if name in choice.flags)
            used = f"the default solver, {solver}" if flags.solver is None else f"--solver {solver}"
            raise ValueError(f"{written} has no effect with {used}: leave it out, or use --solver {users}.")
    settings = {
        name: default if getattr(flags, name) is None else getattr(flags, name) for name, default in known.items()
    }
    if solver == "adam" and not isinstance(settings["activity_lr"], float):
        raise ValueError(f"--activity-lr {flags.activity_lr} needs --solver gd: give adam a number, such as 0.01.")
    if settings["inference_steps"] is None and settings.get("activity_lr") != "auto":
        settings["inference_steps"] = flags.hidden_layers
    return settings


def given_flags(flags: TrainFlags, *others: str) -> dict[str, str]:
    """Return the flags of solvers, and others, that differ from their defaults, as they are written."""
    given = {name: getattr(flags, name) for name in (*others, *SOLVER_FLAGS)}
    return {name: f"{flag(name)} {value}" for name, value in given.items() if value != getattr(InferenceFlags, name)}
