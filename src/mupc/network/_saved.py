"""Save networks to files and load them: one safetensors file each, with the architecture as JSON in its metadata."""

import contextlib
import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save as to_bytes

from ..io import write_whole
from ._activation import ACTIVATIONS
from ._mlp import Network
from ._precision import resolve_precision

KEY, VERSION = "mupc", 1
"""The key of the architecture in the metadata, and the version of its format."""
ARCHITECTURE: dict[str, type] = {
    "in_size": int,
    "out_size": int,
    "width": int,
    "hidden_layers": int,
    "activation": str,
    "parameterisation": str,
    "skip": int,
    "use_bias": bool,
    "multipliers": list,
}
DTYPES = {"F32": "float32", "F64": "float64"}

StrPath = str | os.PathLike[str]


def save(path: StrPath, network: Network) -> None:
    """Write a network to one safetensors file, whole or not at all. Create its folder if need be.

    Its arrays are called `input.weight`, `hidden.weight`, `readout.weight`, and `….bias`. The metadata holds what
    `mupc.Network` was made of under the key `mupc`, as JSON. Nothing in the file is code.

    **Arguments:** the file, and a network of float32 or float64 weights with one of the named activations.

    **Example:**

    ```python
    import jax.random as jr, mupc

    network = mupc.Network(in_size=8, out_size=3, width=16, hidden_layers=4, key=jr.key(0))
    mupc.save("network.safetensors", network)
    ```
    """
    write_network(path, network, {})


def write_network(path: StrPath, network: object, notes: Mapping[str, str]) -> None:
    """Write a network as `save` does, with notes in the metadata, which `load` ignores."""
    if not isinstance(network, Network):
        raise TypeError(f"mupc.save(path, network) needs a mupc.Network for the second, got {type(network).__name__}.")
    target = Path(path)
    if target.is_dir():
        raise ValueError(f"{path} is a folder: name a file in it, such as {target / 'network.safetensors'}.")
    about = {KEY: json.dumps({"version": VERSION, **_describe(network)})}
    target.parent.mkdir(parents=True, exist_ok=True)
    write_whole(target, to_bytes(_arrays(network), {**notes, **about}))


def load(path: StrPath) -> Network:
    """Return the network in a file that `mupc.save` wrote, bit for bit.

    **Arguments:** the file. One with float64 weights needs JAX's 64-bit mode.

    **Example:**

    ```python
    import jax.random as jr, mupc

    mupc.save("network.safetensors", mupc.Network(in_size=8, out_size=3, width=16, hidden_layers=4, key=jr.key(0)))
    mupc.load("network.safetensors").hidden.weight.shape       # (3, 16, 16)
    ```
    """
    with _opened(path) as file:
        expected = _skeleton(path, file.metadata() or {})
        _check_arrays(path, file, _named(expected))
        arrays = [file.get_tensor(name) for name in _named(expected)]
    if any(array.dtype == np.float64 for array in arrays):
        resolve_precision("float64", ())  # raises where JAX would round them
    return jax.tree.unflatten(jax.tree.structure(expected), [jnp.asarray(array) for array in arrays])


def network_notes(path: StrPath) -> dict[str, str]:
    """Return the notes that `write_network` put into a file."""
    with _opened(path) as file:
        return {key: text for key, text in (file.metadata() or {}).items() if key != KEY}


@contextlib.contextmanager
def _opened(path: StrPath) -> Iterator[Any]:
    if not Path(path).is_file():
        raise ValueError(f"there is no file {path}: give one that mupc.save or `mupc train` wrote.")
    try:
        with safe_open(os.fspath(path), framework="numpy") as file:
            yield file
    except SafetensorError as error:
        reason = " ".join(str(error).split())
        raise ValueError(
            f"{path} cannot be read as a safetensors file ({reason}): it is damaged, or something else. Save it again."
        ) from None


