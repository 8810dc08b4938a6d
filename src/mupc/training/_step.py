"""The programs that training calls on the device: steps of an interval, tuning, and evaluation."""

import dataclasses
import functools
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.sharding import Mesh
from jaxtyping import Array, Bool, Float, Int

from ..inference import traced
from ..learning import AbstractAlgorithm, AlgorithmState, LearningContext
from ..network import DATA, RUNS, AbstractNetwork, constrain, fetch, put, put_spread, spread, using, whole
from ._batches import BatchSource, Order
from ._stream import Batches, StreamError

Tree = TypeVar("Tree")
Result = TypeVar("Result")
Stop = Callable[[], bool]


class TrainJob(eqx.Module):
    """Everything about a training run that stays the same from step to step."""

    algorithm: AbstractAlgorithm
    context: LearningContext
    source: BatchSource


class Trace(eqx.Module):
    """The reports of the steps of an interval: for each step the loss of the prediction and the energy that inference
    left, both by character for a text, and for the last step the root mean square entry of each layer's gradient."""

    losses: Float[Array, "*runs capacity"]
    energies: Float[Array, "*runs capacity"]
    gradient_sizes: Float[Array, "*runs all_layers"]


def _compiled(function: Callable[..., Result]) -> Callable[..., Result]:
    """Compile a function of a job. The numbers of its energy are arguments, so that another λ needs no new program."""
    program = eqx.filter_jit(function)

    @functools.wraps(function)
    def call(job: TrainJob, *arguments: Any) -> Result:
        context = dataclasses.replace(job.context, energy=traced(job.context.energy))
        return program(TrainJob(job.algorithm, context, job.source), *arguments)

    return call


@_compiled
def advance(
    job: TrainJob, state: AlgorithmState, order: Order, span: Int[Array, " 3"], trace: Trace
) -> tuple[AlgorithmState, Trace]:
    """Take `length` steps from batch number `first` of an epoch, and write what they report from `place` on in the
    trace, with `span` = (first, place, length). They are traced, so one program serves every interval."""
    first, place, length = span

    def body(index: Int[Array, ""], carry: tuple[AlgorithmState, Trace]) -> tuple[AlgorithmState, Trace]:
        state, trace = carry
        batch, key = job.source.draw(order, first + index, state.step, state.network.in_size)
        batch = constrain(batch, DATA)
        state, report = job.algorithm.update(state, job.context.policy.cast(batch), key, job.context)
        losses = trace.losses.at[place + index].set(report.loss / job.source.format.positions)
        energies = trace.energies.at[place + index].set(report.energy / job.source.format.positions)
        return state, Trace(losses, energies, report.gradient_sizes)

    start = whole(state), trace
    alone = trace.losses.shape[-1] == 1  # a loop would begin with a copy of the state
    state, trace = body(jnp.zeros_like(length), start) if alone else jax.lax.fori_loop(0, length, body, start)
    return spread(state), constrain(trace)


@_compiled
def tune(job: TrainJob, state: AlgorithmState, order: Order, first: Int[Array, ""]) -> AbstractAlgorithm:
    """Return the algorithm with the settings that it finds for the next batch."""
    network = whole(state.network)
    batch, _ = job.source.draw(order, first, state.step, network.in_size)
    return constrain(job.algorithm.tuned(network, constrain(job.context.policy.cast(batch), DATA), job.context))


Chunks = tuple[Array, Array, Array]
"""Samples and targets in equal chunks, and a mask that is False for padding."""


class SplitScores(NamedTuple):
    """Means over each split by name, and whether all weights are finite. There is the `loss`; for classes and
    characters the `accuracy`; for a regression, in the network's units, the `squares` and `sizes` of each output's
    errors."""

    splits: dict[str, dict[str, Float[Array, "*runs _"]]]
    finite: Bool[Array, "*runs"]


@_compiled
def score(job: TrainJob, network: AbstractNetwork, splits: dict[str, Chunks]) -> SplitScores:
    """Evaluate a network on whole splits."""
    policy, energy = job.context.policy.full, job.context.energy
    network = policy.cast(whole(network))

    def chunk(arrays: Chunks) -> dict[str, Array]:
        raw, targets, inside = arrays
        batch = policy.cast(constrain(job.source.batch(raw, targets, job.source.key, network.in_size), DATA))
        output = job.algorithm.predict(network, batch, job.context)
        found = {"loss": energy.output_loss(output, batch.y)[:, None] / job.source.format.positions}
        if job.source.format.has_accuracy:
            right = (jnp.argmax(output, axis=-1) == jnp.argmax(batch.y, axis=-1)).reshape(len(output), -1)
            found["accuracy"] = jnp.mean(right.astype(output.dtype), axis=1, keepdims=True)
        elif job.source.format.is_regression:
            found |= {"squares": (output - batch.y) ** 2, "sizes": jnp.abs(output - batch.y)}
        return {name: jnp.sum(jnp.where(inside[:, None], values, 0), axis=0) for name, values in found.items()}

    def means(chunks: Chunks) -> dict[str, Array]:
        return jax.tree.map(lambda sums: jnp.sum(sums, axis=0) / jnp.sum(chunks[2]), jax.lax.map(chunk, chunks))

    finite = jnp.stack([jnp.all(jnp.isfinite(leaf)) for leaf in jax.tree.leaves(network)])
    return constrain(SplitScores({name: means(chunks) for name, chunks in splits.items()}, jnp.all(finite)))


