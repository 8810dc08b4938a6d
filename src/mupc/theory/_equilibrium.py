"""The inference equilibrium of linear networks, its energy and its gradients: §3.1 and §A.2.6 of the paper."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Float64

from ..inference import Energy, ExactLinear, as_energy, as_targets, infer
from ..network import Activities, Inputs, Network, Outputs, Rows, Scalar, as_inputs
from ._hessian import FLOAT64, check_weights

Matrix = Float64[np.ndarray, "out out"]


def equilibrium(network: Network, x: Rows, y: Rows, *, energy: Energy | None = None) -> Activities:
    """Return the activities z* = H⁻¹b (Eq. 3) that minimise the energy of a linear network, (H, B, N).

    **Arguments:** a linear network, inputs (B, D), targets (B, C) or labels (B,), and `energy=mupc.Energy(...)` with
    the squared error. `mupc.ExactLinear` finds the activities, in the precision of the weights.

    **Example:**

    ```python
    import jax.numpy as jnp, jax.random as jr, mupc

    network = mupc.Network(in_size=8, out_size=3, width=16, hidden_layers=4, activation="linear", key=jr.key(0))
    mupc.theory.equilibrium(network, jnp.ones((5, 8)), jnp.zeros((5, 3))).shape     # (4, 5, 16)
    ```
    """
    check_linear(network, energy, "the equilibrium in closed form", decays=True)
    return infer(network, x, y, ExactLinear(), energy=energy).activities


def rescaling(network: Network, *, energy: Energy | None = None) -> Matrix:
    """Return the rescaling S (C, C) of Eq. 32, which turns the loss of a linear network into its equilibrated energy:

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
        return np.array(_rescaling(FLOAT64.cast(network), _weight(energy)))


def equilibrium_energy(network: Network, x: Rows, y: Rows, *, energy: Energy | None = None) -> float:
    """Return the energy of a linear network at its inference equilibrium (Eq. 31), batch mean, no weight penalties:

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


def loss_energy_ratio(network: Network, x: Rows, y: Rows, *, energy: Energy | None = None) -> float:
    """Return the loss over the equilibrated energy of a linear network, λ‖r‖²/2 over rᵀS⁻¹r/2, batch means. It is at
    least one, and one in the limit of Theorem 1, where predictive coding becomes backpropagation. NaN if both are zero.

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


def equilibrium_gradients(network: Network, x: Rows, y: Rows, *, energy: Energy | None = None) -> Network:
    """Return the gradient of the equilibrated energy of a linear network in its weights and biases, divided by λ:

        (1/λ) ∂/∂W_ℓ [1/(2B) Σ_i r_iᵀ S⁻¹ r_i]      (Eq. 31, r and S both depend on the weights),

    by differentiation of the closed form in float64. Since ∂F/∂z = 0 at equilibrium, `mupc.weight_gradients` gives the
    same there from local errors. Weight penalties are added as they are there.

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
    network: Network, energy: Energy | None, what: str, *, decays: bool = False, cure: str = "Use mupc.infer."
) -> Energy:
    """Return the energy; refuse all but linear networks with finite weights, the squared error, and activity decay
    unless `decays` allows it."""
    check_weights(network)
    energy = as_energy(energy)
    if network.activation.name != "linear":
        wrong = f"is for linear networks only, got activation {network.activation.name!r}."
    elif energy.output_function != "mse":
        wrong = f'is for the loss "mse" only, got {energy.loss_name!r}.'
    elif float(energy.activity_decay) != 0 and not decays:
        wrong = f"holds without activity decay, got activity_decay={float(energy.activity_decay):g}."
    else:
        return energy
    raise ValueError(f"{what} {wrong} {cure}")


def readout(network: Network) -> Float[Array, "out width"]:
    """Return a_L W_L of a network in float64."""
    return network.multipliers[2] * network.readout.transpose(jnp.eye(network.out_size), FLOAT64)


def gains(network: Network, top: Float[Array, "rows width"]) -> Float[Array, "layers rows width"]:
    """Return J_ℓ of every hidden layer of a linear network in float64. `top` is J_H: `readout`, or a rotation of it."""
    anywhere = jnp.zeros((network.hidden_layers, len(top), network.width))
    return network.carry_back(anywhere, top, FLOAT64)


@eqx.filter_jit
def _rescaling(network: Network, weight: Scalar) -> Float[Array, "out out"]:
    found = gains(network, readout(network))
    return jnp.eye(network.out_size) / weight + jnp.einsum("hcn,hdn->cd", found, found)


@eqx.filter_jit
def _closed_form(network: Network, x: Inputs, y: Outputs, weight: Scalar) -> tuple[Scalar, Scalar]:
    """Return the equilibrated energy, and the loss times λ, batch means."""
    r = y - network.forward_pass(x, FLOAT64)[1]
    least = jnp.sum(r.T * jnp.linalg.solve(_rescaling(network, weight), r.T)) / (2 * len(r))
    return least, weight * jnp.sum(r**2) / (2 * len(r))


@eqx.filter_jit
def _gradients(network: Network, x: Inputs, y: Outputs, weight: Scalar, penalty: Energy | None) -> Network:
    def value(network: Network) -> Scalar:
        least = _closed_form(network, x, y, weight)[0] / weight
        return least if penalty is None else least + jnp.sum(penalty.layer_penalties(network))

    return eqx.filter_grad(value)(network)


def _energies(network: Network, x: Rows, y: Rows, energy: Energy | None) -> tuple[float, float]:
    """Check the arguments, then return `_closed_form`."""
    energy = check_linear(network, energy, "the equilibrated energy")
    with jax.enable_x64(True):
        least, loss = _closed_form(*_batch(network, x, y), _weight(energy))
        return float(least), float(loss)


def _batch(network: Network, x: Rows, y: Rows) -> tuple[Network, Inputs, Outputs]:
    """Return the network, inputs and targets in float64."""
    inputs = as_inputs(network, x)
    exact: tuple[Network, Inputs, Outputs] = FLOAT64.cast((network, inputs, as_targets(network, y, len(inputs))))
    return exact


def _weight(energy: Energy) -> Scalar:
    """Return λ as an array, so that all its values share one compiled program."""
    return jnp.asarray(float(energy.output_weight), jnp.float64)
