"""Training runs: a step and an evaluation inside an epoch, and a grid of runs as one program."""

import functools
import itertools
import time
import warnings
from collections.abc import Callable
from typing import Any, TypeVar

import jax.random as jr
import numpy as np

from .. import data
from ..data import Dataset, Normalisation, Split
from ..inference import GradientDescent
from ..network import Network
from ..training import FitResult, Run, fit, fit_many
from ._cases import Case, Options, finite
from ._timing import compiled, measure, summary
from ._update import LR, Row, batch, network, updates

T = TypeVar("T")
PAPER_BATCH = 64
SAMPLES, TEST_SAMPLES = {"epoch": 60_000, "grid": 6_400}, 10_000
INTERVALS = 4
"""Parts of an epoch, each ended by an evaluation; the first is not counted, because it compiles."""
SMALL_RATE = 1e-3
"""A learning rate with which labels that mean nothing do no harm."""


@functools.lru_cache(maxsize=2)
def random_images(samples: int, tests: int) -> Dataset:
    """Random bytes and labels, of MNIST's shape."""
    rng = np.random.default_rng(0)

    def split(count: int) -> Split:
        return Split(rng.integers(0, 256, (count, 784), np.uint8), rng.integers(0, 10, count).astype(np.int32))

    scale = Normalisation(1 / 255, 0.5, 0.29)
    return Dataset("random", split(samples), split(tests), None, 10, (28, 28), scale, False, "random numbers")


def training_data(case: Case, options: Options) -> Dataset:
    """What a case trains on, after a check that there is a batch of it."""
    if options.data is not None:
        dataset = data.load(options.data, data_dir=options.data_dir)
    else:
        samples = options.scaled(SAMPLES[case.workload]) if options.samples is None else options.samples
        dataset = random_images(samples, options.scaled(TEST_SAMPLES))
    if case.batch_size > len(dataset.train):
        raise ValueError(
            f"--batch-size {case.batch_size} is more than the {len(dataset.train)} training samples: use a smaller "
            "one, or more --samples."
        )
    return dataset


def measure_epoch(case: Case, options: Options, precision: str) -> Row:
    """Seconds of a step, drawing its batch included, and of an evaluation, for PC and for BP, from training as users
    run it; beside a single update by itself."""
    dataset = training_data(case, options)
    weights = Network(
        dataset.in_size, dataset.out_size, case.width, case.hidden_layers, activation=options.activation, key=jr.key(0)
    )
    steps = len(dataset.train) // case.batch_size
    total = max(1, round(options.epochs * steps))
    shared: dict[str, Any] = {
        "epochs": options.epochs, "batch_size": case.batch_size, "precision": precision, "weight_lr": SMALL_RATE,
        "evaluate_every": max(1, min(steps, total) // INTERVALS),
    }  # fmt: skip
    solver = GradientDescent(lr=LR, steps=case.inference_steps)
    found = {
        "mupc": fit(weights, dataset, solver, **shared),
        "backprop": fit(weights, dataset, method="bp", **shared),
    }
    times, evaluations = {}, {}
    for name, result in found.items():
        times[name], evaluations[name] = _intervals(result)
    alone = {"alone": compiled(updates(case, options, precision)["mupc"], network(case, options), *batch(case))}
    times |= measure(alone, options.rounds)
    step, evaluation = times["mupc"]["median_s"], evaluations["mupc"]["median_s"]
    return {
        "data": dataset.name,
        "steps_per_epoch": steps,
        "times": times,
        "evaluations": evaluations,
        "epoch_s": steps * step + evaluation,
        "ratios": {
            "mupc / backprop": step / times["backprop"]["median_s"],
            "mupc / alone": step / times["alone"]["median_s"],
        },
        "notes": ["training diverged"] if found["mupc"].diverged else [],
    }


def _intervals(result: FitResult) -> tuple[Row, Row]:
    """Seconds per step and seconds per evaluation, over all intervals but the first, which compiles."""
    steps, evaluations = [], []
    records = result.history[1:] if len(result.history) > 2 else result.history
    for before, after in itertools.pairwise(records):
        step = 1 / after["steps_per_second"]
        steps.append(step)
        evaluations.append(after["seconds"] - before["seconds"] - (after["step"] - before["step"]) * step)
    return summary(steps), summary(evaluations)


def _timed(function: Callable[[], T]) -> tuple[float, T]:
    begin = time.perf_counter()
    found = function()
    return time.perf_counter() - begin, found


def measure_grid(case: Case, options: Options, precision: str) -> Row:
    """All pairs of learning rates with all seeds, as one program and one after another. Both ways are compiled by a
    run beforehand."""
    dataset = training_data(case, options)
    networks = [
        Network(
            dataset.in_size, dataset.out_size, case.width, case.hidden_layers, activation=options.activation,
            key=jr.key(seed),
        )
        for seed in range(options.seeds)
    ]  # fmt: skip
    runs = [
        Run(networks[seed], GradientDescent(beta / PAPER_BATCH, case.inference_steps), eta, seed)
        for (eta, beta), seed in itertools.product(options.rates, range(options.seeds))
    ]
    shared: dict[str, Any] = {"epochs": options.epochs, "batch_size": case.batch_size, "precision": precision}

    def many() -> list[FitResult]:
        return fit_many(runs, dataset, chunk=options.chunk, **shared)

    def one(run: Run) -> FitResult:
        return fit(run.network, dataset, run.solver, weight_lr=run.weight_lr, seed=run.seed, **shared)

    part = spread(len(runs), options.sequential)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # of runs that diverge, which are counted
        first_many, _ = _timed(many)
        together, results = _timed(many)
        first_one, _ = _timed(lambda: one(runs[0]))
        alone, singles = _timed(lambda: [one(runs[place]) for place in part])
    alone *= len(runs) / len(part)
    return {
        "data": dataset.name,
        "runs": len(runs),
        "run_one_after_another": len(part),
        "together_s": together,
        "one_after_another_s": alone,
        "first_together_s": first_many,
        "first_alone_s": first_one,
        "ratios": {"one after another / together": alone / together},
        "diverged": sum(result.diverged for result in results),
        **differences([results[place] for place in part], singles),
        "notes": [] if len(part) == len(runs) else [f"{len(part)} runs one after another, extrapolated to {len(runs)}"],
    }


def spread(count: int, wanted: int | None) -> list[int]:
    """Places of so many of `count` runs, from the first to the last: a few must not all have the same rates."""
    few = count if wanted is None else min(wanted, count)
    return [int(place) for place in np.linspace(0, count - 1, few).round()]


def differences(together: list[FitResult], alone: list[FitResult]) -> dict[str, Any]:
    """How far apart the training losses of the same runs are, relative to their size: of the first ten steps, and at
    the end, where training itself has amplified any rounding. Runs that diverged are left out."""
    pairs = list(zip(together, alone, strict=True))
    good = [(a, b) for a, b in pairs if not (a.diverged or b.diverged)]
    start = [np.abs(a.losses[:10] - b.losses[:10]) / np.abs(b.losses[:10]) for a, b in good]
    end = [abs(a.last["train_loss"] - b.last["train_loss"]) / abs(b.last["train_loss"]) for a, b in good]
    return {
        "diverged_alike": all(a.diverged == b.diverged for a, b in pairs),
        "largest_difference_of_first_losses": finite(float(np.max(start, initial=0))),
        "median_difference_of_final_losses": finite(float(np.median(end))) if end else None,
        "largest_difference_of_final_losses": finite(float(np.max(end, initial=0))),
    }
