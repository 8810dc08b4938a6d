"""Equilibrium propagation in linear networks, in closed form: §A.2.5 of the paper.

Its output layer is free like the hidden ones, so its activities are a pair: the hidden ones (H, B, N) and the output
(B, C), as `mupc.forward` returns them. Where they are one vector (the rows of the Hessian) they are layer-major, the
output last. Matrices are a_ℓW_ℓ with the network's multipliers; in the paper these are one.
"""

import warnings

import jax
import jax.numpy as jnp
import numpy as np
import scipy
from jaxtyping import Array, ArrayLike, Float, Float64

from ..inference import as_targets, check_activities
from ..io import checks
from ..network import Network, Rows, as_inputs
from ._equilibrium import check_linear
from ._hessian import FLOAT64, matrices

Matrix = Float64[np.ndarray, "_ _"]
Pair = tuple[Float64[np.ndarray, "layers batch width"], Float64[np.ndarray, "batch out"]]
Given = tuple[ArrayLike, ArrayLike] | list[ArrayLike]
"""Hidden activities and the output, as users pass them."""
Flat = Float[np.ndarray | Array, "batch size"]


def ep_energy(
    network: Network, activities: Given, x: Rows, y: Rows | None = None, *, nudge: float = 0.0
) -> float | Float[Array, ""]:
    """Return the energy of equilibrium propagation, batch mean. With z₀ = x, the output z_L and the nudge β,

        E = ½ Σ_ℓ ‖z_ℓ‖² − Σ_ℓ z_ℓᵀ(a_ℓW_ℓz_{ℓ-1} + b_ℓ) + β/2 ‖y − z_L‖²,      ℓ = 1 … L.

    It has no lower bound where `mupc.theory.ep_hessian` is not positive semidefinite.

    **Arguments:**

    - `network`: a linear `mupc.Network` without skips.
    - `activities`: the hidden ones and the output, ((H, B, N), (B, C)), as from `mupc.forward`.
    - `x`, `y`: inputs (B, D); targets (B, C) or labels (B,), which the free phase does not need.
    - `nudge`: β, zero in the free phase and above zero in the nudged one.

    `jax.grad` can differentiate it in the activities, but `jax.jit` cannot compile it.

    **Example:**

    ```python
    import jax.numpy as jnp, jax.random as jr, mupc

    network = mupc.Network(8, 3, 16, 4, activation="linear", skip=0, key=jr.key(0))
    x, y = jnp.ones((5, 8)), jnp.zeros((5, 3))
    activities = mupc.forward(network, x)
    mupc.theory.ep_energy(network, activities, x)                   # free
    mupc.theory.ep_energy(network, activities, x, y, nudge=0.5)     # nudged: at least as high
    ```
    """
    hessian, drive, targets = _quadratic(network, x, y, nudge)
    z = flatten(network, activities, len(drive))
    total = ((z @ hessian / 2 - drive) * z).sum() + nudge * (targets**2).sum() / 2
    return total / len(z) if isinstance(total, jax.Array) else float(total / len(z))


def ep_gradient(network: Network, activities: Given, x: Rows, y: Rows | None = None, *, nudge: float = 0.0) -> Pair:
    """Return the gradient of each sample's energy in its own activities, as a pair ((H, B, N), (B, C)):

        ∂E/∂z_ℓ = z_ℓ − a_ℓW_ℓz_{ℓ-1} − b_ℓ − a_{ℓ+1}W_{ℓ+1}ᵀz_{ℓ+1},      ℓ < L,
        ∂E/∂z_L = z_L − a_LW_Lz_{L-1} − b_L − β(y − z_L).

    This is B times the gradient of `mupc.theory.ep_energy`, which averages over the batch.

    **Arguments:** as for `mupc.theory.ep_energy`.

    **Example:**

    ```python
    import jax.numpy as jnp, jax.random as jr, mupc

    network = mupc.Network(8, 3, 16, 4, activation="linear", skip=0, key=jr.key(0))
    x = jnp.ones((5, 8))
    hidden, output = mupc.theory.ep_gradient(network, mupc.forward(network, x), x)
    hidden.shape, output.shape      # (4, 5, 16), (5, 3)
    ```
    """
    hessian, drive, _ = _quadratic(network, x, y, nudge)
    return _split(network, np.asarray(flatten(network, activities, len(drive))) @ hessian - drive)


