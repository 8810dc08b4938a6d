"""Networks in files: one safetensors file each, with the architecture as JSON in its metadata, and no code."""

import contextlib
import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
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
from ._abstract import AbstractNetwork
from ._activation import OWN, AnyActivation, saved_name
from ._chain import Recipe
from ._mlp import Network
from .models import MODELS

KEY, MLP_VERSION, VERSION = "mupc", 1, 2
"""The key of the architecture in the metadata, and the versions of its format: 1 for `mupc.Network`, 2 for chains."""
MLP = "mlp"
BUILDERS: dict[str, Callable[..., AbstractNetwork]] = {MLP: Network, **MODELS}
"""What makes the networks that a file describes by a name and arguments."""
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

AGAIN = "save the network again"

StrPath = str | os.PathLike[str]


def write_network(path: StrPath, network: object, notes: Mapping[str, str]) -> None:
    """Write a network of float32 or float64 weights to one file, whole or not at all. Create its folder if need be.

    Arrays are called `input.weight`, `hidden.weight`, `readout.weight`, and `….bias`, those of a chain by their path
    in it. The metadata holds what `mupc.Network` or a model of `mupc.models` was made of under the key `mupc`, as JSON,
    and the `notes`. An activation of the user's own is there by its name only, and nodes of the user's own are not.
    """
    if not isinstance(network, AbstractNetwork):
        kind = type(network).__name__
        cure = " Pass its model_." if hasattr(network, "model_") else ""
        raise TypeError(f"mupc.save(path, model) needs a mupc.Model or a network for the second, got {kind}.{cure}")
    target = Path(path)
    if target.is_dir():
        raise ValueError(f"{path} is a folder: name a file in it, such as {target / 'model.safetensors'}.")
    about = {KEY: json.dumps(describe_network(network))}
    target.parent.mkdir(parents=True, exist_ok=True)
    write_whole(target, _in_order(to_bytes(_arrays(network), {**notes, **about})))


def _in_order(content: bytes) -> bytes:
    """Return the bytes of a safetensors file with its metadata in order, so that the same model is always the same
    file. The library writes them in an order that changes from one time to the next."""
    end = 8 + int.from_bytes(content[:8], "little")
    header = json.loads(content[8:end])
    header["__metadata__"] = dict(sorted(header["__metadata__"].items()))
    text = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
    text += b" " * (-len(text) % 8)  # arrays start at a multiple of eight
    return len(text).to_bytes(8, "little") + text + content[end:]


def read_network(
    path: StrPath, activation: AnyActivation | None = None, network: AbstractNetwork | None = None
) -> AbstractNetwork:
    """Return the network in a file, bit for bit.

    **Arguments:** the file, the `activation` if it is one of the user's own, and a `network` of the same form if its
    nodes are.
    """
    with _opened(path) as file:
        expected = _skeleton(path, file.metadata() or {}, activation, network)
        found = {name: file.get_slice(name) for name in file.keys()}  # noqa: SIM118, no mapping
        forms = {name: (part.get_shape(), part.get_dtype()) for name, part in found.items()}
        _check_arrays(path, forms, expected, AGAIN if network is None else "pass one of the form that was saved")
        return _filled(expected, {name: file.get_tensor(name) for name in found})


def network_of_arrays(
    path: StrPath, about: object, arrays: Mapping[str, np.ndarray], activation: AnyActivation | None = None
) -> AbstractNetwork:
    """Return the network that `describe_network` described, with arrays as `write_network` calls them. Empty ones may
    be left out. Messages name the `path`."""
    expected = _skeleton(path, {KEY: json.dumps(about)}, activation, None)
    empty = {name: np.zeros(leaf.shape, leaf.dtype) for name, leaf in _named(expected).items() if not leaf.size}
    found = {**empty, **arrays}
    short = {name: code for code, name in DTYPES.items()}
    forms = {name: (array.shape, short.get(array.dtype.name, array.dtype.name)) for name, array in found.items()}
    _check_arrays(path, forms, expected, AGAIN)
    return _filled(expected, found)


def _filled(expected: AbstractNetwork, arrays: Mapping[str, np.ndarray]) -> AbstractNetwork:
    with jax.enable_x64(True):  # or JAX would round float64 weights
        leaves = [jnp.asarray(arrays[name]) for name in _named(expected)]
    return jax.tree.unflatten(jax.tree.structure(expected), leaves)


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


def _named(network: AbstractNetwork) -> dict[str, Any]:
    """Return the leaves of a network by name, in the order of the tree."""
    leaves = jax.tree_util.tree_leaves_with_path(network)
    return {jax.tree_util.keystr(path, simple=True, separator="."): leaf for path, leaf in leaves}


def describe_network(network: AbstractNetwork) -> dict[str, Any]:
    """Return the architecture, after a check that it and the arrays are all there is to the network. Of nodes of the
    user's own nothing is known."""
    model, arguments = _recipe(network)
    activation = getattr(network, "activation", None)
    checkable = activation is not None or not str(arguments.get("activation")).startswith(OWN)
    if model is not None and checkable and _form(_abstract(model, arguments, activation)) != _form(network):
        made = "mupc.Network(...)" if model == MLP else f"mupc.models.{model}(...)"
        raise ValueError(f"the network was changed by hand since it was made: save one as {made} builds it.")
    if model == MLP:
        return {"version": MLP_VERSION, **arguments}
    return {"version": VERSION, "model": model, "arguments": arguments}


