"""The ways to build and train a network that figures compare, by name; the data sets, and networks before training."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np

    from ..data import Dataset
    from ..learning import AbstractAlgorithm
    from ..network import AbstractNetwork, Network

PAPER_BATCH = 64
"""The paper's β acts on the mean over 64 samples, a solver's `lr` on one sample: lr = β / 64."""
LONG = 500
"""Steps of inference that is meant to converge: the most that the paper allows."""

MLP = "mlp"
BASE_WIDTH = 64
"""The width from which learning rates are scaled by default."""

AlgorithmFactory = Callable[[float, int], "AbstractAlgorithm"]
"""Return the algorithm for β and a number of hidden layers."""


def descent(steps: int | None = None, tol: float | None = None, momentum: float = 0.0) -> AlgorithmFactory:
    """Infer by gradient descent, with as many steps as hidden layers by default, or fewer once the gradient has fallen
    to `tol` of its start."""

    def algorithm(beta: float, depth: int) -> AbstractAlgorithm:
        from ..inference import GradientDescent
        from ..learning import PC

        count = depth if steps is None else steps
        return PC(GradientDescent(lr=beta / PAPER_BATCH, steps=count, tol=tol, momentum=momentum))

    return algorithm


PAPER_DESCENT = descent()


def adam(beta: float, depth: int) -> AbstractAlgorithm:
    """Infer with Adam, which does not depend on the scale of the gradient, so that β is its rate."""
    from ..inference import Optax
    from ..learning import PC

    return PC(Optax.adam(beta, LONG))


def error_space(**settings: Any) -> AlgorithmFactory:
    """Infer in error space with these settings of the solver."""

    def algorithm(beta: float, depth: int) -> AbstractAlgorithm:
        from ..inference import ErrorSpace
        from ..learning import PC

        return PC(ErrorSpace(**settings))

    return algorithm


def nudged(strength: float, sign: str, **settings: Any) -> AlgorithmFactory:
    """Infer in error space with these settings of the solver, under a nudge."""

    def algorithm(beta: float, depth: int) -> AbstractAlgorithm:
        from ..inference import ErrorSpace
        from ..learning import Nudged

        return Nudged(ErrorSpace(**settings), strength, sign)

    return algorithm


def exact(beta: float, depth: int) -> AbstractAlgorithm:
    """Solve for the equilibrium of a linear network."""
    from ..inference import ExactLinear
    from ..learning import PC

    return PC(ExactLinear())


def backpropagation(beta: float, depth: int) -> AbstractAlgorithm:
    """Do not infer."""
    from ..learning import BP

    return BP()


@dataclasses.dataclass(frozen=True)
class FigureMethod:
    """How a network is built and trained. The paper's rates neither scale with its size nor fall over time.

    - `model`: the residual MLP, or a name of `mupc.models`.
    - `rotation`: the most degrees by which augmentation turns images; None: as many as the paper.
    - `cutout`: the side of the square that augmentation hides.
    - `form`: further arguments of the model.
    - `context`: the characters of a window of a text.
    - `held_out`: the part of the training set by which the best network of a run is chosen. The test split is then
      scored once, at the end.
    """

    label: str
    parameterisation: str = "mupc"
    init: str | None = None
    algorithm: AlgorithmFactory = PAPER_DESCENT
    output_precision: float = 1.0
    activity_decay: float = 0.0
    skip: int = 1
    rate_scaling: str = "none"
    base_width: int = BASE_WIDTH
    schedule: str = "constant"
    model: str = MLP
    loss: str = "mse"
    optimiser: str = "adam"
    weight_decay: float = 0.0
    batch_size: int = PAPER_BATCH
    rotation: float | None = None
    cutout: int = 0
    form: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    context: int | None = None
    held_out: float = 0.0


ERROR_SPACE = {f"error-space-{precision:g}": precision for precision in (1.0, 0.1, 0.03, 0.01)}
"""Methods that infer in error space, and their output precisions λ."""

DECAYS = {f"sp-decay-{decay:g}": decay for decay in (0.0, 0.001, 0.01, 0.1, 1.0)}
"""Methods of standard networks without skips, inferred exactly, and their activity decay α."""

TOLERANCES = {f"mupc-tol-{tol:g}": tol for tol in (0.9,)}
"""Methods whose inference stops early, and the fraction of its start that the gradient must fall to."""


def _standard(label: str, algorithm: AlgorithmFactory, skip: int = 1, activity_decay: float = 0.0) -> FigureMethod:
    return FigureMethod(label, "sp", "kaiming-uniform", algorithm, activity_decay=activity_decay, skip=skip)


METHODS = {
    "mupc": FigureMethod("μPC"),
    "bp": FigureMethod("BP with Depth-μP", algorithm=backpropagation),
    "sp": _standard("SP", PAPER_DESCENT),
    "sp-gd": _standard("SP with GD", descent(LONG), skip=0),
    "sp-adam": _standard("SP with Adam", adam, skip=0),
    "sp-skips": _standard("SP with skips", descent(LONG)),
    "sp-exact": _standard("SP, exact inference", exact),
    "orthogonal": FigureMethod("orthogonal", "orthogonal", skip=0),
    "mupc-exact": FigureMethod("μPC, exact inference", algorithm=exact),
    "mupc-one-step": FigureMethod("μPC, one inference step", algorithm=descent(1)),
    **{
        name: FigureMethod(
            f"error space, λ = {precision:g}", algorithm=error_space(cg_steps=2), output_precision=precision
        )
        for name, precision in ERROR_SPACE.items()
    },
    **{name: _standard(f"α = {decay:g}", exact, 0, decay) for name, decay in DECAYS.items()},
    **{name: FigureMethod(f"μPC, tolerance {tol:g}", algorithm=descent(tol=tol)) for name, tol in TOLERANCES.items()},
    "mupc-whole-run": FigureMethod("μPC, rates of the whole run"),
}


def scaled(method: str, base_width: int = BASE_WIDTH) -> str:
    """Return the name of a method with learning rates that scale with the network's size, from 8 hidden layers of this
    width."""
    return f"{method}-scaled" if base_width == BASE_WIDTH else f"{method}-scaled-{base_width}"


METHODS |= {
    scaled(name, width): dataclasses.replace(
        METHODS[name], label=f"{METHODS[name].label}, scaled", rate_scaling="mup", base_width=width
    )
    for name in ("mupc", "bp", "error-space-0.01")
    for width in (BASE_WIDTH, 512)
}


def decaying(method: str) -> str:
    """Return the name of a method with learning rates that fall to zero over the run, like a cosine."""
    return f"{method}-cosine"


METHODS |= {
    decaying(name): dataclasses.replace(METHODS[name], schedule="cosine")
    for name in ("error-space-0.01", scaled("error-space-0.01"), scaled("bp"))
}


CHAINS: dict[str, dict[str, Any]] = {
    "resnet": {
        "batch_size": 128,
        "rotation": 0.0,
        "cutout": 10,
        "optimiser": "adamw",
        "weight_decay": 2e-3,
        "rate_scaling": "mup",
    },
    "vgg": {
        "batch_size": 128,
        "rotation": 0.0,
        "parameterisation": "sp",
        "optimiser": "adamw",
        "weight_decay": 1.21e-5,
    },
    "transformer": {"batch_size": 16, "context": 64, "held_out": 0.05, "rate_scaling": "mup"},
}
"""What the methods of a model have in common."""
PRECISIONS = (0.1, 1.0, 0.01)
"""The output precisions λ that models are trained with, that of the headline first."""
AWAY = f"nudged-{PRECISIONS[0]:g}"
"""The method of models that nudges away from the target, with the first λ as β."""


PUBLISHED_DESCENT = descent(8, momentum=0.05)
"""Gradient descent on the activities as it is published for VGG-5."""


MODEL_SETTINGS: dict[str, Any] = {"cg_steps": 1, "cg_tol": 0.05}
"""Settings of error space: steepest descent, whose whole step is kept if further steps could add at most 5 % to its
decrease of the energy."""


def chain_methods(model: str, **changes: object) -> dict[str, FigureMethod]:
    """Return the methods that train a model: error space at each λ, a nudge away from the target, BP, and gradient
    descent."""
    shared: dict[str, Any] = {"model": model, "loss": "cross-entropy", "schedule": "warmup-cosine"}
    shared |= CHAINS[model] | changes
    found = {
        f"error-space-{precision:g}": FigureMethod(
            f"error space, λ = {precision:g}",
            algorithm=error_space(**MODEL_SETTINGS),
            output_precision=precision,
            **shared,
        )
        for precision in PRECISIONS
    }
    found[AWAY] = FigureMethod(
        f"nudged away, β = {PRECISIONS[0]:g}", algorithm=nudged(PRECISIONS[0], "negative", **MODEL_SETTINGS), **shared
    )
    found["bp"] = FigureMethod("BP", algorithm=backpropagation, **shared)
    found["gd"] = FigureMethod("gradient descent, published", algorithm=PUBLISHED_DESCENT, **shared)
    return found


METHODS |= {
    f"{prefix}-{name}": method
    for prefix, methods in {
        "resnet": chain_methods("resnet", form={"convolutions": 2}),
        "deep-resnet": chain_methods("resnet"),
        "vgg": chain_methods("vgg"),
        "transformer": chain_methods("transformer"),
        "small-resnet": chain_methods("resnet", batch_size=64),
        "small-vgg": chain_methods("vgg", batch_size=64),
        "small-transformer": chain_methods("transformer", batch_size=32, context=32),
        "long-transformer": chain_methods(
            "transformer",
            batch_size=32,
            context=256,
            form={"normalise_embedding": True},
            optimiser="adamw",
            weight_decay=1e-2,
        ),
    }.items()
    for name, method in methods.items()
}


@dataclasses.dataclass(frozen=True)
class Relative:
    """One of the algorithms that the study `family` compares. `descends`: it has a step size of inference, β.
    `slower`: by what factor its rates of the weights are lower, if it steps them several times a batch."""

    label: str
    algorithm: AlgorithmFactory
    output_precision: float = 1.0
    descends: bool = False
    slower: float = 1.0


NUDGE = 0.3
"""The strength of nudging in the study `family`."""


MOST_STEPS = 16
"""The most steps of gradient descent of relatives that learn at every step or start from a guess."""


def _relative(make: Callable[[Any, Any, Any], AbstractAlgorithm]) -> AlgorithmFactory:
    """Return a factory from a function of the package `learning`, which is imported late, and of two solvers: error
    space and gradient descent."""

    def algorithm(beta: float, depth: int) -> AbstractAlgorithm:
        from .. import inference, learning

        descent = inference.GradientDescent(lr=(beta or 1.0) / PAPER_BATCH, steps=min(depth, MOST_STEPS))
        return make(learning, inference.ErrorSpace(cg_steps=2), descent)

    return algorithm


FAMILY = {
    "bp": Relative("BP", backpropagation),
    "zil": Relative("Z-IL", _relative(lambda package, space, descent: package.ZIL())),
    "pc-error-space": Relative("PC, error space, λ = 0.1", error_space(cg_steps=2), 0.1),
    "pc-gd": Relative("PC, gradient descent", PAPER_DESCENT, descends=True),
    "ipc": Relative("iPC", _relative(lambda package, space, descent: package.IPC(descent)), 1.0, True, 10.0),
    **{
        f"nudged-{sign}": Relative(f"nudged, {sign}", nudged(NUDGE, sign, cg_steps=2))
        for sign in ("positive", "negative", "centred")
    },
    "alm": Relative("PC-ALM", _relative(lambda package, space, descent: package.ALM("auto"))),
    "amortised": Relative(
        "amortised start", _relative(lambda package, space, descent: package.Amortised(descent)), descends=True
    ),
    "ep": Relative("EP, without skips", _relative(lambda package, *_: package.EquilibriumPropagation())),
}
"""Predictive coding and its relatives."""


def relatives(prefix: str, names: Collection[str], **shared: Any) -> dict[str, FigureMethod]:
    """Return methods that train with these relatives, by name after a prefix."""
    chosen = {name: FAMILY[name] for name in names}
    return {
        f"{prefix}-{name}": FigureMethod(
            each.label,
            algorithm=each.algorithm,
            output_precision=each.output_precision,
            **{"skip": 0 if name == "ep" else 1} | shared,
        )
        for name, each in chosen.items()
    }


_PLAIN = relatives("family", FAMILY, schedule="cosine")
METHODS |= _PLAIN | {
    scaled(name): dataclasses.replace(method, label=f"{method.label}, scaled", rate_scaling="mup")
    for name, method in _PLAIN.items()
}
CHAIN_RELATIVES = {
    "vgg": ("bp", "zil", "pc-error-space", "pc-gd", "ipc", "nudged-negative", "nudged-centred", "alm"),
    "resnet": ("bp", "zil", "pc-error-space", "nudged-negative", "nudged-centred"),
}
"""Those that are compared on convolutional networks: no others train them in minutes."""
for _model, _names in CHAIN_RELATIVES.items():
    _shared = {"model": _model, "loss": "cross-entropy", "schedule": "warmup-cosine"} | CHAINS[_model]
    METHODS |= relatives(f"family-{_model}", _names, **_shared)


def build(
    method: FigureMethod, dataset: Dataset, activation: str, width: int, depth: int, seed: int
) -> AbstractNetwork:
    """Return the network that a method trains, before training. Its depth: hidden layers of an MLP, blocks in each
    stage of a resnet, convolutions of a vgg, and blocks of a transformer."""
    import jax.random as jr

    from ..network import models

    if method.model == MLP:
        return build_mlp(method, dataset, activation, width, depth, seed)
    form = {"activation": activation, "parameterisation": method.parameterisation, **method.form}
    if method.model == "vgg":
        form["layers"] = models.VGG_LAYERS["vgg5"][:depth]
    return models.sized_model(method.model, dataset, form)(width, depth, jr.key(seed))


def build_mlp(method: FigureMethod, dataset: Dataset, activation: str, width: int, depth: int, seed: int) -> Network:
    """Return the residual MLP that a method trains, before training."""
    import jax.random as jr

    from ..network import Network

    return Network(
        dataset.in_size,
        dataset.out_size,
        width=width,
        hidden_layers=depth,
        activation=activation,
        parameterisation=method.parameterisation,
        init=method.init,
        skip=method.skip,
        key=jr.key(seed),
    )


def first_batch(dataset: Dataset, size: int = PAPER_BATCH) -> tuple[np.ndarray, np.ndarray]:
    """Return inputs and targets of the first training samples, as the network sees them."""
    return dataset.normalisation(dataset.train.raw[:size]), dataset.encode(dataset.train.targets[:size])


@functools.lru_cache(maxsize=4)
def load(name: str, data_dir: str | None, verify: bool, validation: float, context: int | None = None) -> Dataset:
    """Return a data set, and keep it for the cells that follow."""
    from .. import data

    dataset = data.load(name, data_dir=data_dir, verify=verify, download=False, context=context)
    return dataset.with_validation(validation, seed=0) if validation else dataset