def ep_hessian(network: Network, *, nudge: float = 0.0) -> Matrix:
    """Return the dense activity Hessian of one sample, (H·N + C, H·N + C), layer-major with the output last:

        H_ℓℓ = I for ℓ < L,      H_LL = (1 + β)I,      H_{ℓ,ℓ-1} = −a_ℓW_ℓ = H_{ℓ-1,ℓ}ᵀ,      zero elsewhere.

    Unlike that of predictive coding it need not be positive definite: with one hidden unit and one output, it is
    indefinite where (a₂w₂)² > 1 + β.

    **Arguments:** a linear `mupc.Network` without skips, and `nudge` as for `mupc.theory.ep_energy`.

    **Example:**

    ```python
    import jax.random as jr, numpy as np, mupc

    network = mupc.Network(8, 3, 16, 4, activation="linear", parameterisation="sp", skip=0, key=jr.key(0))
    hessian = mupc.theory.ep_hessian(network)
    hessian.shape                           # (67, 67)
    np.linalg.eigvalsh(hessian)[0] < 0      # True: the free energy of this network has no minimum
    ```
    """
    what = "the closed form of equilibrium propagation"
    check_linear(network, None, what, cure='Use activation="linear".')
    checks.number("nudge", nudge, at_least=0)
    if network.skip:
        raise ValueError(f"{what} is for networks without skips, got skip={network.skip}. Use skip=0.")
    _, inner, last = network.multipliers
    width, top = network.width, network.hidden_layers * network.width
    lower = np.zeros((top + network.out_size, top + network.out_size))
    for layer, weight in enumerate(inner * matrices(network.hidden)):
        start = layer * width
        lower[start + width : start + 2 * width, start : start + width] = weight
    lower[top:, top - width : top] = last * matrices(network.readout)
    diagonal = np.ones(len(lower))
    diagonal[top:] += nudge
    return np.diag(diagonal) - lower - lower.T


def ep_solution(network: Network, x: Rows, y: Rows | None = None, *, nudge: float = 0.0) -> Pair:
    """Return the activities ((H, B, N), (B, C)) where the gradient is zero, z* = H⁻¹b with H of
    `mupc.theory.ep_hessian`:

        b₁ = a₁W₁x,      b_ℓ = 0 for 1 < ℓ < L,      b_L = βy,      plus biases.

    They are the minimum of the energy if the Hessian is positive definite, and a saddle point if it is indefinite.

    **Arguments:** as for `mupc.theory.ep_energy`. A singular Hessian is a `ValueError`.

    **Example:**

    ```python
    import jax.numpy as jnp, jax.random as jr, mupc

    network = mupc.Network(8, 3, 16, 4, activation="linear", skip=0, key=jr.key(0))
    x, y = jnp.ones((5, 8)), jnp.zeros((5, 3))
    free = mupc.theory.ep_solution(network, x)
    nudged = mupc.theory.ep_solution(network, x, y, nudge=0.5)
    abs(nudged[1]).sum() < abs(free[1]).sum()       # True: the nudge draws the output to its target
    ```
    """
    hessian, drive, _ = _quadratic(network, x, y, nudge)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", scipy.linalg.LinAlgWarning)
            return _split(network, scipy.linalg.solve(hessian, drive.T, assume_a="sym").T)
    except (np.linalg.LinAlgError, scipy.linalg.LinAlgWarning):
        raise ValueError(
            f"the Hessian of equilibrium propagation is singular at nudge={nudge:g}, so the solution is not unique. "
            "Change the nudge or the weights."
        ) from None


def _quadratic(network: Network, x: Rows, y: Rows | None, nudge: float) -> tuple[Matrix, Matrix, Matrix]:
    """Return H, b and y of the energy Σ_i (½ z_iᵀHz_i − b_iᵀz_i + β/2 ‖y_i‖²). A free phase needs no targets: zeros."""
    hessian = ep_hessian(network, nudge=nudge)
    first, inner, last = network.multipliers
    with jax.enable_x64(True):
        exact, inputs = FLOAT64.cast((network, as_inputs(network, x)))
        batch, depth, width = len(inputs), network.hidden_layers, network.width
        free = y is None and nudge == 0
        targets = jnp.zeros((batch, network.out_size)) if free else FLOAT64.cast(as_targets(network, y, batch))
        above = exact.hidden.affine(jnp.zeros((depth - 1, batch, width)), inner, FLOAT64)  # the biases
        output = exact.readout.affine(jnp.zeros((batch, width)), last, FLOAT64) + nudge * targets
        drive = jnp.concatenate([exact.input.affine(inputs, first, FLOAT64), *above, output], axis=1)
        return hessian, np.asarray(drive), np.asarray(targets)


def flatten(network: Network, activities: Given, batch: int) -> Flat:
    """Check hidden activities and output; return them as a row per sample, in float64 unless JAX traces them."""
    if not (isinstance(activities, tuple | list) and len(activities) == 2):
        raise TypeError(
            f"activities must be a pair (hidden, output), such as mupc.forward(network, x), "
            f"got {type(activities).__name__}."
        )
    hidden, output = activities
    check_activities(network, hidden, batch)
    checks.shape("the output in activities", output, (batch, network.out_size), "It is (batch, out_size).")
    if any(isinstance(part, jax.core.Tracer) for part in activities):
        return jnp.concatenate([*jnp.asarray(hidden), jnp.asarray(output)], axis=1)
    return np.concatenate([*np.asarray(hidden, np.float64), np.asarray(output, np.float64)], axis=1)


def _split(network: Network, rows: Matrix) -> Pair:
    """Return hidden activities and output from a row per sample."""
    parts = np.split(rows, network.width * np.arange(1, network.hidden_layers + 1), axis=1)
    return np.stack(parts[:-1]), parts[-1]