def _recipe(network: AbstractNetwork) -> tuple[str | None, dict[str, Any]]:
    """Return the model and the arguments from which a network is built; None for one of the user's own nodes."""
    if isinstance(network, Network):
        special = {
            "activation": saved_name(network.activation),
            "use_bias": any(leaf.endswith(".bias") for leaf in _named(network)),
            "multipliers": list(network.multipliers),
        }
        return MLP, {field: special[field] if field in special else getattr(network, field) for field in ARCHITECTURE}
    recipe: Recipe | None = getattr(network, "recipe", None)
    return (None, {}) if recipe is None else (recipe.model, dict(recipe.arguments))


def _arrays(network: AbstractNetwork) -> dict[str, np.ndarray]:
    arrays = {name: np.ascontiguousarray(leaf) for name, leaf in _named(network).items()}
    for name, array in arrays.items():
        if array.dtype not in DTYPES.values():
            raise ValueError(f"{name} is {array.dtype}: convert it to float32 or float64, the formats of a network.")
    return arrays


def _form(network: AbstractNetwork) -> tuple[Any, list[tuple[int, ...]]]:
    """Return everything about a network except the numbers in its arrays and their format."""
    return jax.tree.structure(network), [leaf.shape for leaf in jax.tree.leaves(network)]


def _abstract(model: str, arguments: dict[str, Any], activation: AnyActivation | None) -> AbstractNetwork:
    """Return the network of an architecture, with shapes in place of arrays."""
    given = {} if activation is None else {"activation": activation}
    options = {name: _as_tuples(value) for name, value in arguments.items()} | given
    return eqx.filter_eval_shape(BUILDERS[model], **options, key=jr.key(0))


def _as_tuples(value: object) -> object:
    return tuple(map(_as_tuples, value)) if isinstance(value, list) else value


def _skeleton(
    path: StrPath, metadata: dict[str, str], activation: AnyActivation | None, network: AbstractNetwork | None
) -> AbstractNetwork:
    """Return the network that the metadata of a file describes, without its arrays; one of the user's own nodes is
    that given."""
    if KEY not in metadata:
        raise ValueError(f"{path} does not hold a mupc network: give a file that mupc.save or `mupc train` wrote.")
    model, arguments = _read_recipe(path, metadata[KEY])
    if (model is None) != (network is not None):
        known = f"is of a {model}, which mupc knows: leave network= out."
        own = (
            "has a chain of your own nodes, which a file cannot hold: build it again and pass it with "
            "mupc.load(path, network=chain)."
        )
        raise ValueError(f"{path} {own if model is None else known}")
    if network is not None:
        return network
    assert model is not None
    check_own_function(path, "activation", str(arguments.get("activation")), activation)
    try:
        return _abstract(model, arguments, activation)
    except (ValueError, TypeError, ArithmeticError, LookupError, AttributeError) as error:
        reason = " ".join(str(error).split())
        raise ValueError(f"{path} has an architecture that cannot be built: {reason} Save the network again.") from None


def _read_recipe(path: StrPath, text: str) -> tuple[str | None, dict[str, Any]]:
    """Return the model and its arguments that the metadata of a file describe."""
    try:
        about = json.loads(text, parse_constant=_refuse)
    except (ValueError, RecursionError):  # not JSON, or endless brackets
        about = None
    version = about.pop("version", None) if isinstance(about, dict) else None
    if isinstance(version, int) and version > VERSION:
        raise ValueError(f"{path} is of format {version}, newer than the {VERSION} known here: update mupc.")
    kinds = {name: type(value) for name, value in about.items()} if isinstance(about, dict) else {}
    if version == MLP_VERSION and kinds == ARCHITECTURE:
        return MLP, about
    if version == VERSION and kinds in ({"model": kind, "arguments": dict} for kind in (str, type(None))):
        if about["model"] is None or about["model"] in MODELS:
            return about["model"], about["arguments"]
        raise ValueError(f"{path} is of the model {about['model']!r}, which is not known here: update mupc.")
    raise ValueError(f"{path} has damaged metadata, not the architecture of a network: save the network again.")


def check_own_function(path: StrPath, kind: str, saved: str, given: object) -> None:
    """Check that a function, an activation or a loss, is given if and only if a file has just the name of it."""
    name = saved.removeprefix(OWN)
    if given is None and name != saved:
        raise ValueError(
            f"{path} has the {kind} {name!r}, a function of your own that a file cannot hold: pass it again with "
            f"mupc.load(path, {kind}={name if name.isidentifier() else '…'})."
        )
    if given is not None and name == saved:
        raise ValueError(f"{path} has the {kind} {name!r}, which mupc knows: leave {kind}= out.")


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is not JSON")


def _check_arrays(
    path: StrPath, found: Mapping[str, tuple[Sequence[int], str]], expected: AbstractNetwork, cure: str
) -> None:
    """Check that there are the arrays that the network has; they are given by shape and format."""
    wanted = {name: leaf.shape for name, leaf in _named(expected).items()}
    if found.keys() != wanted.keys():
        raise ValueError(
            f"{path} holds {', '.join(sorted(found)) or 'nothing'}, but the network has "
            f"{', '.join(sorted(wanted))}: {cure}."
        )
    for name, (shape, dtype) in found.items():
        if tuple(shape) != wanted[name] or dtype not in DTYPES:
            raise ValueError(
                f"{path} has {name} of shape {tuple(shape)} and format {dtype}, but the network has "
                f"{wanted[name]} in {' or '.join(DTYPES)}: {cure}."
            )
