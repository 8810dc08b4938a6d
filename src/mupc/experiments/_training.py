"""Training runs as cells: tuning on a validation split first, then every seed with the rates that were chosen."""

from __future__ import annotations

import dataclasses
import itertools
import math
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from ._declaration import cells_over
from ._figure import FigureCell, FigureConfig, Finished, Row, RunContext
from ._methods import METHODS, FigureMethod, build, load
from ._store import key

if TYPE_CHECKING:
    from ..data import Dataset
    from ..inference import Energy
    from ..training import FitResult, TrainStatus

GROUPED = 128
"""The greatest width at which tuning runs are worth training side by side."""


@dataclasses.dataclass(frozen=True)
class Rates:
    """The learning rates of a method: every (η, β) pair is a candidate; BP has no β.

    More than one candidate is a grid to tune: at `tune_depth` hidden layers (transferred to the other depths), or,
    if that is None, at each depth by itself. `tuned_as`: the method that is trained to tune, if it is another one. None
    in `epochs`, `tune_epochs` and `seeds`: as many as the others. No seeds: only tune.
    """

    method: str
    eta: tuple[float, ...]
    beta: tuple[float, ...] = (0.0,)
    tune_depth: int | None = None
    epochs: float | None = None
    tune_epochs: float | None = None
    seeds: int | None = None
    tuned_as: str | None = None

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
    """A family of training runs. Methods run in the order of `rates`; of several rates for one method, the first whose
    tuning is finished trains it. Claims about μPC are judged by the first of the methods in `judged` that has runs."""

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
    judged: tuple[str, ...] = ("mupc",)

    def count_seeds(self, *rates: Rates) -> int:
        """Return the most seeds that any of these rates is trained with."""
        return max((self.seeds if each.seeds is None else each.seeds for each in rates), default=self.seeds)


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
    trained: set[TrainingCell] = set()
    sizes = {"activation": config.activations, "width": config.widths, "depth": config.depths}
    unset = {"eta": 0.0, "beta": 0.0, "seed": 0, "validation": 0.0}
    for rates in config.rates:
        epochs = config.epochs if rates.epochs is None else rates.epochs
        for base in cells_over(TrainingCell, config, method=rates.method, epochs=epochs, **sizes, **unset):
            tuning = _tuning_cells(config, rates, base)
            chosen = choose(tuning, finished) if tuning else rates.candidates[0]
            found |= dict.fromkeys(tuning)
            if chosen is not None and base not in trained:
                trained.add(base)
                runs = dataclasses.replace(base, eta=chosen[0], beta=chosen[1])
                seeds = range(config.count_seeds(rates))
                found |= dict.fromkeys(dataclasses.replace(runs, seed=seed) for seed in seeds)
    return list(found)


def _tuning_cells(config: TrainingConfig, rates: Rates, base: TrainingCell) -> list[TrainingCell]:
    if len(rates.candidates) == 1:
        return []
    size = dataclasses.replace(base, depth=rates.tune_depth or base.depth)
    epochs = config.tune_epochs if rates.tune_epochs is None else rates.tune_epochs
    tune = dataclasses.replace(
        size, method=rates.tuned_as or rates.method, validation=config.tune_fraction, epochs=epochs
    )
    return [dataclasses.replace(tune, eta=eta, beta=beta) for eta, beta in rates.candidates]


def choose(tuning: list[TrainingCell], finished: Finished) -> tuple[float, float] | None:
    """Return the rates with the best validation accuracy (then loss) at the end; of a run that diverged only if all
    did. Return None while runs are missing, so that the choice does not depend on the order in which they finish."""
    if not all(cell in finished for cell in tuning):
        return None
    best = max(tuning, key=lambda cell: tuning_rank(finished[cell]))
    return best.eta, best.beta


def tuning_rank(found: Row) -> tuple[bool, float, float]:
    """Return what tuning runs are ranked by, the best highest: the accuracy and then the loss, or only the loss of a
    text."""
    loss = found["validation_loss"]
    accuracy = 0.0 if PERPLEXITY in found else found["validation_accuracy"] or 0.0
    return not found["diverged"], accuracy, -math.inf if loss is None else -loss


TELL_EVERY = 30
SCORES = ("train_loss", "validation_accuracy", "validation_perplexity", "test_accuracy")
"""What a line about a run that is not finished has."""
HISTORY = ("step", "epoch", "test_accuracy", "test_loss", "train_loss", "energy", "learning_layers")
PERPLEXITY = "validation_perplexity"
"""What the history of a run on a text has in addition."""


Metrics = Mapping[str, Callable[[Any], Any]]
"""What else to measure of a network at each evaluation, by name."""


def run_cell(cell: TrainingCell, context: RunContext, metrics: Metrics | None = None) -> Row:
    """Train one network. Accuracies and losses at the end are those of the last network that was finite; the history
    holds the metrics at each evaluation."""
    return run_group([cell], context, metrics)[0]


def run_group(cells: Sequence[TrainingCell], context: RunContext, metrics: Metrics | None = None) -> list[Row]:
    """Train the networks of one group as one program."""
    dataset, results = train(cells, context, metrics)
    return [
        training_row(cell, dataset, result, tuple(metrics or ())) for cell, result in zip(cells, results, strict=True)
    ]


