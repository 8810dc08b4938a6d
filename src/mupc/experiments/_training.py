"""Training runs as cells: tuning on a validation split first, then every seed with the rates that were chosen."""

from __future__ import annotations

import dataclasses
import itertools
import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from ._building import build, load
from ._figure import FigureCell, FigureConfig, Finished, Row, RunContext
from ._methods import METHODS, PAPER_BATCH
from ._store import key

if TYPE_CHECKING:
    from ..data import Dataset
    from ..network import Network
    from ..training import FitResult

GROUPED = 128
"""The greatest width at which tuning runs are worth training side by side."""


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
    orthogonal: bool | None = None
    solvers: bool | None = None


@dataclasses.dataclass(frozen=True)
class TrainingConfig(FigureConfig):
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
class TrainingCell(FigureCell):
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
    evaluate_every: int | None
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

    @property
    def group(self) -> object:
        """Tuning runs of one narrow network go together; a wide one fills a GPU by itself, and stops if it diverges."""
        together = self.validation and self.width <= GROUPED
        return dataclasses.replace(self, eta=0.0, beta=0.0) if together else self

    @property
    def program(self) -> object:
        return dataclasses.replace(self, eta=0.0, beta=0.0, seed=0)


def cells(config: TrainingConfig, finished: Finished) -> list[FigureCell]:
    """Return, method by method, the tuning runs, and the runs on all seeds with the rates that finished ones decide."""
    found: dict[FigureCell, None] = {}
    kinds = itertools.product(config.rates, config.activations, config.widths, config.depths)
    for rates, activation, width, depth in kinds:
        base = _base_cell(config, rates, activation, width, depth)
        tuning = _tuning_cells(config, rates, base)
        chosen = choose(tuning, finished) if tuning else rates.candidates[0]
        found |= dict.fromkeys(tuning)
        if chosen is not None:
            runs = dataclasses.replace(base, eta=chosen[0], beta=chosen[1])
            found |= dict.fromkeys(dataclasses.replace(runs, seed=seed) for seed in range(config.seeds))
    return list(found)


def _base_cell(config: TrainingConfig, rates: Rates, activation: str, width: int, depth: int) -> TrainingCell:
    """Return the run of seed 0, without rates."""
    epochs = config.epochs if rates.epochs is None else rates.epochs
    run: Row = {"method": rates.method, "activation": activation, "width": width, "depth": depth, "epochs": epochs}
    run |= {name: getattr(config, name) for name in ("data", "evaluate_every", "augment", "verify", "precision")}
    return TrainingCell(**run, eta=0.0, beta=0.0, seed=0, validation=0.0)


def _tuning_cells(config: TrainingConfig, rates: Rates, base: TrainingCell) -> list[TrainingCell]:
    if len(rates.candidates) == 1:
        return []
    depth = base.depth if rates.tune_depth is None else rates.tune_depth
    tune = dataclasses.replace(base, depth=depth, validation=config.tune_fraction, epochs=config.tune_epochs)
    return [dataclasses.replace(tune, eta=eta, beta=beta) for eta, beta in rates.candidates]


def choose(tuning: list[TrainingCell], finished: Finished) -> tuple[float, float] | None:
    """Return the rates with the best validation accuracy (then loss) at the end; of a run that diverged only if all
    did. Return None while runs are missing, so that the choice does not depend on the order in which they finish."""
    if not all(cell in finished for cell in tuning):
        return None
    best = max(tuning, key=lambda cell: tuning_rank(finished[cell]))
    return best.eta, best.beta


def tuning_rank(found: Row) -> tuple[bool, float, float]:
    """Return what tuning runs are ranked by, the best highest."""
    loss = found["validation_loss"]
    return not found["diverged"], found["validation_accuracy"] or 0.0, -math.inf if loss is None else -loss


HISTORY = ("step", "epoch", "test_accuracy", "test_loss", "train_loss", "energy", "learning_layers")


Metrics = Mapping[str, "Callable[[Network], Any]"]


def run_cell(cell: TrainingCell, context: RunContext, metrics: Metrics | None = None) -> Row:
    """Train one network. Accuracies and losses at the end are those of the last network that was finite; the history
    holds the metrics at each evaluation."""
    return run_group([cell], context, metrics)[0]


def run_group(cells: Sequence[TrainingCell], context: RunContext, metrics: Metrics | None = None) -> list[Row]:
    """Train the networks of one group as one program."""
    dataset, results = train(cells, context, metrics)
    return [_found(cell, dataset, result, tuple(metrics or ())) for cell, result in zip(cells, results, strict=True)]


def train(
    cells: Sequence[TrainingCell], context: RunContext, metrics: Metrics | None = None
) -> tuple[Dataset, list[FitResult]]:
    """Train networks that differ in rates and seeds only, and return the data set as well. Several are one program."""
    import jax

    from ..inference import Energy
    from ..training import Run, Scratch, fit, fit_many

    first, method = cells[0], METHODS[cells[0].method]
    dataset = load(first.data, context.data_dir, first.verify, first.validation)
    energy = Energy(output_precision=method.output_precision, activity_decay=method.activity_decay)
    folder = key(first) if len(cells) == 1 else "group"
    settings: dict[str, Any] = {
        "epochs": first.epochs,
        "batch_size": PAPER_BATCH,
        "evaluate_every": first.evaluate_every,
        "augment": first.augment,
        "precision": first.precision,
        "metrics": metrics,
        "checkpoints": None if context.scratch is None else Scratch(context.scratch / folder),
        "stop": context.stop,
    }
    with jax.enable_x64(first.precision == "float64"), warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # of divergence, which the result records
        networks = {
            seed: build(method, dataset, first.activation, first.width, first.depth, seed)
            for seed in {cell.seed for cell in cells}
        }
        algorithms = {cell.beta: method.algorithm(cell.beta, cell.depth) for cell in cells}
        runs = [Run(networks[cell.seed], algorithms[cell.beta], cell.eta, cell.seed, energy) for cell in cells]
        if len(runs) > 1:
            results = fit_many(runs, dataset, **settings)
        else:
            settings |= {"weight_lr": first.eta, "seed": first.seed, "energy": energy}
            results = [fit(runs[0].network, dataset, runs[0].algorithm, **settings)]
    if any(result.stopped for result in results):
        raise KeyboardInterrupt
    return dataset, results


def _found(cell: TrainingCell, dataset: Dataset, result: FitResult, metrics: tuple[str, ...] = ()) -> Row:
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
        found["history"] = {name: [record.get(name) for record in kept] for name in (*HISTORY, *metrics)}
    return found
