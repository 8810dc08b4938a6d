"""`transfer`: tune both learning rates on a small network, train a large one with them."""

import dataclasses
import functools
import inspect
import itertools
import math
import time
from collections.abc import Callable, Iterable, MutableMapping, Sequence
from typing import Any

import jax
import jax.random as jr
import numpy as np

from ..data import Dataset
from ..inference import Energy, GradientDescent, as_energy
from ..io import checks
from ..network import Network
from ..training import FitResult, Run, fit_many
from ._cells import Cell, Rates, Size, Transfer, Tuning
from ._memory import check_room

WEIGHT_LRS = (0.5, 0.2, 0.1, 0.05, 0.02, 0.01)
ACTIVITY_LRS = (0.8, 0.4, 0.2, 0.1, 0.05, 0.02)
VALIDATION = 0.1
Grid = tuple[tuple[float, ...], ...]
Progress = Callable[[str, float], None]
Done = MutableMapping[tuple[Size, Rates], Cell]


@dataclasses.dataclass(frozen=True)
class _Study:
    """How to train any number of networks of any size with any rates."""

    dataset: Dataset
    seeds: Sequence[int]
    energy: Energy
    inference_steps: int | None
    options: dict[str, Any]
    training: dict[str, Any]
    done: Done

    def network(self, size: Size, seed: int) -> Network:
        sizes = (self.dataset.in_size, self.dataset.out_size, size.width, size.hidden_layers)
        return Network(*sizes, key=jr.key(seed), **self.options)

    def steps(self, size: Size) -> int:
        """By default as many as hidden layers, which is what the paper takes."""
        return size.hidden_layers if self.inference_steps is None else self.inference_steps

    def cells(self, size: Size, rates: Sequence[Rates], report: Callable[[float], None]) -> list[Cell]:
        """A cell for each pair of rates: those that are not there yet are trained, side by side."""
        if missing := [pair for pair in rates if (size, pair) not in self.done]:
            begin = time.perf_counter()
            found = self.run(size, missing, report)
            seconds = (time.perf_counter() - begin) / len(found)
            for cell in found:
                self.done[size, cell.rates] = dataclasses.replace(cell, seconds=seconds)
        return [self.done[size, pair] for pair in rates]

    def run(self, size: Size, rates: Sequence[Rates], report: Callable[[float], None]) -> list[Cell]:
        """Trains with each pair of rates."""
        networks = [self.network(size, seed) for seed in self.seeds]
        steps = self.steps(size)
        runs = [
            Run(network, GradientDescent(activity_lr, steps), weight_lr, seed, self.energy)
            for weight_lr, activity_lr in rates
            for network, seed in zip(networks, self.seeds, strict=True)
        ]
        done = dict.fromkeys(range(len(runs)), 0.0)

        def follow(index: int, record: dict[str, Any]) -> None:
            done[index] = 1.0 if record["diverged"] else record["step"] / record["total_steps"]
            report(sum(done.values()) / len(runs))

        results = fit_many(runs, self.dataset, callbacks=[follow], **self.training)
        count = len(self.seeds)
        return [_cell(pair, results[count * i : count * (i + 1)]) for i, pair in enumerate(rates)]

    def flops(self, size: Size) -> float:
        """Of one run: a forward pass, weight gradients and two products a step of inference, half of which work on
        layers that have been reached."""
        weights = sum(leaf.size for leaf in jax.tree.leaves(self.network(size, 0)))
        return len(self.dataset.train) * self.training["epochs"] * weights * (4.0 + 2.0 * self.steps(size))


def _cell(rates: Rates, results: list[FitResult]) -> Cell:
    diverged = sum(result.diverged for result in results)

    def mean(name: str) -> float:
        return math.inf if diverged else float(np.mean([result.history[-1][name] for result in results]))

    known = "test_accuracy" in results[0].history[-1]
    return Cell(
        *rates,
        train_loss=mean("train_loss"),
        validation_loss=mean("validation_loss"),
        test_loss=mean("test_loss"),
        test_accuracy=(0.0 if diverged else mean("test_accuracy")) if known else None,
        diverged=diverged,
    )


