"""What happens on the device: draw a batch, infer, learn, repeat; and between intervals, measure."""

import dataclasses
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import optax
from jaxtyping import Array, Bool, Float, Int

from ..inference import AbstractSolver, Energy, infer, problem
from ..learning import Optimiser, backprop_step, decoupled, update_rule, weight_gradients
from ..network import POLICIES, Inputs, Network, Outputs, PRNGKeyArray, Real, Scalar, forward_pass
from ._augment import augment

Order = Int[Array, " samples"]


@dataclasses.dataclass(frozen=True)
class Format:
    """How stored samples become inputs and targets."""

    normalise: Callable[[Any], Any]
    classes: int | None
    image_shape: tuple[int, ...] | None
    unsupervised: bool

    def inputs(self, raw: Array) -> Inputs:
        return self.normalise(raw)

    def targets(self, targets: Array, inputs: Inputs) -> Outputs:
        """One-hot labels, regression targets, or the inputs themselves when they are what is generated."""
        if self.unsupervised:
            return inputs
        return targets if self.classes is None else jax.nn.one_hot(targets, self.classes)


class Job(eqx.Module):
    """Everything about a training run that stays the same from step to step."""

    solver: AbstractSolver | None
    energy: Energy
    raw: Array
    targets: Array
    key: PRNGKeyArray
    weight_lr: Real
    optimiser: Optimiser = eqx.field(static=True)
    schedule: str = eqx.field(static=True)
    total_steps: int = eqx.field(static=True)
    format: Format = eqx.field(static=True)
    augment: bool = eqx.field(static=True)
    precision: str = eqx.field(static=True)
    batch_size: int = eqx.field(static=True)

    @property
    def learned(self) -> Energy:
        """The energy of which the optimiser sees the gradient."""
        return dataclasses.replace(self.energy, weight_decay=0.0) if decoupled(self.optimiser) else self.energy

    def rule(self, step: Int[Array, ""]) -> optax.GradientTransformation:
        """How gradients become updates at this step."""
        beside = Energy(weight_decay=self.energy.weight_decay if decoupled(self.optimiser) else 0.0)
        decay = beside.penalty_gradient if beside.penalises_weights else None
        return update_rule(self.optimiser, self.weight_lr, self.schedule, self.total_steps, step, decay)

    def start(self, network: Network) -> "State":
        """The state before the first step."""
        step = jnp.zeros((), int)
        return State(network, self.rule(step).init(eqx.filter(network, eqx.is_array)), step)


class State(eqx.Module):
    """Everything that changes."""

    network: Network
    optimiser: optax.OptState
    step: Int[Array, ""]


class Trace(eqx.Module):
    """What the steps of an interval report: per step the loss of the prediction and the energy that inference left,
    and of the last step the root mean square entry of each layer's gradient."""

    losses: Float[Array, "*runs capacity"]
    energies: Float[Array, "*runs capacity"]
    gradient_sizes: Float[Array, "*runs all_layers"]


@eqx.filter_jit
def epoch_order(job: Job, epoch: Int[Array, ""]) -> Order:
    """The order of the training samples in one epoch."""
    return jr.permutation(jr.fold_in(job.key, epoch), len(job.raw))


@eqx.filter_jit
def advance(job: Job, state: State, order: Order, span: Int[Array, " 3"], trace: Trace) -> tuple[State, Trace]:
    """Takes `length` steps from batch number `first` of an epoch and writes what they report from `place` on in the
    trace, with `span` = (first, place, length). None of them is compiled in: one program serves every interval."""
    first, place, length = span

    def body(index: Int[Array, ""], carry: tuple[State, Trace]) -> tuple[State, Trace]:
        state, trace = carry
        batch = jax.lax.dynamic_slice(order, ((first + index) * job.batch_size,), (job.batch_size,))
        gradients, loss, energy = _learn(job, state, batch)
        updates, optimiser = job.rule(state.step).update(gradients, state.optimiser, state.network)
        network = eqx.apply_updates(state.network, updates)
        at = place + index
        trace = Trace(trace.losses.at[at].set(loss), trace.energies.at[at].set(energy), _sizes(gradients))
        return State(network, optimiser, state.step + 1), trace

    return jax.lax.fori_loop(0, length, body, (state, trace))


class _Batch(NamedTuple):
    """What one step learns from, in the job's precision; `key` starts a free z₀."""

    network: Network
    x: Inputs
    y: Outputs
    key: PRNGKeyArray


