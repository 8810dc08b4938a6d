"""The extreme eigenvalues of the activity Hessian, from products with it and with its inverse."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import jax.random as jr
from jaxtyping import Array, Float

from ...io import checks
from .._problem import AbstractProblem, PerSample, Unknowns, zeros

LARGEST_STEPS, SMALLEST_STEPS = 32, 8
"""Lanczos steps for each end. The upper end is dense and needs more; inverting spreads the lower end."""
SECTIONS = 64
"""How many parts of an interval to search for an eigenvalue at once."""


def extremes(problem: AbstractProblem) -> tuple[PerSample, PerSample]:
    """Return the largest and the smallest eigenvalue of each sample's Gauss–Newton Hessian at the base point.

    At the forward pass this is the Hessian without the curvature of the last activation. For the lower end the Hessian
    is inverted, so that condition numbers of 1e8 are no harder than small ones.
    """
    if problem.singular and not problem.energy.decays_activities:
        raise checks.ArgumentError(
            "lr",
            '"auto" needs a positive definite Hessian, and with a free z₀ it is only semidefinite.',
            "Give a number, add activity decay, or use {ErrorSpace}.",
        )
    linear = problem.linearise(problem.start())
    decay = problem.energy.activity_decay  # it only moves all eigenvalues by α
    largest = _largest(linear.hessian, problem, LARGEST_STEPS)
    smallest = jnp.zeros_like(largest)
    if not problem.singular:
        smallest = 1 / _largest(linear.inverse_hessian, problem, SMALLEST_STEPS)
    return largest + decay, smallest + decay


def _largest(apply: Callable[[Unknowns], Unknowns], problem: AbstractProblem, steps: int) -> PerSample:
    """Return the largest eigenvalue of a symmetric map of each sample, by Lanczos steps from a random vector."""
    start = problem.start().delta
    dot = problem.dot
    noise = problem.noise(jr.key(0))
    steps = min(steps, problem.unknowns)

    def scaled(v: Unknowns, factor: PerSample) -> Unknowns:
        return problem.move(zeros(v), factor, v)

    def body(carry: tuple, _: None) -> tuple[tuple, tuple[PerSample, PerSample]]:
        previous, v, beta = carry
        w = apply(v)
        alpha = dot(v, w)
        w = problem.move(problem.move(w, -alpha, v), -beta, previous)
        following = jnp.sqrt(dot(w, w))
        # an exhausted Krylov space: go on with zeros, which only repeat eigenvalues at zero
        inverse = jnp.where(following > 0, 1 / jnp.where(following > 0, following, 1), 0)
        return (v, scaled(w, inverse), following), (alpha, following)

    first = scaled(noise, 1 / jnp.sqrt(dot(noise, noise)))
    carry = (start, first, jnp.zeros_like(dot(start, start)))
    _, (alphas, betas) = jax.lax.scan(body, carry, None, length=steps)
    return largest_eigenvalue(alphas.T, betas[:-1].T)


def largest_eigenvalue(
    diagonal: Float[Array, "batch size"], off_diagonal: Float[Array, "batch size_less_one"]
) -> PerSample:
    """Return the largest eigenvalue of each symmetric tridiagonal matrix T: the least x above which T − x is negative
    definite, which the signs of its pivots tell.

    LAPACK is not called: in a program for several CPU devices its calls can wait for each other for ever.
    `jax.scipy.linalg.eigh_tridiagonal` does not call it either, but takes about four times as long to compile.
    """
    bound = jnp.max(jnp.abs(diagonal), axis=1) + 2 * jnp.max(jnp.abs(off_diagonal), axis=1, initial=0)
    scale = jnp.where(bound == 0, 1, bound)  # eigenvalues are then in [−1, 1]
    squares = jnp.square(jnp.pad(off_diagonal / scale[:, None], ((0, 0), (1, 0))))
    rows = (diagonal / scale[:, None]).T, squares.T

    def narrow(step: Array, low: PerSample) -> PerSample:
        width = 2 / jnp.asarray(SECTIONS, low.dtype) ** (step + 1)
        x = low + width * jnp.arange(1, SECTIONS, dtype=low.dtype)[:, None]

        def eliminate(carry: tuple, row: tuple) -> tuple[tuple, None]:
            pivot, negative = carry
            pivot = row[0] - x - row[1] / pivot
            return (pivot, negative & (pivot < 0)), None

        (_, above), _ = jax.lax.scan(eliminate, (jnp.ones_like(x), x == x), rows)
        return low + width * jnp.sum(~above, axis=0)

    rounds = jnp.finfo(bound.dtype).nmant // (SECTIONS.bit_length() - 1) + 2
    return scale * jax.lax.fori_loop(0, rounds, narrow, -jnp.ones_like(bound))
