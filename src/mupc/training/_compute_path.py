"""Which programs compute a training run: the precision that suits the device, and a line that says so."""

import math

from ..inference import Energy
from ..learning import AbstractAlgorithm
from ..network import AbstractNetwork, Precision, axis_sizes, backend, resolve_precision

AUTO = "auto"


def choose_precision(
    name: str | None, network: AbstractNetwork, algorithm: AbstractAlgorithm, energy: Energy, unsupervised: bool
) -> Precision:
    """Return the policy called `name`. `"auto"` means bf16 products on a GPU, where its kernels take them or where the
    algorithm bears them without, and full precision in the format of the weights elsewhere."""
    if name != AUTO:
        return resolve_precision(name, network)
    full, rounded = resolve_precision(None, network), resolve_precision("bf16", network)
    if backend().kernels != "triton" or full.dtype != rounded.dtype:
        return full
    rounds = algorithm.defaults.rounds or not algorithm.why_no_kernels(network, energy, rounded, unsupervised)
    return rounded if rounds else full


def describe_path(
    network: AbstractNetwork, algorithm: AbstractAlgorithm, energy: Energy, policy: Precision, unsupervised: bool
) -> str:
    """Return a line on the precision, the device and its kernels, with the reason where they are not used."""
    on = backend()
    why = algorithm.why_no_kernels(network, energy, policy, unsupervised)
    products = "products and sums" if policy.full.name == policy.name else "products with float32 sums"
    kernels = "by its kernels" if why is None else f"without kernels ({why})"
    return f"{policy.name} {products} on {_devices(on.platform)}, {kernels}"


def _devices(platform: str) -> str:
    """Return the device, or those of the mesh in use and what they divide."""
    sizes = axis_sizes()
    if not sizes:
        return f"the {platform.upper()}"
    return f"{math.prod(sizes.values())} {platform.upper()}s ({', '.join(f'{axis} {n}' for axis, n in sizes.items())})"
