"""Build models of any width and depth for a data set."""

import functools
import inspect
from collections.abc import Callable, Mapping
from typing import Any

from ...data import Dataset
from ...io import checks
from .._abstract import AbstractNetwork
from .._chain import Chain
from .._mlp import Network
from .._types import PRNGKeyArray
from ._images import resnet, vgg
from ._transformer import transformer

MODELS: dict[str, Callable[..., Chain]] = {"resnet": resnet, "vgg": vgg, "transformer": transformer}
"""The models by the name that `Chain.recipe` has of them."""
MLP = "mlp"
"""The name of `mupc.Network` among models."""
RESNET_STAGES = 3
"""Stages of a resnet that is given by the number of blocks in each."""
MakeNetwork = Callable[[int, int | None, PRNGKeyArray], AbstractNetwork]
"""A function of a width, a depth and a random key that returns a network."""
Model = str | MakeNetwork


def depth_name(model: Model) -> str | None:
    """Return the name of what a depth counts; None for a model of fixed depth."""
    return {MLP: "hidden_layers", "vgg": None}.get(model, "blocks") if isinstance(model, str) else "blocks"


def option_names(model: Model) -> list[str]:
    """Return the arguments of a model that depend neither on its size nor on the data."""
    if not isinstance(model, str):
        return []
    other = {"self", "key", "width", "blocks", "hidden_layers"}
    other |= {"in_size", "out_size", "input_shape", "vocabulary", "context"}
    maker = Network.__init__ if model == MLP else MODELS[model]
    return [name for name in inspect.signature(maker).parameters if name not in other]


def check_model(model: Model) -> None:
    """Refuse what is neither the name of a model nor a function."""
    if not callable(model):
        checks.lookup("model", model, dict.fromkeys((MLP, *MODELS)))


def data_arguments(model: str, dataset: Dataset) -> dict[str, Any]:
    """Return the arguments of a model that follow from a data set."""
    schema = dataset.schema
    if model == MLP:
        return {"in_size": dataset.in_size, "out_size": dataset.out_size}
    if model == "transformer":
        if schema.context is None:
            wrong = f"= {model} learns texts, and {dataset.name} is not one."
            raise checks.ArgumentError("model", wrong, "Use another {model}.")
        return {"vocabulary": len(schema.labels or ()), "context": schema.context}
    if schema.image_shape is None:
        wrong = f"= {model} learns images, and {dataset.name} has none."
        cure = "Use another {model}, or save images as (n, height, width) or (n, channels, height, width)."
        raise checks.ArgumentError("model", wrong, cure)
    return {"input_shape": schema.sample_shape, "out_size": dataset.out_size}


def sized_model(model: Model, dataset: Dataset | None, options: Mapping[str, Any]) -> MakeNetwork:
    """Return a function that makes networks of any size for a data set.

    **Arguments:** the name of a model, with a data set and further options of the model, or a function that makes
    networks itself.
    """
    if not isinstance(model, str):
        return functools.partial(_checked, model)
    if dataset is None:
        wrong = f"= {model} needs a data set, for the sizes of its inputs and outputs."
        raise checks.ArgumentError("model", wrong, 'Pass a data set such as mupc.data.load("digits").')
    fixed = data_arguments(model, dataset) | dict(options)
    name = depth_name(model)

    def make(width: int, depth: int | None, key: PRNGKeyArray) -> AbstractNetwork:
        size: dict[str, Any] = {} if name is None else {name: depth}
        if model == "resnet":
            size["blocks"] = (depth,) * RESNET_STAGES
        build: Callable[..., AbstractNetwork] = Network if model == MLP else MODELS[model]
        return build(**fixed, **size, width=width, key=key)

    return make


def _checked(make: MakeNetwork, width: int, depth: int | None, key: PRNGKeyArray) -> AbstractNetwork:
    network = make(width, depth, key)
    if not isinstance(network, AbstractNetwork):
        raise checks.wrong_type("model", "a function (width, depth, key) that returns a network", network)
    return network
