"""Measure each workload: one update, training inside an epoch, and a grid of runs."""

import dataclasses
import functools
import itertools
import statistics
import time
import warnings
from collections.abc import Callable, Sequence
from typing import TypeVar

import jax
import jax.random as jr
import numpy as np
from jaxtyping import Array

from .. import data
from ..inference import Energy, ErrorSpace, GradientDescent, infer
from ..io import checks, device, json_ready, versions
from ..learning import BP, PC, backprop_gradients, weight_gradients
from ..network import AbstractNetwork, Chain, Network, backend, models, resolve_activation, resolve_precision
from ..training import FitResult, Run, TrainConfig, fit, fit_many
from . import _floors, _timing
from ._baseline import baseline_update
from ._config import BATCH_SIZE, EPOCHS, IN_SIZE, LEAST_LATENTS, OUT_SIZE, RESNET, UPDATES, BenchCase, BenchConfig
from ._report import BenchRow
from ._timing import Timing, compile_call

T = TypeVar("T")
Update = Callable[[AbstractNetwork, Array, Array], AbstractNetwork]

IMAGE_SHAPE = 3, 32, 32
"""CIFAR-10's, for convolutional networks."""
LR = 0.5 / BATCH_SIZE
"""The paper's β = 0.5, as it acts on one sample."""
UNROLLED_DEPTH, UNROLLED_SECONDS = 128, 5.0
"""The baseline is left out beyond this many layers, because compiling takes long, or if its products alone would take
more seconds than this for an update."""
CALL_OVERHEAD = 1e-6
"""Below these seconds, a time measures the call."""
SAMPLES, TEST_SAMPLES = dict.fromkeys(EPOCHS, 60_000) | {"grid": 6_400}, 10_000
INTERVALS = 4
"""Parts of an epoch, each with an evaluation at its end. The first does not count, because it compiles."""
SMALL_RATE = 1e-3
"""A learning rate with which random labels do no harm."""


def make_network(case: BenchCase, config: BenchConfig, in_size: int = IN_SIZE, out_size: int = OUT_SIZE, seed: int = 0
                 ) -> Network:  # fmt: skip
    """Create the network of a case."""
    return Network(in_size, out_size, case.width, case.hidden_layers, activation=config.activation, key=jr.key(seed))


