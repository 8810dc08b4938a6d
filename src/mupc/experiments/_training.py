"""Training runs as cells: tuning on a validation split first, then every seed with the rates that were chosen."""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math
import warnings
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, ClassVar

from ._figure import Cell, Config, Context, Finished, Row

if TYPE_CHECKING:
    from .._network import Network
    from .._solver import AbstractSolver
    from ..data import Dataset

PAPER_BATCH = 64
"""The paper's β acts on the mean over 64 samples, a solver's `lr` on one sample: lr = β / 64."""


@dataclasses.dataclass(frozen=True)
class Method:
    """How a network is built and trained. Inference is by gradient descent with `steps` steps (None: as many as
    hidden layers), in error space with `cg_steps` conjugate-gradient steps, or `exact` (linear networks only)."""

    label: str
    parameterisation: str = "mupc"
    init: str | None = None
    algorithm: str = "pc"
    steps: int | None = None
    cg_steps: int | None = None
    exact: bool = False
    output_precision: float = 1.0
    activity_decay: float = 0.0
    skip: int = 1


ERROR_SPACE = {f"error-space-{precision:g}": precision for precision in (1.0, 0.1, 0.03, 0.01)}
"""Methods that infer in error space, and their output precisions λ."""

DECAYS = {f"sp-decay-{decay:g}": decay for decay in (0.0, 0.001, 0.01, 0.1, 1.0)}
"""Methods of standard networks without skips, inferred exactly, and their activity decay α."""

METHODS = {
    "mupc": Method("μPC"),
    "bp": Method("BP with Depth-μP", algorithm="bp"),
    "sp": Method("SP", "sp", "kaiming-uniform"),
    "sp-exact": Method("SP, exact inference", "sp", "kaiming-uniform", exact=True),
    "mupc-exact": Method("μPC, exact inference", exact=True),
    "mupc-one-step": Method("μPC, one inference step", steps=1),
    **{
        name: Method(f"error space, λ = {precision:g}", cg_steps=2, output_precision=precision)
        for name, precision in ERROR_SPACE.items()
    },
    **{
        name: Method(f"α = {decay:g}", "sp", "kaiming-uniform", exact=True, activity_decay=decay, skip=0)
        for name, decay in DECAYS.items()
    },
}


@dataclasses.dataclass(frozen=True)
class Rates:
    """The learning rates of a method: every (η, β) pair is a candidate; BP has no β.

    More than one candidate is a grid to tune: at `tune_depth` hidden layers (transferred to the other depths), or,
    if that is None, at each depth by itself.
    """

    method: str
    eta: tuple[float, ...]
    beta: tuple[float, ...] = (0.0,)
    tune_depth: int | None = None
    epochs: float | None = None  # None: as long as the others

    @property
    def candidates(self) -> list[tuple[float, float]]:
        return list(itertools.product(self.eta, self.beta))


@dataclasses.dataclass(frozen=True)
class Thresholds:
    """The numbers in the predicates, in points of test accuracy; `wider` in standard deviations over seeds.

    None: the figure makes no such claim. `lowest_linear` takes the place of `lowest` for linear networks.
    """

    lowest: float | None = None
    lowest_linear: float | None = None
    spread: float | None = None
    below_mupc: float | None = None
    near_bp: float | None = None
    behind_bp: float | None = None
    mean: tuple[float, float] | None = None
    best: float | None = None
    wider: float | None = None
    one_step: bool | None = None
    solvers: bool | None = None


@dataclasses.dataclass(frozen=True)
class TrainingConfig(Config):
    """A family of training runs. Methods run in the order of `rates`."""

    data: str = "mnist"
    widths: tuple[int, ...] = (512,)
    depths: tuple[int, ...] = (8, 16, 32, 64, 128)
    activations: tuple[str, ...] = ("relu",)
    rates: tuple[Rates, ...] = ()
    seeds: int = 3
    epochs: float = 1.0
    evaluate_every: int = 300
    tune_epochs: float = 1.0
    tune_fraction: float = 0.1
    augment: bool = False
    verify: bool = True
    thresholds: Thresholds = Thresholds()


@dataclasses.dataclass(frozen=True)
class TrainingCell(Cell):
    """One training run. With `validation` > 0 it is a tuning run, which holds that part of the training set out."""

    family: ClassVar[str] = "training"

    method: str
    activation: str
    width: int
    depth: int
    eta: float
    beta: float
    seed: int
    data: str
    epochs: float
    evaluate_every: int
    validation: float
    augment: bool
    verify: bool
    precision: str

    @property
    def label(self) -> str:
        beta = f" β={self.beta:g}" if self.beta else ""
        kind = "tune" if self.validation else f"seed {self.seed}"
        name = f"{self.method} {self.activation} N={self.width} H={self.depth} η={self.eta:g}{beta}"
        return f"{name} {self.data} {self.epochs:g} epochs, {kind}"


def cells(config: TrainingConfig, finished: Finished) -> list[Cell]:
    """Method by method: the tuning runs, and the runs on all seeds of what the finished tuning runs decide."""
    return list(_cells(config, finished))