class Interval(NamedTuple):
    """The state after some steps, what they reported, how many they are, and the problem that ended them, if any."""

    state: AlgorithmState
    trace: Trace
    steps: int
    problem: StreamError | None


def _samples(job: TrainJob) -> tuple[Any, Any]:
    return job.source.raw, job.source.targets


def begin(job: TrainJob, network: AbstractNetwork) -> AlgorithmState:
    """Return the state before the first step."""
    return spread(job.algorithm.init(whole(network), job.context))


class DevicePrograms(NamedTuple):
    """The programs of one run, or of many: then the job's numbers, the state, the order of the samples and the trace
    have a leading axis `runs`. With a `mesh` of several devices, `on` divides them, and `place` puts a state there."""

    tune: Callable[..., Any] = tune
    advance: Callable[..., Any] = advance
    score: Callable[..., Any] = score
    start: Callable[..., Any] = begin
    runs: tuple[int, ...] = ()
    mesh: Mesh | None = None

    def on(self, mesh: Mesh | None) -> "DevicePrograms":
        """Return the same programs for a mesh; None stands for JAX's default device."""
        if mesh is None:
            return self

        def there(program: Callable[..., Result]) -> Callable[..., Result]:
            def call(*arguments: Any) -> Result:
                with using(mesh):
                    return program(*arguments)

            return call

        start = there(eqx.filter_jit(self.start))
        return DevicePrograms(there(self.tune), there(self.advance), there(self.score), start, self.runs, mesh)

    def place(self, state: Tree) -> Tree:
        """Return a state, or a part of it, where the programs take it."""
        if self.mesh is None:
            return jax.tree.map(jnp.asarray, state)
        return put_spread(state, self.mesh, *([RUNS] if self.runs else []))

    def place_shared(self, tree: Tree) -> Tree:
        """Return what all devices and runs read, such as samples to evaluate on, where the programs take it."""
        return tree if self.mesh is None else put(tree, self.mesh)

    def place_job(self, job: TrainJob) -> TrainJob:
        """Return a job where the programs take it: each device has a part of the samples, and all have the rest."""
        if self.mesh is None:
            return job
        rest = eqx.tree_at(_samples, job, (None, None))
        samples = put(_samples(job), self.mesh, DATA)
        return eqx.tree_at(_samples, put(rest, self.mesh), samples, is_leaf=lambda leaf: leaf is None)

    def pick(self, tree: Tree, index: int) -> Tree:
        """Return the part of a tree that belongs to one run, on one device."""
        tree = whole(fetch(tree, jnp.asarray)) if self.mesh is not None else tree
        return jax.tree.map(lambda leaf: leaf[index], tree) if self.runs else tree

    def choose(self, which: Array, tree: Tree, other: Tree) -> Tree:
        """Return `tree` for those of many runs where `which` is true, `other` for the rest."""
        return jax.tree.map(lambda a, b: jnp.where(which.reshape(-1, *[1] * (a.ndim - 1)), a, b), tree, other)

    def run_interval(
        self, job: TrainJob, state: AlgorithmState, steps: range, batches: Batches, blank: Trace, stops: Stop
    ) -> Interval:
        """Take these steps: one dispatch, and one more for each epoch that begins, each tuning and each further part
        of a stream on the way. Between two of them `stops` may end it."""
        trace, done, problem = blank, 0, None
        every = job.algorithm.tunes_every
        try:
            for source, order, first, length in batches.dispatches(job.source, steps, every):
                here = self.place_job(TrainJob(job.algorithm, job.context, source))
                if every is not None:
                    here = TrainJob(self.tune(here, state, order, jnp.asarray(first)), here.context, here.source)
                before = trace
                state, trace = self.advance(here, state, order, jnp.asarray([first, done, length]), trace)
                jax.block_until_ready(before)  # at most two dispatches hold samples at a time
                done += length
                if done < len(steps) and stops():
                    break
        except StreamError as error:
            problem = error
        return Interval(state, jax.block_until_ready(trace), done, problem)