def make_resnet(case: BenchCase, config: BenchConfig) -> Chain:
    """Create the convolutional network of a case, with its blocks spread over three stages."""
    more = case.hidden_layers - LEAST_LATENTS
    blocks = [1 + (more + late) // 3 for late in range(3)]
    return models.resnet(IMAGE_SHAPE, OUT_SIZE, case.width, blocks, activation=config.activation, key=jr.key(0))


def random_batch(case: BenchCase, shape: tuple[int, ...] = (IN_SIZE,)) -> tuple[Array, Array]:
    """Draw inputs and one-hot targets."""
    labels = jr.randint(jr.key(2), (case.batch_size,), 0, OUT_SIZE)
    return jr.normal(jr.key(1), (case.batch_size, *shape)), jax.nn.one_hot(labels, OUT_SIZE)


def make_algorithm(case: BenchCase, config: BenchConfig) -> PC:
    """Return how a workload infers."""
    if case.inference_steps is not None:
        return PC(GradientDescent(lr=LR, steps=case.inference_steps))
    return PC(ErrorSpace() if config.cg_steps is None else ErrorSpace(cg_steps=config.cg_steps, cg_tol=None))


def update_functions(case: BenchCase, config: BenchConfig, precision: str) -> dict[str, Update]:
    """Return a weight update by predictive coding, as the workload infers and with the output precision of training,
    and one by backpropagation."""
    algorithm = make_algorithm(case, config)
    energy = Energy(output_precision=algorithm.defaults.output_precision)

    def pc(network: AbstractNetwork, x: Array, y: Array) -> AbstractNetwork:
        return weight_gradients(network, infer(network, x, y, algorithm.solver, energy=energy, precision=precision), x)

    return {"mupc": pc, "backprop": lambda n, x, y: backprop_gradients(n, x, y, precision=precision)}


def baseline_missing(case: BenchCase, config: BenchConfig, matmul: float) -> str | None:
    """Return why the step-by-step baseline is left out, or None."""
    if not config.unrolled:
        return "the step-by-step baseline is switched off"
    if case.inference_steps is None:
        return "the step-by-step baseline descends on activities, and does not know error space"
    if case.hidden_layers > UNROLLED_DEPTH:
        return f"the step-by-step baseline is left out beyond {UNROLLED_DEPTH} layers, which take long to compile"
    products = 2 * case.inference_steps * case.hidden_layers * 2 * case.batch_size * case.width**2
    if products / matmul > UNROLLED_SECONDS:
        return f"the step-by-step baseline is left out: an update would take more than {UNROLLED_SECONDS:g} s"
    return None


def measure_update(case: BenchCase, config: BenchConfig, precision: str) -> BenchRow:
    """Time an update next to backpropagation, the baseline, its floor and the device's limits."""
    network, (x, y) = make_network(case, config), random_batch(case)
    limits = _timing.device_limits(precision, case)
    _, rough = _timing.time_with_limits({}, {"matmul": limits["matmul_flops_per_s"]}, repeats=1)
    calls = {name: compile_call(f, network, x, y) for name, f in update_functions(case, config, precision).items()}
    missing, steps = baseline_missing(case, config, rough["matmul"]), case.inference_steps
    if steps is None:
        work = _floors.error_space_work(case, config.cg_steps, precision)
    else:
        work = _floors.gradient_descent_work(case, steps, precision)
        if missing is None:
            calls["unrolled"] = baseline_update(network, x, y, LR, steps)
    times, rates = _timing.time_with_limits(calls, limits, config.rounds)
    ours, twice, once = times["mupc"]["median_s"], work.seconds(rates), work.seconds(rates, once=True)
    ratios = {"mupc / backprop": ours / times["backprop"]["median_s"]}
    if missing is None:
        ratios["unrolled / mupc"] = times["unrolled"]["median_s"] / ours
    floor = {"flops": work.flops, "bytes_twice": work.twice, "bytes_once": work.once, "twice_s": twice, "once_s": once}
    shares = {"floor": twice / ours, "matmul": work.flops / ours / rates["matmul_flops_per_s"]}
    if limits["batched_matmul_flops_per_s"].work / rates["matmul_flops_per_s"] > CALL_OVERHEAD:
        shares["batched_matmul"] = work.flops / ours / rates["batched_matmul_flops_per_s"]
    return {
        "times": times,
        "ceilings": rates,
        "floor": floor | {"limit": work.limit(rates)},
        "ratios": ratios,
        "shares": shares,
        "notes": [] if missing is None else [missing],
    }


def measure_resnet(case: BenchCase, config: BenchConfig, precision: str) -> BenchRow:
    """Time an update of a convolutional network next to backpropagation."""
    arguments = make_resnet(case, config), *random_batch(case, IMAGE_SHAPE)
    calls = {name: compile_call(f, *arguments) for name, f in update_functions(case, config, precision).items()}
    times = _timing.time_in_turns(calls, config.rounds)
    return {"times": times, "ratios": {"mupc / backprop": times["mupc"]["median_s"] / times["backprop"]["median_s"]}}


@functools.lru_cache(maxsize=2)
def random_images(samples: int, tests: int) -> data.Dataset:
    """Draw bytes and labels of MNIST's shape."""
    rng = np.random.default_rng(0)

    def split(count: int) -> data.Split:
        images = rng.integers(0, 256, (count, IN_SIZE), np.uint8)
        return data.Split(images, rng.integers(0, OUT_SIZE, count).astype(np.int32))

    scale = data.Normalisation(1 / 255, 0.5, 0.29)
    schema = data.Schema(scale, tuple(range(OUT_SIZE)), image_shape=(28, 28))
    return data.Dataset("random", split(samples), split(tests), None, schema, False, "random numbers")


def training_data(case: BenchCase, config: BenchConfig) -> data.Dataset:
    """Return what a case trains on. There must be a batch of it."""
    if config.data is not None:
        dataset = data.load(config.data, data_dir=config.data_dir)
    else:
        samples = config.scaled(SAMPLES[case.workload]) if config.samples is None else config.samples
        dataset = random_images(samples, config.scaled(TEST_SAMPLES))
    if case.batch_size > len(dataset.train):
        wrong = f"{case.batch_size} is more than the {len(dataset.train)} training samples."
        raise checks.ArgumentError("batch_size", wrong, "Use a smaller one, or more {samples}.")
    return dataset


def training_config(case: BenchCase, config: BenchConfig, precision: str) -> TrainConfig:
    """Return how epoch and grid train: at constant rates, as the paper does."""
    return TrainConfig(
        epochs=config.epochs,
        batch_size=case.batch_size,
        precision=precision,
        weight_lr=SMALL_RATE,
        schedule="constant",
    )


def measure_epoch(case: BenchCase, config: BenchConfig, precision: str) -> BenchRow:
    """Time a step (with drawing its batch) and an evaluation of PC and of BP inside `fit`, next to a bare update."""
    dataset = training_data(case, config)
    network = make_network(case, config, dataset.in_size, dataset.out_size)
    training = training_config(case, config, precision)
    plan = training.plan(dataset)
    training = dataclasses.replace(training, evaluate_every=max(1, plan.interval // INTERVALS))
    algorithms = (make_algorithm(case, config), BP())
    ours, backprop = (fit(network, dataset, algorithm, config=training) for algorithm in algorithms)
    bare = update_functions(case, config, precision)["mupc"]
    alone = {"alone": compile_call(bare, make_network(case, config), *random_batch(case))}
    step, evaluation = _step_and_evaluation(ours)
    times = {"mupc": step, "backprop": _step_and_evaluation(backprop)[0]} | _timing.time_in_turns(alone, config.rounds)
    return {
        "data": dataset.name,
        "steps_per_epoch": plan.per_epoch,
        "times": times,
        "evaluation_s": evaluation,
        "epoch_s": plan.per_epoch * step["median_s"] + evaluation,
        "ratios": {f"mupc / {name}": step["median_s"] / times[name]["median_s"] for name in ("backprop", "alone")},
        "notes": ["training diverged"] if ours.diverged else [],
    }


def _step_and_evaluation(result: FitResult) -> tuple[Timing, float]:
    """Return the times of a step, and the median of an evaluation's, over all intervals but the first, which
    compiles."""
    steps, evaluations = [], []
    records = result.history[1:] if len(result.history) > 2 else result.history
    for before, after in itertools.pairwise(records):
        steps.append(1 / after["steps_per_second"])
        evaluations.append(after["seconds"] - before["seconds"] - (after["step"] - before["step"]) * steps[-1])
    return _timing.median_and_spread(steps), statistics.median(evaluations)


def _timed(function: Callable[[], T]) -> tuple[float, T]:
    begin = time.perf_counter()
    result = function()
    return time.perf_counter() - begin, result


def measure_grid(case: BenchCase, config: BenchConfig, precision: str) -> BenchRow:
    """Time all pairs of learning rates with all seeds, as one program and one run after another. A run beforehand
    compiles each."""
    dataset = training_data(case, config)
    networks = [make_network(case, config, dataset.in_size, dataset.out_size, seed) for seed in range(config.seeds)]
    runs = [
        Run(networks[seed], GradientDescent(beta / BATCH_SIZE, case.inference_steps), eta, seed)
        for (eta, beta), seed in itertools.product(config.rates, range(config.seeds))
    ]
    training = training_config(case, config, precision)

    def many() -> list[FitResult]:
        return fit_many(runs, dataset, chunk=config.chunk, config=training)

    def one(run: Run) -> FitResult:
        return fit(run.network, dataset, run.algorithm, config=training, **run.settings)

    chosen = evenly_spaced(len(runs), config.sequential)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # from runs that diverge; the row counts them
        first, _ = _timed(many)
        together, results = _timed(many)
        one(runs[0])
        alone, singles = _timed(lambda: [one(runs[index]) for index in chosen])
    alone *= len(runs) / len(chosen)
    extrapolated = f"{len(chosen)} runs one after another, extrapolated to {len(runs)}"
    return {
        "data": dataset.name,
        "rates": config.rates,
        "runs": len(runs),
        "run_one_after_another": len(chosen),
        "together_s": together,
        "one_after_another_s": alone,
        "compile_s": first - together,
        "ratios": {"one after another / together": alone / together},
        "diverged": sum(result.diverged for result in results),
        **_loss_differences([results[index] for index in chosen], singles),
        "notes": [] if len(chosen) == len(runs) else [extrapolated],
    }


def evenly_spaced(count: int, wanted: int | None) -> list[int]:
    """Return the indices of `wanted` of `count` runs, from the first to the last: a few must not all share one rate."""
    few = count if wanted is None else min(wanted, count)
    return [int(index) for index in np.linspace(0, count - 1, few).round()]


def _loss_differences(together: Sequence[FitResult], alone: Sequence[FitResult]) -> BenchRow:
    """Compare the training losses of the same runs, relative to their size: in the first ten steps, and at the end,
    where training has amplified any rounding. Runs that diverged are left out."""
    pairs = [(a, b) for a, b in zip(together, alone, strict=True) if not (a.diverged or b.diverged)]
    start = [np.abs(a.losses[:10] - b.losses[:10]) / np.abs(b.losses[:10]) for a, b in pairs]
    end = [abs(a.last["train_loss"] - b.last["train_loss"]) / abs(b.last["train_loss"]) for a, b in pairs]
    return {
        "largest_difference_of_first_losses": np.max(start, initial=0),
        "largest_difference_of_final_losses": np.max(end, initial=0),
    }


MEASURES = dict.fromkeys(UPDATES, measure_update) | dict.fromkeys(EPOCHS, measure_epoch)
MEASURES |= {RESNET: measure_resnet, "grid": measure_grid}


def measure_case(case: BenchCase, config: BenchConfig) -> BenchRow:
    """Measure a case and return its row, ready for JSON. Running out of memory is a result, too.

    **Arguments:** `mupc.bench.BenchCase` and `mupc.bench.BenchConfig`.

    **Example:**

    ```python
    from mupc import bench

    row = bench.measure_case(bench.BenchCase("gd", hidden_layers=4, width=16), bench.BenchConfig(quick=True))
    row["ratios"]["unrolled / mupc"], row["shares"]["floor"]
    ```
    """
    name = config.precision or ("bf16" if backend().platform == "gpu" else "float32")
    about = {**dataclasses.asdict(case), "steps": case.inference_steps, "label": case.label}
    started = time.perf_counter()
    with _timing.without_disk_cache(), jax.enable_x64(name == "float64"):
        about["precision"] = precision = resolve_precision(name, None).name
        try:
            found = MEASURES[case.workload](case, config, precision)
        except (RuntimeError, MemoryError) as error:
            if not (isinstance(error, MemoryError) or "RESOURCE_EXHAUSTED" in str(error)):
                raise
            found = {"failed": "out of memory"}
    row: BenchRow = json_ready({**about, **found, "seconds": time.perf_counter() - started})
    return row


def prepare(config: BenchConfig, cases: Sequence[BenchCase]) -> BenchRow:
    """Make the checks that need JAX or files, and return what a record says about how it was made."""
    resolve_activation(config.activation)
    for case in cases:
        if case.workload in SAMPLES:
            training_data(case, config)
    settings = {field.name: getattr(config, field.name) for field in dataclasses.fields(BenchConfig)}
    return {"config": settings, "device": device(), "versions": versions()}