def transfer(
    dataset: Any,
    *,
    small: Sequence[int],
    large: Sequence[int],
    weight_lrs: Iterable[float] = WEIGHT_LRS,
    activity_lrs: Iterable[float] = ACTIVITY_LRS,
    epochs: float | int = 3,
    seeds: int = 3,
    verify: bool = False,
    energy: Energy | None = None,
    inference_steps: int | None = None,
    batch_size: int = 64,
    optimiser: str = "adam",
    schedule: str = "constant",
    precision: str | None = None,
    validation: float = VALIDATION,
    seed: int = 0,
    progress: Progress | None = None,
    done: Done | None = None,
    **network: Any,
) -> Transfer:
    """Tunes both learning rates on a small network and trains a large one with them.

    With μPC the best rates barely move with width and depth, so that a grid is affordable: all its runs are small and
    go side by side, as one program (`mupc.fit_many`). Inference is by gradient descent.

    **Arguments:**

    - `dataset`: as for `mupc.fit`; without a validation split it is given one, a fraction `validation`.
    - `small`, `large`: their (width, hidden_layers).
    - `weight_lrs`, `activity_lrs`: the grid. Activity rates act on one sample, so both hold at any batch size.
    - `epochs`, `batch_size`, `optimiser`, `schedule`, `precision`, `energy`: as for `mupc.fit`, at both sizes.
    - `seeds`: how many, from `seed` on, to average over. `inference_steps`: by default as many as hidden layers.
    - `verify`: also train the large network with neighbouring rates of the grid, and with the neighbours of the best
      of those, until the best has been surrounded: what did transfer cost?
    - `progress`: called with what is being done and the share that is finished.
    - `done`: a dictionary that takes every cell once it is finished. After an interruption, or to add `verify`, pass it
      again with the same arguments: what is in it is not trained again.
    - anything else, such as `activation` or `parameterisation`, goes to `mupc.Network`.

    **Returns:** a `Transfer` with the attributes `chosen`, `used`, `own`, `regret`, `saved`, `small` and `large`.

    **Example:**

    ```python
    import mupc

    digits = mupc.data.load("digits")
    found = mupc.transfer(digits, small=(8, 2), large=(16, 4), weight_lrs=(0.1, 0.02), activity_lrs=(0.4,), epochs=1)
    found.chosen.weight_lr, found.used.test_accuracy, found.saved
    ```
    """
    _check_names(network)
    sizes = _size("small", small), _size("large", large)
    grid = tuple(_axis("weight_lrs", weight_lrs)), tuple(_axis("activity_lrs", activity_lrs))
    first, count = checks.integer("seed", seed, 0), checks.integer("seeds", seeds, 1)
    checks.seed(first + count - 1)
    study = _Study(
        dataset=_split(dataset, validation),
        seeds=range(first, first + count),
        energy=as_energy(energy),
        inference_steps=inference_steps,
        options=network,
        training={
            "epochs": epochs,
            "batch_size": batch_size,
            "optimiser": optimiser,
            "schedule": schedule,
            "precision": precision,
        },
        done={} if done is None else done,
    )
    tell = (lambda stage, share: None) if progress is None else progress
    for size in sizes:  # mistakes in the large one must not wait for the small one to be tuned
        check_room(functools.partial(study.network, size, 0), count)
    tuned = _tune(study, sizes[0], grid, tell)
    chosen = tuned.best("validation_loss")
    if not math.isfinite(chosen.validation_loss):
        raise ValueError(
            f"every run of the small network ({tuned.size}) diverged: try smaller weight_lrs and activity_lrs."
        )
    cells = _retune(study, sizes[1], grid, chosen.rates, verify, tell)
    trained = Tuning(sizes[1], list(cells.values()), study.flops(sizes[1]))
    return Transfer(tuned, trained, chosen, cells[chosen.rates], trained.best("train_loss") if verify else None)


def _tune(study: _Study, size: Size, grid: Grid, tell: Progress) -> Tuning:
    pairs = [(eta, lr) for eta, lr in itertools.product(*grid)]
    cells = study.cells(size, pairs, functools.partial(tell, f"tuning {size}"))
    return Tuning(size, cells, study.flops(size))


def _retune(study: _Study, size: Size, grid: Grid, rates: Rates, verify: bool, tell: Progress) -> dict[Rates, Cell]:
    """The large network with the given rates and, to verify them, with those around the best ones found so far."""
    cells: dict[Rates, Cell] = {}
    centre, stage = rates, f"training {size}"
    while wanted := [pair for pair in (_around(centre, grid) if verify else [centre]) if pair not in cells]:
        found = study.cells(size, wanted, functools.partial(tell, stage))
        cells |= {cell.rates: cell for cell in found}
        best = min(cells.values(), key=lambda cell: cell.train_loss)
        if not math.isfinite(best.train_loss):
            break
        centre, stage = best.rates, f"looking further around η = {best.weight_lr:g}, {best.activity_lr:g}"
    return cells


def _around(rates: Rates, grid: Grid) -> list[Rates]:
    """The pair and its neighbours in the grid."""
    near = []
    for value, axis in zip(rates, grid, strict=True):
        at = axis.index(value)
        near.append(axis[max(0, at - 1) : at + 2])
    return [(eta, lr) for eta, lr in itertools.product(*near)]


def _axis(name: str, values: Iterable[float]) -> list[float]:
    """Rates in falling order, each once."""
    found = list(values)
    if not found:
        raise ValueError(f"{name} is empty: give at least one learning rate.")
    for value in found:
        checks.number(name, value, above=0)
    return sorted({float(value) for value in found}, reverse=True)


def _check_names(network: Iterable[str]) -> None:
    """Raises for what neither this nor `Network` takes."""
    parameters = [one for taker in (transfer, Network.__init__) for one in inspect.signature(taker).parameters.values()]
    known = [one.name for one in parameters if one.kind is one.KEYWORD_ONLY and one.name != "key"]
    for name in network:
        if name not in known:
            raise TypeError(checks.unknown("argument", name, known))


def _size(name: str, given: Any) -> Size:
    if np.shape(given) != (2,):
        raise ValueError(f"{name} must be (width, hidden_layers), got {given!r}.")
    return Size(
        *(checks.integer(f"{part} of {name}", value, 1) for part, value in zip(Size._fields, given, strict=True))
    )


def _split(dataset: Any, validation: float) -> Dataset:
    if not isinstance(dataset, Dataset):
        raise TypeError(f'dataset must be a mupc.data.Dataset such as mupc.data.load("digits"), got {dataset!r}.')
    return dataset if dataset.validation is not None else dataset.with_validation(validation, seed=0)
