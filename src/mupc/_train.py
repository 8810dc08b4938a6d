"""`fit`: train a network with predictive coding or backpropagation, and evaluate it as it goes."""

import dataclasses
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Array, Float

from . import _check, _optimiser, _precision
from ._energy import Energy
from ._infer import infer
from ._network import Network, forward_pass
from ._optimiser import Optimiser
from ._precision import POLICIES
from ._solver import AbstractSolver, traced
from ._step import Format, Job, State, Trace, advance, epoch_order, tune
from ._types import Real
from .data import Dataset, Split
from .diagnostics import learning

METHODS = ("pc", "bp")
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
    validate(network, dataset, solver, epochs, batch_size, method, unsupervised, augment)
    _optimiser.check(optimiser, weight_lr, schedule)
    policy = _precision.resolve(precision, network)
    per_epoch = len(dataset.train) // batch_size
    total = max(1, round(epochs * per_epoch))
    interval = min(total, per_epoch if evaluate_every is None else _check.integer("evaluate_every", evaluate_every, 1))
    job = Job(
        solver=traced(solver),
        energy=Energy() if energy is None else energy,
        raw=jnp.asarray(dataset.train.raw),
        targets=jnp.asarray(dataset.train.targets),
        key=jr.key(seed),
        weight_lr=jnp.asarray(weight_lr, POLICIES[policy.name].dtype),
        optimiser=optimiser,
        schedule=schedule,
        total_steps=total,
        format=Format(dataset.normalisation, dataset.classes, dataset.image_shape, unsupervised),
        augment=augment,
        precision=policy.name,
        batch_size=batch_size,
    )
    evaluate = _Evaluation(job, dataset, dict(metrics or {}))
    state = job.start(network)
    begin = time.perf_counter()
    history: list[Record] = []
    losses: list[np.ndarray] = []

    def record(state: State, step: int, trace: Trace | None, taken: int, seconds: float) -> Record:
        taken_record = {
            "step": step,
            "epoch": step / per_epoch,
            **evaluate(state.network, trace, taken),
            "steps_per_second": taken / seconds if taken else None,
            "seconds": time.perf_counter() - begin,
            "total_steps": total,
        }
        history.append(taken_record)
        for callback in callbacks:
            callback(taken_record)
        return taken_record

    record(state, 0, None, 0, 0.0)
    message, step = "all steps were taken", 0
    while step < total:
        count = min(interval, total - step)
        started = time.perf_counter()
        following, trace = _run_interval(job, state, step, count, per_epoch, interval)
        losses.append(np.asarray(trace.losses)[:count])
        latest = record(following, step + count, trace, count, time.perf_counter() - started)
        step += count
        if latest["diverged"]:
            message = (
                f"training diverged between step {step - count} and step {step}: the loss or a weight is not finite. "
                "Lower the learning rates; the network of the last good evaluation was kept."
            )
            warnings.warn(message, RuntimeWarning, stacklevel=2)
            break
        state = following
    rates = [taken["steps_per_second"] for taken in history[2:] or history[1:]]
    return FitResult(
        network=state.network,
        history=history,
        losses=np.concatenate(losses),
        steps=step,
        seconds_per_step=1 / float(np.median(rates)),
        diverged=bool(history[-1]["diverged"]),
        message=message,
        precision=policy.name,
    )


def _run_interval(job: Job, state: State, step: int, count: int, per_epoch: int, capacity: int) -> tuple[State, Trace]:
    """`count` steps: one dispatch, and one more for each epoch that begins and each tuning of the solver on the way."""
    layers = state.network.hidden_layers + 1
    dtype = POLICIES[job.precision].dtype
    trace = Trace(jnp.zeros(capacity, dtype), jnp.zeros(capacity, dtype), jnp.zeros(layers, dtype))
    done = 0
    every = None if job.solver is None else job.solver.retunes_every
    for epoch, first, length in _pieces(step, count, per_epoch, every):
        order = epoch_order(job, jnp.asarray(epoch))
        settled = job
        if every is not None:
            settled = dataclasses.replace(job, solver=tune(job, state, order, jnp.asarray(first)))
        span = jnp.asarray([first, done, length])
        state, trace = advance(settled, state, order, span, trace)
        done += length
    return state, jax.block_until_ready(trace)


def _pieces(step: int, count: int, per_epoch: int, every: int | None) -> Iterator[tuple[int, int, int]]:
    """Splits steps at the ends of epochs, and further at multiples of `every`: (epoch, first batch in it, number of
    batches)."""
    while count:
        epoch, first = divmod(step, per_epoch)
        length = min(count, per_epoch - first, count if every is None else every - step % every)
        yield epoch, first, length
        step, count = step + length, count - length


