"""The solvers of `mupc train`, and the flags that each of them uses."""

from collections.abc import Callable
from typing import NamedTuple, cast

from ..inference import ODE, AbstractSolver, ErrorSpace, ExactLinear, GradientDescent, Optax
from .config import TrainFlags
from .flags import InferenceFlags

ODE_TOL = 1e-3


class Choice(NamedTuple):
    """How to make a solver, and the flags that it uses."""

    make: Callable[[TrainFlags], AbstractSolver]
    flags: tuple[str, ...]


def make_solver(config: TrainFlags) -> AbstractSolver:
    """Return the solver that the flags ask for. Flags without an effect on it are refused."""
    choice = SOLVERS[config.solver]
    for name, flag in _given(config).items():
        if name not in choice.flags:
            users = " or ".join(solver for solver, other in SOLVERS.items() if name in other.flags)
            raise ValueError(
                f"{flag} has no effect with --solver {config.solver}: leave it out, or use --solver {users}."
            )
    return choice.make(config)


def without_effect(config: TrainFlags) -> list[str]:
    """Return the flags about inference that were given to a method without inference."""
    others = ("solver", "output_precision", "activity_decay")
    return list(_given(config, others).values()) if config.method == "bp" else []


def _given(config: TrainFlags, others: tuple[str, ...] = ()) -> dict[str, str]:
    """Return the flags of solvers, and others, that differ from their defaults, as they are written."""
    names = dict.fromkeys((*others, *(flag for choice in SOLVERS.values() for flag in choice.flags)))
    given = {name: getattr(config, name) for name in names if getattr(config, name) != getattr(InferenceFlags, name)}
    return {name: f"--{name.replace('_', '-')} {value}" for name, value in given.items()}


def _gradient_descent(config: TrainFlags) -> AbstractSolver:
    lr = config.chosen_activity_lr
    assert lr is not None, "gd has a default"
    steps = config.inference_steps if lr == "auto" else _steps(config, config.hidden_layers)
    return GradientDescent(lr=cast(float, lr), steps=steps, momentum=config.momentum, tol=config.inference_tol)


def _adam(config: TrainFlags) -> AbstractSolver:
    lr = config.chosen_activity_lr
    if not isinstance(lr, float):
        raise ValueError(f"--activity-lr {lr} needs --solver gd: give --solver adam a number, such as 0.01.")
    return Optax.adam(lr, steps=_steps(config, config.hidden_layers), tol=config.inference_tol)


def _error_space(config: TrainFlags) -> AbstractSolver:
    return ErrorSpace(steps=_steps(config, 1), cg_steps=config.cg_steps, tol=config.inference_tol)


def _exact_linear(config: TrainFlags) -> AbstractSolver:
    return ExactLinear(steps=_steps(config, 1), tol=config.inference_tol)


def _ode(config: TrainFlags) -> AbstractSolver:
    tol = ODE_TOL if config.inference_tol is None else config.inference_tol
    return ODE(t1=config.end_time, steps=_steps(config, 4096), tol=tol)


def _steps(config: TrainFlags, default: int) -> int:
    return default if config.inference_steps is None else config.inference_steps


SOLVERS = {
    "gd": Choice(_gradient_descent, ("activity_lr", "momentum", "inference_steps", "inference_tol")),
    "adam": Choice(_adam, ("activity_lr", "inference_steps", "inference_tol")),
    "error-space": Choice(_error_space, ("cg_steps", "inference_steps", "inference_tol")),
    "exact-linear": Choice(_exact_linear, ("inference_steps", "inference_tol")),
    "ode": Choice(_ode, ("end_time", "inference_steps", "inference_tol")),
}
