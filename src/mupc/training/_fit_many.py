"""`fit_many`: runs that differ in numbers only, trained side by side as one program."""

import contextlib
import dataclasses
import itertools
import warnings
from collections.abc import Callable, Iterator, Sequence
from numbers import Number
from typing import Any, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jax.sharding import Mesh
from jaxtyping import DTypeLike

from ..data import BatchStream, Dataset
from ..inference import AbstractSolver, Energy, as_energy, traced
from ..io import checks
from ..learning import PC, AbstractAlgorithm
from ..network import DATA, RUNS, AbstractNetwork, Chain, Network, Real, check_network, constrain, put, size_of
from ._checkpoint_policy import CheckpointPolicy
from ._checkpoints import Checkpoints, describe_run
from ._config import Arrays, TrainConfig, as_algorithm, as_dataset
from ._devices import checked_mesh
from ._evaluation import Callbacks, Evaluation, Metrics, TrainStatus, check_hooks
from ._loop import TrainLoop
from ._memory import check_room, free_memory
from ._result import FitResult
from ._rounding import first_rounding_warning
from ._step import DevicePrograms, TrainJob, advance, begin, score, tune

Tree = TypeVar("Tree")

MEMORY_SHARE = 0.5
"""The share of a device's memory that runs side by side may plan with, by a rough count of what each takes."""
ONE_RUN = ("on_divergence", "patience", "restore_best")
"""Settings that runs side by side do not have: all of them take the same steps."""


@dataclasses.dataclass(frozen=True)
class Run:
    """One run of `mupc.fit_many`, as `mupc.fit` takes it: the network to start from, the algorithm (or just a solver),
    the learning rate of the weights (by default that of the algorithm), the seed of the batches, and the energy."""

    network: AbstractNetwork
    algorithm: AbstractAlgorithm | AbstractSolver | None = None
    weight_lr: Real | None = None
    seed: int = 0
    energy: Energy | None = None

    @property
    def settings(self) -> dict[str, Any]:
        """The settings of training that belong to this run alone."""
        return {"weight_lr": self.weight_lr, "seed": self.seed, "energy": self.energy}


