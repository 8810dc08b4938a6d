"""What happens on the device between two evaluations: draw a batch, infer, learn, repeat."""

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import optax
from jaxtyping import Array, Float, Int

from ._augment import augment
from ._energy import Energy
from ._infer import infer
from ._learn import backprop_step, weight_gradients
from ._network import Network
from ._optimiser import Optimiser, rule
from ._precision import POLICIES
from ._problem import problem
from ._solver import AbstractSolver
from ._types import Inputs, Outputs, PRNGKeyArray, Real, Scalar

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

    def rule(self, step: Int[Array, ""]) -> optax.GradientTransformation:
        """How gradients become updates at this step."""
        return rule(self.optimiser, self.weight_lr, self.schedule, self.total_steps, step)

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

    losses: Float[Array, " capacity"]
    energies: Float[Array, " capacity"]
    gradient_sizes: Float[Array, " all_layers"]


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
        gradients, prediction = backprop_step(network, x, y, job.energy, POLICIES[job.precision])
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
    gradients = weight_gradients(network, solution, x, energy=job.energy)
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
