"""The inference equilibrium of linear networks, its energy and its gradients: §3.1 and §A.2.6 of the paper."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Float, Float64

from ..inference import Energy, ExactLinear, as_energy, as_targets, infer
from ..network import POLICIES, Activities, Inputs, Network, Outputs, Scalar, as_inputs, backward_pass, forward_pass
from ._hessian import check_weights

EXACT = POLICIES["float64"]
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
    check_linear(network, energy, "the equilibrium in closed form", decays=True)
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
    energy = check_linear(network, energy, "the rescaling")
    with jax.enable_x64(True):
        return np.array(_rescaling(EXACT.cast(network), _weight(energy)))


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
    return _energies(network, x, y, energy)[0]


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
    least, loss = _energies(network, x, y, energy)
    return loss / least if least > 0 else float("nan")


def equilibrium_gradients(network: Any, x: ArrayLike, y: ArrayLike, *, energy: Energy | None = None) -> Network:
    """The gradient of the equilibrated energy of a linear network in its weights and biases, divided by λ:

        (1/λ) ∂/∂W_ℓ [1/(2B) Σ_i r_iᵀ S⁻¹ r_i]      (Eq. 31, r and S both depending on the weights),

    by differentiation of the closed form in float64. Since ∂F/∂z = 0 at equilibrium, it is what
    `mupc.weight_gradients` gives there from local errors; weight penalties are added as they are there.

    **Arguments:** as for `mupc.theory.equilibrium_energy`.

    **Returns:** a `Network` that holds gradients in place of weights, as numpy arrays in float64.

    **Example:**

    ```python
    import jax.numpy as jnp, jax.random as jr, mupc

    network = mupc.Network(in_size=8, out_size=3, width=16, hidden_layers=4, activation="linear", key=jr.key(0))
    gradients = mupc.theory.equilibrium_gradients(network, jnp.ones((5, 8)), jnp.zeros((5, 3)))
    gradients.hidden.weight.shape       # (3, 16, 16)
    ```
    """
    energy = check_linear(network, energy, "the equilibrated energy")
    with jax.enable_x64(True):
        penalty = energy if energy.penalises_weights else None
        found = _gradients(*_batch(network, x, y), _weight(energy), penalty)
        return jax.tree.map(np.array, found)


def check_linear(
    network: Any, energy: Energy | None, what: str, *, decays: bool = False, cure: str = "Use mupc.infer."
) -> Energy:
    """The energy, where the network is linear with finite weights, the loss is the squared error, and activities decay
    only if they may."""
    check_weights(network)
    energy = as_energy(energy)
    if network.activation.name != "linear":
        raise ValueError(f"{what} is for linear networks only, got activation {network.activation.name!r}. {cure}")
    if energy.loss != "mse":
        raise ValueError(f'{what} is for the loss "mse" only, got {energy.loss!r}. {cure}')
    decay = float(energy.activity_decay)
    if decay != 0 and not decays:
        raise ValueError(f"{what} holds without activity decay, got activity_decay={decay:g}. {cure}")
    return energy


def readout(network: Network) -> Float[Array, "out width"]:
    """a_L W_L of a network in float64."""
    return network.multipliers[2] * network.readout.transpose(jnp.eye(network.out_size), EXACT)


def gains(network: Network, top: Float[Array, "rows width"]) -> Float[Array, "layers rows width"]:
    """J_ℓ of every hidden layer of a linear network in float64, where J_H is `top`: `readout`, or a rotation of it."""
    anywhere = jnp.zeros((network.hidden_layers, len(top), network.width))
    return backward_pass(network, anywhere, top, EXACT)


@eqx.filter_jit
def _rescaling(network: Network, weight: Scalar) -> Float[Array, "out out"]:
    found = gains(network, readout(network))
    return jnp.eye(network.out_size) / weight + jnp.einsum("hcn,hdn->cd", found, found)


@eqx.filter_jit
def _closed_form(network: Network, x: Inputs, y: Outputs, weight: Scalar) -> tuple[Scalar, Scalar]:
    """The equilibrated energy, and the loss times λ, batch means."""
    r = y - forward_pass(network, x, EXACT)[1]
    least = jnp.sum(r.T * jnp.linalg.solve(_rescaling(network, weight), r.T)) / (2 * len(r))
    return least, weight * jnp.sum(r**2) / (2 * len(r))


@eqx.filter_jit
def _gradients(network: Network, x: Inputs, y: Outputs, weight: Scalar, penalty: Energy | None) -> Network:
    def value(network: Network) -> Scalar:
        least = _closed_form(network, x, y, weight)[0] / weight
        return least if penalty is None else least + jnp.sum(penalty.layer_penalties(network))

    return eqx.filter_grad(value)(network)


def _energies(network: Any, x: ArrayLike, y: ArrayLike, energy: Energy | None) -> tuple[float, float]:
    """`_closed_form` of what a user passes in."""
    energy = check_linear(network, energy, "the equilibrated energy")
    with jax.enable_x64(True):
        least, loss = _closed_form(*_batch(network, x, y), _weight(energy))
        return float(least), float(loss)


def _batch(network: Network, x: ArrayLike, y: ArrayLike) -> tuple[Network, Inputs, Outputs]:
    """The network, inputs and targets in float64."""
    inputs = as_inputs(network, x)
    exact: tuple[Network, Inputs, Outputs] = EXACT.cast((network, inputs, as_targets(network, y, len(inputs))))
    return exact


def _weight(energy: Energy) -> Scalar:
    """λ as an array, so that no value of it is compiled in."""
    return jnp.asarray(float(energy.output_precision), jnp.float64)
