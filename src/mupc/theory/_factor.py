"""The Cholesky factor of a block-banded matrix, block by block, never dense."""

import numpy as np
import scipy.linalg as sl
from jaxtyping import Float64

from ._hessian import HessianBlocks

Block = Float64[np.ndarray, "_ _"]
Vector = Float64[np.ndarray, "_"]


class Cholesky:
    """L with LLᵀ = H + shift·I, in O(H·N³·w²) for a matrix whose blocks reach w beside the diagonal.

    Raises `numpy.linalg.LinAlgError` where H + shift·I is not positive definite in float64.

    **Arguments:** the blocks of H, and the shift.
    """

    def __init__(self, blocks: HessianBlocks, shift: float = 0.0) -> None:
        reach = max(blocks.below)
        depth = len(blocks.diagonal)
        self._starts: list[int] = []
        self._factors: list[Block] = []
        self._beside: list[list[Block]] = []  # L_{j+1,j}, L_{j+2,j}, … of each column j
        window = [_column(blocks, layer, reach, shift) for layer in range(min(reach, depth))]
        if blocks.input is not None and blocks.entry is not None:
            factor = sl.cholesky(_shifted(blocks.input, shift), lower=True, overwrite_a=True, check_finite=False)
            entry = sl.solve_triangular(factor, blocks.entry.T, lower=True, check_finite=False).T
            self._append(factor, [entry])
            window[0][0] -= entry @ entry.T
        for layer in range(depth):
            if len(window) <= reach and layer + reach < depth:
                window.append(_column(blocks, layer + reach, reach, shift))
            own, *rest = window.pop(0)
            factor = sl.cholesky(own, lower=True, overwrite_a=True, check_finite=False)
            rest = [sl.solve_triangular(factor, block.T, lower=True, check_finite=False).T for block in rest]
            for k, right in enumerate(rest):
                for below, left in enumerate(rest[k:]):
                    window[k][below] -= left @ right.T
            self._append(factor, rest)

    def _append(self, factor: Block, beside: list[Block]) -> None:
        self._starts.append(self._starts[-1] + len(self._factors[-1]) if self._starts else 0)
        self._factors.append(factor)
        self._beside.append(beside)

    def solve(self, vector: Vector) -> Vector:
        """(H + shift·I)⁻¹ times a vector, in O(H·N²·w)."""
        parts = np.split(np.array(vector, np.float64).ravel(), self._starts[1:])
        columns = list(zip(self._factors, self._beside, strict=True))
        for j, (factor, beside) in enumerate(columns):
            parts[j] = sl.solve_triangular(factor, parts[j], lower=True, check_finite=False)
            for k, block in enumerate(beside, start=j + 1):
                parts[k] = parts[k] - block @ parts[j]
        for j, (factor, beside) in reversed(list(enumerate(columns))):
            for k, block in enumerate(beside, start=j + 1):
                parts[j] = parts[j] - block.T @ parts[k]
            parts[j] = sl.solve_triangular(factor, parts[j], lower=True, trans=1, check_finite=False)
        return np.concatenate(parts)


def _column(blocks: HessianBlocks, layer: int, reach: int, shift: float) -> list[Block]:
    """The block on the diagonal and those below it down to the last that may fill up, as copies."""
    column = [_shifted(blocks.diagonal[layer], shift)]
    for offset in range(1, min(reach, len(blocks.diagonal) - 1 - layer) + 1):
        given = blocks.below.get(offset)
        column.append(np.zeros_like(column[0]) if given is None else np.array(given[layer]))
    return column


def _shifted(block: Block, shift: float) -> Block:
    shifted = np.array(block)
    shifted[np.diag_indices_from(shifted)] += shift
    return shifted
