"""`transfer`: tune both learning rates on a small network, then train a large one with them."""

import dataclasses
import functools
import inspect
import itertools
import math
import time
from collections.abc import Callable, Iterable, Mapping, MutableMapping, Sequence
from typing import Any, TypeVar

import equinox as eqx
import jax.random as jr
import numpy as np

from ..data import Dataset
from ..inference import AbstractSolver, ErrorSpace, GradientDescent
from ..io import checks
from ..learning import ALM, AbstractAlgorithm
from ..network import AbstractNetwork, models
from ..training import FitResult, Run, TrainConfig, TrainStatus, as_algorithm, check_room, fit_many
from . import _rates
from ._operations import forward_products
from ._rates import ACTIVITY_LRS, RatePair
from ._transfer_result import NetworkSize, Transfer, TransferCell, Tuning

ShowStage = Callable[[str, float], None]
TransferSolver = AbstractAlgorithm | AbstractSolver | Callable[[float, int], AbstractAlgorithm | AbstractSolver]
"""An algorithm or a solver that does not have a rate to tune, or a function of a rate and of steps that makes one."""
FinishedCells = MutableMapping[tuple[NetworkSize, RatePair], TransferCell]
TRAINING = (
    *("epochs", "batch_size", "optimiser", "schedule", "precision", "energy", "seed"),
    *("rate_scaling", "base_width", "base_hidden_layers"),
)
"""The settings of training that `transfer` takes."""
EPOCHS = 3
"""How long `transfer` trains by default."""
NO_RATE = (None,)
"""The activity rates of a solver without one."""
Rate = TypeVar("Rate", float, float | None)


