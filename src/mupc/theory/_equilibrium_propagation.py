"""Equilibrium propagation in linear networks, in closed form: §A.2.5 of the paper.

Its output layer is free like the hidden ones, so its activities are a pair: the hidden ones (H, B, N) and the output
(B, C), as `mupc.forward` returns them. Where they are one vector (the rows of the Hessian) they are layer-major, the
output last. Matrices are a_ℓW_ℓ with the network's multipliers; in the paper these are one.
"""

import warnings
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import scipy.linalg as sl
from jaxtyping import Array, ArrayLike, Float, Float64

from ..inference import as_targets, check_activities
from ..io import checks
from ..network import AbstractLayer, Network, as_inputs, resolve_precision
from ._hessian import check_weights, matrices

Matrix = Float64[np.ndarray, "_ _"]
Pair = tuple[Float64[np.ndarray, "layers batch width"], Float64[np.ndarray, "batch out"]]


def ep_energy(
    network: Any, activities: Any, x: ArrayLike, y: ArrayLike | None = None, *, nudge: float = 0.0
) -> float | Float[Array, ""]:
    """The energy of equilibrium propagation, averaged over the batch. With z₀ = x, the output z_L and the nudge β,

        E = ½ Σ_ℓ ‖z_ℓ‖² − Σ_ℓ z_ℓᵀ(a_ℓW_ℓz_{ℓ-1} + b_ℓ) + β/2 ‖y − z_L‖²,      ℓ = 1 … L.

    It has no lower bound where `mupc.theory.ep_hessian` is not positive semidefinite.

    **Arguments:**

    - `network`: a linear `mupc.Network` without skips.
    - `activities`: the hidden ones and the output, ((H, B, N), (B, C)), as from `mupc.forward`.
    - `x`, `y`: inputs (B, D); targets (B, C) or labels (B,), which the free phase does without.
    - `nudge`: β, zero in the free phase and above zero in the nudged one.

    It can be differentiated in the activities by `jax.grad`, though not compiled by `jax.jit`.

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
    maps = _maps(network, nudge)
    inputs, targets = _sample(network, x, y, nudge)
    hidden, output = states(network, activities, len(inputs))
    drive = _drive(maps, inputs, targets, 0.0)
    total = ((hidden**2).sum() + (output**2).sum() + nudge * ((targets - output) ** 2).sum()) / 2
    total = total - (hidden * drive[0]).sum() - (output * drive[1]).sum() - (output * (hidden[-1] @ maps.last.T)).sum()
    total = (total - (hidden[1:] * (hidden[:-1] @ maps.hidden.mT)).sum()) / len(inputs)
    return total if isinstance(total, jax.Array) else float(total)


def ep_gradient(network: Any, activities: Any, x: ArrayLike, y: ArrayLike | None = None, *, nudge: float = 0.0) -> Pair:
    """The gradient of each sample's energy in its own activities, as a pair ((H, B, N), (B, C)):

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
    maps = _maps(network, nudge)
    inputs, targets = _sample(network, x, y, nudge)
    hidden, output = states(network, activities, len(inputs))
    drive = _drive(maps, inputs, targets, nudge)
    below = hidden - drive[0]
    below[1:] -= hidden[:-1] @ maps.hidden.mT
    below[:-1] -= hidden[1:] @ maps.hidden
    below[-1] -= output @ maps.last
    return below, (1 + nudge) * output - hidden[-1] @ maps.last.T - drive[1]


