"""Networks of known architectures: `mupc.Chain`s that remember how they were made."""

from collections.abc import Callable

from .._chain import Chain
from ._images import VGG_LAYERS, resnet, vgg
from ._transformer import Attention, Embedding, Normalise, transformer

MODELS: dict[str, Callable[..., Chain]] = {"resnet": resnet, "vgg": vgg, "transformer": transformer}
"""The models by the name that `Chain.recipe` has of them."""