def _named(network: Network) -> dict[str, Any]:
    """Return the leaves of a network by name, in the order of the tree."""
    leaves = jax.tree_util.tree_leaves_with_path(network)
    return {jax.tree_util.keystr(path, simple=True, separator="."): leaf for path, leaf in leaves}


def _describe(network: Network) -> dict[str, Any]:
    """Return the architecture, after a check that it and the arrays are all there is to the network."""
    name = network.activation.name
    if ACTIVATIONS.get(name) != network.activation:
        raise ValueError(
            f"activation {name!r} is a function of your own, and a file cannot hold it: use one of "
            f"{', '.join(ACTIVATIONS)}, or use equinox.tree_serialise_leaves."
        )
    special = {
        "activation": name,
        "use_bias": any(leaf.endswith(".bias") for leaf in _named(network)),
        "multipliers": list(network.multipliers),
    }
    about = {field: special[field] if field in special else getattr(network, field) for field in ARCHITECTURE}
    if _form(_abstract(about)) != _form(network):
        raise ValueError("the network was changed by hand since it was made: save one as mupc.Network(...) builds it.")
    return about


def _arrays(network: Network) -> dict[str, np.ndarray]:
    arrays = {name: np.ascontiguousarray(leaf) for name, leaf in _named(network).items()}
    for name, array in arrays.items():
        if array.dtype not in DTYPES.values():
            raise ValueError(f"{name} is {array.dtype}: convert it to float32 or float64, the formats of a network.")
    return arrays


def _form(network: Network) -> tuple[Any, list[tuple[int, ...]]]:
    """Return everything about a network except the numbers in its arrays and their format."""
    return jax.tree.structure(network), [leaf.shape for leaf in jax.tree.leaves(network)]


def _abstract(about: dict[str, Any]) -> Network:
    """Return the network of an architecture, with shapes in place of arrays."""
    options = about | {"multipliers": tuple(about["multipliers"])}
    return eqx.filter_eval_shape(Network, **options, key=jr.key(0))


def _skeleton(path: StrPath, metadata: dict[str, str]) -> Network:
    """Return the network that the metadata of a file describes, without its arrays."""
    if KEY not in metadata:
        raise ValueError(f"{path} does not hold a mupc network: give a file that mupc.save or `mupc train` wrote.")
    try:
        about = json.loads(metadata[KEY], parse_constant=_refuse)
    except (ValueError, RecursionError):  # not JSON, or endless brackets
        about = None
    version = about.pop("version", None) if isinstance(about, dict) else None
    if isinstance(version, int) and version > VERSION:
        raise ValueError(f"{path} is of format {version}, newer than the {VERSION} known here: update mupc.")
    kinds = {name: type(value) for name, value in about.items()} if isinstance(about, dict) else {}
    if version != VERSION or kinds != ARCHITECTURE:
        raise ValueError(f"{path} has damaged metadata, not the architecture of a network: save the network again.")
    try:
        return _abstract(about)
    except (ValueError, TypeError, OverflowError) as error:
        reason = " ".join(str(error).split())
        raise ValueError(f"{path} has an architecture that cannot be built: {reason} Save the network again.") from None


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is not JSON")


def _check_arrays(path: StrPath, file: Any, expected: dict[str, Any]) -> None:
    """Check that a file has the arrays that its architecture asks for."""
    found = {name: file.get_slice(name) for name in file.keys()}  # noqa: SIM118, no mapping
    if found.keys() != expected.keys():
        raise ValueError(
            f"{path} holds {', '.join(sorted(found)) or 'nothing'}, but its architecture has "
            f"{', '.join(sorted(expected))}: save the network again."
        )
    for name, array in found.items():
        shape, dtype = tuple(array.get_shape()), array.get_dtype()
        if shape != expected[name].shape or dtype not in DTYPES:
            raise ValueError(
                f"{path} has {name} of shape {shape} and format {dtype}, but its architecture has "
                f"{expected[name].shape} in {' or '.join(DTYPES)}: save the network again."
            )
