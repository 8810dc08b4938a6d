"""`fit_many`: runs that differ in numbers only, trained side by side as one program."""

import contextlib
import dataclasses
import itertools
import math
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from numbers import Number
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np

from ..data import Dataset
from ..inference import AbstractSolver, Energy, as_energy, traced
from ..io import checks
from ..learning import Optimiser, check_optimiser
from ..network import POLICIES, Network, Real, check_network
from ._checkpoint_policy import Keeper
from ._checkpoints import Checkpoints, describe
from ._config import Settings, check_energy, check_hooks
from ._fit import EVALUATION_CHUNK, Evaluation, FitResult, Record, train
from ._step import Job, Program, State, advance, epoch_order, measure, tune

KEEP = 2
"""Checkpoints that are kept of every chunk."""
MEMORY_SHARE = 0.5
"""Of the memory that a device has free (a computer has), how much the estimate for a chunk of runs may take."""


@dataclasses.dataclass(frozen=True)
class Run:
    """One run of `mupc.fit_many`, as `mupc.fit` takes it: the network to start from, the solver (None for method
    `"bp"`), the learning rate of the weights, the seed of the batches, and the energy."""

    network: Network
    solver: AbstractSolver | None = None
    weight_lr: Real = 0.1
    seed: int = 0
    energy: Energy | None = None


