"""The energy of equilibrium propagation, and descent on it."""

from collections.abc import Callable
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Int, PyTree

from ..io import checks
from ..network import AbstractNetwork, Inputs, Outputs, Precision, Real, Scalar


class LayerStates(NamedTuple):
    """The states of all layers: the hidden ones in the form of activities, and the output, which is free as well."""

    hidden: PyTree
    output: Outputs


class Relaxation(eqx.Module):
    """Gradient descent on the energy of `mupc.EquilibriumPropagation`, which is how a network trained with it predicts.

    **Arguments:** the step size `lr`, on one sample's energy, and the number of `steps` from the forward pass.
    """

    lr: Real
    steps: int

    def __check_init__(self) -> None:
        checks.number("lr", self.lr, above=0)
        checks.integer("steps", self.steps, 0)

    def settle(self, network: AbstractNetwork, x: Inputs, precision: Precision) -> LayerStates:
        """Return the states after the free phase."""
        start = LayerStates(*network.forward_pass(x, precision))
        return descend(lambda states: free_energy(network, states, x, precision), start, self.lr, self.steps)


def free_energy(network: AbstractNetwork, states: LayerStates, x: Inputs, precision: Precision) -> Scalar:
    """Return ½ Σ_ℓ ‖z_ℓ‖² − Σ_ℓ ⟨z_ℓ, f_ℓ(z_{ℓ-1})⟩, summed over the batch."""
    errors, predicted = network.prediction_errors(states.hidden, x, precision)
    hidden = jax.tree.map(lambda z, e: jnp.sum(z * (e - z / 2)), states.hidden, errors)  # f = z − e
    return sum(jax.tree.leaves(hidden), start=jnp.sum(states.output * (states.output / 2 - predicted)))


def descend(energy: Callable[[LayerStates], Scalar], states: LayerStates, lr: Real, steps: int) -> LayerStates:
    """Take steps down an energy, with all layers at once."""

    def step(_: Int[Array, ""], states: LayerStates) -> LayerStates:
        return jax.tree.map(lambda z, slope: z - lr * slope, states, jax.grad(energy)(states))

    return jax.lax.fori_loop(0, steps, step, states)
