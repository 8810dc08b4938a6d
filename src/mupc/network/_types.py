"""Names for the shapes that occur everywhere.

`layers` is the number of hidden layers H, `batch` the batch size B, `width` the hidden width N.
"""

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import jax
from jaxtyping import Array, ArrayLike, Float, Int, PRNGKeyArray

Scalar: TypeAlias = Float[Array, ""]
Real: TypeAlias = int | float | Scalar
Activities: TypeAlias = Float[Array, "layers batch width"]
Inputs: TypeAlias = Float[Array, "batch in"]
Outputs: TypeAlias = Float[Array, "batch *out"]
Rows: TypeAlias = ArrayLike | Sequence[Any]
"""What users pass as a batch: an array, or lists."""
Elementwise: TypeAlias = Callable[[jax.Array], jax.Array]
Initialiser: TypeAlias = Callable[..., jax.Array]

__all__ = [
    "Activities",
    "Array",
    "Elementwise",
    "Float",
    "Initialiser",
    "Inputs",
    "Int",
    "Outputs",
    "PRNGKeyArray",
    "Real",
    "Rows",
    "Scalar",
]
