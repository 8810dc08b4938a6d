"""The inference problem of the residual MLP, linearised at given activities.

Write A for the derivative of the errors in the activities: block lower triangular, with ones on its diagonal. A and
its transpose are products that all layers do at once. A⁻¹ is a pass up through the layers and A⁻ᵀ a pass down, so that
errors may take the place of activities as unknowns for the price of one pass each way. In them the Gauss–Newton Hessian

    I + λ JᵀSJ + α A⁻ᵀA⁻¹,      J the derivative of the output in the errors, S that of the loss,

is the identity plus a matrix whose rank is the output size (without activity decay α): a few steps of conjugate
gradients solve it at any depth. Each step takes a pass up and a pass down. With few outputs, J itself may be kept
instead: a single pass down finds it, wide enough for all outputs. A GPU takes little longer for it than for a narrow
one.
"""

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from ..network import backend, recurrence
from ._dense_problem import DenseProblem, Hidden, Increments, Layer, Output
from ._energy import returned
from ._operand import WeightOperand
from ._problem import AbstractLinearised, PerSample, Point, add, zeros

UNROLL = 4
"""Up to this many conjugate-gradient steps are compiled one by one; more run in a loop."""

DAMPING = 0.01
"""Weight of a change of a free z₀ in the linear solve; a hidden error has weight 1."""

MOST_OUTPUTS, MOST_NUMBERS = 32, 2**30
"""J is kept with at most this many outputs, and if it has at most this many numbers."""

Wide = Float[Array, "width _"]  # a column for every output of every sample


class Force(eqx.Module):
    """A signal on the activities: `output` acts on the output, `rest` on all activities (with activity decay)."""

    output: Output
    rest: Increments | None


class OutputJacobian(eqx.Module):
    """J, the derivative of the output in the errors of the hidden layers."""

    rows: Float[Array, "layers width out batch"]

    def output_change(self, e: Hidden) -> Output:
        """Return J·e."""
        return jnp.sum(self.rows.astype(e.dtype) * e[:, :, None], axis=(0, 1))

    def signals(self, output: Output) -> Hidden:
        """Return Jᵀ times a signal on the output."""
        return jnp.sum(self.rows.astype(output.dtype) * output, axis=2)


class DenseLinearised(AbstractLinearised[Increments]):
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

    def _curvature_along(self, p: Increments) -> tuple[Force, PerSample]:
        """Return the force that a change of the errors causes, and the second derivative along it."""
        if self.jacobian is None:
            d = self.apply_inverse(p)
            change = self.output_change(d)
        else:  # where no activity decays, so that only the output matters
            d, change = p, self.jacobian.output_change(p.hidden)
        energy = self.problem.energy
        signal = self.loss_curvature(change)
        bend = energy.output_weight * jnp.sum(signal * change, axis=0)
        if not energy.decays_activities:
            return Force(signal, None), bend
        rest = jax.tree.map(lambda leaf: energy.activity_decay * leaf, d)
        return Force(signal, rest), bend + self.problem.dot(rest, d)

    def hessian(self, d: Increments) -> Increments:
        """Return AᵀA d and the curvature of the loss, for all layers at once."""
        first, hidden, _ = self.problem.multipliers
        e = self.problem.error_change(d, self.slopes * d.hidden)
        top = self._felt_at_top(self.loss_curvature(self.output_change(d)))
        back = self.slopes[:-1] * (hidden * self.problem.hidden.transpose(e[1:]))
        own = e - returned(e, self.problem.skip) + jnp.concatenate([-back, top[None]])
        return Increments(own, None if self.problem.input is None else -first * self.problem.input.transpose(e[0]))

    def inverse_hessian(self, d: Increments) -> Increments:
        """Return A⁻¹ (I + λ JᵀSJ)⁻¹ A⁻ᵀ d."""
        eps = float(jnp.finfo(d.hidden.dtype).eps)
        plain = eqx.tree_at(lambda at: at.problem.energy.activity_decay, self, 0.0)
        signal = plain.apply_inverse_transpose(Force(jnp.zeros_like(self.problem.y), d))
        return plain.apply_inverse(plain.solve(signal, None, tol=10 * eps))

    def error_gradient(self) -> Increments:
        energy = self.problem.energy
        rest = None
        if energy.decays_activities:
            rest = jax.tree.map(lambda z: energy.activity_decay * z, self.problem.activities(self.point.delta))
        pulled = self.apply_inverse_transpose(Force(-self.problem.output_error(self.point.errors).T, rest))
        return Increments(self.point.errors.hidden + pulled.hidden, pulled.input)

    def solve(self, rhs: Increments, steps: int | None, tol: float = 0.0) -> Increments:
        """Return (I + λ JᵀSJ + α A⁻ᵀA⁻¹)⁻¹·rhs for each sample, by conjugate gradients. A free z₀, which has no error
        of its own, is damped instead: the matrix would be singular otherwise.

        Take at most `steps` steps, or with None as many as bring the residual below `tol` of its start. With few
        steps, the last one skips the pass down: only its length is needed.

        A loss that is not convex may make the matrix indefinite. A sample stops at the first direction of negative
        curvature, with what it has so far, or with `rhs` itself: both lead downhill, and the line search does the rest.
        """
        dot, move, convex = self.problem.dot, self.problem.move, self.problem.energy.has_convex_loss

        def advance(x: Increments, p: Increments, rr: PerSample) -> tuple:
            force, bend = self._curvature_along(p)
            length = _ratio(rr, dot(p, _damped(p)) + bend)
            return move(x, length, p), length, force

        def turn(r: Increments, p: Increments, rr: PerSample, length: PerSample, force: Force) -> tuple:
            image = add(_damped(p), self.apply_inverse_transpose(force))
            r = move(r, -length, image)
            following = dot(r, r) if convex else jnp.where(length > 0, dot(r, r), 0)
            return r, move(r, _ratio(following, rr), p), following

        def finished(x: Increments) -> Increments:
            return x if convex else move(x, jnp.where(dot(x, x) > 0, 0.0, 1.0).astype(first.dtype), rhs)

        x, first = zeros(rhs), dot(rhs, rhs)
        if steps is not None and steps <= UNROLL:
            r, p, rr = rhs, rhs, first
            for index in range(steps):
                x, length, force = advance(x, p, rr)
                if index + 1 < steps:
                    r, p, rr = turn(r, p, rr, length, force)
            return finished(x)

        limit = 2 * self.problem.y.shape[0] + 20 if steps is None else steps

        def unfinished(carry: tuple) -> Bool[Array, ""]:
            return (carry[-1] < limit) & jnp.any(carry[3] > tol**2 * first)

        def body(carry: tuple) -> tuple:
            x, r, p, rr, count = carry
            x, length, force = advance(x, p, rr)
            return x, *turn(r, p, rr, length, force), count + 1

        count: Int[Array, ""] = jnp.zeros((), int)
        return finished(jax.lax.while_loop(unfinished, body, (x, rhs, rhs, first, count))[0])

    def _felt_at_top(self, output: Output) -> Layer:
        """Return the force on the last activities from a signal on the output: λ times the transposed derivative of the
        output in them, times the signal."""
        weight = self.problem.multipliers[2] * self.problem.energy.output_weight
        return self.slopes[-1] * (weight * self.problem.readout.transpose(output))

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


def _damped(p: Increments) -> Increments:
    return Increments(p.hidden, None if p.input is None else DAMPING * p.input)


def _ratio(a: PerSample, b: PerSample) -> PerSample:
    return jnp.where(b > 0, a / jnp.where(b > 0, b, 1), 0)
