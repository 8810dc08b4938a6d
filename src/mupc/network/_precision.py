"""Precision policies: the format in which matrix products read their operands, and the format of their sums.

Inference signals are many orders of magnitude smaller than activities, so the format is a decision and never left to
the device's default (TF32 on current GPUs). The increment form of `mupc.infer` makes all four policies safe;
`docs/precision.md` has the measured errors.
"""

import dataclasses
import functools
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
        self, image: Float[Array, "_ _ _"], filters: Float[Array, "_ _ k k"], stride: int, padding: int
    ) -> Float[Array, "_ _ _"]:
        """Return the convolution of one image under this policy."""
        if backend().splits_filters:
            return self._split_convolution(image, filters, stride, padding)
        # sums are rounded to the format of the operands: JAX cannot differentiate a convolution with another one
        sides = [(padding, padding)] * 2
        operands = self._rounded(image[None]), self._rounded(filters)
        found = lax.conv_general_dilated(*operands, (stride, stride), sides, precision=self.product_name)
        return found[0].astype(self.dtype)

    def _split_convolution(
        self, image: Float[Array, "_ _ _"], filters: Float[Array, "_ _ k k"], stride: int, padding: int
    ) -> Float[Array, "_ _ _"]:
        side = filters.shape[-1]
        padded = jnp.pad(image, ((0, 0), (padding, padding), (padding, padding)))
        spans = [(pixels - side) // stride * stride + 1 for pixels in padded.shape[1:]]
        products = (
            self.contract(
                "chw,oc->ohw", padded[:, i : i + spans[0] : stride, j : j + spans[1] : stride], filters[:, :, i, j]
            )
            for i, j in itertools.product(range(side), repeat=2)
        )
        return functools.reduce(jnp.add, products)

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