@dataclasses.dataclass(frozen=True)
class TransferStudy:
    """Train networks of any size with any rates. What is in `done` is not trained again."""

    dataset: Dataset
    grid: tuple[tuple[float, ...], tuple[float | None, ...]]
    config: TrainConfig
    network_options: Mapping[str, Any]
    show: ShowStage
    done: FinishedCells
    _: dataclasses.KW_ONLY
    model: models.Model = models.MLP
    seeds: int = 3
    inference_steps: int | None = None
    solver: TransferSolver = GradientDescent
    verify: bool = False

    def algorithm(self, size: NetworkSize, activity_lr: float | None) -> AbstractAlgorithm:
        """Return what trains a network of this size."""
        if isinstance(self.solver, AbstractAlgorithm | AbstractSolver):
            return as_algorithm(self.solver)
        assert activity_lr is not None
        return as_algorithm(self.solver(activity_lr, self.steps(size)))

    def network(self, size: NetworkSize, seed: int) -> AbstractNetwork:
        """Return an untrained network."""
        make = models.sized_model(self.model, self.dataset, self.network_options)
        return make(size.width, size.hidden_layers, jr.key(seed))

    def form(self, size: NetworkSize) -> AbstractNetwork:
        """Return a network with shapes in place of arrays."""
        found: AbstractNetwork = eqx.filter_eval_shape(functools.partial(self.network, size, 0))
        return found

    def steps(self, size: NetworkSize) -> int:
        """Return the steps of inference, by default as many as layers of activities, as in the paper."""
        return self.form(size).layer_count - 1 if self.inference_steps is None else self.inference_steps

    def flops(self, size: NetworkSize) -> float:
        """Return the operations of one run: a forward pass, weight gradients, and two products for each step of
        inference, half of which act on layers that the signal has reached. Solvers without a rate take as many passes
        at every size, which count as one; PC-ALM takes more in deeper networks."""
        steps, form = 1 if self.grid[1] == NO_RATE else self.steps(size), self.form(size)
        if isinstance(self.solver, ALM):
            steps = self.solver.solver(form).steps
        samples = len(self.dataset.train) * self.config.epochs
        return samples * forward_products(form) * (4.0 + 2.0 * steps)

    def tune(self, size: NetworkSize) -> Tuning:
        """Train with all rates of the grid."""
        return Tuning(size, self.cells(size, _pairs(*self.grid), f"tuning {size}"), self.flops(size))

    def transfer_to(self, size: NetworkSize, rates: RatePair) -> Tuning:
        """Train with the given rates. To verify them, train also with those around the best found so far, until the
        best is surrounded."""
        cells: dict[RatePair, TransferCell] = {}
        wanted, stage = self._around(rates) if self.verify else [rates], f"training {size}"
        while wanted:
            cells |= {cell.rates: cell for cell in self.cells(size, wanted, stage)}
            best = min(cells.values(), key=lambda cell: cell.train_loss)
            if not (self.verify and math.isfinite(best.train_loss)):
                break
            wanted = [pair for pair in self._around(best.rates) if pair not in cells]
            around = "" if best.activity_lr is None else f", {best.activity_lr:g}"
            stage = f"looking further around η = {best.weight_lr:g}{around}"
        return Tuning(size, list(cells.values()), self.flops(size))

    def cells(self, size: NetworkSize, rates: Sequence[RatePair], stage: str) -> list[TransferCell]:
        """Return a cell for each pair of rates. Those that are missing are trained, side by side."""
        if missing := [pair for pair in rates if (size, pair) not in self.done]:
            begin = time.perf_counter()
            found = self.train(size, missing, functools.partial(self.show, stage))
            seconds = (time.perf_counter() - begin) / len(found)
            for cell in found:
                self.done[size, cell.rates] = dataclasses.replace(cell, seconds=seconds)
        return [self.done[size, pair] for pair in rates]

    def train(
        self, size: NetworkSize, rates: Sequence[RatePair], report: Callable[[float], None]
    ) -> list[TransferCell]:
        """Train with each pair of rates."""
        seeds = range(self.config.seed, self.config.seed + self.seeds)
        networks = [self.network(size, seed) for seed in seeds]
        runs = [
            Run(network, self.algorithm(size, activity_lr), weight_lr, seed, self.config.energy)
            for weight_lr, activity_lr in rates
            for network, seed in zip(networks, seeds, strict=True)
        ]
        shares = [0.0] * len(runs)

        def follow(status: TrainStatus) -> None:
            record = status.record
            shares[status.run] = 1.0 if record["diverged"] else record["step"] / record["total_steps"]
            report(sum(shares) / len(runs))

        results = fit_many(runs, self.dataset, config=self.config, callbacks=[follow])
        return [_mean_cell(pair, results[len(seeds) * i : len(seeds) * (i + 1)]) for i, pair in enumerate(rates)]

    def _around(self, rates: RatePair) -> list[RatePair]:
        """Return the pair and its neighbours in the grid."""
        (weight_lr, activity_lr), (weight_lrs, activity_lrs) = rates, self.grid
        return _pairs(_near(weight_lr, weight_lrs), _near(activity_lr, activity_lrs))


def _near(rate: Rate, rates: Sequence[Rate]) -> Sequence[Rate]:
    """Return a rate and those before and after it."""
    place = rates.index(rate)
    return rates[max(0, place - 1) : place + 2]


def _pairs(weight_lrs: Sequence[float], activity_lrs: Sequence[float | None]) -> list[RatePair]:
    return list(itertools.product(weight_lrs, activity_lrs))


def _mean_cell(rates: RatePair, results: list[FitResult]) -> TransferCell:
    diverged = sum(result.diverged for result in results)

    def mean(name: str) -> float:
        return float(np.mean([result.last[name] for result in results]))

    names = ("train_loss", "validation_loss", "test_loss")
    train, validation, test = (math.inf if diverged else mean(name) for name in names)
    accuracy = None if "test_accuracy" not in results[0].last else 0.0 if diverged else mean("test_accuracy")
    return TransferCell(*rates, train, validation, test, accuracy, diverged)


