"""The exact equilibrium of linear networks, by elimination over layers."""

from typing import NamedTuple, cast

import jax
import jax.numpy as jnp
import jax.scipy.linalg as jsl
from jaxtyping import Array, Float

from ...io import checks
from ...network import Real
from .._dense_problem import DenseProblem
from .._energy import Energy
from .._problem import AbstractProblem, Increments, Point, Unknowns
from ._base import AbstractSolver, LoopStatus, Stop, check_limits, converged_below

Matrix = Float[Array, "_ _"]
Blocks = Float[Array, "blocks size size"]
Columns = Float[Array, "blocks size batch"]


class _Factors(NamedTuple):
    """The result of elimination from the top down: Cholesky factors of each block, and the maps between blocks.

    A block holds `skip` layers. In the unknowns T d (`change`, T unit lower triangular) a block's errors are d_k − C_k
    d_{k-1}, and the Schur complement of block k is I + V_k with V_{k-1} = C_kᵀ V_k (I + V_k)⁻¹ C_k: a sum of positive
    terms, in which nothing cancels however large the network's gain.
    """

    cholesky: Blocks
    links: Blocks  # C of all blocks but the first
    change: Blocks | None
    bottom: Matrix | None  # the free z₀: its Cholesky factor, and its map into the first block
    entry: Matrix | None


class ExactLinear(AbstractSolver[_Factors]):
    """One Newton step of a block-banded solve, O(H·N³) once for the whole batch, never a dense matrix.

    For linear networks with the squared error. With activity decay the same equations hold; a free z₀ needs it, since
    its equilibrium is not unique otherwise.

    **Arguments:**

    - `steps`: one is exact up to rounding; more refine the result at the price of two passes each.
    - `tol`: stop when the gradient norm has fallen to this fraction of its start.

    **Example:**

    ```python
    import jax.numpy as jnp, jax.random as jr, mupc

    network = mupc.Network(in_size=8, out_size=3, width=16, hidden_layers=4, activation="linear", key=jr.key(0))
    solution = mupc.infer(network, jnp.ones((2, 8)), jnp.array([0, 2]), mupc.ExactLinear())
    solution.gradient_norm             # zero up to rounding
    ```
    """

    steps: int = 1
    tol: Real | None = None

    def __check_init__(self) -> None:
        check_limits(self.steps, self.tol)

    @property
    def local(self) -> bool:
        return False

    def init(self, problem: AbstractProblem, point: Point) -> _Factors:
        return _factorise(_checked(problem))

    def step(
        self, problem: AbstractProblem[Unknowns], point: Point, gradient: Unknowns, state: _Factors
    ) -> tuple[Point, _Factors]:
        return problem.at(jax.tree.map(jnp.subtract, point.delta, _solve(state, cast(Increments, gradient)))), state

    def terminate(self, state: _Factors, progress: LoopStatus) -> Stop | None:
        return converged_below(self.tol, progress)


def _checked(problem: AbstractProblem) -> DenseProblem:
    """Return a problem that elimination can solve."""
    other = "Use {ErrorSpace} with several steps and a tolerance instead."
    if not isinstance(problem, DenseProblem):
        raise checks.ArgumentError("ExactLinear", "is for a linear mupc.Network, not for chains of nodes.", other)
    if problem.activation.name != "linear":
        wrong = f"needs a linear network, got activation {problem.activation.name!r}."
        raise checks.ArgumentError("ExactLinear", wrong, other)
    if problem.energy.output_function != "mse":
        raise checks.ArgumentError("ExactLinear", f'needs the loss "mse", got {problem.energy.loss_name!r}.', other)
    if problem.singular and not problem.energy.decays_activities:
        raise checks.ArgumentError(
            "ExactLinear",
            "needs activity decay when z₀ is free: without it the equilibrium is not unique.",
            "Set {activity_decay} in the energy, or use {ErrorSpace}.",
        )
    return problem


def _factorise(problem: DenseProblem) -> _Factors:
    first, hidden, last = problem.multipliers
    depth, width, _ = problem.base.shape
    eye = jnp.eye(width, dtype=problem.base.dtype)
    weights = hidden * problem.hidden.linear(jnp.broadcast_to(eye, (depth - 1, width, width)))
    links, change = _blocks(weights, problem.skip)
    readout = last * problem.readout.linear(eye)
    energy: Energy = problem.energy
    size = links.shape[-1]
    identity = jnp.eye(size, dtype=eye.dtype)
    decays = (
        identity if change is None else jax.vmap(lambda t: _gram(jsl.solve_triangular(t, identity, lower=True)))(change)
    )
    decays = energy.activity_decay * jnp.broadcast_to(decays, (len(links) + 1, size, size))
    top = jnp.pad(readout, ((0, 0), (size - width, 0)))
    if change is not None:
        top = _right_solve(top, change[-1])
        links = jax.vmap(_right_solve)(links, change[:-1])

    def eliminate(v: Matrix, link_and_decay: tuple[Matrix, Matrix]) -> tuple[Matrix, Matrix]:
        link, decay = link_and_decay
        factor = jnp.linalg.cholesky(identity + v)
        return _behind(factor, v, link) + decay, factor

    v = energy.output_weight * _gram(top) + decays[-1]
    v, factors = jax.lax.scan(eliminate, v, (links, decays[:-1]), reverse=True)
    lowest = jnp.linalg.cholesky(identity + v)
    cholesky = jnp.concatenate([lowest[None], factors])
    if problem.input is None:
        return _Factors(cholesky, links, change, None, None)
    inputs = problem.base_input.shape[0] if problem.base_input is not None else 0
    entry = first * problem.input.linear(jnp.eye(inputs, dtype=eye.dtype))
    below = (-depth) % max(1, problem.skip) * width
    entry = jnp.pad(entry, ((below, size - width - below), (0, 0)))
    bottom = _behind(lowest, v, entry) + energy.activity_decay * jnp.eye(inputs, dtype=eye.dtype)
    return _Factors(cholesky, links, change, jnp.linalg.cholesky(bottom), entry)