def _cells(config: TrainingConfig, finished: Finished) -> Iterator[Cell]:
    order = itertools.product(config.rates, config.activations, config.widths, config.depths)
    seen: set[Cell] = set()
    for rates, activation, width, depth in order:
        tuning = _tuning_cells(config, rates, activation, width, depth)
        yield from (cell for cell in tuning if not (cell in seen or seen.add(cell)))  # type: ignore[func-returns-value]
        chosen = rates.candidates[0] if len(rates.candidates) == 1 else choose(tuning, finished)
        if chosen is not None:
            for seed in range(config.seeds):
                yield _cell(config, rates, activation, width, depth, chosen, seed)


def _tuning_cells(config: TrainingConfig, rates: Rates, activation: str, width: int, depth: int) -> list[TrainingCell]:
    if len(rates.candidates) == 1:
        return []
    at = depth if rates.tune_depth is None else rates.tune_depth
    base = _cell(config, rates, activation, width, at, (0.0, 0.0), 0)
    tune = dataclasses.replace(base, validation=config.tune_fraction, epochs=config.tune_epochs)
    return [dataclasses.replace(tune, eta=eta, beta=beta) for eta, beta in rates.candidates]


def _cell(
    config: TrainingConfig,
    rates: Rates,
    activation: str,
    width: int,
    depth: int,
    chosen: tuple[float, float],
    seed: int,
) -> TrainingCell:
    return TrainingCell(
        method=rates.method,
        activation=activation,
        width=width,
        depth=depth,
        eta=chosen[0],
        beta=chosen[1],
        seed=seed,
        data=config.data,
        epochs=config.epochs if rates.epochs is None else rates.epochs,
        evaluate_every=config.evaluate_every,
        validation=0.0,
        augment=config.augment,
        verify=config.verify,
        precision=config.precision,
    )


def choose(tuning: list[TrainingCell], finished: Finished) -> tuple[float, float] | None:
    """The rates with the best validation accuracy (then loss) at the end; a run that diverged only if all did.

    None while runs are missing, so that the choice never depends on the order in which they finish.
    """
    if not all(cell in finished for cell in tuning):
        return None

    def merit(cell: TrainingCell) -> tuple[bool, float, float]:
        found = finished[cell]
        loss = found["validation_loss"]
        return not found["diverged"], found["validation_accuracy"] or 0.0, -math.inf if loss is None else -loss

    best = max(tuning, key=merit)
    return best.eta, best.beta


HISTORY = ("step", "epoch", "test_accuracy", "test_loss", "train_loss", "energy", "learning_layers")


def run_cell(cell: TrainingCell, context: Context) -> Row:
    """Trains one network. Accuracies and losses at the end are those of the last network that was finite."""
    import jax

    from .._energy import Energy
    from .._train import fit

    dataset = load(cell.data, context.data_dir, cell.verify, cell.validation)
    method = METHODS[cell.method]
    with jax.enable_x64(cell.precision == "float64"), warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # of divergence, which the result records
        network = build(method, dataset, cell.activation, cell.width, cell.depth, cell.seed)
        result = fit(
            network,
            dataset,
            _solver(method, cell),
            method=method.algorithm,
            energy=Energy(output_precision=method.output_precision, activity_decay=method.activity_decay),
            epochs=cell.epochs,
            weight_lr=cell.eta,
            seed=cell.seed,
            batch_size=PAPER_BATCH,
            evaluate_every=cell.evaluate_every,
            augment=cell.augment,
            precision=cell.precision,
        )
    last = result.last
    finite = [float(loss) for loss in result.losses if math.isfinite(loss)]
    found: dict[str, Any] = {
        "test_accuracy": last["test_accuracy"],
        "validation_accuracy": last.get("validation_accuracy"),
        "validation_loss": last.get("validation_loss"),
        "train_loss": last.get("train_loss"),
        "first_train_loss": float(result.losses[0]),
        "lowest_train_loss": min(finite, default=None),
        "diverged": result.diverged,
        "steps": result.steps,
        "seconds_per_step": result.seconds_per_step,
        "official_data": dataset.official,
    }
    if not cell.validation:
        kept = [record for record in result.history if not record["diverged"]]
        found["history"] = {name: [record.get(name) for record in kept] for name in HISTORY}
    return found


def _solver(method: Method, cell: TrainingCell) -> AbstractSolver | None:
    from .._solver import ErrorSpace, ExactLinear, GradientDescent

    if method.algorithm != "pc":
        return None
    if method.exact:
        return ExactLinear()
    if method.cg_steps is not None:
        return ErrorSpace(cg_steps=method.cg_steps)
    return GradientDescent(lr=cell.beta / PAPER_BATCH, steps=cell.depth if method.steps is None else method.steps)


def build(method: Method, dataset: Dataset, activation: str, width: int, depth: int, seed: int) -> Network:
    """The network that a method trains, before training."""
    import jax.random as jr

    from .._network import Network

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


@functools.lru_cache(maxsize=4)
def load(name: str, data_dir: str | None, verify: bool, validation: float) -> Dataset:
    """A data set, kept for the cells that follow."""
    from .. import data

    dataset = data.load(name, data_dir=data_dir, verify=verify, download=False)
    return dataset.with_validation(validation, seed=0) if validation else dataset
