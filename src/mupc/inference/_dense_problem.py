"""The inference problem of the residual MLP in increment form.

Activities are written z = z⁰ + δ around a base point z⁰, normally the forward pass, where every error is zero:

    e_ℓ = e⁰_ℓ + δ_ℓ − τ δ_{ℓ-n} − a_ℓ W_ℓ (φ(z⁰_{ℓ-1} + δ_{ℓ-1}) − φ(z⁰_{ℓ-1})).

Every product then acts on a quantity of the signal's own size, so that its relative error is the precision of the
operands and nothing is lost to cancellation.

At the forward pass only the last layer has a gradient, and each local step passes it down by one layer (n with an
n-skip). Below that, δ is exactly zero. So steps are taken on a few windows, each with only the layers that its steps
can reach. With as many steps as layers, this is about 56 % of the work for the same result.

Everything in this file has the batch last, as `WeightOperand` needs it.
"""

import dataclasses
import functools
from collections.abc import Sequence
from typing import TYPE_CHECKING

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from ..network import (
    LAYERS,
    AbstractNetwork,
    Activation,
    Multipliers,
    Network,
    Outputs,
    Precision,
    at_bottom,
    axis_size,
    on_top,
    recurrence,
    returned,
    skipped,
)
from ._energy import Energy
from ._operand import WeightOperand
from ._problem import (
    AbstractProblem,
    Arrays,
    Batch,
    Increments,
    LayerErrors,
    PerSample,
    Point,
    Tree,
    Window,
    WindowPlan,
    base_point,
    unposed,
    zeros,
)

if TYPE_CHECKING:
    from ._dense_linearised import DenseLinearised

Hidden = Float[Array, "layers width batch"]
Layer = Float[Array, "width batch"]
Input = Float[Array, "in batch"]
Output = Float[Array, "out batch"]

WINDOWS = 8
"""At most this many windows: more save little work and cost compile time."""

WORTHWHILE = 16
"""Use windows for at most this many times the steps that reach all layers. Beyond that, most steps work
on all layers anyway, and windows would cost more compile time than they save."""


