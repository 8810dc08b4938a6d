"""The extreme eigenvalues of the activity Hessian, from products with it and with its inverse."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import jax.random as jr
from jaxtyping import Array, Float

from ...io import checks
from .._problem import AbstractProblem, PerSample, Unknowns, standard_normal, zeros

LARGEST_STEPS, SMALLEST_STEPS = 32, 8
"""Lanczos steps for each end. The upper end is dense and needs more; inverting spreads the lower end."""


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
    noise = standard_normal(jr.key(0), start)
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
    return _tridiagonal_largest(alphas.T, betas[:-1].T)


def _tridiagonal_largest(
    diagonal: Float[Array, "batch steps"], off_diagonal: Float[Array, "batch steps_less_one"]
) -> PerSample:
    matrix = jax.vmap(lambda a, b: jnp.diag(a) + jnp.diag(b, 1) + jnp.diag(b, -1))(diagonal, off_diagonal)
    return jnp.linalg.eigvalsh(matrix)[:, -1]
