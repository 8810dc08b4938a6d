"""Eigenvalue distributions of the activity Hessian and of its parts: §A.2.3 of the paper."""

import dataclasses
from typing import Literal, Unpack

import jax
import jax.numpy as jnp
import numpy as np
import scipy
from jaxtyping import ArrayLike, Float64

from ..inference import Energy
from ..io import checks
from ..network import Network, Rows, backend
from ._condition import Condition
from ._hessian import Ends, HessianBlocks, Vectors, hessian_blocks

DENSE_LIMIT = 16_384
"""The most unknowns for a dense matrix, which then takes 2 GiB."""

EXHAUSTED = 1e-12
"""A Krylov space has no more directions when the next vector is this small, on the scale of the matrix."""

Values = Float64[np.ndarray, "_"]
Like = Float64[np.ndarray, "..."]
Side = Literal["left", "right"]


@dataclasses.dataclass(frozen=True, eq=False)
class Spectrum:
    """An eigenvalue distribution: shares `weights` of the eigenvalues at `values`. `mupc.theory.spectrum` makes one.

    - `values`, `weights`: ascending, and their shares, which sum to one. If `exact`, every eigenvalue with 1/size.
      Otherwise the nodes and weights of a quadrature: they describe the distribution, not single eigenvalues.
    - `size`: the number of unknowns.
    - `exact`: whether every eigenvalue was computed.
    """

    values: Values
    weights: Values
    size: int
    exact: bool

    @property
    def smallest(self) -> float:
        """The smallest value. If not `exact`, this is a Ritz value: never below the smallest eigenvalue, and near it
        where the spectrum is thin. `mupc.theory.condition_number` finds the true one."""
        return float(self.values[0])

    @property
    def largest(self) -> float:
        """The largest value. If not `exact`, this is a Ritz value: never above the largest eigenvalue."""
        return float(self.values[-1])

    @property
    def ends(self) -> Condition:
        """The smallest and the largest value, and what they say about an exact spectrum."""
        return Condition(self.largest, self.smallest, self.size)

    def cumulative(self, at: ArrayLike) -> Like:
        """Return the share of eigenvalues up to and including each point, in the shape of `at`."""
        return self._below(np.asarray(at, np.float64), "right")

    def quantiles(self, levels: ArrayLike) -> Like:
        """Return, for each level from 0 to 1, the smallest value that has this share of the eigenvalues up to it."""
        wanted = np.asarray(levels, np.float64)
        if not np.all((wanted >= 0) & (wanted <= 1)):
            raise checks.ArgumentError("levels", f"must lie between 0 and 1, got {levels}.")
        rounding = 1e-12  # of sums of weights: the median of an even number of eigenvalues is the lower one
        index = np.searchsorted(np.cumsum(self.weights), wanted - rounding)
        return np.asarray(self.values[np.minimum(index, len(self.values) - 1)])

    def density(self, grid: ArrayLike, width: float) -> Like:
        """Return the density at each point of the grid, every value smoothed to a Gaussian of standard deviation
        `width`:

            ρ(λ) = Σ_i w_i exp(−(λ − λ_i)²/(2·width²)) / (width·√(2π)).
        """
        checks.number("width", width, above=0)
        points = np.asarray(grid, np.float64)
        heights = [self.weights @ np.exp(-(((point - self.values) / width) ** 2) / 2) for point in points.flat]
        return np.reshape(np.array(heights) / (width * np.sqrt(2 * np.pi)), points.shape)

    def distance(self, other: "Spectrum") -> float:
        """Return the Kolmogorov–Smirnov distance, between 0 and 1: the largest difference between the two shares of
        eigenvalues below any point."""
        points = np.union1d(self.values, other.values)
        sides: tuple[Side, Side] = ("left", "right")  # of every jump
        return max(float(np.max(np.abs(self._below(points, side) - other._below(points, side)))) for side in sides)

    def _below(self, points: Like, side: Side) -> Like:
        totals = np.concatenate([[0.0], np.cumsum(self.weights)])
        return np.asarray(totals[np.searchsorted(self.values, points, side)])


@dataclasses.dataclass(frozen=True)
class Lanczos:
    """Stochastic Lanczos quadrature, a method of `mupc.theory.spectrum`. From random vectors of ±1, with their Ritz
    values θ and the squares τ² of the first entries of the tridiagonal matrix's eigenvectors as weights,

        ρ(λ) ≈ 1/probes Σ_probes Σ_k τ_k² δ(λ − θ_k),

    by products with the blocks alone.

    **Arguments:**

    - `steps`: of each run. They resolve about 1/steps of the distribution.
    - `probes`: random vectors to average over. Memory holds steps·probes vectors.
    - `seed`: of the random vectors.

    **Example:**

    ```python
    import jax.random as jr, mupc

    network = mupc.Network(128, 128, 128, 8, activation="linear", parameterisation="sp", skip=0, key=jr.key(0))
    found = mupc.theory.spectrum(network, method=mupc.theory.Lanczos(steps=50, probes=4))
    ```

    **Reference:** Ubaru, Chen and Saad, "Fast estimation of tr(f(A)) via stochastic Lanczos quadrature", 2017.
    """

    steps: int = 100
    probes: int = 8
    seed: int = 0

    def __post_init__(self) -> None:
        checks.integer("steps", self.steps, 1)
        checks.integer("probes", self.probes, 1)
        checks.integer("seed", self.seed, 0)


