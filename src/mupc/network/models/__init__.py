"""Networks of known architectures: `mupc.Chain`s that remember how they were made."""

from ._images import VGG_LAYERS, resnet, vgg
from ._sized import (
    MLP,
    MODELS,
    RESNET_STAGES,
    MakeNetwork,
    Model,
    check_model,
    data_arguments,
    depth_name,
    option_names,
    sized_model,
)
from ._transformer import Attention, Embedding, Normalise, transformer

__all__ = [
    "Attention",
    "Embedding",
    "Normalise",
    "resnet",
    "transformer",
    "vgg",
]