def fit_many(
    runs: Sequence[Run],
    dataset: Dataset | BatchStream | Arrays,
    *,
    config: TrainConfig | None = None,
    chunk: int | None = None,
    metrics: Metrics | None = None,
    callbacks: Callbacks = (),
    stop: Callable[[], bool] | None = None,
    mesh: Mesh | None = None,
    **settings: Any,
) -> list[FitResult]:
    """Train many networks at once, each as `mupc.fit` would by itself.

    Runs may differ in numbers: weights, seeds, learning rates, λ and the other numbers of the energy. They share one
    compiled program, one copy of the data and one dispatch from each evaluation to the next. A run that diverges does
    not disturb the others; its result says so.

    **Arguments:**

    - `runs`: a sequence of `mupc.Run(network, algorithm, weight_lr, seed, energy)`. Sizes, activation,
      parameterisation, and the kind and steps of the solver must be the same for all.
    - `dataset`, `config`, `metrics`, `stop` and further settings: as for `mupc.fit`, for all runs. The learning rate,
      seed and energy are each run's own.
    - `chunk`: how many to train side by side; by default as many as the device's memory has room for. Runs beyond
      that follow in further chunks, all of the same size, so that nothing is compiled twice.
    - `callbacks`: called with a `mupc.TrainStatus` for each run at each evaluation; its `run` is the run's number.
    - `mesh`: devices to divide the work over, such as `jax.make_mesh((8,), ("runs",))`. The axis `runs` divides the
      runs of a chunk, and `data` the batches of each.
    - `checkpoints`: the same call with the same runs in the same chunks goes on where the last one was interrupted.

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
    _check_runs(runs)
    for name in settings.keys() & runs[0].settings.keys():
        raise checks.ArgumentError(name, "belongs to each run:", f"give it to {{Run}}, such as mupc.Run(…, {name}=…).")
    dataset = as_dataset(dataset, runs[0].seed, runs[0].network)
    configs = [TrainConfig.of(config, settings | run.settings).suited_to(dataset) for run in runs]
    runs = [_explicit(run, own.energy) for run, own in zip(runs, configs, strict=True)]
    _check_alike(runs)
    first = configs[0]
    for name in ONE_RUN:
        if getattr(first, name) != getattr(TrainConfig(), name):
            raise checks.ArgumentError(name, "is for one run:", "leave it out, or call fit for each run.")
    algorithm = as_algorithm(runs[0].algorithm)
    job, plan = first.job(runs[0].network, dataset, algorithm), first.plan(dataset)
    check_hooks(metrics, callbacks, stop)
    for run, config in zip(runs, configs, strict=True):
        config.check_energy(run.network, dataset, as_algorithm(run.algorithm))
    if warning := first_rounding_warning(job, runs[0].network, plan.batches):
        warnings.warn(warning, RuntimeWarning, stacklevel=2)
    mesh = checked_mesh(mesh, (DATA, RUNS), job, runs[0].network)
    path, devices = first.compute_path(runs[0].network, algorithm, mesh), size_of(mesh, RUNS)
    need = check_room(first, runs[0].network, dataset, algorithm, mesh=mesh)
    fitting = max(1, int(MEMORY_SHARE * free_memory() // need))
    room = devices * fitting if chunk is None else checks.integer("chunk", chunk, 1)
    size = -(-len(runs) // -(-len(runs) // room))  # as even as the number of chunks allows
    size += -size % devices
    filled = runs + runs[-1:] * (-len(runs) % size)
    programs = DevicePrograms(_tune, _advance, _score, _start, (size,)).on(mesh)
    own, common = _partition(_together(filled, first, job))
    common = programs.place_job(common)
    results: list[FitResult] = []
    for start in range(0, len(filled), size):
        part = jax.tree.map(lambda leaf, at=start: leaf[at : at + size], own)
        joint = eqx.combine(part if mesh is None else put(part, mesh, RUNS), common)
        evaluate = Evaluation(programs, joint, dataset, metrics)
        numbered = _numbered(callbacks, start, len(runs))
        with contextlib.ExitStack() as stack:
            policy = CheckpointPolicy(every=first.checkpoint_every)
            if first.checkpoints is not None:
                about = describe_run(joint, runs[0].network, dataset.schema, plan.batches.content)
                folder = Checkpoints(first.checkpoints, about, first.keep, f"chunk-{start}")
                policy.checkpoints = stack.enter_context(folder)
            loop = TrainLoop(joint, plan, evaluate, numbered, policy, first, stop)
            stacked = _stack([run.network for run in filled[start : start + size]], job.context.policy.dtype)
            results += loop.run(programs.start(joint, programs.place(stacked)), path)
    return results[: len(runs)]


def _numbered(callbacks: Callbacks, start: int, count: int) -> Callbacks:
    """Return callbacks that number runs over all chunks, and are not called for runs that only fill the last chunk."""

    def numbered(status: TrainStatus) -> bool:
        status = dataclasses.replace(status, run=start + status.run)
        return status.run < count and True in [callback(status) for callback in callbacks]

    return [numbered] if callbacks else []


def _together(runs: list[Run], config: TrainConfig, job: TrainJob) -> TrainJob:
    """Return the job of one of the runs with the numbers of all."""
    dtype = job.context.policy.dtype
    algorithms = [as_algorithm(run.algorithm) for run in runs]
    own = [dataclasses.replace(config, **run.settings) for run in runs]
    chosen = [c.chosen(run.network, a) for run, c, a in zip(runs, own, algorithms, strict=True)]
    numbers = (
        _stack([traced(algorithm) for algorithm in algorithms], dtype),
        _stack([each.objective for each in chosen], dtype),
        jnp.stack([jr.key(checks.seed(each.seed)) for each in chosen]),
        jnp.asarray([each.rate for each in chosen], dtype),
    )
    return eqx.tree_at(_numbers, job, numbers)


def _numbers(job: TrainJob) -> tuple[Any, ...]:
    """Return the parts of a job whose numbers are each run's own."""
    return job.algorithm, job.context.energy, job.source.key, job.context.weight_lr


def _partition(job: TrainJob) -> tuple[TrainJob, TrainJob]:
    """Split a job into the arrays that differ between runs and what all runs share: the data set, the number of steps
    and everything that is not an array."""
    nothing = jax.tree.map(lambda _: False, job)
    return eqx.partition(job, eqx.tree_at(_numbers, nothing, jax.tree.map(eqx.is_array, _numbers(job))))


