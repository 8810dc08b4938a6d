"""What a `config.json` of format 1 means: its own defaults, which stay as they were whatever those of today are."""

from collections.abc import Mapping
from typing import Any

DEFAULTS: dict[str, object] = {
    "data": "digits", "data_dir": None, "verify_data": True, "validation": 0.0, "augment": False,
    "width": 64, "hidden_layers": 16, "activation": "relu", "parameterisation": "mupc", "skip": 1, "init": None,
    "bias": False, "method": "pc", "solver": "gd", "activity_lr": None, "momentum": 0.0, "inference_steps": None,
    "inference_tol": None, "cg_steps": 2, "end_time": 10.0, "loss": "mse", "output_precision": 1.0,
    "activity_decay": 0.0, "epochs": 5.0, "batch_size": 64, "weight_lr": None, "optimiser": "adam",
    "schedule": "constant", "weight_decay": 0.0, "orthogonality": 0.0, "precision": "float32", "seed": 0,
    "evaluate_every": None,
}  # fmt: skip
"""Every setting of format 1 with its default. None is chosen by `resolved`, or means the same today."""
_ONE_SOLVER = {"momentum": "gd", "cg_steps": "error-space", "end_time": "ode"}
_PC = ("solver", "activity_lr", "inference_steps", "inference_tol", *_ONE_SOLVER)


def resolved(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return all settings of a run of format 1 with what its nulls stood for. What has no meaning for its solver is
    left out."""
    found = dict(settings)
    method, solver = found["method"], found["solver"]
    steps = {"error-space": 1, "exact-linear": 1, "ode": 4096}.get(solver, found["hidden_layers"])
    chosen = {
        "weight_lr": 0.01 if method == "bp" or solver == "error-space" else 0.1,
        "activity_lr": {"gd": 0.05, "adam": 0.01}.get(solver),
        "inference_steps": None if found["activity_lr"] == "auto" else steps,
        "inference_tol": 1e-3 if solver == "ode" else None,
    }
    found |= {name: value for name, value in chosen.items() if found[name] is None}
    if method == "bp":
        unused = [*_PC, "output_precision", "activity_decay"]
    else:
        unused = [name for name, user in _ONE_SOLVER.items() if solver != user and found[name] == DEFAULTS[name]]
    return {name: value for name, value in found.items() if name not in unused}
