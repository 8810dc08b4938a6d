"""`fit`: train a network with predictive coding or backpropagation, and evaluate it as it goes."""

import contextlib
import dataclasses
import math
import os
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from ..data import Dataset, Split
from ..diagnostics import layers_that_learn
from ..inference import Energy
from ..learning import Optimiser
from ..network import POLICIES, Network, Real
from ._checkpoint_policy import BACK_TO, Keeper, Place, halvings
from ._checkpoints import Checkpoints, describe
from ._config import METHODS as METHODS
from ._config import Plan, Settings, check_hooks, check_keeping
from ._config import validate as validate
from ._step import Chunks, Job, Measured, Program, State, Trace, run_interval

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

    @property
    def stopped(self) -> bool:
        """Whether `stop` ended it before its last step."""
        return not self.diverged and self.steps < self.history[-1]["total_steps"]


def fit(
    network: Network,
    dataset: Any,
    solver: Any = None,
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
    checkpoints: str | os.PathLike[str] | None = None,
    checkpoint_every: int | None = None,
    keep: int = 2,
    on_divergence: str = "stop",
    stop: Callable[[], bool] | None = None,
) -> FitResult:
    """Trains a network and evaluates it as it goes.

    The data lives on the device, and everything between two evaluations is one dispatch. Batches are drawn anew every
    epoch; an incomplete last batch is left out. Evaluation is by the forward pass, on the whole test (and validation)
    split. If the loss or a weight stops being finite, training ends there and the last good network is returned.

    With a folder for `checkpoints`, the same call goes on where the last one was interrupted, and on a CPU it ends with
    the same weights to the bit. More `epochs` train a finished run on.

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
    - `checkpoints`: a folder to write checkpoints to and to go on from. `checkpoint_every`: steps between them; by
      default one at evaluations, but no more than takes a tenth of the time. `keep`: how many of the last.
    - `on_divergence`: `"stop"`, or `"halve-lr"` to go back to the last good state with half the `weight_lr`, up to five
      times; the record of each divergence says so with `back_to_step` and the new `weight_lr`.
    - `stop`: asked after each evaluation and checkpoint; training ends there, with a checkpoint, once it says True.

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
    check_hooks(metrics, callbacks, stop)
    check_keeping(checkpoints is not None, checkpoint_every, keep, on_divergence, optimiser)
    keeper = Keeper(every=checkpoint_every, halve=on_divergence == "halve-lr", stop=stop)

    def report(index: int, record: Record) -> None:
        for callback in callbacks:
            callback(record)

    evaluate = Evaluation(Program(), job, dataset, dict(metrics or {}), network.hidden_layers + 1)
    with contextlib.ExitStack() as stack:
        if checkpoints is not None:
            about = describe(job, network, dataset)
            keeper.checkpoints = stack.enter_context(Checkpoints(checkpoints, about, keep))
        (result,) = train(Program(), job, job.start(network), settings.plan(dataset), evaluate, report, keeper)
    if result.diverged:
        warnings.warn(result.message, RuntimeWarning, stacklevel=2)
    return result


def train(
    program: Program,
    job: Job,
    state: State,
    plan: Plan,
    evaluate: "Evaluation",
    report: Callable[[int, Record], None],
    keeper: Keeper | None = None,
) -> list[FitResult]:
    """The loop of `fit`, for one run or for many at once. A run that diverges is left out of all that follows."""
    keeper = Keeper() if keeper is None else keeper
    histories: list[list[Record]] = [[] for _ in range(math.prod(program.runs))]
    losses: list[np.ndarray] = []  # of all runs, piece by piece
    dtype = POLICIES[job.precision].dtype
    steps = jnp.zeros((*program.runs, plan.interval), dtype)
    blank = Trace(steps, steps, jnp.zeros((*program.runs, evaluate.layers), dtype))
    place = good = Place(state)  # good: each run as of its last evaluation that was finite
    resumed = keeper.resume(place, blank)
    if resumed is not None:
        place, good, histories, losses = resumed
    begin = time.perf_counter() - (max(history[-1]["seconds"] for history in histories) if resumed else 0)

    def look(place: Place, good: Place) -> None:
        """Adds a record to the history of every run that goes on."""
        trace = place.trace if place.pieces else None
        taken = 0 if trace is None else trace.losses.shape[-1]
        for index, found in enumerate(evaluate(place.state.network, trace, taken)):
            history = histories[index]
            if _lost(history):
                continue
            record = {
                "step": place.step,
                "epoch": place.step / plan.per_epoch,
                **found,
                "steps_per_second": len(histories) * taken / place.seconds if taken else None,
                "seconds": time.perf_counter() - begin,
                "total_steps": plan.total,
            }
            if trace is not None and found["diverged"] and keeper.retries(history):
                record |= {BACK_TO: good.step, "weight_lr": float(_slowed(job, 1 + halvings(history)).weight_lr)}
            history.append(record)
            report(index, record)

    if not resumed:
        look(place, place)
    slowed = _slowed(job, halvings(histories[0]))
    while place.step < plan.total and not all(map(_lost, histories)) and not keeper.stops():
        back = False
        evaluation = plan.next_evaluation(place.step)
        end = min(evaluation, keeper.next(place.step))
        started = time.perf_counter()
        state, trace = run_interval(program, slowed, place.state, place.step, end - place.step, plan.per_epoch, blank)
        place = place.after(state, trace, end, time.perf_counter() - started)
        if end == evaluation:
            look(place, good)
            back = BACK_TO in histories[0][-1]
            if back:
                place, slowed = good, _slowed(job, halvings(histories[0]))
            else:
                losses.append(np.asarray(place.trace.losses))
                place = Place(state, end)
                good = _good(program, histories, place, good)
        if not all(map(_lost, histories)):
            keeper.keep(place, good, histories, losses, now=back, last=place.step == plan.total)
    if place.step < plan.total and not all(map(_lost, histories)):
        place = place if place.finite else good
        keeper.keep(place, good, histories, losses, now=True)
    losses = [np.zeros((*program.runs, 0), dtype), *losses, *(np.asarray(piece.losses) for piece in place.pieces)]
    taken = np.concatenate(losses, axis=-1)
    return [
        _result(program.pick((good if _lost(history) else place).state.network, index), history,
                program.pick(taken, index), place.step, plan, job.precision)
        for index, history in enumerate(histories)
    ]  # fmt: skip


def _lost(history: list[Record]) -> bool:
    """Whether a run has diverged for good. Before the first step nothing has."""
    return bool(history) and history[-1]["step"] > 0 and history[-1]["diverged"] and BACK_TO not in history[-1]


def _good(program: Program, histories: list[list[Record]], place: Place, good: Place) -> Place:
    """The place, but for runs that are lost, which stay as they were when they were good."""
    lost = np.asarray([_lost(history) for history in histories])
    if not lost.any():
        return place
    if lost.all():
        return good
    return place._replace(state=program.choose(lost, good.state, place.state))


def _result(
    network: Network, history: list[Record], losses: np.ndarray, step: int, plan: Plan, precision: str
) -> FitResult:
    """The result of a run, given the losses of all its steps, and perhaps of more that were taken after it was lost."""
    message = "all steps were taken"
    if _lost(history):
        before, last = history[-2], history[-1]
        losses = losses[: last["step"]]
        message = (
            f"training diverged between step {before.get(BACK_TO, before['step'])} and step {last['step']}: the loss "
            "or a weight is not finite. Lower the learning rates; the last good network was kept."
        )
    elif step < plan.total:
        message = f"training was stopped after {step} of {plan.total} steps"
    rates = [taken["steps_per_second"] for taken in history[2:] or history[1:]]
    return FitResult(
        network=network,
        history=history,
        losses=losses,
        steps=len(losses),
        seconds_per_step=1 / float(np.median(rates)) if rates else math.nan,
        diverged=bool(history[-1]["diverged"]),
        message=message,
        precision=precision,
    )


def _slowed(job: Job, times: int) -> Job:
    """The job with its learning rate halved so many times."""
    return eqx.tree_at(lambda j: j.weight_lr, job, job.weight_lr / 2**times) if times else job


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
            found["learning_layers"] = int(
                np.sum(layers_that_learn(np.asarray(trace.gradient_sizes), self.job.optimiser))
            )
            found["layers"] = self.layers
        for name, (loss, accuracy) in measured.splits.items():
            found[f"{name}_loss"] = float(loss)
            if self.job.format.classes is not None and not self.job.format.unsupervised:
                found[f"{name}_accuracy"] = float(accuracy)
        finite = all(np.isfinite(value) for value in found.values())
        return found | {"diverged": not (finite and bool(measured.finite))}
