"""The compiled program of the coordinate check: the sizes of everything that moves in a training step."""

import dataclasses
import functools
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float

from ..inference import AbstractSolver, Batch, DenseProblem, pose, solve
from ..learning import LearningContext
from ..network import Inputs, Network, Outputs

LayerSizes = dict[str, Float[Array, "..."]]
Trained = tuple[Network, optax.OptState]
_jit: Any = eqx.filter_jit  # its annotations leave out the options that it passes on
quick_jit = functools.partial(_jit, compiler_options={"xla_backend_optimization_level": 1})
"""For programs that run for seconds at most: optimising them would take longer than it saves."""


@quick_jit
def trajectories(
    networks: Network,
    x: Inputs,
    y: Outputs,
    solver: AbstractSolver,
    context: LearningContext,
    steps: int,
) -> LayerSizes:
    """Return the sizes of networks of one shape, stacked on a leading axis, before each step of the optimiser and after
    the last: arrays (networks, steps + 1, layers)."""
    rule, energy, policy = context.rule(jnp.zeros((), int)), context.energy, context.policy

    def pose_whole(network: Network) -> DenseProblem:
        posed = pose(network, Batch(x, y), energy, policy)
        assert isinstance(posed, DenseProblem)
        # explicit zeros keep solvers from splitting their loop into windows, which save work but take twice as long to
        # compile
        return dataclasses.replace(posed, base_errors=jnp.zeros_like(posed.base))

    def step(carry: Trained, _: None) -> tuple[Trained, tuple[LayerSizes, Array, Array]]:
        network, state = carry
        posed = pose_whole(network)
        point = solve(solver, posed, history=False).point
        found = posed.unpack(point)
        errors = found.errors / energy.output_weight
        slopes = network.local_gradients(x, found.activities, errors, found.output_error, policy)
        updates, state = rule.update(slopes, state, network)
        # from the errors: a difference of activities would round the small ones away
        moved = posed.follow(posed.as_unknowns(point)).delta
        sizes = {
            "activities": _size(posed.base),
            "branches": _size(_branches(posed.base, network.skip)),
            "output": _size(posed.base_output[None]),
            "output error": _size(energy.output_error(posed.base_output.T, y)[None]),
            "errors": _size(point.errors.hidden),
            "activity updates": _size(moved.hidden),
            "weight updates": updates.per_layer(lambda layer: jnp.mean(jnp.abs(layer.weight), axis=(-2, -1))),
        }
        return (eqx.apply_updates(network, updates), state), (sizes, posed.base, posed.base_output[None])

    def one(network: Network) -> LayerSizes:
        carry = (network, rule.init(eqx.filter(network, eqx.is_array)))
        sizes, z, output = jax.lax.scan(step, carry, None, length=steps + 1)[1]
        return sizes | {"drift": jnp.concatenate([_size(z - z[0]), _size(output - output[0])], axis=1)}

    return eqx.filter_vmap(one)(networks)


def _size(values: Float[Array, "*steps layers _ _"]) -> Float[Array, "*steps layers"]:
    """Return the mean absolute entry. Unlike a mean square it does not underflow where the signal is 1e-25."""
    return jnp.mean(jnp.abs(values), axis=(-2, -1))


def _branches(z: Float[Array, "layers _ _"], skip: int) -> Float[Array, "above _ _"]:
    """Return what layers add to their skip connections."""
    return z[skip:] - z[: len(z) - skip] if skip else z[:0]
