"""The Cholesky factor of a block-banded matrix, block by block, never dense."""

import itertools
from collections.abc import Iterator

import numpy as np
import scipy.linalg as sl
from jaxtyping import Float64

from ._hessian import HessianBlocks

Block = Float64[np.ndarray, "_ _"]
Vector = Float64[np.ndarray, "_"]


class Cholesky:
    """L with LLᵀ = sign·H + shift·I, in O(H·N³·w²) for a matrix whose blocks reach w beside the diagonal.

    Raises `numpy.linalg.LinAlgError` where sign·H + shift·I is not positive definite in float64.

    **Arguments:** the blocks of H, the shift, and the sign, 1 or −1.
    """

    def __init__(self, blocks: HessianBlocks, shift: float = 0.0, sign: int = 1) -> None:
        reach = max(blocks.below)
        columns = _columns(blocks, reach, shift, sign)
        self._factors: list[Block] = []
        self._beside: list[list[Block]] = []  # L_{j+1,j}, L_{j+2,j}, … of each column j
        window = list(itertools.islice(columns, reach + 1))
        while window:
            own, *rest = window.pop(0)
            factor = sl.cholesky(own, lower=True, overwrite_a=True, check_finite=False)
            rest = [sl.solve_triangular(factor, block.T, lower=True, check_finite=False).T for block in rest]
            for k, right in enumerate(rest):
                for below, left in enumerate(rest[k:]):
                    window[k][below] = _less(window[k][below], left, right)
            self._factors.append(factor)
            self._beside.append(rest)
            window.extend(itertools.islice(columns, 1))

    @property
    def log_determinant(self) -> float:
        """log det(sign·H + shift·I)."""
        return 2 * float(sum(np.sum(np.log(np.diag(factor))) for factor in self._factors))

    def solve(self, vector: Vector) -> Vector:
        """(sign·H + shift·I)⁻¹ times a vector, in O(H·N²·w)."""
        parts = np.split(vector, np.cumsum([len(factor) for factor in self._factors])[:-1])
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


def _less(block: Block, left: Block, right: Block) -> Block:
    """block − left·rightᵀ, in place. By scipy, whose threads and those of numpy's products get in each other's way."""
    return sl.blas.dgemm(-1.0, right.T, left.T, 1.0, block.T, trans_a=True, overwrite_c=True).T


def _columns(blocks: HessianBlocks, reach: int, shift: float, sign: int) -> Iterator[list[Block]]:
    """Of each column the block on the diagonal and those below it down to the last that may fill up, as copies."""
    depth = len(blocks.diagonal)

    def shifted(block: Block) -> Block:
        return sign * block + shift * np.eye(len(block))

    if blocks.in_size:
        yield [shifted(blocks.input), sign * blocks.entry]
    for layer, own in enumerate(blocks.diagonal):
        column = [shifted(own)]
        for offset in range(1, min(reach, depth - 1 - layer) + 1):
            given = blocks.below.get(offset)
            column.append(np.zeros_like(own) if given is None else sign * given[layer])
        if len(blocks.output) and layer == depth - 1:
            column.append(sign * blocks.exit)
        yield column
    if len(blocks.output):
        yield [shifted(blocks.output)]
