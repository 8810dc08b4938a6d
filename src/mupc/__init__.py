"""Train and analyse deep predictive coding networks in JAX.

Names are imported when first used, so that `import mupc` and the command line start at once.
"""

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from . import data as data
    from . import diagnostics as diagnostics
    from . import theory as theory
    from ._activation import Activation as Activation
    from ._coordinates import coordinate_check as coordinate_check
    from ._coordinates import coordinate_sizes as coordinate_sizes
    from ._energy import Energy as Energy
    from ._energy import energy as energy
    from ._energy import layer_energies as layer_energies
    from ._infer import infer as infer
    from ._layer import AbstractLayer as AbstractLayer
    from ._layer import Dense as Dense
    from ._learn import backprop_gradients as backprop_gradients
    from ._learn import weight_gradients as weight_gradients
    from ._network import Network as Network
    from ._network import forward as forward
    from ._saved import load as load
    from ._saved import save as save
    from ._solution import RESULTS as RESULTS
    from ._solution import Solution as Solution
    from ._solver import ODE as ODE
    from ._solver import AbstractSolver as AbstractSolver
    from ._solver import ErrorSpace as ErrorSpace
    from ._solver import ExactLinear as ExactLinear
    from ._solver import GradientDescent as GradientDescent
    from ._solver import Optax as Optax
    from ._train import FitResult as FitResult
    from ._train import fit as fit
    from ._train_many import Run as Run
    from ._train_many import fit_many as fit_many
    from .diagnostics import Conditioning as Conditioning
    from .diagnostics import CoordinateCheck as CoordinateCheck
    from .diagnostics import CreditReach as CreditReach
    from .diagnostics import credit_reach as credit_reach
    from .sweep.transfer import transfer as transfer

__version__ = "0.1.0"

_HOME = {
    "Activation": "_activation",
    "AbstractLayer": "_layer",
    "AbstractSolver": "_solver",
    "Dense": "_layer",
    "Energy": "_energy",
    "ErrorSpace": "_solver",
    "ExactLinear": "_solver",
    "GradientDescent": "_solver",
    "ODE": "_solver",
    "Optax": "_solver",
    "Network": "_network",
    "RESULTS": "_solution",
    "Solution": "_solution",
    "Conditioning": "diagnostics",
    "CoordinateCheck": "diagnostics",
    "CreditReach": "diagnostics",
    "FitResult": "_train",
    "Run": "_train_many",
    "backprop_gradients": "_learn",
    "coordinate_check": "_coordinates",
    "coordinate_sizes": "_coordinates",
    "credit_reach": "diagnostics",
    "energy": "_energy",
    "fit": "_train",
    "fit_many": "_train_many",
    "forward": "_network",
    "infer": "_infer",
    "layer_energies": "_energy",
    "load": "_saved",
    "save": "_saved",
    "transfer": "sweep.transfer",
    "weight_gradients": "_learn",
}

__all__ = sorted(_HOME)


def __getattr__(name: str) -> object:
    if name in ("data", "diagnostics", "theory"):
        return importlib.import_module(f".{name}", __name__)
    if name not in _HOME:
        raise AttributeError(f"module 'mupc' has no attribute {name!r}")
    value = getattr(importlib.import_module(f".{_HOME[name]}", __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*_HOME, "__version__", "data", "diagnostics", "theory"})
