"""Dense layers: a matrix, or a stack of matrices, with an optional bias."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from ._precision import Precision

Signal = Float[Array, "*layers batch _"]


class Dense(eqx.Module):
    """A matrix W of shape (out, in), as in the paper, and a bias of shape (out,) or none.

    Both may have a leading axis of layers. Methods then act on all layers at once, on signals with the same leading
    axis: this is how the hidden layers of a network are stored and applied.
    """

    weight: Float[Array, "*layers out in"]
    bias: Float[Array, "*layers out"] | None

    def affine(self, u: Signal, multiplier: float, precision: Precision) -> Signal:
        """Return a·W·u + b."""
        product = multiplier * precision.contract("...bi,...oi->...bo", u, self.weight)
        return product if self.bias is None else product + self.bias[..., None, :].astype(product.dtype)

    def transpose(self, e: Signal, precision: Precision) -> Signal:
        """Return Wᵀ·e."""
        return precision.contract("...bo,...oi->...bi", e, self.weight)

    def gradient(self, e: Signal, u: Signal, multiplier: float, precision: Precision) -> "Dense":
        """Return the gradient of ½‖t − (a·W·u + b)‖², batch mean, in the weights, where e = t − (a·W·u + b)."""
        weight = precision.contract("...bo,...bi->...oi", e, u) * (-multiplier / e.shape[-2])
        return Dense(weight, None if self.bias is None else -jnp.mean(e, axis=-2))

    def scaled(self, weight: float, bias: float) -> "Dense":
        """Return the layer with its weights and its biases times a factor each."""
        return Dense(weight * self.weight, None if self.bias is None else bias * self.bias)

    def squared_norm(self) -> Float[Array, "*layers"]:
        """Return ‖W‖² of each layer."""
        return jnp.sum(self.weight**2, axis=(-2, -1))

    def mean_square(self) -> Float[Array, "*layers"]:
        """Return the mean of W's squared entries, of each layer."""
        return jnp.mean(self.weight**2, axis=(-2, -1))

    def orthogonality_defect(self) -> Float[Array, "*layers"]:
        """Return ‖G − I‖² of each layer, where G is the smaller of WᵀW and WWᵀ."""
        wide = self.weight.shape[-2] < self.weight.shape[-1]
        w = self.weight if wide else self.weight.mT
        gram = jnp.matmul(w, w.mT, precision=jax.lax.Precision.HIGHEST)
        return jnp.sum((gram - jnp.eye(gram.shape[-1], dtype=gram.dtype)) ** 2, axis=(-2, -1))