def fit_many(
    runs: Sequence[Any],
    dataset: Any,
    *,
    epochs: float | int = 1,
    method: str = "pc",
    batch_size: int = 64,
    optimiser: Optimiser = "adam",
    schedule: str = "constant",
    evaluate_every: int | None = None,
    unsupervised: bool = False,
    augment: bool = False,
    precision: str | None = None,
    chunk: int | None = None,
    metrics: Mapping[str, Callable[[Network], Any]] | None = None,
    callbacks: Sequence[Callable[[int, Record], None]] = (),
    checkpoints: str | os.PathLike[str] | None = None,
    stop: Callable[[], bool] | None = None,
) -> list[FitResult]:
    """Trains many networks at once, each as `mupc.fit` would by itself.

    Runs may differ in numbers: weights, seeds, learning rates, λ and the other numbers of the energy. They share one
    compiled program, one copy of the data and one dispatch from each evaluation to the next. A run that diverges does
    not disturb the others; its result says so.

    **Arguments:**

    - `runs`: a sequence of `mupc.Run(network, solver, weight_lr, seed, energy)`. Sizes, activation, parameterisation,
      kind and steps of the solver must be the same for all.
    - `dataset`, `epochs`, `method`, `batch_size`, `optimiser`, `schedule`, `evaluate_every`, `unsupervised`, `augment`,
      `precision`, `metrics`: as for `mupc.fit`, for all runs.
    - `chunk`: how many to train side by side; by default as many as the device's memory has room for. Runs beyond
      that follow in further chunks, all of the same size, so that nothing is compiled twice.
    - `callbacks`: called with the index of a run and its record at each evaluation.
    - `checkpoints`, `stop`: as for `mupc.fit`, for all runs together. The same call with the same runs in the same
      chunks goes on where the last one was interrupted.

    **Returns:** a `mupc.FitResult` for each run, in their order. Speeds are a run's share of its chunk's.

    **Example:**

    ```python
    import jax.random as jr, mupc

    digits = mupc.data.load("digits")
    network = mupc.Network(digits.in_size, digits.out_size, width=16, hidden_layers=4, key=jr.key(0))
    solver = mupc.GradientDescent(lr=0.4, steps=4)
    runs = [mupc.Run(network, solver, weight_lr) for weight_lr in (0.1, 0.03, 0.01)]
    losses = [result.last["train_loss"] for result in mupc.fit_many(runs, digits)]
    ```
    """
    runs = list(runs)
    _check_alike(runs)
    settings = Settings(
        epochs, method, batch_size, optimiser, schedule, evaluate_every, unsupervised, augment, precision
    )
    first = runs[0]
    job = settings.job(first.network, dataset, first.solver, first.energy, first.weight_lr, first.seed)
    check_hooks(metrics, callbacks, stop)
    for run in runs:
        check_optimiser(optimiser, run.weight_lr, schedule)
        check_energy(run.energy, dataset, method, unsupervised)
    limit = _room(job, first.network, dataset) if chunk is None else checks.integer("chunk", chunk, 1)
    size = -(-len(runs) // -(-len(runs) // limit))  # as even as the number of chunks allows
    filled = runs + runs[-1:] * (-len(runs) % size)
    own, common = _partition(_together(filled, job))
    results: list[FitResult] = []
    for start in range(0, len(filled), size):

        def report(index: int, record: Record, start: int = start) -> None:
            for callback in callbacks if start + index < len(runs) else ():
                callback(start + index, record)

        part = eqx.combine(jax.tree.map(lambda leaf, at=start: leaf[at : at + size], own), common)
        networks = [run.network for run in filled[start : start + size]]
        keeper = Keeper(stop=stop)
        with contextlib.ExitStack() as stack:
            if checkpoints is not None:
                about = describe(part, first.network, dataset)
                keeper.checkpoints = stack.enter_context(Checkpoints(checkpoints, about, KEEP, f"chunk-{start}"))
            results += _train_chunk(networks, part, settings, dataset, dict(metrics or {}), report, keeper)
    return results[: len(runs)]


def _train_chunk(
    networks: list[Network],
    job: Job,
    settings: Settings,
    dataset: Dataset,
    metrics: dict[str, Callable[[Network], Any]],
    report: Callable[[int, Record], None],
    keeper: Keeper,
) -> list[FitResult]:
    """Trains networks side by side, given the job of all of them."""
    program = Program(_orders, _tune, _advance, _measure, (len(networks),))
    evaluate = Evaluation(program, job, dataset, metrics, networks[0].hidden_layers + 1)
    state = _start(job, _stack(networks, POLICIES[job.precision].dtype))
    return train(program, job, state, settings.plan(dataset), evaluate, report, keeper)


def _together(runs: list[Run], job: Job) -> Job:
    """The job of one of the runs with the numbers of all."""
    dtype = POLICIES[job.precision].dtype
    numbers = (
        _stack([traced(run.solver) for run in runs], dtype),
        _stack([as_energy(run.energy) for run in runs], dtype),
        jnp.stack([jr.key(checks.seed(run.seed)) for run in runs]),
        jnp.asarray([run.weight_lr for run in runs], dtype),
    )
    where = lambda j: (j.solver, j.energy, j.key, j.weight_lr)  # noqa: E731
    return eqx.tree_at(where, job, numbers, is_leaf=lambda node: node is None)


def _partition(job: Job) -> tuple[Job, Job]:
    """The arrays of a job that each run has its own of, and what all share: the data set, and all that is no array."""
    own = eqx.tree_at(lambda j: (j.raw, j.targets), jax.tree.map(eqx.is_array, job), (False, False))
    return eqx.partition(job, own)


def _stack(trees: list[Any], dtype: Any) -> Any:
    """Trees of the same form as one, with a leading axis of runs on every array and every number that differs. Numbers
    that are the same stay plain, so that what is off for all runs (a decay of zero) costs nothing."""

    def stack(*leaves: Any) -> Any:
        arrays = any(eqx.is_array(leaf) for leaf in leaves)
        if not arrays and all(leaf == leaves[0] for leaf in leaves):
            return leaves[0]
        return jnp.stack([leaf if eqx.is_array(leaf) else jnp.asarray(leaf, dtype) for leaf in leaves])

    return jax.tree.map(stack, *trees)


def _mapped(function: Callable[..., Any], *shared: bool) -> Callable[..., Any]:
    """`function(job, …)` for many runs: what each has its own of in the job, and those arguments that are not `shared`,
    have a leading axis of runs."""

    @eqx.filter_jit
    def mapped(job: Job, *arguments: Any) -> Any:
        own, common = _partition(job)
        axes = [None if all_runs else eqx.if_array(0) for all_runs in shared]
        call = lambda own, *rest: function(eqx.combine(own, common), *rest)  # noqa: E731
        return eqx.filter_vmap(call, in_axes=(eqx.if_array(0), *axes))(own, *arguments)

    return mapped


def _begin(job: Job, network: Network) -> State:
    return job.start(network)


_start = _mapped(_begin, False)
_orders = _mapped(epoch_order, True)
_tune = _mapped(tune, False, False, True)
_advance = _mapped(advance, False, False, True, False)
_measure = _mapped(measure, False, True)


def _check_alike(runs: list[Any]) -> None:
    """Raises if runs differ in more than numbers, and names the difference."""
    if not runs:
        raise ValueError("there is nothing to train: pass at least one mupc.Run.")
    for run in runs:
        if not isinstance(run, Run):
            raise TypeError(f"runs must be mupc.Run objects such as mupc.Run(network, solver), got {run!r}.")
        check_network(run.network)
    first = dict(_form(runs[0]))
    for index, run in enumerate(runs[1:], start=1):
        other = dict(_form(run))
        for name in itertools.chain(first, other):
            if first.get(name) != other.get(name):
                one, two = (getattr(value, "name", value) for value in (first.get(name), other.get(name)))
                raise ValueError(
                    f"runs 0 and {index} differ in {name} ({one} and {two}). Only weights, seeds and numbers with a "
                    "decimal point may: make the rest the same, or call fit_many for each."
                )


def _form(run: Run) -> Iterator[tuple[str, Any]]:
    """Everything of a run that decides the program, by name."""
    for name in ("width", "hidden_layers", "parameterisation", "skip"):  # ahead of shapes and what follows from them
        yield f"network.{name}", getattr(run.network, name)
    parts = (("network", run.network), ("solver", run.solver), ("energy", run.energy or Energy()))
    for name, part in parts:
        yield from sorted(_settings(name, part), key=lambda item: item[0].count("."))


def _settings(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, eqx.Module):
        yield name, type(value).__name__
        for field in dataclasses.fields(value):
            yield from _settings(f"{name}.{field.name}", getattr(value, field.name))
    elif isinstance(value, jax.Array | np.ndarray) and value.ndim:
        yield name, f"{value.dtype} of shape {value.shape}"
    else:
        whole = isinstance(value, int) and not name.startswith("energy.")  # steps and the like; an energy has none
        yield name, "a number" if isinstance(value, Number | jax.Array) and not whole else value


def _room(job: Job, network: Network, dataset: Dataset) -> int:
    """How many runs the device has memory for, by a rough count of what each keeps."""
    free, need = free_memory(), _bytes(job, network, dataset)
    if need > free:
        raise ValueError(
            f"a run of this size needs about {need / 2**30:.1f} GiB, and there is room for {free / 2**30:.1f} GiB: "
            "use a smaller network or batch, or give chunk=1 to try it all the same."
        )
    return int(free // need)


def _bytes(job: Job, network: Network, dataset: Dataset) -> int:
    """Twice the state of training (before and after an interval), gradients, updates and the copies that products
    read; and activities with what inference or an evaluation keeps beside them."""
    state = jax.eval_shape(lambda n: job.start(n), network)
    weights, training = (
        sum(math.prod(leaf.shape) * leaf.dtype.itemsize for leaf in jax.tree.leaves(tree)) for tree in (network, state)
    )
    item = jnp.dtype(POLICIES[job.precision].dtype).itemsize
    widest = max(network.width, network.in_size)
    samples = max(12 * job.batch_size, 2 * min(EVALUATION_CHUNK, len(dataset.test)))
    return 2 * training + 4 * weights + samples * (network.hidden_layers + 1) * widest * item


def free_memory() -> float:
    device = jax.devices()[0]
    stats = device.memory_stats() if device.platform != "cpu" else None
    if stats and "bytes_limit" in stats:
        return MEMORY_SHARE * (stats["bytes_limit"] - stats["bytes_in_use"])
    return MEMORY_SHARE * os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
