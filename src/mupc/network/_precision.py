"""The precision policy: in which format matrix products read their operands and add them up.

Inference signals are many orders of magnitude smaller than the activities they travel beside, so the format is a
decision and never left to the device's default (TF32 on current GPUs). The increment form of `mupc.infer` makes
all four safe; see `docs/precision.md` for the measured errors.
"""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, DTypeLike, Float, PyTree

from ..io.checks import lookup


@dataclasses.dataclass(frozen=True)
class Precision:
    """One policy. `dtype` is what arrays are stored and summed in, `operand` what the factors are rounded to."""

    name: str
    dtype: DTypeLike
    operand: DTypeLike
    algorithm: lax.Precision | lax.DotAlgorithmPreset

    @property
    def full(self) -> "Precision":
        """The policy with the same storage format whose products round nothing away. Where operands are rounded for the
        sake of speed, a GPU gets there with six products of their parts, on its matrix units: as exact, and sooner."""
        exact = POLICIES[jnp.dtype(self.dtype).name]
        if self.name not in ("bf16", "tf32") or jax.default_backend() != "gpu":
            return exact
        return dataclasses.replace(exact, algorithm=lax.DotAlgorithmPreset.BF16_BF16_F32_X6)

    def cast(self, tree: PyTree) -> Any:
        """Every floating array of `tree` in the policy's storage format."""
        return _cast(tree, self.dtype)

    def cast_operands(self, tree: PyTree) -> Any:
        """Every floating array of `tree` in the format that products read: done once, ahead of a loop."""
        return _cast(tree, self.operand)

    def contract(self, spec: str, a: Float[Array, "..."], b: Float[Array, "..."]) -> Float[Array, "..."]:
        """`einsum(spec, a, b)` under this policy."""
        return jnp.einsum(
            spec, self._rounded(a), self._rounded(b), precision=self.algorithm, preferred_element_type=self.dtype
        )

    def _rounded(self, values: Float[Array, "..."]) -> Float[Array, "..."]:
        """Rounded as operands are. XLA's products on a CPU do not know every pair of formats: there the rounded values
        go in as numbers of the storage format, which gives the same products."""
        if jax.default_backend() != "cpu" or self.operand == self.dtype:
            return values.astype(self.operand)
        info = jnp.finfo(self.operand)
        return lax.reduce_precision(values.astype(self.dtype), info.nexp, info.nmant)


def _cast(tree: PyTree, dtype: DTypeLike) -> PyTree:
    def cast(leaf: Any) -> Any:
        floating = isinstance(leaf, jax.Array) and jnp.issubdtype(leaf.dtype, jnp.floating)
        return leaf.astype(dtype) if floating else leaf

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
    """The policy called `name`; by default full precision in the format of the arrays in `tree`.

    `tf32` exists on NVIDIA GPUs only. Elsewhere it resolves to `float32`, and that is what results then report.
    """
    if name is None:
        floats = [x.dtype for x in jax.tree.leaves(tree) if jnp.issubdtype(jnp.result_type(x), jnp.floating)]
        name = "float64" if floats and jnp.result_type(*floats) == jnp.float64 else "float32"
    policy = lookup("precision", name, POLICIES)
    if policy.name == "float64" and not jax.config.jax_enable_x64:  # type: ignore[attr-defined]
        raise ValueError(
            "precision 'float64' needs JAX's 64-bit mode: call jax.config.update('jax_enable_x64', True) first, "
            "or set the environment variable JAX_ENABLE_X64=1."
        )
    if policy.name == "tf32" and jax.default_backend() != "gpu":
        return POLICIES["float32"]
    return policy
