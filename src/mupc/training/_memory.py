"""How much memory a device has, and whether training fits into it."""

import math

import equinox as eqx
import jax
from jax.sharding import Mesh
from jaxtyping import PyTree

from ..data import BatchStream, Dataset
from ..io import checks, physical_memory
from ..learning import AbstractAlgorithm, AbstractSolving
from ..network import RUNS, AbstractNetwork, resolve_precision, size_of
from ._config import TrainConfig
from ._evaluation import EVALUATION_CHUNK

INFERENCE_COPIES, FORWARD_COPIES = 10, 2
"""How often the activities of a batch are kept: by inference and by a pass up and down. Measured on a CPU: 1 to 12
copies for inference in an MLP and a resnet, 1 to 5 for a pass, and more in a VGG or a transformer."""


def free_memory() -> float:
    """Return the bytes that the device has free; on a CPU, all it has."""
    device = jax.local_devices()[0]
    stats = device.memory_stats() if device.platform != "cpu" else None
    if stats and "bytes_limit" in stats:
        return float(stats["bytes_limit"] - stats["bytes_in_use"])
    return float(physical_memory())


def check_room(
    config: TrainConfig,
    network: AbstractNetwork,
    dataset: Dataset | BatchStream,
    algorithm: AbstractAlgorithm,
    *,
    made: int = 1,
    mesh: Mesh | None = None,
) -> int:
    """Return about how many bytes training takes. Raise if the devices do not have them. The network may be shapes:
    making one that is too large might end the process.

    **Arguments:** what to train, how many such networks are `made` before one is trained, and the devices that share
    the work of a run.
    """
    policy = resolve_precision(config.chosen(network, algorithm).precision, network)
    state = eqx.filter_eval_shape(algorithm.init, network, config.context(network, algorithm, 1))
    weights = 2 * _bytes(state) + (1 + made) * _bytes(network)  # before and after an interval; gradients, and updates
    sample = jax.ShapeDtypeStruct((1, network.in_size), policy.dtype)
    values = _bytes((sample, eqx.filter_eval_shape(network.forward_pass, sample, policy)))
    copies = INFERENCE_COPIES if isinstance(algorithm, AbstractSolving) else FORWARD_COPIES
    samples = max(copies * config.batches(dataset).batch_size, 2 * min(EVALUATION_CHUNK, len(dataset.test)))
    devices = 1 if mesh is None else mesh.size // size_of(mesh, RUNS)
    activities, free = samples * values, devices * free_memory()
    if weights + activities > free:
        room = f"about {(weights + activities) / 2**30:.1f} GiB, and there is room for {free / 2**30:.1f} GiB."
        if made > 1:
            cure = "Use fewer {seeds}, or smaller networks."
            raise checks.ArgumentError(f"{made} networks of this size", f"need {room}", cure)
        cure = "Use a smaller {batch_size} or network." if activities > weights else "Use a smaller one."
        raise checks.ArgumentError("a network of this size", f"needs {room}", cure)
    return weights + activities


def _bytes(tree: PyTree) -> int:
    arrays = (leaf for leaf in jax.tree.leaves(tree) if isinstance(leaf, jax.Array | jax.ShapeDtypeStruct))
    return sum(math.prod(leaf.shape) * leaf.dtype.itemsize for leaf in arrays)
