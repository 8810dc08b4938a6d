"""Eigenvalue distributions of the activity Hessian and of its parts: §A.2.3 of the paper."""

import dataclasses
from typing import Any, Unpack

import jax
import jax.numpy as jnp
import numpy as np
import scipy.linalg as sl
from jaxtyping import ArrayLike, Float64

from ..inference import Energy
from ..io import checks
from ._hessian import Ends, HessianBlocks, Vectors, hessian_blocks

EXACT = 16_384
"""The most unknowns of which every eigenvalue is computed from a dense matrix, of 2 GiB then."""

EXHAUSTED = 1e-12
"""What is left of a Krylov vector, on the scale of the matrix, when its space holds no more directions."""

Values = Float64[np.ndarray, "_"]
Like = Float64[np.ndarray, "..."]


@dataclasses.dataclass(frozen=True, eq=False)
class Spectrum:
    """An eigenvalue distribution: shares `weights` of the eigenvalues at `values`. `mupc.theory.spectrum` makes one.

    - `values`, `weights`: ascending, and their shares, which sum to one. If `exact`, every eigenvalue with 1/size;
      otherwise the nodes and weights of a quadrature, which stand for the distribution and not for single eigenvalues.
    - `size`: the number of unknowns.
    - `exact`: whether every eigenvalue was computed.
    """

    values: Values
    weights: Values
    size: int
    exact: bool

    @property
    def smallest(self) -> float:
        """The smallest value. If not `exact` a Ritz value: never below the smallest eigenvalue, and near it where the
        spectrum is thin there. `mupc.theory.condition_number` has the true one."""
        return float(self.values[0])

    @property
    def largest(self) -> float:
        """The largest value. If not `exact` a Ritz value: never above the largest eigenvalue."""
        return float(self.values[-1])

    def cumulative(self, at: ArrayLike) -> Like:
        """The share of eigenvalues up to and including each of the points, in their shape."""
        return self._below(np.asarray(at, np.float64), "right")

    def quantiles(self, levels: ArrayLike) -> Like:
        """For each level, from 0 to 1, the smallest value up to which at least that share of the eigenvalues lies."""
        wanted = np.asarray(levels, np.float64)
        if not np.all((wanted >= 0) & (wanted <= 1)):
            raise ValueError(f"levels must lie between 0 and 1, got {levels}.")
        rounding = 1e-12  # of sums of weights: the median of an even number of eigenvalues is the lower one
        index = np.searchsorted(np.cumsum(self.weights), wanted - rounding)
        return np.asarray(self.values[np.minimum(index, len(self.values) - 1)])

    def density(self, grid: ArrayLike, width: float) -> Like:
        """The density with every value smoothed to a Gaussian of standard deviation `width`,

            ρ(λ) = Σ_i w_i exp(−(λ − λ_i)²/(2·width²)) / (width·√(2π)),

        at each point of the grid, in its shape."""
        checks.number("width", width, above=0)
        points = np.asarray(grid, np.float64)
        heights = [self.weights @ np.exp(-(((point - self.values) / width) ** 2) / 2) for point in points.flat]
        return np.reshape(np.array(heights) / (width * np.sqrt(2 * np.pi)), points.shape)

    def distance(self, other: "Spectrum") -> float:
        """The Kolmogorov–Smirnov distance: the largest difference of the two shares of eigenvalues below any point,
        between 0 and 1."""
        points = np.union1d(self.values, other.values)
        sides = ("left", "right")  # both sides of every jump
        return max(float(np.max(np.abs(self._below(points, side) - other._below(points, side)))) for side in sides)

    def _below(self, points: Like, side: Any) -> Like:
        totals = np.concatenate([[0.0], np.cumsum(self.weights)])
        return np.asarray(totals[np.searchsorted(self.values, points, side)])


