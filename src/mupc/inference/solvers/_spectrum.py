"""The extreme eigenvalues of the activity Hessian, from products with it and with its inverse."""

from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
from jaxtyping import Array, Float

from .._linearised import Force, Linearised, linearise
from .._problem import Increments, PerSample, Problem, dot

LARGEST_STEPS, SMALLEST_STEPS = 32, 8
"""Lanczos steps: the upper end of the spectrum is dense; the lower end thins out, and its inverse more so."""


def extremes(problem: Problem) -> tuple[PerSample, PerSample]:
    """The largest and the smallest eigenvalue of each sample's Gauss–Newton Hessian at the base point.

    At the forward pass it is the Hessian, but for the curvature of the last activation. For the lower end the Hessian
    is inverted, A⁻¹ (I + λ JᵀSJ)⁻¹ A⁻ᵀ, so that condition numbers of 1e8 are no harder than small ones.
    """
    linear = linearise(problem, problem.start(), problem.errors_at_start())
    decay = problem.energy.activity_decay
    plain = _without_decay(linear)  # activity decay α only moves all eigenvalues by α
    largest = _largest(plain.hessian, problem, LARGEST_STEPS)
    if problem.input is None:
        smallest = 1 / _largest(lambda d: _inverse(plain, d), problem, SMALLEST_STEPS)
    else:  # some changes of a free z₀ change no error and no output
        smallest = jnp.zeros_like(largest)
    return largest + decay, smallest + decay


def _without_decay(linear: Linearised) -> Linearised:
    return eqx.tree_at(lambda at: at.problem.energy.activity_decay, linear, 0.0)


def _inverse(linear: Linearised, d: Increments) -> Increments:
    eps = float(jnp.finfo(d.hidden.dtype).eps)
    signal = linear.unroll(Force(jnp.zeros_like(linear.problem.y), d))
    return linear.roll(linear.solve(signal, None, tol=10 * eps))


def _largest(apply: Callable[[Increments], Increments], problem: Problem, steps: int) -> PerSample:
    """The largest eigenvalue of a symmetric map of each sample, by Lanczos steps from a random vector."""
    start = problem.start()
    leaves, tree = jax.tree.flatten(start)
    keys = jr.split(jr.key(0), len(leaves))
    noise = jax.tree.unflatten(tree, [jr.normal(k, x.shape, x.dtype) for k, x in zip(keys, leaves, strict=True)])
    steps = min(steps, sum(leaf[..., 0].size for leaf in leaves))

    def scaled(v: Increments, factor: PerSample) -> Increments:
        return jax.tree.map(lambda x: x * factor, v)

    def body(carry: tuple, _: None) -> tuple[tuple, tuple[PerSample, PerSample]]:
        previous, v, beta = carry
        w = apply(v)
        alpha = dot(v, w)
        w = jax.tree.map(lambda a, b, c: a - alpha * b - beta * c, w, v, previous)
        following = jnp.sqrt(dot(w, w))
        # an exhausted Krylov space: go on with zeros, which only repeat eigenvalues at zero
        inverse = jnp.where(following > 0, 1 / jnp.where(following > 0, following, 1), 0)
        return (v, scaled(w, inverse), following), (alpha, following)

    first = scaled(noise, 1 / jnp.sqrt(dot(noise, noise)))
    carry = (start, first, jnp.zeros_like(problem.y[0]))
    _, (alphas, betas) = jax.lax.scan(body, carry, None, length=steps)
    return _tridiagonal_largest(alphas.T, betas[:-1].T)


def _tridiagonal_largest(
    diagonal: Float[Array, "batch steps"], beside: Float[Array, "batch steps_less_one"]
) -> PerSample:
    matrix = jax.vmap(lambda a, b: jnp.diag(a) + jnp.diag(b, 1) + jnp.diag(b, -1))(diagonal, beside)
    return jnp.linalg.eigvalsh(matrix)[:, -1]