class DenseProblem(AbstractProblem[Increments]):
    """The MLP's problem around the activities `base`. `pose` creates it; `top` restricts it to the uppermost layers."""

    input: WeightOperand | None  # None: the input is given, not free
    hidden: WeightOperand
    readout: WeightOperand
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

    @property
    def unknowns(self) -> int:
        return sum(leaf[..., 0].size for leaf in jax.tree.leaves((self.base, self.base_input)))

    @property
    def outputs(self) -> int:
        return len(self.y)

    @property
    def singular(self) -> bool:
        return self.input is not None

    def start(self) -> Point:
        e = jnp.zeros_like(self.base) if self.base_errors is None else self.base_errors
        return Point(zeros(Increments(self.base, self.base_input)), LayerErrors(e, self.base_output))

    def errors(self, delta: Increments) -> LayerErrors:
        change = self.activation.difference(self.base, delta.hidden)
        e = self.error_change(delta, change)
        output = self.base_output + self.multipliers[2] * self.readout.linear(change[-1])
        return LayerErrors(e if self.base_errors is None else self.base_errors + e, output)

    def error_change(self, delta: Increments, change: Hidden) -> Hidden:
        """Return the change of the errors for δ and the matching change of φ, for all layers at once."""
        first, hidden, _ = self.multipliers
        if self.input is None or delta.input is None:
            into_first = jnp.zeros_like(self.base[:1])
        else:
            into_first = first * self.input.linear(delta.input)[None]
        inner = hidden * self.hidden.linear(change[:-1])
        return delta.hidden - skipped(delta.hidden, self.skip) - at_bottom(into_first, inner)

    def follow(self, errors: Increments) -> Point:
        """Return the point where the hidden errors are `errors.hidden` and δ₀ is `errors.input`, layer by layer from
        the input up."""
        first, hidden, last = self.multipliers
        change = errors.hidden if self.base_errors is None else errors.hidden - self.base_errors
        bottom = change[0]
        if self.input is not None and errors.input is not None:
            bottom = bottom + first * self.input.linear(errors.input)

        def step(item: tuple[WeightOperand, Layer, Layer], delta: Layer) -> Layer:
            layer, z, own = item
            return own + hidden * layer.linear(self.activation.difference(z, delta))

        delta = recurrence(step, bottom, (self.hidden, self.base[:-1], change[1:]), self.skip)
        output = self.base_output + last * self.readout.linear(self.activation.difference(self.base[-1], delta[-1]))
        return Point(Increments(delta, errors.input), LayerErrors(errors.hidden, output))

    def as_unknowns(self, point: Point) -> Increments:
        return Increments(point.errors.hidden, point.delta.input)

    def gradient(self, point: Point) -> Increments:
        delta, e = point
        first, hidden, last = self.multipliers
        z = self.base + delta.hidden
        top = last * self.energy.output_weight * self.readout.transpose(self.output_error(e).T)
        inner = hidden * self.hidden.transpose(e.hidden[1:])
        back = on_top(inner, top[None])
        gradient = e.hidden - returned(e.hidden, self.skip) - self.activation.derivative(z) * back
        if self.energy.decays_activities:
            gradient = gradient + self.energy.activity_decay * z
        if self.input is None or self.base_input is None or delta.input is None:
            return Increments(gradient, None)
        decay = self.energy.activity_decay * (self.base_input + delta.input)
        return Increments(gradient, decay - first * self.input.transpose(e.hidden[0]))

    def output_error(self, e: LayerErrors) -> Outputs:
        """Return the negative gradient of the loss in the output, (B, C)."""
        return self.energy.output_error(e.output.T, self.y.T)

    def output_dot(self, a: Output, b: Output) -> PerSample:
        return jnp.sum(a * b, axis=0)

    def values(self, point: Point) -> PerSample:
        delta, e = point
        squares = jnp.sum(e.hidden**2, axis=(0, 1))
        if self.energy.decays_activities:
            z = self.activities(delta)
            squares += self.energy.activity_decay * self.dot(z, z)
        return squares / 2 + self.energy.output_weight * self.energy.output_loss(e.output.T, self.y.T)

    def activities(self, delta: Increments) -> Increments:
        return jax.tree.map(jnp.add, Increments(self.base, self.base_input), delta)

    def linearise(self, point: Point) -> "DenseLinearised":
        from ._dense_linearised import DenseLinearised

        return DenseLinearised(self, point, self.activation.derivative(self.base + point.delta.hidden))

    def dot(self, a: Increments, b: Increments) -> PerSample:
        products = jax.tree.map(lambda p, q: jnp.sum(p * q, axis=tuple(range(p.ndim - 1))), a, b)
        return sum(jax.tree.leaves(products), start=jnp.zeros((), self.base.dtype))

    def move(self, x: Increments, length: PerSample, p: Increments) -> Increments:
        return jax.tree.map(lambda a, b: a + length * b, x, p)

    @property
    def spreads_from_the_top(self) -> bool:
        """Whether all gradients start at zero except the last layer's: then a local step moves one layer at a time, and
        the layers below are left out."""
        return self.base_errors is None and self.base_input is None and not self.energy.decays_activities

    def plan(self, steps: int, local: bool) -> WindowPlan:
        reach = max(1, self.skip)
        divided = axis_size(LAYERS) > 1  # the device with the last layers takes every step, so that none waits for less
        grows = local and self.spreads_from_the_top and not divided
        if not (grows and 0 < steps * reach <= WORTHWHILE * self.depth):
            cut = self.cut([self.depth])
            return WindowPlan([Window(cut, steps)], cut)
        parts = window_sizes(self.depth, reach, steps)
        cut = self.cut([layers for layers, _ in parts])
        windows = [Window(cut.top(layers), count) for layers, count in parts]
        return WindowPlan(windows, cut.top(min(self.depth, parts[-1][0] + reach)))

    def cut(self, windows: Sequence[int]) -> "DenseProblem":
        """Return the same problem, ready for every `top(layers)` with `layers` in `windows`."""
        return dataclasses.replace(self, hidden=self.hidden.cut([layers - 1 for layers in windows]))

    def top(self, layers: int) -> "DenseProblem":
        """Return the problem of the uppermost `layers` alone, with δ = 0 below them."""
        below = self.depth - layers
        base_errors = None if self.base_errors is None else self.base_errors[below:]
        return dataclasses.replace(
            self, hidden=self.hidden.top(layers - 1), base=self.base[below:], base_errors=base_errors
        )

    def adopt(self, tree: Tree, window: AbstractProblem) -> Tree:
        assert isinstance(window, DenseProblem)
        new = self.depth - window.depth
        if not new:
            return tree

        def grow(leaf: object) -> object:
            # arrays that belong to layers are known by their shape; counters and the like stay as they are
            fits = eqx.is_array(leaf) and leaf.shape == window.base.shape  # type: ignore[attr-defined]
            return jnp.pad(leaf, ((new, 0), (0, 0), (0, 0))) if fits else leaf  # type: ignore[arg-type]

        return jax.tree.map(grow, tree)

    def unpack(self, point: Point) -> Arrays:
        delta, e = point
        free = None
        if self.base_input is not None and delta.input is not None:
            free = self.base_input.T + delta.input.T
        return Arrays(
            activities=(self.base + delta.hidden).mT,
            errors=e.hidden.mT,
            output_error=self.output_error(e),
            input=free,
            prediction=self.base_output.T,
            output=e.output.T,
        )


def window_sizes(depth: int, reach: int, steps: int) -> list[tuple[int, int]]:
    """Divide `steps` so that each part works on no more layers than it needs: (layers, steps) of each part. One step
    reaches `reach` layers."""
    growing = min(steps, -(-depth // reach))
    parts = min(WINDOWS, growing)
    ends = [growing * (i + 1) // parts for i in range(parts)]
    starts = [0, *ends[:-1]]
    ends[-1] = steps
    return [(min(depth, reach * end), end - start) for start, end in zip(starts, ends, strict=True)]


@functools.singledispatch
def pose(network: AbstractNetwork, batch: Batch, energy: Energy, precision: Precision) -> AbstractProblem:
    """State the inference problem of a network for a batch, around the forward pass or given activities.

    A new kind of network registers its problem with `pose.register`.
    """
    raise unposed(network)


@pose.register(Network)
def _pose_dense(network: Network, batch: Batch, energy: Energy, precision: Precision) -> DenseProblem:
    activities, base_errors, output = base_point(network, batch, precision)
    return DenseProblem(
        input=WeightOperand.of(network.input, precision) if batch.free_input else None,
        hidden=WeightOperand.of(network.hidden, precision),
        readout=WeightOperand.of(network.readout, precision),
        energy=energy,
        base=activities.mT,
        base_errors=None if base_errors is None else base_errors.mT,
        base_output=output.T,
        base_input=batch.x.T if batch.free_input else None,
        y=batch.y.T,
        activation=network.activation,
        multipliers=network.multipliers,
        skip=network.skip,
    )