def _draw(job: Job, state: State, batch: Int[Array, " batch"]) -> _Batch:
    key = jr.fold_in(jr.fold_in(job.key, 2**31 - 1), state.step)
    raw = job.raw[batch]
    if job.augment and job.format.image_shape is not None:
        raw = augment(key, raw, job.format.image_shape)
    x = job.format.inputs(raw)
    y = job.format.targets(job.targets[batch], x)
    network, x, y = POLICIES[job.precision].cast((state.network, x, y))
    return _Batch(network, x, y, key)


def _learn(job: Job, state: State, batch: Int[Array, " batch"]) -> tuple[Network, Scalar, Scalar]:
    """Gradients, the loss of the prediction, and the energy after inference (the loss itself for BP)."""
    network, x, y, key = _draw(job, state, batch)
    if job.solver is None:
        gradients, prediction = backprop_step(network, x, y, job.learned, POLICIES[job.precision])
        loss = jnp.mean(job.energy.output_loss(prediction, y))
        return gradients, loss, loss
    free = job.format.unsupervised
    solution = infer(
        network,
        None if free else x,
        y,
        job.solver,
        energy=job.energy,
        key=key if free else None,
        precision=job.precision,
    )
    gradients = weight_gradients(network, solution, x, energy=job.learned)
    reached = solution.output if free else solution.prediction
    return gradients, jnp.mean(job.energy.output_loss(reached, y)), solution.energy


@eqx.filter_jit
def tune(job: Job, state: State, order: Order, first: Int[Array, ""]) -> AbstractSolver:
    """The job's solver with the settings it finds for the next batch."""
    assert job.solver is not None
    network, x, y, _ = _draw(job, state, jax.lax.dynamic_slice(order, (first * job.batch_size,), (job.batch_size,)))
    free = job.format.unsupervised
    start = jnp.zeros((len(x), network.in_size), x.dtype) if free else x
    posed = problem(network, start, y, job.energy, POLICIES[job.precision], activities=None, free_input=free)
    job.solver.check(network, posed)
    return job.solver.tuned(posed)


def _sizes(gradients: Network) -> Float[Array, " all_layers"]:
    layers = (gradients.input, gradients.hidden, gradients.readout)
    return jnp.concatenate([jnp.atleast_1d(jnp.sqrt(layer.mean_square())) for layer in layers])


Chunks = tuple[Array, Array, Array]
"""Samples and targets in chunks of equal size, and which of them are more than filling."""


class Measured(NamedTuple):
    """Mean loss and accuracy on each split, and whether all weights are finite."""

    splits: dict[str, Float[Array, "*runs 2"]]
    finite: Bool[Array, "*runs"]


@eqx.filter_jit
def measure(job: Job, network: Network, splits: dict[str, Chunks]) -> Measured:
    """Measures a network on whole splits, by the forward pass (unsupervised: by inference)."""
    policy = POLICIES[job.precision].full
    network = policy.cast(network)

    def chunk(arrays: Chunks) -> Float[Array, " 2"]:
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

    means = {name: jnp.sum(jax.lax.map(chunk, chunks), axis=0) / jnp.sum(chunks[2]) for name, chunks in splits.items()}
    finite = jnp.stack([jnp.all(jnp.isfinite(leaf)) for leaf in jax.tree.leaves(network)])
    return Measured(means, jnp.all(finite))


class Program(NamedTuple):
    """What training calls on the device, by default for one run. `fit_many` has the same functions for many: the
    job's numbers, the state, the order of the samples and the trace then have a leading axis `runs`."""

    order: Callable[..., Any] = epoch_order
    tune: Callable[..., Any] = tune
    advance: Callable[..., Any] = advance
    measure: Callable[..., Any] = measure
    runs: tuple[int, ...] = ()

    def pick(self, tree: Any, index: int) -> Any:
        """What of `tree` belongs to one run."""
        return jax.tree.map(lambda leaf: leaf[index], tree) if self.runs else tree

    def choose(self, which: Any, tree: Any, other: Any) -> Any:
        """`tree` for those of many runs that `which` is true of, `other` for the rest."""
        return jax.tree.map(lambda a, b: jnp.where(which.reshape(-1, *[1] * (a.ndim - 1)), a, b), tree, other)


def run_interval(
    program: Program, job: Job, state: State, step: int, count: int, per_epoch: int, blank: Trace
) -> tuple[State, Trace]:
    """`count` steps: one dispatch, and one more for each epoch that begins and each tuning of the solver on the way."""
    trace, done = blank, 0
    every = None if job.solver is None else job.solver.retunes_every
    for epoch, first, length in _pieces(step, count, per_epoch, every):
        order = program.order(job, jnp.asarray(epoch))
        settled = job
        if every is not None:
            settled = eqx.tree_at(lambda j: j.solver, job, program.tune(job, state, order, jnp.asarray(first)))
        state, trace = program.advance(settled, state, order, jnp.asarray([first, done, length]), trace)
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