def transfer(
    dataset: Dataset,
    *,
    small: Sequence[int],
    large: Sequence[int],
    weight_lrs: Iterable[float] | None = None,
    activity_lrs: Iterable[float] | None = None,
    validation: float = 0.1,
    progress: ShowStage | None = None,
    done: FinishedCells | None = None,
    **settings: Any,
) -> Transfer:
    """Tune both learning rates on a small network, then train a large one with them.

    With μPC the best rates barely move with width and depth, so a grid is affordable: all its runs are small and go
    side by side, as one program (`mupc.fit_many`).

    **Arguments:**

    - `dataset`: as for `mupc.fit`. If it does not have a validation split, it gets one, the fraction `validation`.
    - `small`, `large`: their (width, hidden_layers); of other models than the mlp (width, blocks), those of a resnet in
      each of three stages; of a vgg (width,).
    - `model`: `"mlp"` (`mupc.Network`, the default), `"resnet"`, `"vgg"`, `"transformer"`, or a function
      `(width, depth, key) -> network`.
    - `solver`: what has a rate of its own to tune, as a function of the rate and the number of steps, such as
      `mupc.GradientDescent` (the default of the mlp), `mupc.Optax.adam`, or `lambda lr, steps:
      mupc.IPC(mupc.GradientDescent(lr, steps))`; or a solver or algorithm without one, such as `mupc.ErrorSpace()` (the
      default of other models) or `mupc.BP()`, where the weights' rate alone is tuned.
    - `weight_lrs`, `activity_lrs`: the grid, by default around what suits the solver. Activity rates act on one sample,
      so both hold at any batch size.
    - `epochs` (default 3), `batch_size`, `optimiser`, `schedule`, `precision`, `energy`: as for `mupc.fit`, at both
      sizes.
    - `rate_scaling`, `base_width`, `base_hidden_layers`: as for `mupc.fit`. Rates of both networks are relative to the
      same base size, so that any base transfers equally well.
    - `seeds` (default 3), `seed` (default 0): how many seeds to average over, and the first of them.
    - `inference_steps`: of a solver with a rate; by default as many as hidden layers.
    - `verify` (default False): also train the large network with neighbouring rates of the grid, and with the
      neighbours of the best of those, until the best is surrounded. This measures what transfer cost.
    - `progress`: called with the name of a stage and the share of it that is finished.
    - `done`: a dictionary that receives every finished cell. After an interruption, or to add `verify`, pass it again
      with the same arguments: its cells are not trained again.
    - anything else, such as `activation` or `parameterisation`, goes to the model.

    **Returns:** a `Transfer` with the attributes `chosen`, `used`, `own`, `regret`, `saved`, `small` and `large`.

    **Example:**

    ```python
    import mupc

    digits = mupc.data.load("digits")
    found = mupc.transfer(digits, small=(8, 2), large=(16, 4), weight_lrs=(0.1, 0.02), activity_lrs=(0.4,), epochs=1)
    found.chosen.weight_lr, found.used.test_accuracy, found.saved
    ```
    """
    model = settings.get("model", models.MLP)
    models.check_model(model)
    own, training, network_options = _split(settings, model)
    own = {"solver": GradientDescent if model == models.MLP else ErrorSpace()} | own
    name = models.depth_name(model)
    sizes = _size("small", small, name), _size("large", large, name)
    config = TrainConfig(**{"epochs": EPOCHS} | training)
    if not isinstance(dataset, Dataset):
        raise checks.wrong_type("dataset", 'a mupc.data.Dataset such as mupc.data.load("digits")', dataset)
    algorithm, own_rates = _tuned(own, activity_lrs)
    make = models.sized_model(model, dataset, network_options)
    form = eqx.filter_eval_shape(make, *sizes[0][:2], jr.key(0))
    default = config.chosen(form, algorithm).weight_lr
    if default is None:
        raise checks.ArgumentError(
            "optimiser", "brings a rate of its own, and none is left to tune.", 'Name one such as "adam".'
        )
    grid = _falling("weight_lrs", _rates.weight_lrs(float(default)) if weight_lrs is None else weight_lrs), own_rates
    held_out = dataset if dataset.validation is not None else dataset.with_validation(validation, seed=0)
    show = progress or (lambda stage, share: None)
    study = TransferStudy(held_out, grid, config, network_options, show, {} if done is None else done, **own)
    checks.seed(config.seed + checks.integer("seeds", study.seeds, 1) - 1)
    for size in sizes:  # a mistake in the large one must show before the small one is tuned
        check_room(config, study.form(size), held_out, study.algorithm(size, grid[1][0]), made=study.seeds)
    tuned = study.tune(sizes[0])
    best = tuned.best("validation_loss")
    if not math.isfinite(best.validation_loss):
        which = "are" if grid[1] == NO_RATE else "and {activity_lrs} are"
        wrong = f"{which} too large: every run of the small network ({tuned.size}) diverged."
        raise checks.ArgumentError("weight_lrs", wrong, "Try smaller ones.")
    trained = study.transfer_to(sizes[1], best.rates)
    lowest = trained.best("train_loss") if study.verify else None
    return Transfer(tuned, trained, best, study.done[sizes[1], best.rates], lowest)


