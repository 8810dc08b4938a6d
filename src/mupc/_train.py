"""`fit`: train a network with predictive coding or backpropagation, and evaluate it as it goes."""

import dataclasses
import math
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ._energy import Energy
from ._network import Network
from ._optimiser import Optimiser
from ._precision import POLICIES
from ._settings import METHODS as METHODS
from ._settings import Plan, Settings
from ._settings import validate as validate
from ._solver import AbstractSolver
from ._step import Chunks, Job, Measured, Program, State, Trace, run_interval
from ._types import Real
from .data import Dataset, Split
from .diagnostics import learning

EVALUATION_CHUNK = 1000
Record = dict[str, Any]


@dataclasses.dataclass(frozen=True)
class FitResult:
    """What `fit` returns.

    - `network`: as trained; after a divergence that of the last good evaluation.
    - `history`: one record per evaluation, the first before any training.
    - `losses`: the training loss of every step, of the prediction made before learning from its batch.
    - `steps` taken, `seconds_per_step` (median over intervals, without compiling where there is more than one),
      `diverged`, `message` (why it ended) and `precision`.
    """

    network: Network
    history: list[Record]
    losses: np.ndarray
    steps: int
    seconds_per_step: float
    diverged: bool
    message: str
    precision: str

    @property
    def last(self) -> Record:
        """The last record of a network that was still finite."""
        return [record for record in self.history if not record["diverged"]][-1]


def fit(
    network: Network,
    dataset: Any,
    solver: AbstractSolver | None = None,
    *,
    epochs: float | int = 1,
    weight_lr: Real = 0.1,
    seed: int = 0,
    method: str = "pc",
    energy: Energy | None = None,
    batch_size: int = 64,
    optimiser: Optimiser = "adam",
    schedule: str = "constant",
    evaluate_every: int | None = None,
    unsupervised: bool = False,
    augment: bool = False,
    precision: str | None = None,
    metrics: Mapping[str, Callable[[Network], Any]] | None = None,
    callbacks: Sequence[Callable[[Record], None]] = (),
) -> FitResult:
    """Trains a network and evaluates it as it goes.

    The data lives on the device, and everything between two evaluations is one dispatch. Batches are drawn anew every
    epoch; an incomplete last batch is left out. Evaluation is by the forward pass, on the whole test (and validation)
    split. If the loss or a weight stops being finite, training ends there and the last good network is returned.

    **Arguments:**

    - `network`, `dataset` (from `mupc.data.load`), and for `method="pc"` a `solver`.
    - `epochs` (may be a fraction), `weight_lr`, `seed` (order of the batches, random starts), `batch_size`.
    - `method`: `"pc"`, or `"bp"` for the backpropagation baseline on the same network.
    - `energy`: `mupc.Energy(...)`. `precision`: as for `mupc.infer`.
    - `optimiser`: a name such as `"adam"` or `"sgd"`, or any optax transformation, which then brings its own rate.
      `schedule`: `"constant"`, `"cosine"`, `"linear"` or `"warmup-cosine"`.
    - `evaluate_every`: steps between evaluations; by default once an epoch.
    - `unsupervised`: learn to generate the inputs from a free z₀; targets are not used.
    - `augment`: random crops, flips and rotations of the images, on the device.
    - `metrics`: more to measure at each evaluation, `{"name": function_of_the_network}`.
    - `callbacks`: called with each record as it is taken.

    **Example:**

    ```python
    import jax.random as jr, mupc

    digits = mupc.data.load("digits")
    network = mupc.Network(digits.in_size, digits.out_size, width=64, hidden_layers=16, key=jr.key(0))
    result = mupc.fit(network, digits, mupc.GradientDescent(lr=0.5, steps=16), epochs=2, weight_lr=0.05)
    result.last["test_accuracy"]
    ```
    """
    settings = Settings(
        epochs, method, batch_size, optimiser, schedule, evaluate_every, unsupervised, augment, precision
    )  # fmt: skip
    job = settings.job(network, dataset, solver, energy, weight_lr, seed)

    def report(index: int, record: Record) -> None:
        for callback in callbacks:
            callback(record)

    evaluate = Evaluation(Program(), job, dataset, dict(metrics or {}), network.hidden_layers + 1)
    (result,) = train(Program(), job, job.start(network), settings.plan(dataset), evaluate, report)
    if result.diverged:
        warnings.warn(result.message, RuntimeWarning, stacklevel=2)
    return result


