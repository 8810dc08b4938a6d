"""The ends of the spectrum of the activity Hessian, without a matrix, for any network."""

from typing import NamedTuple

import equinox as eqx
import numpy as np
from jaxtyping import PyTree

from ..inference import Batch, Energy, as_energy, as_targets, check_activities, extremes, pose
from ..network import AbstractNetwork, Precision, Rows, as_inputs, resolve_precision


class HessianExtremes(NamedTuple):
    """The largest and the smallest eigenvalue of each sample's activity Hessian."""

    largest: np.ndarray
    smallest: np.ndarray

    @property
    def kappa(self) -> np.ndarray:
        """The condition number of each sample."""
        return self.largest / self.smallest


def hessian_extremes(
    network: AbstractNetwork, x: Rows, y: Rows, *, energy: Energy | None = None, activities: PyTree | None = None
) -> HessianExtremes:
    """Estimate λ_max and λ_min of the activity Hessian, by Lanczos steps with it and its inverse.

    It is the Gauss–Newton Hessian, without the curvature of activations. For linear networks with the squared error
    that is the whole one. `mupc.theory.condition_number` is exact, for `mupc.Network`.

    **Arguments:** any network, inputs, targets or labels, the `energy`, and `activities` such as those of a solution;
    by default those of the forward pass.

    **Example:**

    ```python
    import jax.numpy as jnp, jax.random as jr, mupc

    network = mupc.models.resnet((1, 8, 8), width=4, blocks=(1, 1), key=jr.key(0))
    found = mupc.diagnostics.hessian_extremes(network, jnp.ones((2, 1, 8, 8)), jnp.array([0, 2]))
    found.largest.shape, found.kappa.shape     # (2,), (2,)
    ```
    """
    energy, inputs = as_energy(energy), as_inputs(network, x)
    policy = resolve_precision(None, network)
    targets = as_targets(network, y, len(inputs), energy)
    if activities is not None:
        check_activities(network, activities, len(inputs))
    weights, batch = policy.cast((network, Batch(inputs, targets, activities)))
    largest, smallest = _extremes(weights, batch, energy, policy)
    return HessianExtremes(np.asarray(largest, np.float64), np.asarray(smallest, np.float64))


@eqx.filter_jit
def _extremes(network: AbstractNetwork, batch: Batch, energy: Energy, policy: Precision) -> tuple:
    return extremes(pose(network, batch, energy, policy))
