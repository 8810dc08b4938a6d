"""The inference problem in increment form, as solvers see it.

Activities are written z = z⁰ + δ around a base point z⁰, normally the forward pass, where every error is zero:

    e_ℓ = e⁰_ℓ + δ_ℓ − τ δ_{ℓ-n} − a_ℓ W_ℓ (φ(z⁰_{ℓ-1} + δ_{ℓ-1}) − φ(z⁰_{ℓ-1})).

Every product then acts on a quantity of the signal's own size, so that its relative error is the precision of the
operands and nothing is lost to cancellation.
"""

import dataclasses
from collections.abc import Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from ..network import (
    AbstractMap,
    Activation,
    Activities,
    Inputs,
    Multipliers,
    Network,
    Outputs,
    Precision,
    Scalar,
    forward_pass,
    recurrence,
)
from ._energy import Energy, errors, returned, skipped

# everything in this file has the batch last, as `AbstractMap` wants it
Hidden = Float[Array, "layers width batch"]
Layer = Float[Array, "width batch"]
Input = Float[Array, "in batch"]
Output = Float[Array, "out batch"]
PerSample = Float[Array, " batch"]


class Increments(eqx.Module):
    """δ of the hidden layers, and of z₀ where it is free: what solvers iterate on, and their gradients."""

    hidden: Hidden
    input: Input | None


class Errors(eqx.Module):
    """e of the hidden layers, and the output that the last of them leads to."""

    hidden: Hidden
    output: Output


