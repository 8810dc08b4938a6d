"""Gauss–Newton equations of an inference problem, linearised at given activities.

Write A for the derivative of the errors in the activities: block lower triangular, with ones on its diagonal. A and
its transpose are products that all layers do at once. A⁻¹ is a pass up through the layers and A⁻ᵀ a pass down, so that
errors may take the place of activities as unknowns for the price of one pass each way. In them the Gauss–Newton Hessian

    I + λ JᵀSJ + α A⁻ᵀA⁻¹,      J the derivative of the output in the errors, S that of the loss,

is the identity plus a matrix whose rank is the output size (without activity decay α): a few steps of conjugate
gradients solve it at any depth. Each step takes a pass up and a pass down.
"""

import abc

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Int

from ..network import Scalar
from ._problem import AbstractLinearised, AbstractProblem, Descent, Increments, PerSample, Point, add, zeros

UNROLL = 4
"""Up to this many conjugate-gradient steps are compiled one by one; more run in a loop."""

DAMPING = 0.01
"""Weight of a change of a free z₀ in the linear solve; a hidden error has weight 1."""


FLAT = 1e-3
"""A direction whose curvature is below this share of what it would be without the loss counts as bending down. The line
search could not bring back the long step that such a curvature asks for."""
BendsUp = Bool[Array, " batch"]


class Force(eqx.Module):
    """A signal on the activities: `output` acts on the output, `rest` on all activities (with activity decay)."""

    output: Array
    rest: Increments | None


