"""The condition number of the activity Hessian."""

import dataclasses
from collections.abc import Callable
from typing import Unpack

import numpy as np
import scipy
from jaxtyping import Float64

from ..inference import Energy
from ..io import checks
from ..network import Network, Rows
from ._hessian import Ends, HessianBlocks, Vectors, hessian_blocks

Vector = Float64[np.ndarray, " size"]

KRYLOV, TOL, ROUGH, TINY = 40, 1e-8, 1e-2, 16
"""Vectors that Lanczos keeps, its relative tolerance, that of a first guess, and the size below which a dense method is
quicker."""

DENSE = 1024
"""Unknowns up to which every eigenvalue or eigenvector is computed where nobody chose a method."""


@dataclasses.dataclass(frozen=True)
class Condition:
    """The ends of a symmetric matrix's spectrum.

    - `largest`, `smallest`: its algebraically largest and smallest eigenvalue.
    - `size`: the number of unknowns.
    - `kappa`: its condition number.
    """

    largest: float
    smallest: float
    size: int

    @property
    def definite(self) -> str:
        """`positive definite`, `positive semidefinite`, `indefinite`, `negative semidefinite` or `negative definite`.

        An eigenvalue within 16·√size rounding errors of zero counts as zero. From κ ≈ 1e13 on, float64 cannot tell a
        positive definite matrix from a semidefinite one.
        """
        scale = max(abs(self.largest), abs(self.smallest))
        noise = 16 * self.size**0.5 * float(np.finfo(np.float64).eps) * scale
        for sign, far, near in (("positive", self.largest, self.smallest), ("negative", -self.smallest, -self.largest)):
            if near > noise:
                return f"{sign} definite"
            if near >= -noise and far >= 0:
                return f"{sign} semidefinite"
        return "indefinite"

    @property
    def kappa(self) -> float:
        """κ = largest / smallest of a positive definite matrix; inf if it is semidefinite, NaN otherwise."""
        kind = self.definite
        if kind == "positive definite":
            return self.largest / self.smallest
        return float("inf") if kind == "positive semidefinite" else float("nan")

    def record(self) -> dict[str, float | str]:
        """Return the numbers under the names that they have in files."""
        names = ("largest", "smallest", "condition_number", "definite")
        return dict(zip(names, (self.largest, self.smallest, self.kappa, self.definite), strict=True))


class Cholesky:
    """L with LLᵀ = sign·H + shift·I, in O(size·b²) for a matrix with b diagonals below the main one.

    Raises `numpy.linalg.LinAlgError` where sign·H + shift·I is not positive definite in float64.

    **Arguments:** the blocks of H, the shift, and the sign, 1 or −1.
    """

    def __init__(self, blocks: HessianBlocks, shift: float = 0.0, sign: int = 1) -> None:
        lower = [entry for entry in blocks.lower() if entry[2].size]
        reach = max(rows.stop - columns.start for rows, columns, _ in lower)
        diagonals = np.zeros((reach, blocks.size), order="F")  # the k-th row is the k-th diagonal below the main one
        for rows, columns, block in lower:
            for j in range(columns.start, columns.stop):
                top = max(rows.start, j)
                diagonals[top - j : rows.stop - j, j] = sign * block[top - rows.start :, j - columns.start]
        diagonals[0] += shift
        self._factor = scipy.linalg.cholesky_banded(diagonals, overwrite_ab=True, lower=True, check_finite=False)

    @property
    def log_determinant(self) -> float:
        """log det(sign·H + shift·I)."""
        return 2 * float(np.sum(np.log(self._factor[0])))

    def solve(self, vectors: Vectors) -> Vectors:
        """Multiply a vector, (size,), or several, (size, k), by (sign·H + shift·I)⁻¹, in O(size·b) each."""
        return scipy.linalg.cho_solve_banded((self._factor, True), vectors, check_finite=False)


