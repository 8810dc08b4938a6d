"""Training runs as cells: tuning on a validation split first, then every seed with the rates that were chosen. And the
claims about their tables, with all accuracies in per cent."""

from __future__ import annotations

import dataclasses
import itertools
import math
import statistics
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from ._claims import Claim, Finding, MissingCellsError, judge
from ._declaration import cells_over
from ._figure import FigureCell, FigureConfig, Finished, Row, RunContext, Table, select
from ._methods import ERROR_SPACE, METHODS, FigureMethod, build, load
from ._store import key

if TYPE_CHECKING:
    from ..data import Dataset
    from ..inference import Energy
    from ..training import FitResult

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
    cells: Sequence[TrainingCell], context: RunContext, metrics: Metrics | None = None
) -> tuple[Dataset, list[FitResult]]:
    """Train networks that differ in rates and seeds only, and return the data set as well. Several are one program."""
    import jax

    from ..training import Run, Scratch, fit, fit_many

    first, method = cells[0], METHODS[cells[0].method]
    dataset, energy = load_for(first, context), method_energy(method)
    folder = key(first) if len(cells) == 1 else "group"
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
        **({"restore_best": True} if method.held_out else {}),
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


def training_row(cell: TrainingCell, dataset: Dataset, result: FitResult, metrics: tuple[str, ...] = ()) -> Row:
    """Return what is kept of a run: how it ended, and unless it was a tuning run its history."""
    last = (result.best if result.restored else None) or result.last
    finite = [float(loss) for loss in result.losses if math.isfinite(loss)]
    found: dict[str, Any] = {
        "test_accuracy": last.get("test_accuracy"),
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
    text = (PERPLEXITY,) if PERPLEXITY in last else ()
    found |= {name: last[name] for name in text}
    if not cell.validation:
        kept = [record for record in result.history if not record["diverged"]]
        found["history"] = {name: [record.get(name) for record in kept] for name in (*HISTORY, *text, *metrics)}
    return found


@dataclasses.dataclass(frozen=True)
class TrainingRuns:
    """The runs of a table on all seeds, by what they trained."""

    config: TrainingConfig
    table: Table

    @property
    def deepest(self) -> int:
        return max(self.config.depths)

    @property
    def judged(self) -> str:
        """The method that claims about μPC are judged by."""
        trained = {row["method"] for row in select(self.table, validation=0.0)}
        return next((method for method in self.config.judged if method in trained), self.config.judged[0])

    def finals(self, method: str, activation: str, width: int, depth: int) -> list[float]:
        """Return the accuracy at the end, seed by seed."""
        return [100 * row["test_accuracy"] for row in self.rows(method, activation, width, depth)]

    def bests(self, method: str, activation: str, width: int, depth: int) -> list[float]:
        """Return the best accuracy of any evaluation, seed by seed."""
        rows = self.rows(method, activation, width, depth)
        return [100 * max(row["history"]["test_accuracy"]) for row in rows]

    def at_epoch(self, method: str, activation: str, width: int, depth: int, epoch: float) -> list[float]:
        """Return the accuracy at the last evaluation until this epoch, seed by seed."""
        return [
            100 * [a for a, e in zip(h["test_accuracy"], h["epoch"], strict=True) if e <= epoch + 1e-6][-1]
            for h in (row["history"] for row in self.rows(method, activation, width, depth))
        ]

    def final(self, method: str, activation: str, depth: int) -> float:
        return statistics.fmean(self.finals(method, activation, self.config.widths[0], depth))

    def best(self, method: str, activation: str, depth: int) -> float:
        return statistics.fmean(self.bests(method, activation, self.config.widths[0], depth))

    def rows(self, method: str, activation: str, width: int, depth: int) -> Table:
        what = {"method": method, "activation": activation, "width": width, "depth": depth}
        rows = select(self.table, validation=0.0, **what)
        seeds = {row["seed"] for row in rows}
        wanted = self.config.count_seeds(*(rates for rates in self.config.rates if rates.method == method))
        missing = set(range(wanted)) - seeds
        if missing:
            name = f"{METHODS[method].label} {activation} N={width} H={depth}"
            raise MissingCellsError(f"{name} lacks {len(missing)} of {wanted} seeds")
        return rows


NEAR_BP, COST = 0.5, 3.0


def claims(config: TrainingConfig, table: Table) -> list[Claim]:
    """Judge every claim that the figure's thresholds name, for every activation."""
    runs, found = TrainingRuns(config, table), []
    for activation in config.activations:
        values = {"activation": activation, "depth": runs.deepest, "epochs": config.epochs}
        for name, (claim, measure) in _CLAIMS.items():
            limit = getattr(config.thresholds, f"{name}_{activation}", None) or getattr(config.thresholds, name)
            if limit is not None:
                found.append(judge(claim, measure, runs, activation, limit, limit=limit, **values))
        if config.thresholds.solvers:
            found += [_judge_solver(runs, activation, method) for method in ERROR_SPACE]
    return found


def _over_depth(runs: TrainingRuns, method: str, activation: str) -> dict[int, float]:
    return {depth: runs.final(method, activation, depth) for depth in runs.config.depths}


def listed(values: Mapping[int, float], name: str = "H") -> str:
    """Return numbers over a size of the network, in a line."""
    return ", ".join(f"{name}={size}: {value:.2f}" for size, value in values.items())


def _lowest(runs: TrainingRuns, activation: str, limit: float) -> Finding:
    means = _over_depth(runs, runs.judged, activation)
    return min(means.values()) >= limit, f"{listed(means)} %"


def _spread(runs: TrainingRuns, activation: str, limit: float) -> Finding:
    means = _over_depth(runs, "mupc", activation).values()
    spread = max(means) - min(means)
    return spread <= limit, f"{spread:.2f} points"


def _below_mupc(runs: TrainingRuns, activation: str, limit: float) -> Finding:
    """Compare with SP's best evaluation, not its last: the claim must not profit from a run that collapsed late."""
    mupc, sp = runs.final("mupc", activation, runs.deepest), runs.best("sp", activation, runs.deepest)
    return mupc - sp >= limit, f"μPC {mupc:.2f} %, best SP {sp:.2f} %: {mupc - sp:.2f} points"


def _near_bp(runs: TrainingRuns, activation: str, limit: float) -> Finding:
    mupc, bp = (_over_depth(runs, method, activation) for method in ("mupc", "bp"))
    gaps = {depth: mupc[depth] - bp[depth] for depth in mupc}
    return all(abs(gap) <= limit for gap in gaps.values()), f"μPC − BP: {listed(gaps)} points"


def _mean(runs: TrainingRuns, activation: str, limit: tuple[float, float]) -> Finding:
    finals = runs.finals("mupc", activation, runs.config.widths[0], runs.deepest)
    mean = statistics.fmean(finals)
    return limit[0] <= mean <= limit[1], f"{mean:.2f} ± {_deviation(finals):.2f} % over {len(finals)} seeds"


def _best(runs: TrainingRuns, activation: str, limit: float) -> Finding:
    best = runs.best("mupc", activation, runs.deepest)
    return best >= limit, f"{best:.2f} %, mean over {runs.config.seeds} seeds of each one's best evaluation"


def _behind_bp(runs: TrainingRuns, activation: str, limit: float) -> Finding:
    mupc, bp = (runs.final(method, activation, runs.deepest) for method in (runs.judged, "bp"))
    return 0 <= bp - mupc <= limit, f"μPC {mupc:.2f} %, BP {bp:.2f} %: {bp - mupc:.2f} points below"


def _wider(runs: TrainingRuns, activation: str, limit: float) -> Finding:
    """Compare each width with the next narrower one; σ² is the mean of their two variances over seeds."""
    widths = sorted(runs.config.widths)
    finals = {width: runs.finals("mupc", activation, width, runs.deepest) for width in widths}
    means = {width: statistics.fmean(values) for width, values in finals.items()}
    variances = {width: _deviation(values) ** 2 for width, values in finals.items()}
    true = all(
        means[wide] >= means[narrow] - limit * ((variances[wide] + variances[narrow]) / 2) ** 0.5
        for narrow, wide in itertools.pairwise(widths)
    )
    return true, f"{listed(means, 'N')} %, σ ≤ {max(variances.values()) ** 0.5:.2f}"


def _one_step(runs: TrainingRuns, activation: str, _: bool) -> Finding:
    whole, one = (_over_depth(runs, method, activation) for method in ("mupc", "mupc-one-step"))
    gaps = {depth: whole[depth] - one[depth] for depth in sorted(whole)}
    true = min(gaps.values()) > 0 and all(a < b for a, b in itertools.pairwise(gaps.values()))
    return true, f"one step {listed(one)} %; T=H above it by {listed(gaps)} points"


def _orthogonal(runs: TrainingRuns, activation: str, _: bool) -> Finding:
    """Compare with the best evaluation of orthogonal networks, as for SP."""
    mupc, other = runs.final("mupc", activation, runs.deepest), runs.best("orthogonal", activation, runs.deepest)
    return other < mupc, f"μPC {mupc:.2f} %, best orthogonal {other:.2f} %"


def _judge_solver(runs: TrainingRuns, activation: str, method: str) -> Claim:
    """Judge all that a user could wish for at once: every layer learns, as well as with BP and GD, at a low cost."""
    config, depth = runs.config, runs.deepest
    size, epochs = (activation, config.widths[0], depth), sorted({1.0, config.epochs})

    def accuracies(name: str) -> list[float]:
        return [statistics.fmean(runs.at_epoch(name, *size, epoch)) for epoch in epochs]

    def cost(name: str) -> float:
        return statistics.median(row["seconds_per_step"] for row in runs.rows(name, *size))

    def measure() -> Finding:
        learning = min(row["history"]["learning_layers"][-1] for row in runs.rows(method, *size))
        compared = list(zip(epochs, accuracies(method), accuracies("bp"), accuracies("mupc"), strict=True))
        ratio = cost(method) / cost("bp")
        good = all(a >= bp - NEAR_BP and a >= gd for _, a, bp, gd in compared)
        found = "; ".join(f"{e:g} epochs {a:.2f} % (BP {bp:.2f}, GD {gd:.2f})" for e, a, bp, gd in compared)
        measured = f"{learning} of {depth + 1} layers learn; {found}; {ratio:.2f} times BP's step"
        return good and learning == depth + 1 and ratio <= COST, measured

    label = METHODS[method].label
    return judge("as-good-as-bp-{method}", measure, method=method, label=label, near=NEAR_BP, cost=COST)


def _deviation(values: list[float]) -> float:
    return statistics.stdev(values) if len(values) > 1 else 0.0


_CLAIMS: dict[str, tuple[str, Callable[[TrainingRuns, str, Any], Finding]]] = {
    "lowest": ("trains-{activation}", _lowest),
    "spread": ("same-at-every-depth-{activation}", _spread),
    "below_mupc": ("sp-behind-{activation}", _below_mupc),
    "near_bp": ("near-bp-{activation}", _near_bp),
    "mean": ("mean-accuracy-{activation}", _mean),
    "best": ("best-accuracy-{activation}", _best),
    "behind_bp": ("behind-bp-{activation}", _behind_bp),
    "wider": ("wider-{activation}", _wider),
    "one_step": ("one-step-{activation}", _one_step),
    "orthogonal": ("orthogonal-behind-{activation}", _orthogonal),
}
"""The claim for each field of `Thresholds`, and how to measure it."""