def validate(
    network: Network,
    dataset: Any,
    solver: AbstractSolver | None,
    epochs: float | int,
    batch_size: int,
    method: str,
    unsupervised: bool,
    augment: bool,
) -> None:
    """Raises for what cannot be trained, before anything is compiled."""
    if not isinstance(dataset, Dataset):
        raise TypeError(f'dataset must be a mupc.data.Dataset such as mupc.data.load("digits"), got {dataset!r}.')
    if method not in METHODS:
        raise ValueError(_check.unknown("method", method, METHODS))
    if method == "pc" and solver is None:
        raise ValueError('method "pc" needs a solver, such as mupc.GradientDescent(lr=0.01, steps=128).')
    if method == "bp" and (solver is not None or unsupervised):
        what = "unsupervised training" if unsupervised else "a solver"
        raise ValueError(f'{what} needs inference, which method "bp" has not. Leave it out, or use method "pc".')
    _check.number("epochs", epochs, above=0)
    _check.integer("batch_size", batch_size, 1)
    if batch_size > len(dataset.train):
        raise ValueError(
            f"batch_size={batch_size} is more than the {len(dataset.train)} training samples of {dataset.name}. "
            "Use a smaller batch."
        )
    wanted = (None, dataset.in_size) if unsupervised else (dataset.in_size, dataset.out_size)
    for name, size, want in zip(("in_size", "out_size"), (network.in_size, network.out_size), wanted, strict=True):
        if want is not None and size != want:
            raise ValueError(f"the network has {name}={size}, but {dataset.name} needs {want}. Make the network so.")
    if augment and dataset.image_shape is None:
        raise ValueError(f"augment needs images, and {dataset.name} has none. Leave it out.")


class _Evaluation:
    """Measures a network on whole splits, by the forward pass (unsupervised: by inference)."""

    def __init__(self, job: Job, dataset: Dataset, metrics: dict[str, Callable[[Network], Any]]) -> None:
        self.job, self.metrics = job, metrics
        splits = {"test": dataset.test, "validation": dataset.validation}
        self.splits = {name: self._chunks(split) for name, split in splits.items() if split is not None}

    @staticmethod
    def _chunks(split: Split) -> tuple[Array, Array, Array]:
        """Samples in equal chunks, the last filled up, with weights that leave the filling out."""
        size = min(EVALUATION_CHUNK, len(split))
        index = np.arange(-(-len(split) // size) * size).reshape(-1, size)
        inside = np.minimum(index, len(split) - 1)
        return jnp.asarray(split.raw[inside]), jnp.asarray(split.targets[inside]), jnp.asarray(index < len(split))

    def __call__(self, network: Network, trace: Trace | None, taken: int) -> Record:
        found: Record = {}
        if trace is not None:
            sizes = np.asarray(trace.gradient_sizes)
            found["train_loss"] = float(np.mean(np.asarray(trace.losses)[:taken]))
            found["energy"] = float(np.mean(np.asarray(trace.energies)[:taken]))
            found["learning_layers"] = int(np.sum(learning(sizes, self.job.optimiser)))
            found["layers"] = len(sizes)
        for name, chunks in self.splits.items():
            loss, accuracy = _evaluate(self.job, network, *chunks)
            found[f"{name}_loss"] = float(loss)
            if self.job.format.classes is not None and not self.job.format.unsupervised:
                found[f"{name}_accuracy"] = float(accuracy)
        finite = all(np.isfinite(value) for value in found.values())
        found["diverged"] = not (finite and bool(_all_finite(network)))
        return found | {name: metric(network) for name, metric in self.metrics.items()}


@eqx.filter_jit
def _evaluate(job: Job, network: Network, raw: Array, targets: Array, inside: Array) -> Float[Array, " 2"]:
    """Mean loss and accuracy over chunks of samples."""
    policy = POLICIES[job.precision].full
    network = policy.cast(network)

    def chunk(arrays: tuple[Array, Array, Array]) -> Float[Array, " 2"]:
        raw, targets, inside = arrays
        x = policy.cast(job.format.inputs(raw))
        y = policy.cast(job.format.targets(targets, x))
        if job.format.unsupervised and job.solver is not None:
            solution = infer(network, None, y, job.solver, energy=job.energy, key=job.key, precision=policy.name)
            output = solution.output
        else:
            output = forward_pass(network, x, policy)[1]
        right = jnp.argmax(output, axis=-1) == jnp.argmax(y, axis=-1)
        return jnp.stack([jnp.sum(jnp.where(inside, v, 0)) for v in (job.energy.output_loss(output, y), right)])

    return jnp.sum(jax.lax.map(chunk, (raw, targets, inside)), axis=0) / jnp.sum(inside)


@eqx.filter_jit
def _all_finite(network: Network) -> Array:
    return jnp.all(jnp.stack([jnp.all(jnp.isfinite(leaf)) for leaf in jax.tree.leaves(network)]))