def method_energy(method: FigureMethod) -> Energy:
    """Return the energy that a method minimises."""
    from ..inference import Energy

    return Energy(
        loss=method.loss,
        output_precision=method.output_precision,
        activity_decay=method.activity_decay,
        weight_decay=method.weight_decay,
    )


HOPELESS = 5
"""A run with cross-entropy ends once its training loss is this many times that of a guess."""


def is_hopeless(record: Mapping[str, Any], cell: TrainingCell, dataset: Dataset) -> bool:
    """Return whether a run is far worse than a guess. It would not recover, and its inference takes long."""
    if METHODS[cell.method].loss != "cross-entropy" or dataset.classes is None:
        return False
    return bool((record.get("train_loss") or 0.0) > HOPELESS * math.log(dataset.classes))


class Teller:
    """A callback that tells how far a run is, at most once in `TELL_EVERY` seconds."""

    def __init__(self, cell: TrainingCell, tell: Callable[[str], object]) -> None:
        self._label, self._tell, self._told = cell.label, tell, time.monotonic()

    def __call__(self, status: TrainStatus) -> None:
        record, now = status.record, time.monotonic()
        if record["step"] and now - self._told >= TELL_EVERY:
            self._told = now
            scores = [f"{name.replace('_', ' ')} {record[name]:.4g}" for name in SCORES if record.get(name) is not None]
            speed = f"{1e3 / record['steps_per_second']:.3g} ms a step"
            self._tell(
                f"  {self._label}: step {record['step']} of {record['total_steps']}, {', '.join([speed, *scores])}"
            )


def load_whole(cell: TrainingCell, context: RunContext) -> Dataset:
    """Return the data set of a run, with the validation split that it needs."""
    method = METHODS[cell.method]
    return load(cell.data, context.data_dir, cell.verify, cell.validation or method.held_out, method.context)


def load_for(cell: TrainingCell, context: RunContext) -> Dataset:
    """Return the data set to train on: without its test split if that is scored once, at the end."""
    import numpy as np

    dataset = load_whole(cell, context)
    none = np.arange(0)
    return dataclasses.replace(dataset, test=dataset.test.take(none)) if METHODS[cell.method].held_out else dataset


def train(
    cells: Sequence[TrainingCell],
    context: RunContext,
    metrics: Metrics | None = None,
    callbacks: Sequence[Callable[[TrainStatus], object]] = (),
) -> tuple[Dataset, list[FitResult]]:
    """Train networks that differ in rates and seeds only, and return the data set as well. Several are one program. One
    that trains alone ends if it is hopeless."""
    import jax

    from ..training import Run, Scratch, fit, fit_many

    first, method = cells[0], METHODS[cells[0].method]
    dataset, energy = load_for(first, context), method_energy(method)
    folder = key(first) if len(cells) == 1 else "group"

    def gives_up(status: TrainStatus) -> bool:
        return is_hopeless(status.record, first, dataset)

    settings: dict[str, Any] = {
        "epochs": first.epochs,
        "batch_size": method.batch_size,
        "optimiser": method.optimiser,
        "evaluate_every": first.evaluate_every,
        "augment": first.augment,
        "precision": first.precision,
        "rate_scaling": method.rate_scaling,
        "base_width": method.base_width,
        "schedule": method.schedule,
        **({} if method.rotation is None else {"rotation": method.rotation}),
        "cutout": method.cutout if first.augment else 0,
        **({"restore_best": True} if method.held_out else {}),
        "metrics": metrics,
        "callbacks": [*callbacks, *([Teller(first, context.tell), gives_up] if len(cells) == 1 else [])],
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
    gave_up = len(results) == 1 and is_hopeless(results[0].history[-1], first, dataset)
    if any(result.stopped for result in results) and not gave_up:
        raise KeyboardInterrupt
    return dataset, results


def training_row(cell: TrainingCell, dataset: Dataset, result: FitResult, metrics: tuple[str, ...] = ()) -> Row:
    """Return what is kept of a run: how it ended, and unless it was a tuning run its history. A hopeless one counts as
    diverged."""
    last = (result.best if result.restored else None) or result.last
    finite = [float(loss) for loss in result.losses if math.isfinite(loss)]
    found: dict[str, Any] = {
        "test_accuracy": last.get("test_accuracy"),
        "validation_accuracy": last.get("validation_accuracy"),
        "validation_loss": last.get("validation_loss"),
        "train_loss": last.get("train_loss"),
        "first_train_loss": float(result.losses[0]),
        "lowest_train_loss": min(finite, default=None),
        "diverged": result.diverged or is_hopeless(result.last, cell, dataset),
        "steps": result.steps,
        "seconds_per_step": result.seconds_per_step,
        "official_data": dataset.official,
    }
    text = (PERPLEXITY,) if PERPLEXITY in last else ()
    found |= {name: last[name] for name in text}
    if not cell.validation:
        kept = [record for record in result.history if not record["diverged"]]
        found["history"] = {name: [record.get(name) for record in kept] for name in (*HISTORY, *text, *metrics)}
    return found
