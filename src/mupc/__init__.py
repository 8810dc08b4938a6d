"""Train and analyse deep predictive coding networks in JAX.

Names are imported when first used, so that `import mupc` and the command line start at once.
"""

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from . import data as data
    from . import diagnostics as diagnostics
    from . import theory as theory
    from .diagnostics import Conditioning as Conditioning
    from .diagnostics import CoordinateCheck as CoordinateCheck
    from .diagnostics import CreditReach as CreditReach
    from .diagnostics import coordinate_check as coordinate_check
    from .diagnostics import coordinate_sizes as coordinate_sizes
    from .diagnostics import credit_reach as credit_reach
    from .inference import ODE as ODE
    from .inference import RESULTS as RESULTS
    from .inference import AbstractSolver as AbstractSolver
    from .inference import Energy as Energy
    from .inference import ErrorSpace as ErrorSpace
    from .inference import ExactLinear as ExactLinear
    from .inference import GradientDescent as GradientDescent
    from .inference import Optax as Optax
    from .inference import Solution as Solution
    from .inference import energy as energy
    from .inference import infer as infer
    from .inference import layer_energies as layer_energies
    from .learning import BP as BP
    from .learning import PC as PC
    from .learning import AbstractAlgorithm as AbstractAlgorithm
    from .learning import backprop_gradients as backprop_gradients
    from .learning import weight_gradients as weight_gradients
    from .network import AbstractNetwork as AbstractNetwork
    from .network import Activation as Activation
    from .network import Dense as Dense
    from .network import Network as Network
    from .network import forward as forward
    from .network import load as load
    from .network import save as save
    from .sweep import transfer as transfer
    from .training import FitResult as FitResult
    from .training import Run as Run
    from .training import TrainConfig as TrainConfig
    from .training import TrainStatus as TrainStatus
    from .training import fit as fit
    from .training import fit_many as fit_many

__version__ = "0.1.0"

_HOME = {
    "Activation": "network",
    "AbstractAlgorithm": "learning",
    "AbstractNetwork": "network",
    "BP": "learning",
    "PC": "learning",
    "TrainConfig": "training",
    "TrainStatus": "training",
    "AbstractSolver": "inference",
    "Dense": "network",
    "Energy": "inference",
    "ErrorSpace": "inference",
    "ExactLinear": "inference",
    "GradientDescent": "inference",
    "ODE": "inference",
    "Optax": "inference",
    "Network": "network",
    "RESULTS": "inference",
    "Solution": "inference",
    "Conditioning": "diagnostics",
    "CoordinateCheck": "diagnostics",
    "CreditReach": "diagnostics",
    "FitResult": "training",
    "Run": "training",
    "backprop_gradients": "learning",
    "coordinate_check": "diagnostics",
    "coordinate_sizes": "diagnostics",
    "credit_reach": "diagnostics",
    "energy": "inference",
    "fit": "training",
    "fit_many": "training",
    "forward": "network",
    "infer": "inference",
    "layer_energies": "inference",
    "load": "network",
    "save": "network",
    "transfer": "sweep",
    "weight_gradients": "learning",
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