def ep_hessian(network: Any, *, nudge: float = 0.0) -> Matrix:
    """The dense activity Hessian of one sample, (H·N + C, H·N + C), layer-major with the output last:

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
    maps = _maps(network, nudge)
    width, top = network.width, network.hidden_layers * network.width
    lower = np.zeros((top + network.out_size, top + network.out_size))
    for layer, weight in enumerate(maps.hidden):
        start = layer * width
        lower[start + width : start + 2 * width, start : start + width] = weight
    lower[top:, top - width : top] = maps.last
    diagonal = np.ones(len(lower))
    diagonal[top:] += nudge
    return np.diag(diagonal) - lower - lower.T


def ep_solution(network: Any, x: ArrayLike, y: ArrayLike | None = None, *, nudge: float = 0.0) -> Pair:
    """The activities ((H, B, N), (B, C)) at which the gradient is zero, z* = H⁻¹b with H of `mupc.theory.ep_hessian`:

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
    maps = _maps(network, nudge)
    hidden, output = _drive(maps, *_sample(network, x, y, nudge), nudge)
    flat = np.concatenate([*hidden, output], axis=1)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", sl.LinAlgWarning)
            found = sl.solve(ep_hessian(network, nudge=nudge), flat.T, assume_a="sym").T
    except (np.linalg.LinAlgError, sl.LinAlgWarning):
        raise ValueError(
            f"the Hessian of equilibrium propagation is singular at nudge={nudge:g}, so there is no one solution. "
            "Change the nudge or the weights."
        ) from None
    top = hidden.shape[0] * hidden.shape[2]
    return found[:, :top].reshape(len(found), *hidden.shape[::2]).swapaxes(0, 1), found[:, top:]


class _Maps(NamedTuple):
    """a_ℓW_ℓ and b_ℓ of the input layer, the hidden ones and the readout."""

    first: Matrix
    hidden: Float64[np.ndarray, "_ width width"]
    last: Matrix
    biases: tuple[np.ndarray, np.ndarray, np.ndarray]


def _maps(network: Any, nudge: float) -> _Maps:
    check_weights(network)
    checks.number("nudge", nudge, at_least=0)
    what = "the closed form of equilibrium propagation"
    if network.activation.name != "linear":
        raise ValueError(f"{what} is for linear networks only, got activation {network.activation.name!r}.")
    if network.skip:
        raise ValueError(f"{what} is for networks without skips, got skip={network.skip}. Make it with skip=0.")
    first, hidden, last = network.multipliers
    width, inner = network.width, network.hidden_layers - 1
    biases = (
        _bias(network.input, network.in_size),
        _bias(network.hidden, width, inner),
        _bias(network.readout, width),
    )
    return _Maps(
        first * matrices(network.input, network.in_size),
        hidden * matrices(network.hidden, width, inner),
        last * matrices(network.readout, width),
        biases,
    )


def _bias(layer: AbstractLayer, columns: int, *stack: int) -> Float64[np.ndarray, "*stack one rows"]:
    """What a layer makes of zero."""
    policy = resolve_precision(None, layer)
    return np.asarray(layer.affine(jnp.zeros((*stack, 1, columns), policy.dtype), 1.0, policy), np.float64)


def _sample(network: Network, x: ArrayLike, y: ArrayLike | None, nudge: float) -> tuple[Matrix, Matrix]:
    """Inputs and targets in float64; zeros for the targets that a free phase does without."""
    with jax.enable_x64(True):
        inputs = np.asarray(as_inputs(network, x), np.float64)
        if y is None and nudge == 0:
            return inputs, np.zeros((len(inputs), network.out_size))
        return inputs, np.asarray(as_targets(network, y, len(inputs)), np.float64)


def states(network: Network, activities: Any, batch: int) -> tuple[Any, Any]:
    """Hidden activities and output after a check of their shapes, in float64 unless JAX traces them."""
    if not (isinstance(activities, tuple | list) and len(activities) == 2):
        raise TypeError(
            f"activities must be a pair (hidden, output), such as mupc.forward(network, x), "
            f"got {type(activities).__name__}."
        )
    hidden, output = activities
    check_activities(network, hidden, batch)
    checks.shape("the output in activities", output, (batch, network.out_size), "It is (batch, out_size).")
    hidden, output = (a if isinstance(a, jax.core.Tracer) else np.asarray(a, np.float64) for a in (hidden, output))
    return hidden, output


def _drive(maps: _Maps, x: Matrix, y: Matrix, nudge: float) -> Pair:
    """What the gradient holds that does not depend on the activities: b of z* = H⁻¹b."""
    batch, width = len(x), len(maps.first)
    first, inner, last = maps.biases
    hidden = np.concatenate([(x @ maps.first.T + first)[None], np.broadcast_to(inner, (len(inner), batch, width))])
    return hidden, nudge * y + last
