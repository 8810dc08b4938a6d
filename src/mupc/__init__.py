"""Train and analyse deep predictive coding networks in JAX.

Names are imported when first used, so that `import mupc` and the command line start at once.
"""

from typing import TYPE_CHECKING

from .io import lazy_names

if TYPE_CHECKING:
    from . import data, diagnostics, estimators, theory
    from .diagnostics import (
        Conditioning,
        CoordinateCheck,
        CreditReach,
        algorithm_reach,
        coordinate_check,
        coordinate_sizes,
        credit_reach,
    )
    from .inference import (
        ODE,
        RESULTS,
        AbstractSolver,
        Energy,
        ErrorSpace,
        ExactLinear,
        GradientDescent,
        MonteCarlo,
        Optax,
        Solution,
        energy,
        infer,
        layer_energies,
        sample,
    )  # fmt: skip
    from .io import keep_compiled
    from .learning import (
        ALM,
        BP,
        IPC,
        PC,
        ZIL,
        AbstractAlgorithm,
        Amortised,
        EquilibriumPropagation,
        Nudged,
        algorithm_gradients,
        backprop_gradients,
        weight_gradients,
    )
    from .network import AbstractNetwork, Activation, Chain, Dense, Network, Stack, forward, models, nodes
    from .prediction import Model, load, save
    from .sweep import transfer
    from .training import FitResult, Run, TrainConfig, TrainStatus, fit, fit_many

__version__ = "0.1.0"

_NAMES = {
    "data": "data",
    "diagnostics": "Conditioning CoordinateCheck CreditReach algorithm_reach coordinate_check coordinate_sizes "
    "credit_reach diagnostics",
    "estimators": "estimators",
    "inference": "ODE RESULTS AbstractSolver Energy ErrorSpace ExactLinear GradientDescent MonteCarlo Optax Solution "
    "energy infer layer_energies sample",
    "io": "keep_compiled",
    "learning": "ALM BP IPC PC ZIL AbstractAlgorithm Amortised EquilibriumPropagation Nudged algorithm_gradients "
    "backprop_gradients weight_gradients",
    "network": "AbstractNetwork Activation Chain Dense Network Stack forward models nodes",
    "prediction": "Model load save",
    "sweep": "transfer",
    "theory": "theory",
    "training": "FitResult Run TrainConfig TrainStatus fit fit_many",
}

_MODULES = ["data", "diagnostics", "estimators", "models", "nodes", "theory"]

__all__ = sorted(name for names in _NAMES.values() for name in names.split() if name not in _MODULES)
__getattr__ = lazy_names(__name__, _NAMES)


def __dir__() -> list[str]:
    return [*__all__, *_MODULES, "__version__"]
