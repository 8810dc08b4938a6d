"""Many devices: the axes of a mesh, and where arrays lie on it.

Programs are written for whole batches and whole networks, and mean the same on any number of devices. Inside
`using(mesh)` they may say how an array is divided (`constrain`); the compiler then divides the work and adds the
communication. Without a mesh, nothing here changes a program.
"""

import contextlib
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec

from ..io import checks

Tree = TypeVar("Tree")
DATA, LAYERS, RUNS = "data", "layers", "runs"
FORCED = "XLA_FLAGS=--xla_force_host_platform_device_count"


def as_mesh(mesh: Mesh | None, known: Sequence[str]) -> Mesh | None:
    """Return a mesh that the compiler divides programs over, or None. Refuse axes other than the `known` ones."""
    if mesh is None:
        return None
    if not isinstance(mesh, Mesh):
        cure = 'Use jax.make_mesh((8,), ("data",)).'
        raise checks.ArgumentTypeError("mesh", f"must be a jax.sharding.Mesh, got {checks.literal(mesh)}.", cure)
    for axis in mesh.axis_names:
        if axis not in known:
            wrong = f"has the axis {axis!r}, which is not known here."
            raise checks.ArgumentError("mesh", wrong, f"Name its axes {' or '.join(map(repr, known))}.")
    if mesh.size == 1 and mesh.devices.item() == jax.devices()[0]:
        return None  # JAX uses this device anyway
    return Mesh(mesh.devices, mesh.axis_names, axis_types=(AxisType.Auto,) * len(mesh.axis_names))


def make_mesh(sizes: dict[str, int]) -> Mesh:
    """Return a mesh with axes of these sizes, over the first devices that JAX finds."""
    count, found = int(np.prod(list(sizes.values()))), jax.devices()
    if count > len(found):
        kind = found[0].platform
        cure = f"Use fewer, or force them with {FORCED}={count}." if kind == "cpu" else "Use fewer."
        raise checks.ArgumentError("devices", f"= {count} are more than the {len(found)} {kind.upper()} found.", cure)
    if len({device.process_index for device in found[:count]}) < jax.process_count():
        wrong = f"= {count} leave some of the {jax.process_count()} processes without any."
        raise checks.ArgumentError("devices", wrong, f"Use all {len(found)}, or fewer processes.")
    divided = (AxisType.Auto,) * len(sizes)
    return jax.make_mesh(tuple(sizes.values()), tuple(sizes), divided, devices=found[:count])


def check_rows(name: str, rows: int, mesh: Mesh | None) -> None:
    """Refuse a batch with fewer samples than devices that share it."""
    if rows < (count := size_of(mesh, DATA)):
        wrong = f"= {rows} is" if name == "batch_size" else f"has {rows} rows,"
        cure = "Use a larger batch, or fewer {devices}."
        raise checks.ArgumentError(name, f"{wrong} less than the {count} devices that share a batch.", cure)


def using(mesh: Mesh | None) -> AbstractContextManager[object]:
    """Return a context in which programs are compiled for a mesh. A single device needs no division."""
    if mesh is None:
        return contextlib.nullcontext()
    if mesh.size == 1:
        return jax.default_device(mesh.devices.item())
    context: AbstractContextManager[object] = jax.set_mesh(mesh)
    return context


def axis_sizes() -> Mapping[str, int]:
    """Return how many devices each axis of the mesh in use has; nothing where there is none."""
    sizes: Mapping[str, int] = jax.sharding.get_abstract_mesh().shape
    return sizes


def axis_size(axis: str) -> int:
    """Return how many devices an axis of the mesh in use has; 1 where there is none."""
    return axis_sizes().get(axis, 1)


def size_of(mesh: Mesh | None, axis: str) -> int:
    """Return how many devices an axis of a mesh has; 1 where there is none."""
    return 1 if mesh is None else mesh.shape.get(axis, 1)


def constrain(tree: Tree, *axes: str | None) -> Tree:
    """Divide the leading dimensions of all arrays over these axes of the mesh in use, and copy the rest to all devices.
    Axes that the mesh does not have count as None."""
    sizes = axis_sizes()
    if not sizes:
        return tree
    spec = PartitionSpec(*(axis if axis in sizes else None for axis in axes))
    return _map_arrays(lambda leaf: jax.lax.with_sharding_constraint(leaf, spec), tree)


def pad_rows(array: Any, devices: int) -> jax.Array:
    """Return an array with zeros after its last row, so that its rows divide evenly over this number of devices."""
    return jnp.pad(array, [(0, -len(array) % devices)] + [(0, 0)] * (array.ndim - 1))


def put(tree: Tree, mesh: Mesh, *axes: str | None) -> Tree:
    """Put all arrays onto a mesh, with their leading dimensions divided over these axes, and filled up with zeros where
    they do not divide evenly."""
    spec = PartitionSpec(*(axis if axis in mesh.shape else None for axis in axes))

    def place(leaf: Any) -> jax.Array:
        extra = [-size % size_of(mesh, axis or "") for size, axis in zip(leaf.shape, axes, strict=False)]
        if any(extra):
            widths = [(0, more) for more in extra] + [(0, 0)] * (leaf.ndim - len(extra))
            leaf = np.pad(leaf, widths) if isinstance(leaf, np.ndarray) else jnp.pad(leaf, widths)
        return _put_leaf(leaf, NamedSharding(mesh, spec))

    return _map_arrays(place, tree)


def _put_leaf(leaf: Any, sharding: NamedSharding) -> jax.Array:
    """Put one array onto devices. Of several processes, each puts its own part."""
    if sharding.is_fully_addressable:
        return jax.device_put(leaf, sharding)
    if isinstance(leaf, jax.Array) and not leaf.is_fully_addressable:
        return leaf  # it is there already
    if jax.dtypes.issubdtype(leaf.dtype, jax.dtypes.prng_key):
        return jr.wrap_key_data(_put_leaf(jr.key_data(leaf), sharding))
    host = np.asarray(leaf)
    return jax.make_array_from_callback(host.shape, sharding, lambda part: host[part])


def fetch(tree: Tree, to: Callable[[Any], Any] = np.asarray) -> Tree:
    """Return arrays that lie on several devices without the others: copies as the array of one device, and those that
    are divided as numpy arrays, or wherever `to` puts them. All processes must call it together."""

    def here(leaf: Any) -> Any:
        if not isinstance(leaf, jax.Array) or len(leaf.sharding.device_set) == 1:
            return leaf
        if leaf.is_fully_replicated:
            return leaf.addressable_data(0)
        if leaf.is_fully_addressable:
            return to(np.asarray(leaf))
        from jax.experimental.multihost_utils import process_allgather

        return to(process_allgather(leaf, tiled=True))

    return jax.tree.map(here, tree)


def is_array(leaf: object) -> bool:
    """Return whether this is an array of JAX or numpy, not a plain number."""
    return isinstance(leaf, jax.Array | np.ndarray)


def _map_arrays(function: Callable[[Any], Any], tree: Tree) -> Tree:
    return jax.tree.map(lambda leaf: function(leaf) if is_array(leaf) else leaf, tree)