METHODS = {"auto": None, "exact": None, "lanczos": Lanczos()}
"""The quadrature that each name stands for; without one, every eigenvalue is computed where that is possible."""


def spectrum(
    network: Network,
    x: Rows | None = None,
    y: Rows | None = None,
    activities: Rows | None = None,
    *,
    part: str = "whole",
    method: str | Lanczos = "auto",
    energy: Energy | None = None,
    **ends: Unpack[Ends],
) -> Spectrum:
    """Return the eigenvalue distribution of the activity Hessian H, of its block diagonal D, or of O = H − D.

    **Arguments:**

    - `network`, `x`, `y`, `activities`, `energy`, `free_input`, `free_output`, `dummy_input`, `dummy_output`: as for
      `mupc.theory.hessian_blocks`.
    - `part`: `"whole"`, `"diagonal"` or `"off-diagonal"`.
    - `method`: `"exact"` computes every eigenvalue, in O((H·N)³) and up to 16,384 unknowns; those of D block by block,
      of any number. `"lanczos"` approximates the distribution with `mupc.theory.Lanczos()`; pass one of your own to
      change its settings. `"auto"` is exact where that is possible.

    **Example:**

    ```python
    import jax.random as jr, mupc

    network = mupc.Network(128, 128, 128, 8, activation="linear", parameterisation="sp", skip=0, key=jr.key(0))
    found = mupc.theory.spectrum(network, part="diagonal")
    found.smallest, found.largest       # near 1 and 5, the edges of the Marchenko–Pastur law
    quick = mupc.theory.spectrum(network, part="diagonal", method="lanczos")
    quick.distance(found)               # 0.02 or so
    ```
    """
    quadrature = method if isinstance(method, Lanczos) else checks.lookup("method", method, METHODS)
    blocks = hessian_blocks(network, x, y, activities, energy=energy, **ends).part(part)
    size, separate = blocks.size, part == "diagonal"
    possible = separate or size <= DENSE_LIMIT
    if method == "exact" and not possible:
        raise ValueError(f'method="exact" takes up to {DENSE_LIMIT:,} unknowns, got {size:,}. Use method="lanczos".')
    if quadrature is None and possible:
        every = (blocks.input, *blocks.diagonal, blocks.output)
        values = np.concatenate([np.linalg.eigvalsh(block) for block in every]) if separate else _dense(blocks)
        return Spectrum(np.sort(values), np.full(size, 1 / size), size, True)
    values, weights = _quadrature(*_lanczos(blocks, quadrature or Lanczos()))
    order = np.argsort(values)
    return Spectrum(values[order], weights[order], size, False)


def _dense(blocks: HessianBlocks) -> Values:
    """Compute every eigenvalue, on the accelerator if JAX has one."""
    if backend().platform != "cpu":
        with jax.enable_x64(True):
            return np.asarray(jnp.linalg.eigvalsh(jnp.asarray(blocks.dense()), symmetrize_input=False))
    whole = blocks.dense().T  # the same matrix, in the order in which LAPACK can overwrite it
    return scipy.linalg.eigvalsh(whole, overwrite_a=True, check_finite=False)


def _lanczos(blocks: HessianBlocks, settings: Lanczos) -> tuple[Vectors, Vectors]:
    """Return the diagonals and subdiagonals (probes, steps) of the tridiagonal matrices of all runs of Lanczos, each
    from a random vector and with full reorthogonalisation. A subdiagonal of 0 ends its run."""
    steps, probes = min(settings.steps, blocks.size), settings.probes
    basis = np.zeros((probes, steps, blocks.size))
    signs = np.random.default_rng(settings.seed).choice([-1.0, 1.0], (probes, blocks.size))
    basis[:, 0] = signs / np.sqrt(blocks.size)
    diagonals, subdiagonals = np.zeros((probes, steps)), np.zeros((probes, steps))
    for step in range(steps):
        following = np.ascontiguousarray(blocks.product(np.ascontiguousarray(basis[:, step].T)).T)
        scale = np.linalg.norm(following, axis=1)
        diagonals[:, step] = np.sum(basis[:, step] * following, axis=1)
        for _ in range(2):  # twice is enough
            for vector, known in zip(following, basis[:, : step + 1], strict=True):
                vector -= (known @ vector) @ known
        length = np.linalg.norm(following, axis=1)
        length[length <= EXHAUSTED * scale] = 0
        subdiagonals[:, step] = length
        if step + 1 < steps:
            np.divide(following, length[:, None], out=basis[:, step + 1], where=length[:, None] > 0)
    return diagonals, subdiagonals


def _quadrature(diagonals: Vectors, subdiagonals: Vectors) -> tuple[Values, Values]:
    """Return the nodes and weights of all runs."""
    found = []
    for diagonal, below in zip(diagonals, subdiagonals, strict=True):
        length = len(below) if np.all(below[:-1]) else int(np.argmin(below)) + 1
        values, vectors = scipy.linalg.eigh_tridiagonal(diagonal[:length], below[: length - 1])
        found.append((values, vectors[0] ** 2 / len(diagonals)))
    values, weights = zip(*found, strict=True)
    return np.concatenate(values), np.concatenate(weights)