def condition_number(
    network: Network,
    x: Rows | None = None,
    y: Rows | None = None,
    activities: Rows | None = None,
    *,
    energy: Energy | None = None,
    method: str = "dense",
    **ends: Unpack[Ends],
) -> Condition:
    """Return κ = λ_max / λ_min of the activity Hessian, which sets how fast gradient descent on the activities can
    converge.

    **Arguments:**

    - `network`, `x`, `y`, `activities`, `energy`, `free_input`, `free_output`, `dummy_input`, `dummy_output`: as
      for `mupc.theory.hessian_blocks`.
    - `method`: `"dense"` computes every eigenvalue, in O((H·N)³). `"iterative"` runs Lanczos on the inverse
      of the Hessian shifted to just beyond either end of its spectrum, by block-banded Cholesky solves: O(H·N³), and
      never a dense matrix. Both are as accurate as float64 allows, about 1e-16·κ.

    **Example:**

    ```python
    import jax.random as jr, mupc

    network = mupc.Network(in_size=8, out_size=3, width=16, hidden_layers=4, activation="linear", key=jr.key(0))
    found = mupc.theory.condition_number(network, method="iterative")
    found.kappa, found.definite           # 88 or so, "positive definite"
    ```
    """
    checks.lookup("method", method, CONDITION_METHODS)
    return condition_of(hessian_blocks(network, x, y, activities, energy=energy, **ends), method)


def condition_of(blocks: HessianBlocks, method: str | None = None) -> Condition:
    """Return the ends of the spectrum; by default the size decides on the method."""
    chosen = method or ("dense" if blocks.size <= DENSE else "iterative")
    return Condition(*CONDITION_METHODS[chosen](blocks), blocks.size)


def _dense(blocks: HessianBlocks) -> tuple[float, float]:
    values = np.linalg.eigvalsh(blocks.dense())
    return float(values[-1]), float(values[0])


def _iterative(blocks: HessianBlocks) -> tuple[float, float]:
    if blocks.size <= TINY:
        return _dense(blocks)
    rough = leading(blocks.size, blocks.product, ROUGH)[0]
    largest = -_lowest(blocks, *positive(blocks, rough, -1, (1 + ROUGH) * rough, ROUGH))
    return largest, _lowest(blocks, *positive(blocks, largest))


CONDITION_METHODS = {"dense": _dense, "iterative": _iterative}
"""Functions that find the largest and the smallest eigenvalue."""


def _lowest(blocks: HessianBlocks, shift: float, factor: Cholesky) -> float:
    """Return the smallest eigenvalue of ±H, given the factor of ±H + shift·I."""
    return 1 / leading(blocks.size, factor.solve)[0] - shift


def leading(size: int, product: Callable[[Vector], Vector], tol: float = TOL) -> tuple[float, Vector]:
    """Return the largest eigenvalue of a symmetric map, to the relative tolerance `tol`, and a unit eigenvector."""
    start = np.random.default_rng(0).standard_normal(size)
    operator = scipy.sparse.linalg.LinearOperator((size, size), matvec=lambda v: product(v.ravel()), dtype=np.float64)
    values, vectors = scipy.sparse.linalg.eigsh(
        operator, 1, which="LA", v0=start, ncv=min(KRYLOV, size), tol=tol, maxiter=1000
    )
    return float(values[0]), vectors[:, 0]


def positive(
    blocks: HessianBlocks, largest: float, sign: int = 1, start: float = 0.0, step: float = 1e-13
) -> tuple[float, Cholesky]:
    """Return the first shift that makes sign·H + shift·I positive definite, and the Cholesky factor of this.

    Shifts are `start` plus 0, 1, 8, 64 … times `step` on the scale of H. Growing no faster than that, they leave the
    smallest eigenvalue standing out in the inverse.
    """
    step *= max(abs(largest), 1.0)
    for shift in (start, *(start + step * 8.0**power for power in range(60))):
        try:
            return shift, Cholesky(blocks, shift, sign)
        except np.linalg.LinAlgError:
            continue
    raise ValueError(f"no shift makes the activity Hessian positive definite (largest eigenvalue {largest:g}).")
