"""Layers: linear maps with an optional bias. Nothing outside this file knows what a weight looks like.

A layer may carry a leading axis of layers; its methods then act on all of them at once, on arguments with the same
leading axis. That is how the hidden layers of a network are stored and applied.
"""

import abc
import itertools
from collections.abc import Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from ._precision import Precision

Signal = Float[Array, "*layers batch _"]
Columns = Float[Array, "*layers _ batch"]


class AbstractMap(eqx.Module):
    """The linear part of a layer, W, made ready to be applied many times. Signals have the batch last here: a product
    then reads W as it lies in memory, which on a CPU is up to twice as fast as the other order."""

    @abc.abstractmethod
    def linear(self, u: Columns) -> Columns:
        """W·u."""

    @abc.abstractmethod
    def transpose(self, e: Columns) -> Columns:
        """Wᵀ·e."""

    @abc.abstractmethod
    def as_read(self, signal: Columns) -> Columns:
        """A signal in the format in which products read it."""

    @abc.abstractmethod
    def top(self, layers: int) -> "AbstractMap":
        """The uppermost `layers` of a stack."""

    @abc.abstractmethod
    def prepared(self, windows: Sequence[int]) -> "AbstractMap":
        """The same map, told which `top(layers)` will be asked for."""


class AbstractLayer(eqx.Module):
    """The interface that networks, inference and learning use. A convolution would be another subclass."""

    @abc.abstractmethod
    def linear_map(self, precision: Precision) -> AbstractMap:
        """W alone, in the format that products read, for use in a loop."""

    @abc.abstractmethod
    def transpose(self, e: Signal, precision: Precision) -> Signal:
        """Wᵀ·e."""

    @abc.abstractmethod
    def affine(self, u: Signal, multiplier: float, precision: Precision) -> Signal:
        """a·W·u + b."""

    @abc.abstractmethod
    def gradient(self, e: Signal, u: Signal, multiplier: float, precision: Precision) -> "AbstractLayer":
        """The gradient of ½‖t − (a·W·u + b)‖², batch mean, in the weights, where e is the error t − (a·W·u + b)."""

    @abc.abstractmethod
    def squared_norm(self) -> Float[Array, "*layers"]:
        """‖W‖² of each layer."""

    @abc.abstractmethod
    def mean_square(self) -> Float[Array, "*layers"]:
        """The mean of W's squared entries, of each layer."""

    @abc.abstractmethod
    def orthogonality_defect(self) -> Float[Array, "*layers"]:
        """‖G − I‖² of each layer, G the smaller of WᵀW and WWᵀ."""


class Dense(AbstractLayer):
    """A matrix W of shape (out, in), as in the paper, and a bias of shape (out,) or none."""

    weight: Float[Array, "*layers out in"]
    bias: Float[Array, "*layers out"] | None

    def linear_map(self, precision: Precision) -> "DenseMap":
        weight = precision.cast_operands(self.weight)
        return DenseMap((weight,), (weight.mT,) if jax.default_backend() == "cpu" else None, precision)

    def transpose(self, e: Signal, precision: Precision) -> Signal:
        return precision.contract("...bo,...oi->...bi", e, self.weight)

    def affine(self, u: Signal, multiplier: float, precision: Precision) -> Signal:
        product = multiplier * precision.contract("...bi,...oi->...bo", u, self.weight)
        return product if self.bias is None else product + self.bias[..., None, :].astype(product.dtype)

    def gradient(self, e: Signal, u: Signal, multiplier: float, precision: Precision) -> "Dense":
        weight = precision.contract("...bo,...bi->...oi", e, u) * (-multiplier / e.shape[-2])
        return Dense(weight, None if self.bias is None else -jnp.mean(e, axis=-2))

    def squared_norm(self) -> Float[Array, "*layers"]:
        return jnp.sum(self.weight**2, axis=(-2, -1))

    def mean_square(self) -> Float[Array, "*layers"]:
        return jnp.mean(self.weight**2, axis=(-2, -1))

    def orthogonality_defect(self) -> Float[Array, "*layers"]:
        wide = self.weight.shape[-2] < self.weight.shape[-1]
        w = self.weight if wide else self.weight.mT
        gram = jnp.matmul(w, w.mT, precision=jax.lax.Precision.HIGHEST)
        return jnp.sum((gram - jnp.eye(gram.shape[-1], dtype=gram.dtype)) ** 2, axis=(-2, -1))


class DenseMap(AbstractMap):
    """A matrix or a stack of them.

    On the CPU it keeps the transpose beside the matrix, because kernels read a transposed factor slowly, and a stack
    is cut into blocks, because taking a window out of one array copies it. A GPU wants neither.
    """

    blocks: tuple[Float[Array, "*_ out in"], ...]
    transposed: tuple[Float[Array, "*_ in out"], ...] | None
    precision: Precision = eqx.field(static=True)

    def linear(self, u: Columns) -> Columns:
        return self._apply("...oi,...ib->...ob", self.blocks, u)

    def transpose(self, e: Columns) -> Columns:
        if self.transposed is None:
            return self._apply("...oi,...ob->...ib", self.blocks, e)
        return self._apply("...io,...ob->...ib", self.transposed, e)

    def as_read(self, signal: Columns) -> Columns:
        read: Columns = self.precision.cast_operands(signal)
        return read

    def _apply(self, spec: str, blocks: tuple[Array, ...], u: Columns) -> Columns:
        if len(blocks) == 1:
            return self.precision.contract(spec, blocks[0], u)
        starts = [0, *itertools.accumulate(len(block) for block in blocks)]
        return jnp.concatenate(
            [
                self.precision.contract(spec, block, u[start:end])
                for block, start, end in zip(blocks, starts, starts[1:], strict=False)
            ]
        )

    def top(self, layers: int) -> "DenseMap":
        return DenseMap(
            _top(self.blocks, layers),
            None if self.transposed is None else _top(self.transposed, layers),
            self.precision,
        )

    def prepared(self, windows: Sequence[int]) -> "DenseMap":
        if self.transposed is None:
            return self
        (whole,), (flipped,) = self.blocks, self.transposed
        cuts = sorted({len(whole) - layers for layers in windows} | {0})
        ends = [*cuts[1:], len(whole)]
        return DenseMap(
            tuple(whole[start:end] for start, end in zip(cuts, ends, strict=True)),
            tuple(flipped[start:end] for start, end in zip(cuts, ends, strict=True)),
            self.precision,
        )

    def __len__(self) -> int:
        return sum(len(block) for block in self.blocks)

    def parts(self) -> "list[DenseMap]":
        """The blocks by themselves, from the lowest up."""
        flipped = self.transposed or (None,) * len(self.blocks)
        return [
            DenseMap((block,), None if turned is None else (turned,), self.precision)
            for block, turned in zip(self.blocks, flipped, strict=True)
        ]


def _top(blocks: tuple[Array, ...], layers: int) -> tuple[Array, ...]:
    """The uppermost `layers` of a stack kept in blocks; blocks that fit are taken as they are."""
    kept: list[Array] = []
    for block in reversed(blocks):
        if layers == 0 and kept:
            break
        kept.append(block if len(block) <= layers else block[len(block) - layers :])
        layers -= min(layers, len(block))
    return tuple(reversed(kept))
