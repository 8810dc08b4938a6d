"""Build what a training run needs from its flags: data, network, algorithm, energy and configuration."""

import contextlib
import math
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, cast

import jax
import jax.random as jr

from .. import data
from ..data import Dataset
from ..inference import ODE, AbstractSolver, Energy, ErrorSpace, ExactLinear, GradientDescent, Optax
from ..io import checks
from ..learning import BP, PC, AbstractAlgorithm
from ..network import Network
from ..training import TrainConfig
from .config import TrainFlags
from .flags import FormFlags, InferenceFlags
from .parsing import flag

EVALUATIONS = 10
ODE_TOL = 1e-3


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


def train_config(flags: TrainFlags, dataset: Dataset, **settings: Any) -> TrainConfig:
    """Return the configuration of training, with further `settings` that are not flags of every command."""
    return TrainConfig(
        epochs=flags.epochs,
        batch_size=flags.batch_size,
        weight_lr=flags.chosen_weight_lr,
        seed=flags.seed,
        energy=make_energy(flags),
        optimiser=flags.optimiser,
        schedule=flags.schedule,
        evaluate_every=evaluation_interval(flags, len(dataset.train)),
        augment=flags.augment,
        precision=flags.precision,
        **settings,
    )


def evaluation_interval(flags: TrainFlags, samples: int) -> int | None:
    """Return the steps between evaluations, by default ten in all and at least one an epoch: enough for a curve."""
    if flags.evaluate_every is not None or flags.batch_size < 1:
        return flags.evaluate_every
    per_epoch = samples // flags.batch_size
    return max(1, min(per_epoch, math.ceil(flags.epochs * per_epoch / EVALUATIONS)))


def make_solver(flags: TrainFlags) -> AbstractSolver:
    """Return the solver that the flags ask for. Flags without an effect on it are refused."""
    choice = SOLVERS[flags.solver]
    for name, written in given_flags(flags).items():
        if name not in choice.flags:
            users = " or ".join(solver for solver, other in SOLVERS.items() if name in other.flags)
            raise ValueError(
                f"{written} has no effect with --solver {flags.solver}: leave it out, or use --solver {users}."
            )
    return choice.make(flags)


def given_flags(flags: TrainFlags, *others: str) -> dict[str, str]:
    """Return the flags of solvers, and others, that differ from their defaults, as they are written."""
    names = dict.fromkeys((*others, *(name for choice in SOLVERS.values() for name in choice.flags)))
    given = {name: getattr(flags, name) for name in names if getattr(flags, name) != getattr(InferenceFlags, name)}
    return {name: f"{flag(name)} {value}" for name, value in given.items()}


class SolverChoice(NamedTuple):
    """How to make a solver, and the flags that it uses."""

    make: Callable[[TrainFlags], AbstractSolver]
    flags: tuple[str, ...]


def _gradient_descent(flags: TrainFlags) -> AbstractSolver:
    lr = cast(float, flags.chosen_activity_lr)  # a wrong word is for the solver to refuse
    steps = flags.inference_steps if flags.activity_lr == "auto" else _steps(flags, flags.hidden_layers)
    return GradientDescent(lr=lr, steps=steps, momentum=flags.momentum, tol=flags.inference_tol)


def _adam(flags: TrainFlags) -> AbstractSolver:
    lr = flags.chosen_activity_lr
    if not isinstance(lr, float):
        raise ValueError(f"--activity-lr {lr} needs --solver gd: give --solver adam a number, such as 0.01.")
    return Optax.adam(lr, steps=_steps(flags, flags.hidden_layers), tol=flags.inference_tol)


def _error_space(flags: TrainFlags) -> AbstractSolver:
    return ErrorSpace(steps=_steps(flags, 1), cg_steps=flags.cg_steps, tol=flags.inference_tol)


def _exact_linear(flags: TrainFlags) -> AbstractSolver:
    return ExactLinear(steps=_steps(flags, 1), tol=flags.inference_tol)


def _ode(flags: TrainFlags) -> AbstractSolver:
    tol = ODE_TOL if flags.inference_tol is None else flags.inference_tol
    return ODE(t1=flags.end_time, steps=_steps(flags, 4096), tol=tol)


def _steps(flags: TrainFlags, default: int) -> int:
    return default if flags.inference_steps is None else flags.inference_steps


SOLVERS = {
    "gd": SolverChoice(_gradient_descent, ("activity_lr", "momentum", "inference_steps", "inference_tol")),
    "adam": SolverChoice(_adam, ("activity_lr", "inference_steps", "inference_tol")),
    "error-space": SolverChoice(_error_space, ("cg_steps", "inference_steps", "inference_tol")),
    "exact-linear": SolverChoice(_exact_linear, ("inference_steps", "inference_tol")),
    "ode": SolverChoice(_ode, ("end_time", "inference_steps", "inference_tol")),
}
