"""Precision policies: the format in which matrix products read their operands, and the format of their sums.

Inference signals are many orders of magnitude smaller than activities, so the format is a decision and never left to
the device's default (TF32 on current GPUs). The increment form of `mupc.infer` makes all four policies safe;
`docs/precision.md` has the measured errors.
"""

import dataclasses
import itertools
from typing import TypeVar

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, DTypeLike, Float, PyTree

from ..io import checks
from ._backend import backend

T = TypeVar("T")


@dataclasses.dataclass(frozen=True)
class Precision:
    """One policy. Arrays are stored and summed in `dtype`; factors of products are rounded to `operand`."""

    name: str
    dtype: DTypeLike
    operand: DTypeLike
    algorithm: lax.Precision | lax.DotAlgorithmPreset

    @property
    def full(self) -> "Precision":
        """The policy with the same storage format and unrounded products. On a GPU, bf16 and tf32 get it from six
        products of bf16 parts, which is as exact and faster."""
        exact = POLICIES[jnp.dtype(self.dtype).name]
        if self.name in ("bf16", "tf32") and backend().splits_products:
            return dataclasses.replace(exact, algorithm=lax.DotAlgorithmPreset.BF16_BF16_F32_X6)
        return exact

    @property
    def product_name(self) -> str:
        """The name that `jax.default_matmul_precision` has for products of this format; full ones are "highest"."""
        return {"bf16": "bfloat16", "tf32": "tensorfloat32"}.get(self.name, "highest")

    def cast(self, tree: T) -> T:
        """Return `tree` with every floating array in the storage format."""
        return _cast(tree, self.dtype)

    def cast_operands(self, tree: T) -> T:
        """Return `tree` with every floating array in the format that products read. Call it once before a loop."""
        return _cast(tree, self.operand)

    def contract(self, spec: str, a: Float[Array, "..."], b: Float[Array, "..."]) -> Float[Array, "..."]:
        """Return `einsum(spec, a, b)` under this policy."""
        return jnp.einsum(
            spec, self._rounded(a), self._rounded(b), precision=self.algorithm, preferred_element_type=self.dtype
        )

    def convolve(
        self, image: Float[Array, "c h w"], filters: Float[Array, "o c k k"], stride: int, padding: int
    ) -> Array:
        """Return the convolution of one image under this policy."""
        if backend().shifts_images:
            return self._shifted_product(image, filters, stride, padding)
        return self._library_convolution(image, filters, stride, padding)

    def _library_convolution(self, image: Array, filters: Array, stride: int, padding: int) -> Array:
        """Unlike `contract`, round sums to the format of the operands: JAX cannot differentiate a convolution with
        another format of sums."""
        image, filters = self._rounded(image[None]), self._rounded(filters)
        sides = [(padding, padding)] * 2
        found = lax.conv_general_dilated(image, filters, (stride, stride), sides, precision=self.product_name)
        return found[0].astype(self.dtype)

    def _shifted_product(self, image: Array, filters: Array, stride: int, padding: int) -> Array:
        """Multiply the filters, as one matrix, with copies of the image that are shifted by each of their pixels. The
        backward pass makes the copies again, since keeping them would take the memory of many images."""
        side = filters.shape[-1]
        height, wide = ((pixels + 2 * padding - side) // stride * stride + 1 for pixels in image.shape[1:])

        @jax.checkpoint
        def multiply(image: Array, filters: Array) -> Array:
            padded = jnp.pad(image, ((0, 0), (padding, padding), (padding, padding)))
            pixels = itertools.product(range(side), repeat=2)
            copies = [padded[:, i : i + height : stride, j : j + wide : stride] for i, j in pixels]
            return self.contract("kchw,ock->ohw", jnp.stack(copies), filters.reshape(*filters.shape[:2], -1))

        return multiply(image, filters)

    def _rounded(self, values: Float[Array, "..."]) -> Float[Array, "..."]:
        """Round to the operand format. Some backends keep the rounded values in the storage format: the products are
        the same, and every backend can compute them."""
        if self.operand == self.dtype or not backend().rounds_operands:
            return values.astype(self.operand)
        info = jnp.finfo(self.operand)
        return lax.reduce_precision(values.astype(self.dtype), info.nexp, info.nmant)


def _cast(tree: T, dtype: DTypeLike) -> T:
    def cast(leaf: object) -> object:
        floating = isinstance(leaf, jax.Array) and jnp.issubdtype(leaf.dtype, jnp.floating)
        return leaf.astype(dtype) if floating else leaf  # type: ignore[attr-defined]

    return jax.tree.map(cast, tree)


POLICIES = {
    policy.name: policy
    for policy in (
        Precision("float32", jnp.float32, jnp.float32, lax.Precision.HIGHEST),
        Precision("tf32", jnp.float32, jnp.float32, lax.DotAlgorithmPreset.TF32_TF32_F32),
        Precision("bf16", jnp.float32, jnp.bfloat16, lax.Precision.DEFAULT),
        Precision("float64", jnp.float64, jnp.float64, lax.Precision.HIGHEST),
    )
}


def resolve_precision(name: str | None, tree: PyTree) -> Precision:
    """Return the policy called `name`, by default full precision in the format of the arrays in `tree`.

    `tf32` exists on NVIDIA GPUs only. Elsewhere it resolves to `float32`, and that is what results then report.
    """
    if name is None:
        floats = [x.dtype for x in jax.tree.leaves(tree) if jnp.issubdtype(jnp.result_type(x), jnp.floating)]
        name = "float64" if floats and jnp.result_type(*floats) == jnp.float64 else "float32"
    policy = checks.lookup("precision", name, POLICIES)
    if policy.name == "float64" and not jax.config.jax_enable_x64:  # type: ignore[attr-defined]
        raise checks.ArgumentError(
            "precision",
            "'float64' needs JAX's 64-bit mode:",
            "call jax.config.update('jax_enable_x64', True) first, or set the environment variable JAX_ENABLE_X64=1.",
        )
    return POLICIES["float32"] if policy.name == "tf32" and backend().platform != "gpu" else policy