@dataclasses.dataclass
class _Log:
    """What is known of one run so far; `network` is set once it has diverged."""

    history: list[Record] = dataclasses.field(default_factory=list)
    losses: list[np.ndarray] = dataclasses.field(default_factory=list)
    network: Network | None = None
    message: str = "all steps were taken"

    def result(self, network: Network, precision: str) -> FitResult:
        rates = [taken["steps_per_second"] for taken in self.history[2:] or self.history[1:]]
        return FitResult(
            network=network if self.network is None else self.network,
            history=self.history,
            losses=np.concatenate(self.losses),
            steps=self.history[-1]["step"],
            seconds_per_step=1 / float(np.median(rates)),
            diverged=bool(self.history[-1]["diverged"]),
            message=self.message,
            precision=precision,
        )


def train(
    program: Program, job: Job, state: State, plan: Plan, evaluate: "Evaluation", report: Callable[[int, Record], None]
) -> list[FitResult]:
    """The loop of `fit`, for one run or for many at once. A run that diverges is left out of all that follows."""
    logs = [_Log() for _ in range(math.prod(program.runs))]
    begin = time.perf_counter()

    def look(state: State, step: int, trace: Trace | None, taken: int, seconds: float) -> None:
        for index, found in enumerate(evaluate(state.network, trace, taken)):
            log = logs[index]
            if log.network is None:
                record = {
                    "step": step,
                    "epoch": step / plan.per_epoch,
                    **found,
                    "steps_per_second": len(logs) * taken / seconds if taken else None,
                    "seconds": time.perf_counter() - begin,
                    "total_steps": plan.total,
                }
                log.history.append(record)
                report(index, record)

    look(state, 0, None, 0, 0.0)
    dtype = POLICIES[job.precision].dtype
    steps = jnp.zeros((*program.runs, plan.interval), dtype)
    blank = Trace(steps, steps, jnp.zeros((*program.runs, evaluate.layers), dtype))
    step = 0
    while step < plan.total and any(log.network is None for log in logs):
        count = min(plan.interval, plan.total - step)
        started = time.perf_counter()
        following, trace = run_interval(program, job, state, step, count, plan.per_epoch, blank)
        losses = np.asarray(trace.losses)[..., :count]
        step += count
        look(following, step, trace, count, time.perf_counter() - started)
        for index, log in enumerate(logs):
            if log.network is None:
                log.losses.append(program.pick(losses, index))
                if log.history[-1]["diverged"]:
                    log.network = program.pick(state.network, index)
                    log.message = (
                        f"training diverged between step {step - count} and step {step}: the loss or a weight is not "
                        "finite. Lower the learning rates; the network of the last good evaluation was kept."
                    )
        state = following
    return [log.result(program.pick(state.network, index), job.precision) for index, log in enumerate(logs)]


class Evaluation:
    """Measures networks on whole splits and describes each in a record."""

    def __init__(
        self, program: Program, job: Job, dataset: Dataset, metrics: dict[str, Callable[[Network], Any]], layers: int
    ) -> None:
        self.program, self.job, self.metrics, self.layers = program, job, metrics, layers
        splits = {"test": dataset.test, "validation": dataset.validation}
        self.splits = {name: self._chunks(split) for name, split in splits.items() if split is not None}

    @staticmethod
    def _chunks(split: Split) -> Chunks:
        """Samples in equal chunks, the last filled up, with weights that leave the filling out."""
        size = min(EVALUATION_CHUNK, len(split))
        index = np.arange(-(-len(split) // size) * size).reshape(-1, size)
        inside = np.minimum(index, len(split) - 1)
        return jnp.asarray(split.raw[inside]), jnp.asarray(split.targets[inside]), jnp.asarray(index < len(split))

    def __call__(self, network: Network, trace: Trace | None, taken: int) -> list[Record]:
        """One record for each run, of the networks now and of the `taken` steps that led to them."""
        seen = jax.tree.map(np.asarray, (self.program.measure(self.job, network, self.splits), trace))
        records = []
        for index in range(math.prod(self.program.runs)):
            measured, steps = self.program.pick(seen, index)
            record = self._describe(measured, steps, taken)
            one = self.program.pick(network, index) if self.metrics else network
            records.append(record | {name: metric(one) for name, metric in self.metrics.items()})
        return records

    def _describe(self, measured: Measured, trace: Trace | None, taken: int) -> Record:
        found: Record = {}
        if trace is not None:
            found["train_loss"] = float(np.mean(trace.losses[:taken]))
            found["energy"] = float(np.mean(trace.energies[:taken]))
            found["learning_layers"] = int(np.sum(learning(np.asarray(trace.gradient_sizes), self.job.optimiser)))
            found["layers"] = self.layers
        for name, (loss, accuracy) in measured.splits.items():
            found[f"{name}_loss"] = float(loss)
            if self.job.format.classes is not None and not self.job.format.unsupervised:
                found[f"{name}_accuracy"] = float(accuracy)
        finite = all(np.isfinite(value) for value in found.values())
        return found | {"diverged": not (finite and bool(measured.finite))}