class AbstractGaussNewton(AbstractLinearised[Increments]):
    """A problem linearised at a point, solved by conjugate gradients in the errors."""

    problem: eqx.AbstractVar[AbstractProblem]
    point: eqx.AbstractVar[Point]

    @abc.abstractmethod
    def apply_inverse(self, e: Increments) -> Increments:
        """Apply A⁻¹: return how the activities follow a change of the errors, and of a free z₀."""

    @abc.abstractmethod
    def apply_inverse_transpose(self, force: Force) -> Increments:
        """Apply A⁻ᵀ: return how a force on the activities acts on the errors, and on a free z₀."""

    @abc.abstractmethod
    def output_change(self, d: Increments) -> Array:
        """Return how the output follows a change of the activities."""

    @abc.abstractmethod
    def output_pull(self) -> Array:
        """Return the negative gradient of the loss in the output."""

    @abc.abstractmethod
    def loss_curvature(self, change: Array) -> Array:
        """Return the second derivative of the output loss times a change of the output."""

    def change_along(self, p: Increments) -> tuple[Increments, Array]:
        """Return how activities and output follow a change of the errors."""
        d = self.apply_inverse(p)
        return d, self.output_change(d)

    def _curvature_along(self, p: Increments) -> tuple[Force, PerSample]:
        """Return the force that a change of the errors causes, and the second derivative along it."""
        d, change = self.change_along(p)
        energy = self.problem.energy
        signal = self.loss_curvature(change)
        bend = energy.output_weight * self.problem.output_dot(signal, change)
        if not energy.decays_activities:
            return Force(signal, None), bend
        rest = jax.tree.map(lambda leaf: energy.activity_decay * leaf, d)
        return Force(signal, rest), bend + self.problem.dot(rest, d)

    def inverse_hessian(self, d: Increments) -> Increments:
        """Return A⁻¹ (I + λ JᵀSJ)⁻¹ A⁻ᵀ d."""
        eps = float(jnp.finfo(jax.tree.leaves(d)[0].dtype).eps)
        plain = eqx.tree_at(lambda at: at.problem.energy.activity_decay, self, 0.0)
        signal = plain.apply_inverse_transpose(Force(jnp.zeros_like(self.point.errors.output), d))
        return plain.apply_inverse(plain.solve(signal, None, tol=10 * eps))

    def downhill(self) -> Increments:
        energy = self.problem.energy
        rest = None
        if energy.decays_activities:
            rest = jax.tree.map(lambda z: -energy.activity_decay * z, self.problem.activities(self.point.delta))
        pulled = self.apply_inverse_transpose(Force(self.output_pull(), rest))
        return Increments(jax.tree.map(jnp.subtract, pulled.hidden, self.point.errors.hidden), pulled.input)

    @property
    def bounds_descent(self) -> bool:
        energy = self.problem.energy
        return energy.has_convex_loss and not (energy.decays_activities or self.problem.singular)

    def descent(self, rhs: Increments, along: Array) -> Descent:
        """Describe the step of length α along the steepest descent r. It leaves the residual

            (1 − α) r − α λ JᵀS·along,      along = J·r, the change of the output.

        No eigenvalue of the Hessian is below 1, so that further steps gain at most half the residual's square. It
        has one unknown part, |Jᵀv|² ≤ |J|²·|v|², with |J|² taken to be the largest |J·r|²/|r|² in the batch. With a
        negative λ, which pushes the output away from its target, eigenvalues fall to 1 + λ|J|², for a loss that bends
        by at most 1."""
        curved = self.loss_curvature(along)
        squares, weight = self.problem.dot(rhs, rhs), self.problem.energy.output_weight
        bend = weight * self.problem.output_dot(curved, along)
        most = jnp.max(_ratio(self.problem.output_dot(along, along), squares))
        back = weight**2 * most * self.problem.output_dot(curved, curved)
        floor = 1 + jnp.minimum(weight, 0) * most

        def left(length: PerSample) -> Scalar:
            rest = (1 - length) ** 2 * squares - 2 * length * (1 - length) * bend + length**2 * back
            gain = floor * jnp.sum(2 * length * squares - length**2 * (squares + bend))
            return jnp.where(gain > 0, jnp.sum(rest) / gain, jnp.inf)

        best = _ratio(squares, squares + bend)
        return Descent(best, left(jnp.ones_like(best)), left(best))

    def solve(self, rhs: Increments, steps: int | None, tol: float = 0.0) -> Increments:
        """Return (I + λ JᵀSJ + α A⁻ᵀA⁻¹)⁻¹·rhs for each sample, by conjugate gradients. A free z₀, which has no error
        of its own, is damped instead: the matrix would be singular otherwise.

        Take at most `steps` steps, or with None as many as bring the residual below `tol` of its start. With few
        steps, the last one skips the pass down: only its length is needed.

        A loss that is not convex, or a negative λ, may make the matrix indefinite. A sample stops at the first
        direction of negative curvature, with what it has so far, or with `rhs` itself: both lead downhill, and the line
        search does the rest.
        """
        dot, move = self.problem.dot, self.problem.move

        def advance(x: Increments, p: Increments, rr: PerSample, is_first: bool | Bool[Array, ""]) -> tuple:
            force, bend = self._curvature_along(p)
            own = dot(p, _damped(p))
            bends_up = own + bend > FLAT * own
            length = jnp.where(bends_up, _ratio(rr, own + bend), jnp.asarray(is_first, rr.dtype))
            return move(x, length, p), length, bends_up, force

        def turn(
            r: Increments, p: Increments, rr: PerSample, length: PerSample, bends_up: BendsUp, force: Force
        ) -> tuple:
            image = add(_damped(p), self.apply_inverse_transpose(force))
            r = move(r, -length, image)
            following = jnp.where(bends_up, dot(r, r), 0)
            return r, move(r, _ratio(following, rr), p), following

        x, first = zeros(rhs), dot(rhs, rhs)
        if steps is not None and steps <= UNROLL:
            r, p, rr = rhs, rhs, first
            for index in range(steps):
                x, *step = advance(x, p, rr, index == 0)
                if index + 1 < steps:
                    r, p, rr = turn(r, p, rr, *step)
            return x

        limit = 2 * self.problem.outputs + 20 if steps is None else steps

        def unfinished(carry: tuple) -> Bool[Array, ""]:
            return (carry[-1] < limit) & jnp.any(carry[3] > tol**2 * first)

        def body(carry: tuple) -> tuple:
            x, r, p, rr, count = carry
            x, *step = advance(x, p, rr, count == 0)
            return x, *turn(r, p, rr, *step), count + 1

        count: Int[Array, ""] = jnp.zeros((), int)
        found: Increments = jax.lax.while_loop(unfinished, body, (x, rhs, rhs, first, count))[0]
        return found


def _damped(p: Increments) -> Increments:
    return Increments(p.hidden, None if p.input is None else DAMPING * p.input)


def _ratio(a: PerSample, b: PerSample) -> PerSample:
    return jnp.where(b > 0, a / jnp.where(b > 0, b, 1), 0)
