"""The inference problem linearised at given activities.

Write A for the derivative of the errors in the activities: block lower triangular, with ones on its diagonal. A and
its transpose are products that all layers do at once; A⁻¹ is a pass up through the layers and A⁻ᵀ a pass down, so that
errors may take the place of activities as unknowns at the price of one pass each way. In them the Gauss–Newton Hessian

    I + λ JᵀSJ + α A⁻ᵀA⁻¹,      J the derivative of the output in the errors, S that of the loss,

is the identity plus something whose rank is the output size (without activity decay α): a few steps of conjugate
gradients solve it at any depth. Each takes a pass up and a pass down; or, with few outputs, J itself is kept, which a
single pass down finds, wide enough for all outputs. A GPU needs little longer for it than for a narrow one.
"""

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from ..network import AbstractMap, recurrence
from ._energy import returned
from ._problem import Errors, Hidden, Increments, Layer, Output, PerSample, Problem, dot

UNROLL = 4
"""So many conjugate-gradient steps are compiled one by one; more run in a loop."""

DAMPING = 0.01
"""Of a free z₀, in units of what an error of its own would cost."""

OUTPUTS = 32
"""The most outputs with which J is kept."""

ROOM = 2**30
"""The most numbers that it may have."""

Wide = Float[Array, "width _"]  # a column for every output of every sample


class Force(eqx.Module):
    """A signal on the activities: one on the output that the last of them feel, and with activity decay one on all."""

    output: Output
    rest: Increments | None


class Response(eqx.Module):
    """J, the derivative of the output in the errors of the hidden layers."""

    rows: Float[Array, "layers width out batch"]

    def output_change(self, e: Hidden) -> Output:
        """J·e."""
        return jnp.sum(self.rows.astype(e.dtype) * e[:, :, None], axis=(0, 1))

    def signals(self, output: Output) -> Hidden:
        """Jᵀ times a signal on the output."""
        return jnp.sum(self.rows.astype(output.dtype) * output, axis=2)