class Problem(eqx.Module):
    """Minimise the energy of every sample over δ. Made by `problem`, or `top` for its uppermost layers."""

    input: AbstractMap | None  # None: the input is given, not free
    hidden: AbstractMap
    readout: AbstractMap
    energy: Energy
    base: Hidden
    base_errors: Hidden | None  # None: zero, as at the forward pass
    base_output: Output
    base_input: Input | None
    y: Output
    activation: Activation = eqx.field(static=True)
    multipliers: Multipliers = eqx.field(static=True)
    skip: int = eqx.field(static=True)

    @property
    def depth(self) -> int:
        return self.base.shape[0]

    def start(self) -> Increments:
        """δ = 0."""
        return jax.tree.map(jnp.zeros_like, Increments(self.base, self.base_input))

    def errors(self, delta: Increments) -> Errors:
        """e and the output at z⁰ + δ."""
        change = self.activation.difference(self.base, delta.hidden)
        e = self.error_change(delta, change)
        output = self.base_output + self.multipliers[2] * self.readout.linear(change[-1])
        return Errors(e if self.base_errors is None else self.base_errors + e, output)

    def error_change(self, delta: Increments, change: Hidden) -> Hidden:
        """How the errors follow δ and the change of φ that comes with it, for all layers at once."""
        first, hidden, _ = self.multipliers
        if self.input is None or delta.input is None:
            into_first = jnp.zeros_like(self.base[:1])
        else:
            into_first = first * self.input.linear(delta.input)[None]
        inner = hidden * self.hidden.linear(change[:-1])
        return delta.hidden - skipped(delta.hidden, self.skip) - jnp.concatenate([into_first, inner])

    def errors_at_start(self) -> Errors:
        """`errors` at δ = 0, which need no products."""
        return Errors(jnp.zeros_like(self.base) if self.base_errors is None else self.base_errors, self.base_output)

    def follow(self, e: Increments) -> tuple[Increments, Errors]:
        """The inverse of `errors`: the δ at which the hidden errors are `e.hidden` (and δ₀ is `e.input`), layer after
        layer from the input up."""
        first, hidden, last = self.multipliers
        change = e.hidden if self.base_errors is None else e.hidden - self.base_errors
        bottom = change[0]
        if self.input is not None and e.input is not None:
            bottom = bottom + first * self.input.linear(e.input)

        def step(item: tuple[AbstractMap, Layer, Layer], delta: Layer) -> Layer:
            layer, z, own = item
            return own + hidden * layer.linear(self.activation.difference(z, delta))

        delta = recurrence(step, bottom, (self.hidden, self.base[:-1], change[1:]), self.skip)
        output = self.base_output + last * self.readout.linear(self.activation.difference(self.base[-1], delta[-1]))
        return Increments(delta, e.input), Errors(e.hidden, output)

    def gradient(self, delta: Increments, e: Errors) -> Increments:
        """∂F/∂z of each sample, given the errors at δ."""
        first, hidden, last = self.multipliers
        z = self.base + delta.hidden
        top = last * self.energy.output_precision * self.readout.transpose(self.output_error(e).T)
        inner = hidden * self.hidden.transpose(e.hidden[1:])
        back = jnp.concatenate([inner, top[None]])
        gradient = e.hidden - returned(e.hidden, self.skip) - self.activation.derivative(z) * back
        if self.energy.decays_activities:
            gradient = gradient + self.energy.activity_decay * z
        if self.input is None or self.base_input is None or delta.input is None:
            return Increments(gradient, None)
        decay = self.energy.activity_decay * (self.base_input + delta.input)
        return Increments(gradient, decay - first * self.input.transpose(e.hidden[0]))

    def output_error(self, e: Errors) -> Outputs:
        """The negative gradient of the loss in the output, (B, C)."""
        return self.energy.output_error(e.output.T, self.y.T)

    def values(self, delta: Increments, e: Errors) -> PerSample:
        """The energy of each sample, without the weight penalties, which inference cannot change."""
        squares = jnp.sum(e.hidden**2, axis=(0, 1))
        if self.energy.decays_activities:
            squares += self.energy.activity_decay * dot(self.at(delta), self.at(delta))
        return squares / 2 + self.energy.output_precision * self.energy.output_loss(e.output.T, self.y.T)

    def value(self, delta: Increments, e: Errors) -> Scalar:
        """The batch mean of `values`."""
        return jnp.mean(self.values(delta, e))

    def at(self, delta: Increments) -> Increments:
        """The activities themselves, z⁰ + δ."""
        return jax.tree.map(jnp.add, Increments(self.base, self.base_input), delta)

    @property
    def spreads_from_the_top(self) -> bool:
        """Whether all gradients start at zero except the last layer's: then a local step moves one layer at a time
        (n with an n-skip), and layers that it has not reached need no work."""
        return self.base_errors is None and self.base_input is None and not self.energy.decays_activities

    def top(self, layers: int) -> "Problem":
        """The problem of the uppermost `layers` alone, with δ = 0 below them."""
        below = self.depth - layers
        base_errors = None if self.base_errors is None else self.base_errors[below:]
        return dataclasses.replace(
            self, hidden=self.hidden.top(layers - 1), base=self.base[below:], base_errors=base_errors
        )

    def prepared(self, windows: Sequence[int]) -> "Problem":
        """The same problem, told which `top(layers)` will be asked for."""
        return dataclasses.replace(self, hidden=self.hidden.prepared([layers - 1 for layers in windows]))


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
    """The problem around the forward pass from `x`, or around given activities. Arguments have the batch first."""
    # The base point is found in full precision: it is a small part of the work, and rounding it would put some ReLU
    # units on the wrong side of their kink, which no accuracy of the increments could mend.
    base_errors = None
    if activities is None:
        activities, output = forward_pass(network, x, precision.full)
    else:
        base_errors, output = errors(network, activities, x, precision.full)
    return Problem(
        input=network.input.linear_map(precision) if free_input else None,
        hidden=network.hidden.linear_map(precision),
        readout=network.readout.linear_map(precision),
        energy=energy,
        base=activities.mT,
        base_errors=None if base_errors is None else base_errors.mT,
        base_output=output.T,
        base_input=x.T if free_input else None,
        y=y.T,
        activation=network.activation,
        multipliers=network.multipliers,
        skip=network.skip,
    )


def dot(a: Increments, b: Increments) -> PerSample:
    """The inner product of each sample."""
    products = jax.tree.map(lambda p, q: jnp.sum(p * q, axis=tuple(range(p.ndim - 1))), a, b)
    return sum(jax.tree.leaves(products), start=jnp.zeros((), a.hidden.dtype))


def gradient_norm(gradient: Increments) -> Scalar:
    """Root mean square over samples of each sample's gradient norm."""
    return jnp.sqrt(jnp.mean(dot(gradient, gradient)))


def pad_below(values: Float[Array, "top width batch"], depth: int) -> Hidden:
    """Zeros for the layers under a window."""
    return jnp.pad(values, ((depth - values.shape[0], 0), (0, 0), (0, 0)))
