"""What training runs are made of: data sets, networks before training, and solvers."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

from ._methods import FigureMethod

if TYPE_CHECKING:
    from ..data import Dataset
    from ..inference import AbstractSolver
    from ..network import Network

PAPER_BATCH = 64
"""The paper's β acts on the mean over 64 samples, a solver's `lr` on one sample: lr = β / 64."""


def solver(method: FigureMethod, beta: float, depth: int) -> AbstractSolver | None:
    """The inference of a run; None with backpropagation."""
    from ..inference import ErrorSpace, ExactLinear, GradientDescent, Optax

    if method.algorithm != "pc":
        return None
    if method.exact:
        return ExactLinear()
    if method.cg_steps is not None:
        return ErrorSpace(cg_steps=method.cg_steps)
    steps = depth if method.steps is None else method.steps
    if method.adam:  # does not depend on the scale of the gradient, so that β is its rate
        return Optax.adam(beta, steps)
    return GradientDescent(lr=beta / PAPER_BATCH, steps=steps, tol=method.tol)


def build(method: FigureMethod, dataset: Dataset, activation: str, width: int, depth: int, seed: int) -> Network:
    """The network that a method trains, before training."""
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
    """A data set, kept for the cells that follow."""
    from .. import data

    dataset = data.load(name, data_dir=data_dir, verify=verify, download=False)
    return dataset.with_validation(validation, seed=0) if validation else dataset