def spectrum(
    network: Any,
    x: ArrayLike | None = None,
    y: ArrayLike | None = None,
    activities: Any = None,
    *,
    part: str = "whole",
    method: str = "auto",
    energy: Energy | None = None,
    steps: int = 100,
    probes: int = 8,
    seed: int = 0,
    **ends: Unpack[Ends],
) -> Spectrum:
    """The eigenvalue distribution of the activity Hessian H, of its block diagonal D, or of the rest O = H − D.

    **Arguments:**

    - `network`, `x`, `y`, `activities`, `energy`, `free_input`, `free_output`, `dummy_input`, `dummy_output`: as for
      `mupc.theory.hessian_blocks`.
    - `part`: `"whole"`, `"diagonal"` or `"off-diagonal"`.
    - `method`: `"exact"` computes every eigenvalue, in O((H·N)³) and up to 16,384 unknowns; those of D block by block,
      of any number. `"lanczos"` is stochastic Lanczos quadrature: with the Ritz values θ of a number of random vectors,
      and as their weights the squares τ² of the first entries of the tridiagonal matrix's eigenvectors,

            ρ(λ) ≈ 1/probes Σ_probes Σ_k τ_k² δ(λ − θ_k),

      from products with the blocks alone. `"auto"` is exact where that is possible.
    - `steps`, `probes`, `seed`: of Lanczos: its steps, which resolve about 1/steps of the distribution; how many random
      vectors of ±1 are averaged; and what those are drawn from. It keeps steps·probes vectors.

    **Example:**

    ```python
    import jax.random as jr, mupc

    network = mupc.Network(128, 128, 128, 8, activation="linear", parameterisation="sp", skip=0, key=jr.key(0))
    found = mupc.theory.spectrum(network, part="diagonal")
    found.smallest, found.largest       # near 1 and 5, as the Marchenko–Pastur law has it
    quick = mupc.theory.spectrum(network, part="diagonal", method="lanczos")
    quick.distance(found)               # 0.02 or so
    ```

    **Reference:** Ubaru, Chen and Saad, "Fast estimation of tr(f(A)) via stochastic Lanczos quadrature", 2017.
    """
    choose = checks.lookup("method", method, METHODS)
    checks.integer("steps", steps, 1)
    checks.integer("probes", probes, 1)
    checks.integer("seed", seed, 0)
    blocks = hessian_blocks(network, x, y, activities, energy=energy, **ends).part(part)
    if choose(part == "diagonal", blocks.size):
        values = _block_by_block(blocks) if part == "diagonal" else _dense(blocks)
        return Spectrum(np.sort(values), np.full(blocks.size, 1 / blocks.size), blocks.size, True)
    values, weights = _quadrature(*_lanczos(blocks, min(steps, blocks.size), probes, seed))
    order = np.argsort(values)
    return Spectrum(values[order], weights[order], blocks.size, False)


def _exactly(separate: bool, size: int) -> bool:
    if not separate and size > EXACT:
        raise ValueError(f'method="exact" takes up to {EXACT:,} unknowns, got {size:,}. Use method="lanczos".')
    return True


METHODS = {
    "auto": lambda separate, size: separate or size <= EXACT,
    "exact": _exactly,
    "lanczos": lambda separate, size: False,
}
"""Whether to compute every eigenvalue, by whether the blocks are separate and the number of unknowns."""


def _block_by_block(blocks: HessianBlocks) -> Values:
    return np.concatenate([np.linalg.eigvalsh(block) for block in (blocks.input, *blocks.diagonal, blocks.output)])


def _dense(blocks: HessianBlocks) -> Values:
    """Every eigenvalue, on the accelerator if JAX has one."""
    if jax.default_backend() != "cpu":
        with jax.enable_x64(True):
            return np.asarray(jnp.linalg.eigvalsh(jnp.asarray(blocks.dense()), symmetrize_input=False))
    whole = blocks.dense().T  # the same matrix, in the order in which LAPACK can overwrite it
    return sl.eigvalsh(whole, overwrite_a=True, check_finite=False)


def _lanczos(blocks: HessianBlocks, steps: int, probes: int, seed: int) -> tuple[Vectors, Vectors]:
    """The diagonals and subdiagonals (probes, steps) of the tridiagonal matrices that as many runs of Lanczos make of
    the matrix, each from a random vector and with full reorthogonalisation. A subdiagonal of 0 ends its run."""
    basis = np.zeros((probes, steps, blocks.size))
    basis[:, 0] = np.random.default_rng(seed).choice([-1.0, 1.0], (probes, blocks.size)) / np.sqrt(blocks.size)
    diagonals, beside = np.zeros((probes, steps)), np.zeros((probes, steps))
    for step in range(steps):
        following = np.ascontiguousarray(blocks.product(np.ascontiguousarray(basis[:, step].T)).T)
        scale = np.linalg.norm(following, axis=1)
        diagonals[:, step] = np.sum(basis[:, step] * following, axis=1)
        for _ in range(2):  # twice is enough
            for vector, known in zip(following, basis[:, : step + 1], strict=True):
                vector -= (known @ vector) @ known
        length = np.linalg.norm(following, axis=1)
        length[length <= EXHAUSTED * scale] = 0
        beside[:, step] = length
        if step + 1 < steps:
            np.divide(following, length[:, None], out=basis[:, step + 1], where=length[:, None] > 0)
    return diagonals, beside


def _quadrature(diagonals: Vectors, beside: Vectors) -> tuple[Values, Values]:
    """The nodes and weights of all runs."""
    found = []
    for diagonal, below in zip(diagonals, beside, strict=True):
        length = len(below) if np.all(below[:-1]) else int(np.argmin(below)) + 1
        values, vectors = sl.eigh_tridiagonal(diagonal[:length], below[: length - 1])
        found.append((values, vectors[0] ** 2 / len(diagonals)))
    values, weights = zip(*found, strict=True)
    return np.concatenate(values), np.concatenate(weights)
