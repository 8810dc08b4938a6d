"""Layers: linear maps with an optional bias. Nothing outside this file knows what a weight looks like.

A layer may carry a leading axis of layers; its methods then act on all of them at once, on arguments with the same
leading axis. That is how the hidden layers of a network are stored and applied.
"""

import abc
from typing import Self

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from ._precision import Precision

Signal = Float[Array, "*layers batch size"]


class AbstractLayer(eqx.Module):
    """The interface that networks, inference and learning use. A convolution would be another subclass."""

    @abc.abstractmethod
    def linear(self, u: Signal, precision: Precision) -> Signal:
        """W·u."""

    @abc.abstractmethod
    def transpose(self, e: Signal, precision: Precision) -> Signal:
        """Wᵀ·e."""

    @abc.abstractmethod
    def affine(self, u: Signal, multiplier: float, precision: Precision) -> Signal:
        """a·W·u + b."""

    @abc.abstractmethod
    def gradient(self, e: Signal, u: Signal, multiplier: float, precision: Precision) -> Self:
        """The gradient of ½‖t − (a·W·u + b)‖², batch mean, in the weights, where e is the error t − (a·W·u + b)."""

    @abc.abstractmethod
    def squared_norm(self) -> Float[Array, "*layers"]:
        """‖W‖² of each layer."""

    @abc.abstractmethod
    def orthogonality_defect(self) -> Float[Array, "*layers"]:
        """‖G − I‖² of each layer, G the smaller of WᵀW and WWᵀ."""


class Dense(AbstractLayer):
    """A matrix W of shape (out, in), as in the paper, and a bias of shape (out,) or none."""

    weight: Float[Array, "*layers out in"]
    bias: Float[Array, "*layers out"] | None

    def linear(self, u: Signal, precision: Precision) -> Signal:
        return precision.contract("...bi,...oi->...bo", u, self.weight)

    def transpose(self, e: Signal, precision: Precision) -> Signal:
        return precision.contract("...bo,...oi->...bi", e, self.weight)

    def affine(self, u: Signal, multiplier: float, precision: Precision) -> Signal:
        product = multiplier * self.linear(u, precision)
        return product if self.bias is None else product + self.bias[..., None, :].astype(product.dtype)

    def gradient(self, e: Signal, u: Signal, multiplier: float, precision: Precision) -> "Dense":
        weight = precision.contract("...bo,...bi->...oi", e, u) * (-multiplier / e.shape[-2])
        return Dense(weight, None if self.bias is None else -jnp.mean(e, axis=-2))

    def squared_norm(self) -> Float[Array, "*layers"]:
        return jnp.sum(self.weight**2, axis=(-2, -1))

    def orthogonality_defect(self) -> Float[Array, "*layers"]:
        wide = self.weight.shape[-2] < self.weight.shape[-1]
        w = self.weight if wide else self.weight.mT
        gram = jnp.matmul(w, w.mT, precision=jax.lax.Precision.HIGHEST)
        return jnp.sum((gram - jnp.eye(gram.shape[-1], dtype=gram.dtype)) ** 2, axis=(-2, -1))

