"""The Cholesky factor of a block-banded matrix, never dense."""

import numpy as np
import scipy.linalg as sl

from ._hessian import HessianBlocks, Vectors


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
        self._factor = sl.cholesky_banded(diagonals, overwrite_ab=True, lower=True, check_finite=False)

    @property
    def log_determinant(self) -> float:
        """log det(sign·H + shift·I)."""
        return 2 * float(np.sum(np.log(self._factor[0])))

    def solve(self, vectors: Vectors) -> Vectors:
        """Multiply a vector, (size,), or several, (size, k), by (sign·H + shift·I)⁻¹, in O(size·b) each."""
        return sl.cho_solve_banded((self._factor, True), vectors, check_finite=False)
