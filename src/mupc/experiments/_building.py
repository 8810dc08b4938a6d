"""Build what training runs start from: data sets, and networks before training."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

from ._methods import PAPER_BATCH as PAPER_BATCH
from ._methods import FigureMethod

if TYPE_CHECKING:
    from ..data import Dataset
    from ..network import Network


def build(method: FigureMethod, dataset: Dataset, activation: str, width: int, depth: int, seed: int) -> Network:
    """Return the network that a method trains, before training."""
    import jax.random as jr

    from ..network import Network

    return Network(
        dataset.in_size,
        dataset.out_size,
        width=width,
        hidden_layers=depth,
        activation=activation,
        parameterisation=method.parameterisation,
        init=method.init,
        skip=method.skip,
        key=jr.key(seed),
    )


@functools.lru_cache(maxsize=4)
def load(name: str, data_dir: str | None, verify: bool, validation: float) -> Dataset:
    """Return a data set, and keep it for the cells that follow."""
    from .. import data

    dataset = data.load(name, data_dir=data_dir, verify=verify, download=False)
    return dataset.with_validation(validation, seed=0) if validation else dataset
