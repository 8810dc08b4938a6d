"""The compiled program of the coordinate check: the sizes of everything that moves in a training step."""

import dataclasses
import functools
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, PyTree

from ..inference import AbstractProblem, AbstractSolver, Batch, pose, solve
from ..learning import LearningContext
from ..network import AbstractNetwork, Dense, Inputs, Network, Outputs

LayerSizes = dict[str, Float[Array, "..."]]
Trained = tuple[AbstractNetwork, optax.OptState]
_jit: Any = eqx.filter_jit  # its annotations leave out the options that it passes on
quick_jit = functools.partial(_jit, compiler_options={"xla_backend_optimization_level": 1})
"""For programs that run for seconds at most: optimising them would take longer than it saves."""


@quick_jit
def trajectories(
    networks: AbstractNetwork,
    x: Inputs,
    y: Outputs,
    solver: AbstractSolver,
    context: LearningContext,
    steps: int,
) -> LayerSizes:
    """Return the sizes of networks of one shape, stacked on a leading axis, before each step of the optimiser and after
    the last: arrays (networks, steps + 1, layers)."""
    rule, energy, policy = context.rule(jnp.zeros((), int)), context.energy, context.policy

    def pose_whole(network: AbstractNetwork) -> AbstractProblem:
        posed: Any = pose(network, Batch(x, y), energy, policy)
        # explicit zeros keep solvers from splitting their loop into windows, which save work but take twice as long to
        # compile
        return dataclasses.replace(posed, base_errors=jax.tree.map(jnp.zeros_like, posed.base))

    def step(carry: Trained, _: None) -> tuple[Trained, tuple[LayerSizes, PyTree]]:
        network, state = carry
        posed = pose_whole(network)
        point = solve(solver, posed, history=False).point
        found, start = posed.unpack(point), posed.unpack(posed.start())
        factor = 1 / energy.output_weight
        slopes = network.local_gradients(x, found.activities, found.errors, found.output_error, policy, factor)
        updates, state = rule.update(slopes, state, network)
        # from the errors: a difference of activities would round the small ones away
        moved = posed.follow(posed.as_unknowns(point)).delta
        sizes = {
            "activities": _size(start.activities),
            "output": _size(start.prediction[None]),
            "output error": _size(energy.output_error(start.prediction, y)[None]),
            "errors": _size(found.errors),
            "activity updates": _size(moved.hidden),
            "weight updates": updates.per_layer(mean_entry),
        }
        if isinstance(network, Network):
            sizes["branches"] = _size(_branches(start.activities, network.skip))
        signals = start.activities, start.prediction[None]
        return (eqx.apply_updates(network, updates), state), (sizes, signals)

    def one(network: AbstractNetwork) -> LayerSizes:
        carry = (network, rule.init(eqx.filter(network, eqx.is_array)))
        sizes, signals = jax.lax.scan(step, carry, None, length=steps + 1)[1]
        return sizes | {"drift": jax.vmap(_size)(jax.tree.map(lambda a: a - a[0], signals))}

    return eqx.filter_vmap(one)(networks)


def mean_entry(layers: Dense) -> Float[Array, "..."]:
    """Return the mean absolute weight of each layer."""
    return jnp.mean(jnp.abs(layers.weight), axis=(-2, -1))


def _size(stacks: PyTree[Float[Array, "_ batch ..."]]) -> Float[Array, " layers"]:
    """Return the mean absolute entry of each layer. Unlike a mean square it does not underflow where the signal is
    1e-25."""
    means = [jnp.mean(jnp.abs(a), axis=tuple(range(1, a.ndim))) for a in jax.tree.leaves(stacks)]
    return jnp.concatenate(means)


def _branches(z: Float[Array, "layers _ _"], skip: int) -> Float[Array, "above _ _"]:
    """Return what layers add to their skip connections."""
    return z[skip:] - z[: len(z) - skip] if skip else z[:0]
