"""The inference problem in increment form, as solvers see it.

Activities are written z = z⁰ + δ around a base point z⁰, normally the forward pass, where every error is zero:

    e_ℓ = e⁰_ℓ + δ_ℓ − τ δ_{ℓ-n} − a_ℓ W_ℓ (φ(z⁰_{ℓ-1} + δ_{ℓ-1}) − φ(z⁰_{ℓ-1})).

Every product then acts on a quantity of the signal's own size, so that its relative error is the precision of the
operands and nothing is lost to cancellation.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from ._energy import Energy, errors, half_square, returned, skipped
from ._network import Network, forward_pass
from ._precision import Precision
from ._types import Activities, Inputs, Outputs, Scalar


class Increments(eqx.Module):
    """δ of the hidden layers, and of z₀ where it is free: what solvers iterate on, and their gradients."""

    hidden: Activities
    input: Inputs | None


class Errors(eqx.Module):
    """e of the hidden layers, and the output that the last of them leads to."""

    hidden: Activities
    output: Outputs


class Problem(eqx.Module):
    """Minimise the energy of every sample over δ. Made by `problem`, or `top` for its uppermost layers."""

    network: Network
    energy: Energy
    base: Activities
    base_errors: Activities | None  # None: zero, as at the forward pass
    base_output: Outputs
    base_input: Inputs | None  # None: the input is given, not free
    y: Outputs
    precision: Precision = eqx.field(static=True)

    @property
    def depth(self) -> int:
        return self.base.shape[0]

    def start(self) -> Increments:
        """δ = 0."""
        free = None if self.base_input is None else jnp.zeros_like(self.base_input)
        return Increments(jnp.zeros_like(self.base), free)

    def errors(self, delta: Increments) -> Errors:
        """e and the output at z⁰ + δ."""
        first, hidden, last = self.network.multipliers
        change = self.network.activation.difference(self.base, delta.hidden)
        if delta.input is None:
            into_first = jnp.zeros_like(self.base[:1])
        else:
            into_first = first * self.network.input.linear(delta.input, self.precision)[None]
        inner = hidden * self.network.hidden.linear(change[:-1], self.precision)
        e = delta.hidden - skipped(delta.hidden, self.network.skip) - jnp.concatenate([into_first, inner])
        output = self.base_output + last * self.network.readout.linear(change[-1], self.precision)
        return Errors(e if self.base_errors is None else self.base_errors + e, output)

    def gradient(self, delta: Increments, e: Errors) -> Increments:
        """∂F/∂z of each sample, given the errors at δ."""
        first, hidden, last = self.network.multipliers
        z = self.base + delta.hidden
        top = (last * self.energy.output_precision) * self.network.readout.transpose(
            self.output_error(e), self.precision
        )
        inner = hidden * self.network.hidden.transpose(e.hidden[1:], self.precision)
        back = jnp.concatenate([inner, top[None]])
        gradient = e.hidden - returned(e.hidden, self.network.skip) - self.network.activation.derivative(z) * back
        if self.energy.decays_activities:
            gradient = gradient + self.energy.activity_decay * z
        return Increments(gradient, self._input_gradient(delta, e))

    def _input_gradient(self, delta: Increments, e: Errors) -> Inputs | None:
        if self.base_input is None or delta.input is None:
            return None
        first = self.network.multipliers[0]
        gradient = -first * self.network.input.transpose(e.hidden[0], self.precision)
        return gradient + self.energy.activity_decay * (self.base_input + delta.input)

    def output_error(self, e: Errors) -> Outputs:
        """The negative gradient of the loss in the output, (B, C)."""
        return self.energy.output_error(e.output, self.y)

    def value(self, delta: Increments, e: Errors) -> Scalar:
        """The energy, batch mean, without the weight penalties, which inference cannot change."""
        total = jnp.sum(half_square(e.hidden))
        total += self.energy.output_precision * jnp.mean(self.energy.output_loss(e.output, self.y))
        if self.energy.decays_activities:
            total += self.energy.activity_decay * jnp.sum(half_square(self.base + delta.hidden))
            if self.base_input is not None and delta.input is not None:
                total += self.energy.activity_decay * half_square(self.base_input + delta.input)
        return total

    @property
    def spreads_from_the_top(self) -> bool:
        """Whether all gradients start at zero except the last layer's: then a local step moves one layer at a time
        (n with an n-skip), and layers that it has not reached need no work."""
        fixed_input = self.base_input is None
        return self.base_errors is None and fixed_input and not self.energy.decays_activities

    def top(self, layers: int) -> "Problem":
        """The problem of the uppermost `layers` alone, with δ = 0 below them."""
        below = self.depth - layers
        hidden = jax.tree.map(lambda leaf: leaf[below:], self.network.hidden)
        return eqx.tree_at(
            lambda p: (p.network.hidden, p.base), self, (hidden, self.base[below:]), is_leaf=lambda x: x is None
        )


def problem(
    network: Network,
    x: Inputs,
    y: Outputs,
    energy: Energy,
    precision: Precision,
    *,
    activities: Activities | None,
    free_input: bool,
) -> Problem:
    """The problem around the forward pass from `x`, or around given activities."""
    base_errors = None
    if activities is None:
        activities, output = forward_pass(network, x, precision)
    else:
        base_errors, output = errors(network, activities, x, precision)
    return Problem(
        network=precision.cast_operands(network),
        energy=energy,
        base=activities,
        base_errors=base_errors,
        base_output=output,
        base_input=x if free_input else None,
        y=y,
        precision=precision,
    )


def gradient_norm(gradient: Increments) -> Scalar:
    """Root mean square over samples of each sample's gradient norm."""
    leaves = jax.tree.leaves(gradient)
    batch = gradient.hidden.shape[1]
    return jnp.sqrt(sum((jnp.sum(leaf**2) for leaf in leaves), start=jnp.zeros((), leaves[0].dtype)) / batch)


def pad_below(values: Float[Array, "top batch width"], depth: int) -> Float[Array, "layers batch width"]:
    """Zeros for the layers under a window."""
    return jnp.pad(values, ((depth - values.shape[0], 0), (0, 0), (0, 0)))