def _blocks(
    weights: Float[Array, "layers_less_one width width"], skip: int
) -> tuple[Blocks, Float[Array, "all_blocks size size"] | None]:
    """Return the links C of all blocks but the first, and all T (None: one layer each, T = I). The errors of block k
    are T_k d_k − C_k d_{k-1}. Padding layers in the first block lie below layer 1 and have no effect."""
    width = weights.shape[-1]
    size = max(1, skip)
    eye = jnp.eye(width, dtype=weights.dtype)
    if size == 1:
        return weights + skip * eye, None
    count = -(-(len(weights) + 1) // size)
    filling = count * size - len(weights) - 1
    padded = jnp.pad(weights, ((filling + 1, 0), (0, 0), (0, 0))).reshape(count, size, width, width)
    layer = jnp.arange(count * size).reshape(count, size) - filling  # from 0; those below are negative
    links = jnp.zeros((count, size, width, size, width), weights.dtype)
    change = jnp.zeros_like(links)
    links = links.at[:, 0, :, size - 1, :].set(padded[:, 0])
    for place in range(size):
        skips = jnp.where(layer[:, place] >= size, 1.0, 0.0)[:, None, None] * eye
        links = links.at[:, place, :, place, :].add(skips)
        change = change.at[:, place, :, place, :].set(eye)
        if place:
            change = change.at[:, place, :, place - 1, :].set(-padded[:, place])
    shape = (count, size * width, size * width)
    return links.reshape(shape)[1:], change.reshape(shape)


def _gram(a: Matrix) -> Matrix:
    return jnp.matmul(a.T, a, precision=jax.lax.Precision.HIGHEST)


def _right_solve(a: Matrix, triangle: Matrix) -> Matrix:
    """Return a·T⁻¹."""
    return jsl.solve_triangular(triangle, a.T, lower=True, trans=1).T


def _behind(factor: Matrix, v: Matrix, link: Matrix) -> Matrix:
    """Return Cᵀ V (I + V)⁻¹ C, given the Cholesky factor of I + V, symmetric to the last digit."""
    kept = jsl.cho_solve((factor, True), v)
    kept = jnp.matmul(link.T, jnp.matmul(kept, link, precision="highest"), precision="highest")
    return (kept + kept.T) / 2


def _solve(factors: _Factors, gradient: Increments) -> Increments:
    """Return H⁻¹·gradient: down through the blocks, then up."""
    cholesky, links, change, bottom, entry = factors
    depth, width, batch = gradient.hidden.shape
    count, size, _ = cholesky.shape
    filled = jnp.pad(gradient.hidden, ((count * size // width - depth, 0), (0, 0), (0, 0)))
    rhs = filled.reshape(count, size, batch)
    if change is not None:
        rhs = jax.vmap(lambda t, g: jsl.solve_triangular(t, g, lower=True, trans=1))(change, rhs)

    def solve(factor: Matrix, b: Matrix) -> Matrix:
        return jsl.cho_solve((factor, True), b)

    def product(a: Matrix, b: Matrix) -> Matrix:
        return jnp.matmul(a, b, precision="highest")

    def down(b: Matrix, item: tuple[Matrix, Matrix, Matrix]) -> tuple[Matrix, Matrix]:
        factor, link, own = item
        return own + product(link.T, solve(factor, b)), b

    lowest, carried = jax.lax.scan(down, rhs[-1], (cholesky[1:], links, rhs[:-1]), reverse=True)
    free = None
    if bottom is not None and entry is not None and gradient.input is not None:
        free = solve(bottom, gradient.input + product(entry.T, solve(cholesky[0], lowest)))
        lowest = lowest + product(entry, free)

    def up(d: Matrix, item: tuple[Matrix, Matrix, Matrix]) -> tuple[Matrix, Matrix]:
        factor, link, b = item
        d = solve(factor, b + product(link, d))
        return d, d

    first = solve(cholesky[0], lowest)
    rest = jax.lax.scan(up, first, (cholesky[1:], links, carried))[1]
    found = jnp.concatenate([first[None], rest])
    if change is not None:
        found = jax.vmap(lambda t, d: jsl.solve_triangular(t, d, lower=True))(change, found)
    return Increments(found.reshape(-1, width, batch)[-depth:], free)
