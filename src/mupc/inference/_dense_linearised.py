"""The inference problem of the residual MLP, linearised at given activities.

With few outputs, J itself, the derivative of the output in the errors, may be kept: a single pass down finds it, wide
enough for all outputs. A GPU takes little longer for it than for a narrow one.
"""

import dataclasses

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from ..network import backend, on_top, recurrence, returned
from ._dense_problem import DenseProblem, Hidden, Layer, Output
from ._gauss_newton import AbstractGaussNewton, Force
from ._operand import WeightOperand
from ._problem import Increments, Point

MOST_OUTPUTS, MOST_NUMBERS = 32, 2**30
"""J is kept with at most this many outputs, and if it has at most this many numbers."""

Wide = Float[Array, "width _"]  # a column for every output of every sample


class OutputJacobian(eqx.Module):
    """J, the derivative of the output in the errors of the hidden layers."""

    rows: Float[Array, "layers width out batch"]

    def output_change(self, e: Hidden) -> Output:
        """Return J·e."""
        return jnp.sum(self.rows.astype(e.dtype) * e[:, :, None], axis=(0, 1))

    def signals(self, output: Output) -> Hidden:
        """Return Jᵀ times a signal on the output."""
        return jnp.sum(self.rows.astype(output.dtype) * output, axis=2)


class DenseLinearised(AbstractGaussNewton):
    """`problem` linearised at `point`, where the activations have these slopes."""

    problem: DenseProblem
    point: Point
    slopes: Hidden
    jacobian: OutputJacobian | None = None  # J, where it is kept

    def apply_inverse(self, e: Increments) -> Increments:
        """Apply A⁻¹: return how the activities follow a change of the errors, and of a free z₀."""
        first, hidden, _ = self.problem.multipliers
        bottom = e.hidden[0]
        if self.problem.input is not None and e.input is not None:
            bottom = bottom + first * self.problem.input.linear(e.input)

        def step(item: tuple[WeightOperand, Layer, Layer], d: Layer) -> Layer:
            layer, slope, own = item
            return own + hidden * layer.linear(slope * d)

        items = (self.problem.hidden, self.slopes[:-1], e.hidden[1:])
        return Increments(recurrence(step, bottom, items, self.problem.skip), e.input)

    def apply_inverse_transpose(self, force: Force) -> Increments:
        """Apply A⁻ᵀ: return how a force on the activities acts on the errors, and on a free z₀."""
        if self.jacobian is not None and force.rest is None:
            return Increments(self.jacobian.signals(self.problem.energy.output_weight * force.output), None)
        first, hidden, _ = self.problem.multipliers
        rest, top = force.rest, self._felt_at_top(force.output)

        def step(item: tuple[WeightOperand, Layer, Layer | None], v: Layer) -> Layer:
            layer, slope, own = item
            back = slope * (hidden * layer.transpose(v))
            return back if own is None else back + own

        if rest is not None:
            top = top + rest.hidden[-1]
        items = (self.problem.hidden, self.slopes[:-1], None if rest is None else rest.hidden[:-1])
        v = recurrence(step, top, items, self.problem.skip, reverse=True)
        if self.problem.input is None:
            return Increments(v, None)
        back = first * self.problem.input.transpose(v[0])
        return Increments(v, back if rest is None or rest.input is None else back + rest.input)

    def output_change(self, d: Increments) -> Output:
        """Return how the output follows a change of the activities."""
        return self.problem.multipliers[2] * self.problem.readout.linear(self.slopes[-1] * d.hidden[-1])

    def loss_curvature(self, change: Output) -> Output:
        """Return the second derivative of the output loss times a change of the output."""
        return self.problem.energy.output_curvature(self.point.errors.output.T, self.problem.y.T, change.T).T

    def hessian(self, d: Increments) -> Increments:
        """Return AᵀA d and the curvature of the loss, for all layers at once."""
        first, hidden, _ = self.problem.multipliers
        e = self.problem.error_change(d, self.slopes * d.hidden)
        top = self._felt_at_top(self.loss_curvature(self.output_change(d)))
        back = self.slopes[:-1] * (hidden * self.problem.hidden.transpose(e[1:]))
        own = e - returned(e, self.problem.skip) + on_top(-back, top[None])
        return Increments(own, None if self.problem.input is None else -first * self.problem.input.transpose(e[0]))

    def _felt_at_top(self, output: Output) -> Layer:
        """Return the force on the last activities from a signal on the output: λ times the transposed derivative of the
        output in them, times the signal."""
        weight = self.problem.multipliers[2] * self.problem.energy.output_weight
        return self.slopes[-1] * (weight * self.problem.readout.transpose(output))

    def output_pull(self) -> Output:
        return self.problem.output_error(self.point.errors).T

    def change_along(self, p: Increments) -> tuple[Increments, Output]:
        if self.jacobian is None:
            return super().change_along(p)
        return p, self.jacobian.output_change(p.hidden)  # no activity decays, so that only the output matters

    def with_jacobian(self) -> "DenseLinearised":
        """Return the same with J kept, where that saves time: with few outputs, a given input and no activity decay."""
        outputs = len(self.problem.y)
        small = outputs <= MOST_OUTPUTS and outputs * self.slopes.size <= MOST_NUMBERS
        plain = self.problem.input is None and not self.problem.energy.decays_activities
        if not (small and plain and backend().keeps_jacobian):
            return self
        return dataclasses.replace(self, jacobian=output_jacobian(self))


def output_jacobian(linear: DenseLinearised) -> OutputJacobian:
    """Find J by one pass down, with a column for every output of every sample."""
    problem, slopes = linear.problem, linear.slopes
    _, hidden, last = problem.multipliers
    outputs = len(problem.y)

    def wide(slope: Layer, back: Wide) -> Wide:
        return (slope[:, None] * back.reshape(len(slope), outputs, -1)).reshape(len(slope), -1)

    def step(item: tuple[WeightOperand, Layer], v: Wide) -> Wide:
        layer, slope = item
        return wide(slope, hidden * layer.transpose(v))

    top = wide(slopes[-1], last * problem.readout.transpose(jnp.eye(outputs, dtype=slopes.dtype)))
    items = (problem.hidden, slopes[:-1])
    rows = recurrence(step, top, items, problem.skip, reverse=True, keep=problem.hidden.as_read)
    return OutputJacobian(rows.reshape(*slopes.shape[:2], outputs, -1))