def _stack(trees: list[Tree], dtype: DTypeLike) -> Tree:
    """Return trees of the same form as one, with a leading axis of runs on every array and every number that differs.
    Numbers that are the same stay plain, so that a decay of zero for all runs costs nothing."""

    def stack(*leaves: Any) -> Any:
        arrays = any(eqx.is_array(leaf) for leaf in leaves)
        if not arrays and all(leaf == leaves[0] for leaf in leaves):
            return leaves[0]
        return jnp.stack([leaf if eqx.is_array(leaf) else jnp.asarray(leaf, dtype) for leaf in leaves])

    return jax.tree.map(stack, *trees)


def _mapped(function: Callable[..., Any], *shared: bool) -> Callable[..., Any]:
    """Return `function(job, …)` for many runs: the job's own arrays, and those arguments that are not `shared`, have a
    leading axis of runs."""

    @eqx.filter_jit
    def mapped(job: TrainJob, *arguments: Any) -> Any:
        own, common = _partition(job)
        axes = [None if all_runs else eqx.if_array(0) for all_runs in shared]
        call = lambda own, *rest: function(eqx.combine(own, common), *rest)  # noqa: E731
        return constrain(eqx.filter_vmap(call, in_axes=(eqx.if_array(0), *axes))(own, *arguments), RUNS)

    return mapped


_start = _mapped(begin, False)
_tune = _mapped(tune, False, False, True)
_advance = _mapped(advance, False, False, True, False)
_score = _mapped(score, False, True)


def _check_runs(runs: Sequence[Run]) -> None:
    if not runs:
        raise ValueError("there is nothing to train: pass at least one mupc.Run.")
    for run in runs:
        if not isinstance(run, Run):
            raise checks.ArgumentTypeError(
                "runs", f"must be mupc.Run objects such as mupc.Run(network, solver), got {checks.literal(run)}."
            )
        check_network(run.network)


def _explicit(run: Run, energy: Energy | None) -> Run:
    """Return a run with its algorithm and λ."""
    algorithm = as_algorithm(run.algorithm)
    energy = as_energy(energy, algorithm.defaults.output_precision)
    return dataclasses.replace(run, algorithm=algorithm, energy=energy)


def _check_alike(runs: list[Run]) -> None:
    """Refuse runs that differ in more than numbers, and name the difference."""
    first = dict(_form(runs[0]))
    for index, run in enumerate(runs[1:], start=1):
        other = dict(_form(run))
        for name in itertools.chain(first, other):
            if first.get(name) != other.get(name):
                one, two = (
                    getattr(value, "name", getattr(value, "__name__", value))
                    for value in (first.get(name), other.get(name))
                )
                raise ValueError(
                    f"runs 0 and {index} differ in {name} ({one} and {two}). Only weights, seeds and numbers with a "
                    "decimal point may: make the rest the same, or call fit_many for each."
                )


def _form(run: Run) -> Iterator[tuple[str, Any]]:
    """Yield everything about a run that decides the program, by name."""
    yield "network", type(run.network).__name__
    if isinstance(run.network, Chain) and run.network.recipe is not None:
        yield "network.model", run.network.recipe.model
        yield from ((f"network.{name}", value) for name, value in run.network.recipe.arguments)
    for name in ("width", "hidden_layers", "parameterisation", "skip"):  # ahead of shapes and what follows from them
        if isinstance(run.network, Network):
            yield f"network.{name}", getattr(run.network, name)
    learns = ("solver", run.algorithm.solver) if isinstance(run.algorithm, PC) else ("algorithm", run.algorithm)
    parts = (("network", run.network), learns, ("energy", run.energy))
    for name, part in parts:
        yield from sorted(_settings(name, part), key=lambda item: item[0].count("."))


def _settings(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, eqx.Module):
        yield name, type(value).__name__
        for field in dataclasses.fields(value):
            yield from _settings(f"{name}.{field.name}", getattr(value, field.name))
    elif isinstance(value, tuple) and any(isinstance(item, eqx.Module) for item in value):
        for index, item in enumerate(value):
            yield from _settings(f"{name}[{index}]", item)
    elif isinstance(value, jax.Array | np.ndarray) and value.ndim:
        yield name, f"{value.dtype} of shape {value.shape}"
    else:
        whole = isinstance(value, int) and not name.startswith("energy.")  # steps and the like; an energy has none
        yield name, "a number" if isinstance(value, Number | jax.Array) and not whole else value