class Linearised(eqx.Module):
    """`problem` linearised at z⁰ + `delta`, where its errors are `errors`."""

    problem: Problem
    delta: Increments
    errors: Errors
    slopes: Hidden
    response: Response | None = None  # J, where it is kept

    def roll(self, e: Increments) -> Increments:
        """A⁻¹: how the activities follow a change of the errors, and of a free z₀."""
        first, hidden, _ = self.problem.multipliers
        bottom = e.hidden[0]
        if self.problem.input is not None and e.input is not None:
            bottom = bottom + first * self.problem.input.linear(e.input)

        def step(item: tuple[AbstractMap, Layer, Layer], d: Layer) -> Layer:
            layer, slope, own = item
            return own + hidden * layer.linear(slope * d)

        items = (self.problem.hidden, self.slopes[:-1], e.hidden[1:])
        return Increments(recurrence(step, bottom, items, self.problem.skip), e.input)

    def unroll(self, force: Force) -> Increments:
        """A⁻ᵀ: how a force on the activities acts on the errors, and on a free z₀."""
        if self.response is not None and force.rest is None:
            return Increments(self.response.signals(self.problem.energy.output_precision * force.output), None)
        first, hidden, _ = self.problem.multipliers
        rest, top = force.rest, self._top(force)

        def step(item: tuple[AbstractMap, Layer, Layer | None], v: Layer) -> Layer:
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
        """How the output follows a change of the activities."""
        return self.problem.multipliers[2] * self.problem.readout.linear(self.slopes[-1] * d.hidden[-1])

    def curvature(self, change: Output, d: Increments) -> Force:
        """The second derivative of the output loss and of activity decay, times a change of the output and one of the
        activities."""
        energy = self.problem.energy
        decay = energy.activity_decay
        rest = jax.tree.map(lambda leaf: decay * leaf, d) if energy.decays_activities else None
        return Force(energy.output_curvature(self.errors.output.T, self.problem.y.T, change.T).T, rest)

    def _bent(self, p: Increments) -> tuple[Force, PerSample]:
        """The curvature of a change of the errors, and how strong it is along that change itself."""
        if self.response is None:
            d = self.roll(p)
            change = self.output_change(d)
        else:  # where no activity decays, so that only the output matters
            d, change = p, self.response.output_change(p.hidden)
        force = self.curvature(change, d)
        bend = self.problem.energy.output_precision * jnp.sum(force.output * change, axis=0)
        return force, bend if force.rest is None else bend + dot(force.rest, d)

    def hessian(self, d: Increments) -> Increments:
        """The Gauss–Newton Hessian in the activities times d: AᵀA d and the curvature, for all layers at once."""
        first, hidden, _ = self.problem.multipliers
        e = self.problem.error_change(d, self.slopes * d.hidden)
        force = self.curvature(self.output_change(d), d)
        back = self.slopes[:-1] * (hidden * self.problem.hidden.transpose(e[1:]))
        own = e - returned(e, self.problem.skip) + jnp.concatenate([-back, self._top(force)[None]])
        into = None if self.problem.input is None else -first * self.problem.input.transpose(e[0])
        product = Increments(own, into)
        return product if force.rest is None else jax.tree.map(jnp.add, product, force.rest)

    def error_gradient(self) -> Increments:
        """∂F/∂e, in which every layer has a part of the same order."""
        energy = self.problem.energy
        rest = None
        if energy.decays_activities:
            rest = jax.tree.map(lambda z: energy.activity_decay * z, self.problem.at(self.delta))
        pulled = self.unroll(Force(-self.problem.output_error(self.errors).T, rest))
        return Increments(self.errors.hidden + pulled.hidden, pulled.input)

    def solve(self, rhs: Increments, steps: int | None, tol: float = 0.0) -> Increments:
        """(I + λ JᵀSJ + α A⁻ᵀA⁻¹)⁻¹·rhs for each sample, by conjugate gradients. A free z₀, which has no error of its
        own, is damped instead: the matrix would be singular otherwise.

        At most `steps` of them, or with None as many as bring the residual below `tol` of its start. The last of a
        few needs only the length of its step, which saves a pass down.
        """

        def advance(x: Increments, p: Increments, rr: PerSample) -> tuple:
            force, bend = self._bent(p)
            length = _ratio(rr, dot(p, _damped(p)) + bend)
            return _add(x, length, p), length, force

        def turn(r: Increments, p: Increments, rr: PerSample, length: PerSample, force: Force) -> tuple:
            image = jax.tree.map(jnp.add, _damped(p), self.unroll(force))
            r = _add(r, -length, image)
            following = dot(r, r)
            return r, _add(r, _ratio(following, rr), p), following

        x, first = jax.tree.map(jnp.zeros_like, rhs), dot(rhs, rhs)
        if steps is not None and steps <= UNROLL:
            r, p, rr = rhs, rhs, first
            for index in range(steps):
                x, length, force = advance(x, p, rr)
                if index + 1 < steps:
                    r, p, rr = turn(r, p, rr, length, force)
            return x

        limit = 2 * self.problem.y.shape[0] + 20 if steps is None else steps

        def unfinished(carry: tuple) -> Bool[Array, ""]:
            return (carry[-1] < limit) & jnp.any(carry[3] > tol**2 * first)

        def body(carry: tuple) -> tuple:
            x, r, p, rr, count = carry
            x, length, force = advance(x, p, rr)
            return x, *turn(r, p, rr, length, force), count + 1

        count: Int[Array, ""] = jnp.zeros((), int)
        found: Increments = jax.lax.while_loop(unfinished, body, (x, rhs, rhs, first, count))[0]
        return found

    def _top(self, force: Force) -> Layer:
        """What the last activities feel of a force: λ times the derivative of the output in them, transposed, times the
        signal on the output."""
        weight = self.problem.multipliers[2] * self.problem.energy.output_precision
        return self.slopes[-1] * (weight * self.problem.readout.transpose(force.output))

    def with_response(self) -> "Linearised":
        """The same with J kept, where that is worth it: on a GPU, with few outputs and without activity decay."""
        outputs = len(self.problem.y)
        small = outputs <= OUTPUTS and outputs * self.slopes.size <= ROOM
        plain = self.problem.input is None and not self.problem.energy.decays_activities
        if not (small and plain and jax.default_backend() == "gpu"):
            return self
        return dataclasses.replace(self, response=respond(self))


def respond(linear: Linearised) -> Response:
    """J, by one pass down with a column for every output of every sample."""
    problem, slopes = linear.problem, linear.slopes
    _, hidden, last = problem.multipliers
    outputs = len(problem.y)

    def wide(slope: Layer, back: Wide) -> Wide:
        return (slope[:, None] * back.reshape(len(slope), outputs, -1)).reshape(len(slope), -1)

    def step(item: tuple[AbstractMap, Layer], v: Wide) -> Wide:
        layer, slope = item
        return wide(slope, hidden * layer.transpose(v))

    top = wide(slopes[-1], last * problem.readout.transpose(jnp.eye(outputs, dtype=slopes.dtype)))
    items = (problem.hidden, slopes[:-1])
    rows = recurrence(step, top, items, problem.skip, reverse=True, keep=problem.hidden.as_read)
    return Response(rows.reshape(*slopes.shape[:2], outputs, -1))


def linearise(problem: Problem, delta: Increments, errors: Errors) -> Linearised:
    """The problem at z⁰ + δ, given its errors there."""
    slopes = problem.activation.derivative(problem.base + delta.hidden)
    return Linearised(problem, delta, errors, slopes)


def _damped(p: Increments) -> Increments:
    return Increments(p.hidden, None if p.input is None else DAMPING * p.input)


def _ratio(a: PerSample, b: PerSample) -> PerSample:
    return jnp.where(b > 0, a / jnp.where(b > 0, b, 1), 0)


def _add(x: Increments, length: PerSample, p: Increments) -> Increments:
    return jax.tree.map(lambda a, b: a + length * b, x, p)
