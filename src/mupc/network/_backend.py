"""Choose once what the device decides about a program."""

import dataclasses
import functools
import os

import jax

SWITCH = "MUPC_KERNELS"
"""Environment variable: 0 switches the kernels off."""

OLDEST_WITH_BF16 = 8.0
"""Compute capability from which on the matrix units of NVIDIA GPUs multiply in bf16."""


@dataclasses.dataclass(frozen=True)
class Backend:
    """How programs are built for one kind of device.

    - `platform`: `"cpu"`, `"gpu"` or `"tpu"`.
    - `kernels`: the fast path of gradient descent: `"triton"` (GPU), `"blocks"` (CPU) or None. `why_plain` says why
      there is none.
    - `unroll`: layers per turn of a loop over depth. On a GPU a turn costs more than the arithmetic of one layer.
    - `loop_from`: networks with fewer layers are unrolled. When many networks train at once, a loop over depth would
      reorder all weights.
    - `largest_unrolled`: a chain's stacks of at most this many nodes are computed node by node, without a loop, which
      copies what it takes up and puts down.
    - `keeps_transposes`: store Wᵀ next to W, because products with a transposed factor are slow.
    - `rounds_operands`: keep rounded operands in the storage format, because this backend cannot multiply every pair of
      formats.
    - `shifts_images`: compute a convolution as a product of a matrix with shifted images. The library's own
      convolutions are up to a hundred times slower inside loops.
    - `splits_products`: compute full-precision products from products of bf16 parts, on the matrix units.
    - `keeps_jacobian`: error space keeps the derivative of the outputs; a wide pass costs little more than a narrow
      one.
    """

    platform: str
    kernels: str | None = None
    why_plain: str = ""
    unroll: int = 1
    loop_from: int = 0
    largest_unrolled: int = 0
    keeps_transposes: bool = False
    rounds_operands: bool = False
    shifts_images: bool = False
    splits_products: bool = False
    keeps_jacobian: bool = False


CPU = Backend("cpu", kernels="blocks", keeps_transposes=True, rounds_operands=True, shifts_images=True)
GPU = Backend(
    "gpu", kernels="triton", unroll=4, loop_from=16, largest_unrolled=48, splits_products=True, keeps_jacobian=True
)


@functools.cache
def backend() -> Backend:
    """Return the backend of the device that JAX computes on. The device and the environment are read once."""
    platform = jax.default_backend()
    if platform == "cpu":
        return CPU
    if platform != "gpu":
        return Backend(platform, why_plain=f"there are no kernels for {platform}")
    if os.environ.get(SWITCH) == "0":
        return dataclasses.replace(GPU, kernels=None, why_plain=f"{SWITCH}=0 switches them off")
    capability = str(getattr(jax.devices()[0], "compute_capability", ""))
    if capability.replace(".", "", 1).isdigit() and float(capability) < OLDEST_WITH_BF16:
        reason = f"the GPU has compute capability {capability}, and bf16 needs {OLDEST_WITH_BF16:g}"
        return dataclasses.replace(GPU, kernels=None, why_plain=reason)
    return GPU
