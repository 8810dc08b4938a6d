"""The condition number of the activity Hessian."""

import dataclasses
from typing import Any

import numpy as np
import scipy.sparse.linalg as ssl
from jaxtyping import ArrayLike

from .. import _check
from .._energy import Energy
from ._factor import Cholesky
from ._hessian import HessianBlocks, hessian_blocks

KRYLOV, TOL, TINY = 40, 1e-8, 16
"""Vectors that Lanczos keeps, its relative tolerance, and the size below which a dense method is quicker."""


@dataclasses.dataclass(frozen=True)
class Condition:
    """The ends of a symmetric matrix's spectrum.

    - `largest`, `smallest`: its algebraically largest and smallest eigenvalue.
    - `size`: the number of unknowns.
    """

    largest: float
    smallest: float
    size: int

    @property
    def definite(self) -> str:
        """`positive definite`, `positive semidefinite`, `indefinite`, `negative semidefinite` or `negative definite`.

        An eigenvalue within 16·√size rounding errors of zero counts as zero: from κ ≈ 1e13 on, a positive definite
        matrix cannot be told from a semidefinite one in float64.
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
    def condition_number(self) -> float:
        """κ = largest / smallest of a positive definite matrix; inf if it is semidefinite, NaN otherwise."""
        kind = self.definite
        if kind == "positive definite":
            return self.largest / self.smallest
        return float("inf") if kind == "positive semidefinite" else float("nan")


def condition_number(
    network: Any,
    x: ArrayLike | None = None,
    y: ArrayLike | None = None,
    activities: Any = None,
    *,
    energy: Energy | None = None,
    free_input: bool = False,
    method: str = "dense",
) -> Condition:
    """κ = λ_max / λ_min of the activity Hessian, which sets how fast gradient descent on the activities can converge.

    **Arguments:**

    - `network`, `x`, `y`, `activities`, `energy`, `free_input`: as for `mupc.theory.hessian_blocks`.
    - `method`: `"dense"` computes every eigenvalue, in O((H·N)³). `"iterative"` runs Lanczos: on products with the
      blocks for λ_max, on a block-banded Cholesky solve for λ_min, O(H·N³) and never a dense matrix. Where the matrix
      is not positive definite, it is shifted until it is. Both are as accurate as float64 allows, about 1e-16·κ.

    **Example:**

    ```python
    import jax.random as jr, mupc

    network = mupc.Network(in_size=8, out_size=3, width=16, hidden_layers=4, activation="linear", key=jr.key(0))
    found = mupc.theory.condition_number(network, method="iterative")
    found.condition_number, found.definite           # 88 or so, "positive definite"
    ```
    """
    ends = _check.lookup("method", method, METHODS)
    blocks = hessian_blocks(network, x, y, activities, energy=energy, free_input=free_input)
    largest, smallest = ends(blocks)
    return Condition(largest, smallest, blocks.size)


def _dense(blocks: HessianBlocks) -> tuple[float, float]:
    values = np.linalg.eigvalsh(blocks.dense())
    return float(values[-1]), float(values[0])


def _iterative(blocks: HessianBlocks) -> tuple[float, float]:
    if blocks.size <= TINY:
        return _dense(blocks)
    largest = _top(blocks.size, blocks.product)
    shift, factor = _positive(blocks, largest)
    return largest, 1 / _top(blocks.size, factor.solve) - shift


METHODS = {"dense": _dense, "iterative": _iterative}


def _top(size: int, product: Any) -> float:
    """The largest eigenvalue of a symmetric map."""
    start = np.random.default_rng(0).standard_normal(size)
    operator = ssl.LinearOperator((size, size), matvec=lambda v: product(v.ravel()), dtype=np.float64)
    kept = min(KRYLOV, size)
    found = ssl.eigsh(operator, 1, which="LA", v0=start, ncv=kept, tol=TOL, maxiter=1000, return_eigenvectors=False)
    return float(found[0])


def _positive(blocks: HessianBlocks, largest: float) -> tuple[float, Cholesky]:
    """The Cholesky factor of H + shift·I for the first shift that makes it positive definite: 0 if H is that.

    Shifts grow by a factor of 8, so that the smallest eigenvalue still stands out in the inverse.
    """
    first = 1e-13 * max(abs(largest), 1.0)
    for shift in (0.0, *(first * 8.0**power for power in range(60))):
        try:
            return shift, Cholesky(blocks, shift)
        except np.linalg.LinAlgError:
            continue
    raise ValueError(f"no shift makes the activity Hessian positive definite (largest eigenvalue {largest:g}).")
