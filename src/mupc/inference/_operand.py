"""The weights of a layer, or of a stack of layers, laid out for the products of inference."""

import itertools
from collections.abc import Sequence

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from ..network import Dense, Precision, backend

Columns = Float[Array, "*layers _ batch"]


class WeightOperand(eqx.Module):
    """W in the format that products read, for signals with the batch last: a product then reads W as it lies in
    memory, which on a CPU is up to twice as fast as the other order.

    A CPU also keeps Wᵀ, because it reads a transposed factor slowly, and cuts a stack into blocks, because taking a
    window out of one array copies it. A GPU does neither.
    """

    blocks: tuple[Float[Array, "*_ out in"], ...]
    transposed: tuple[Float[Array, "*_ in out"], ...] | None
    precision: Precision = eqx.field(static=True)

    @classmethod
    def of(cls, layer: Dense, precision: Precision) -> "WeightOperand":
        """Lay out the weights of a layer or stack."""
        weight = precision.cast_operands(layer.weight)
        return cls((weight,), (weight.mT,) if backend().keeps_transposes else None, precision)

    def linear(self, u: Columns) -> Columns:
        """Return W·u."""
        return self._apply("...oi,...ib->...ob", self.blocks, u)

    def transpose(self, e: Columns) -> Columns:
        """Return Wᵀ·e."""
        if self.transposed is None:
            return self._apply("...oi,...ob->...ib", self.blocks, e)
        return self._apply("...io,...ob->...ib", self.transposed, e)

    def as_read(self, signal: Columns) -> Columns:
        """Return a signal in the format in which products read it."""
        read: Columns = self.precision.cast_operands(signal)
        return read

    def top(self, layers: int) -> "WeightOperand":
        """Return the uppermost `layers` of a stack."""
        transposed = None if self.transposed is None else _top(self.transposed, layers)
        return WeightOperand(_top(self.blocks, layers), transposed, self.precision)

    def cut(self, windows: Sequence[int]) -> "WeightOperand":
        """Cut a stack into blocks so that every `top(layers)` with `layers` in `windows` is made of whole blocks."""
        if self.transposed is None:
            return self
        (whole,), (flipped,) = self.blocks, self.transposed
        cuts = sorted({len(whole) - layers for layers in windows} | {0})
        spans = [slice(*span) for span in itertools.pairwise([*cuts, len(whole)])]
        blocks, transposed = (tuple(stack[span] for span in spans) for stack in (whole, flipped))
        return WeightOperand(blocks, transposed, self.precision)

    def parts(self) -> "list[WeightOperand]":
        """Return the blocks one by one, from the lowest up."""
        flipped = self.transposed or (None,) * len(self.blocks)
        return [
            WeightOperand((block,), None if turned is None else (turned,), self.precision)
            for block, turned in zip(self.blocks, flipped, strict=True)
        ]

    def __len__(self) -> int:
        return sum(len(block) for block in self.blocks)

    def _apply(self, spec: str, blocks: tuple[Array, ...], u: Columns) -> Columns:
        if len(blocks) == 1:
            return self.precision.contract(spec, blocks[0], u)
        bounds = itertools.pairwise(itertools.accumulate((len(block) for block in blocks), initial=0))
        products = [
            self.precision.contract(spec, block, u[start:end])
            for block, (start, end) in zip(blocks, bounds, strict=True)
        ]
        return jnp.concatenate(products)


def _top(blocks: tuple[Array, ...], layers: int) -> tuple[Array, ...]:
    """Return the uppermost `layers` of a stack in blocks. Blocks that fit are taken whole."""
    kept: list[Array] = []
    for block in reversed(blocks):
        if layers == 0 and kept:
            break
        kept.append(block if len(block) <= layers else block[len(block) - layers :])
        layers -= min(layers, len(block))
    return tuple(reversed(kept))
