"""The inference equilibrium of linear networks and its energy: §3.1 and §A.2.6 of the paper."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import ArrayLike, Float64

from .. import _precision
from .._energy import Energy, as_targets
from .._infer import infer
from .._network import Network, as_inputs, backward_pass, forward_pass
from .._solver import ExactLinear
from .._types import Activities
from ._hessian import check_weights

Matrix = Float64[np.ndarray, "out out"]


def equilibrium(network: Any, x: ArrayLike, y: ArrayLike, *, energy: Energy | None = None) -> Activities:
    """The activities z* = H⁻¹b (Eq. 3) at which the energy of a linear network is least, (H, B, N).

    **Arguments:** a linear network, inputs (B, D), targets (B, C) or labels (B,), and `energy=mupc.Energy(...)` with
    the squared error. They are found by `mupc.ExactLinear`, in the precision of the weights.

    **Example:**

    ```python
    import jax.numpy as jnp, jax.random as jr, mupc

    network = mupc.Network(in_size=8, out_size=3, width=16, hidden_layers=4, activation="linear", key=jr.key(0))
    mupc.theory.equilibrium(network, jnp.ones((5, 8)), jnp.zeros((5, 3))).shape     # (4, 5, 16)
    ```
    """
    _linear(network, energy, "equilibrium")
    return infer(network, x, y, ExactLinear(), energy=energy).activities


def rescaling(network: Any, *, energy: Energy | None = None) -> Matrix:
    """The rescaling S (C, C) of Eq. 32, which turns the loss of a linear network into its equilibrated energy:

        S = I/λ + Σ_{ℓ≤H} J_ℓJ_ℓᵀ,      J_ℓ = ∂output/∂z_ℓ = a_L W_L Π_{k>ℓ} (τI + a_k W_k) for skips 0 and 1,

    and by the same recurrence for any skip. Its determinant is the Hessian's: log det H = log det(λS).

    **Arguments:** a linear network, and `energy=mupc.Energy(...)` with the squared error and no activity decay.

    **Example:**

    ```python
    import jax.random as jr, mupc

    network = mupc.Network(in_size=8, out_size=3, width=16, hidden_layers=4, activation="linear", key=jr.key(0))
    mupc.theory.rescaling(network).shape     # (3, 3)
    ```
    """
    energy = _linear(network, energy, "rescaling")
    if energy.decays_activities and float(energy.activity_decay) != 0:
        raise ValueError(
            f"the rescaling holds without activity decay, got activity_decay={float(energy.activity_decay):g}. "
            "Use mupc.energy at mupc.theory.equilibrium(...) instead."
        )
    size = network.out_size
    with jax.enable_x64(True):
        policy = _precision.POLICIES["float64"]
        exact = policy.cast(network)
        top = network.multipliers[2] * exact.readout.transpose(jnp.eye(size), policy)
        anywhere = jnp.zeros((network.hidden_layers, size, network.width))
        gains = np.asarray(backward_pass(exact, anywhere, top, policy))
    return np.eye(size) / float(energy.output_precision) + np.einsum("hcn,hdn->cd", gains, gains)


def equilibrium_energy(network: Any, x: ArrayLike, y: ArrayLike, *, energy: Energy | None = None) -> float:
    """The energy of a linear network at its inference equilibrium (Eq. 31), batch mean, without weight penalties:

        F(z*) = 1/(2B) Σ_i r_iᵀ S⁻¹ r_i,      r = y − output of the forward pass,  S of `mupc.theory.rescaling`.

    **Arguments:** a linear network, inputs (B, D), targets (B, C) or labels (B,), and `energy=mupc.Energy(...)` with
    the squared error and no activity decay.

    **Example:**

    ```python
    import jax.numpy as jnp, jax.random as jr, mupc

    network = mupc.Network(in_size=8, out_size=3, width=16, hidden_layers=4, activation="linear", key=jr.key(0))
    mupc.theory.equilibrium_energy(network, jnp.ones((5, 8)), jnp.zeros((5, 3)))     # below the loss
    ```
    """
    scale = rescaling(network, energy=energy)
    r = _residual(network, x, y)
    return float(np.mean(np.sum(r.T * np.linalg.solve(scale, r.T), axis=0)) / 2)


def loss_energy_ratio(network: Any, x: ArrayLike, y: ArrayLike, *, energy: Energy | None = None) -> float:
    """The loss over the equilibrated energy of a linear network, λ‖r‖²/2 over rᵀS⁻¹r/2, batch means: at least one, and
    one in the limit of Theorem 1, where predictive coding becomes backpropagation. NaN if both are zero.

    **Arguments:** as for `mupc.theory.equilibrium_energy`.

    **Example:**

    ```python
    import jax.numpy as jnp, jax.random as jr, mupc

    network = mupc.Network(in_size=8, out_size=3, width=64, hidden_layers=2, activation="linear", key=jr.key(0))
    mupc.theory.loss_energy_ratio(network, jnp.ones((5, 8)), jnp.zeros((5, 3)))      # near 1: wide and shallow
    ```
    """
    least = equilibrium_energy(network, x, y, energy=energy)
    weight = 1.0 if energy is None else float(energy.output_precision)
    loss = weight * float(np.mean(np.sum(_residual(network, x, y) ** 2, axis=1))) / 2
    return loss / least if least > 0 else float("nan")


def _linear(network: Any, energy: Energy | None, what: str) -> Energy:
    """The energy, where the network is linear with finite weights and the loss is the squared error."""
    check_weights(network)
    energy = Energy() if energy is None else energy
    if network.activation.name != "linear":
        raise ValueError(
            f"the {what} has a closed form for linear networks only, got activation {network.activation.name!r}. "
            "Use mupc.infer."
        )
    if energy.loss != "mse":
        raise ValueError(f'the {what} has a closed form for the loss "mse" only, got {energy.loss!r}. Use mupc.infer.')
    return energy


def _residual(network: Network, x: ArrayLike, y: ArrayLike) -> Float64[np.ndarray, "batch out"]:
    inputs = as_inputs(network, x)
    targets = as_targets(network, y, len(inputs))
    with jax.enable_x64(True):
        policy = _precision.POLICIES["float64"]
        exact, wide, wanted = policy.cast((network, inputs, targets))
        return np.asarray(wanted - forward_pass(exact, wide, policy)[1])