def _split(settings: Mapping[str, Any], model: models.Model) -> list[dict[str, Any]]:
    """Return the settings of `TransferStudy`, of training and of the model. Refuse other names."""
    others, own = (
        [each.name for each in inspect.signature(of).parameters.values() if each.kind is each.KEYWORD_ONLY]
        for of in (transfer, TransferStudy)
    )
    network = models.option_names(model)
    for name in settings.keys() - {*own, *TRAINING, *network}:
        error = checks.unknown("argument", name, [*others, *own, *TRAINING, *network])
        raise checks.ArgumentTypeError(error.name, error.wrong, error.cure)
    return [{name: settings[name] for name in settings if name in names} for names in (own, TRAINING, network)]


def _tuned(
    own: Mapping[str, Any], activity_lrs: Iterable[float] | None
) -> tuple[AbstractAlgorithm, tuple[float | None, ...]]:
    """Return an algorithm with the solver, and the solver's rates to try. Refuse those that it does not have."""
    solver = own["solver"]
    if isinstance(solver, AbstractAlgorithm | AbstractSolver):
        for name, given in {"activity_lrs": activity_lrs, "inference_steps": own.get("inference_steps")}.items():
            if given is not None:
                wrong = f"has no effect, because {type(solver).__name__} brings its own settings."
                raise checks.ArgumentError(name, wrong, "Leave it out, or use {GradientDescent}.")
        return as_algorithm(solver), NO_RATE
    checks.function("solver", solver)
    rates = _falling("activity_lrs", ACTIVITY_LRS if activity_lrs is None else activity_lrs)
    return as_algorithm(solver(rates[0], 1)), rates


def _falling(name: str, values: Iterable[float]) -> tuple[float, ...]:
    """Return rates in falling order, each once."""
    found = list(values)
    if not found:
        raise checks.ArgumentError(name, "is empty.", "Give at least one learning rate.")
    for value in found:
        checks.number(name, value, above=0)
    return tuple(sorted({float(value) for value in found}, reverse=True))


def _size(name: str, given: object, depth_name: str | None = "hidden_layers") -> NetworkSize:
    size = np.asarray(given)
    if size.shape != (1 if depth_name is None else 2,) or size.dtype.kind not in "iu" or size.min() < 1:
        wanted = "one whole number" if depth_name is None else "two whole numbers"
        which = "the width" if depth_name is None else "width and depth"
        raise checks.ArgumentError(name, f"must be {wanted} of at least 1, {which}, got {checks.literal(given)}.")
    width, depth = (*size.tolist(), None)[:2]
    return NetworkSize(width, depth, depth_name)
