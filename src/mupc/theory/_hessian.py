"""The activity Hessian in closed form, block by block: §3.1, §A.2.1 and §A.2.4 of the paper."""

import dataclasses
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import ArrayLike, Float64

from .. import _precision
from .._energy import Energy, as_targets, check_activities, errors
from .._layer import AbstractLayer
from .._network import Network, as_inputs, check_network

Blocks = Float64[np.ndarray, "_ width width"]
Matrix = Float64[np.ndarray, "_ _"]
Vector = Float64[np.ndarray, "_"]


@dataclasses.dataclass(frozen=True)
class HessianBlocks:
    """A symmetric block-banded matrix over the layers 1 … H, and over a free z₀ before them.

    - `diagonal`: the blocks H_ℓℓ, (H, N, N).
    - `below`: for each offset k that occurs, the blocks H_{ℓ+k,ℓ}, (H − k, N, N). The blocks above the diagonal are
      their transposes. Offset 1 always; with a skip over n > 1 layers also n and n − 1.
    - `input`, `entry`: H₀₀ (D, D) and H₁₀ (N, D) where z₀ is free, otherwise None.
    """

    diagonal: Blocks
    below: dict[int, Blocks]
    input: Matrix | None = None
    entry: Matrix | None = None

    @property
    def in_size(self) -> int:
        """How many of the unknowns belong to a free z₀."""
        return 0 if self.input is None else self.input.shape[0]

    @property
    def size(self) -> int:
        """The number of unknowns: H·N, and D more where z₀ is free."""
        return self.diagonal.shape[0] * self.diagonal.shape[1] + self.in_size

    def product(self, vector: Vector) -> Vector:
        """The matrix times a vector, in O(H·N²)."""
        start = self.in_size
        v = vector[start:].reshape(*self.diagonal.shape[:2], 1)
        out = self.diagonal @ v
        for offset, blocks in self.below.items():
            out[offset:] += blocks @ v[:-offset]
            out[:-offset] += blocks.swapaxes(1, 2) @ v[offset:]
        if self.input is None or self.entry is None:
            return out.ravel()
        out[0, :, 0] += self.entry @ vector[:start]
        return np.concatenate([self.input @ vector[:start] + self.entry.T @ v[0, :, 0], out.ravel()])

    def dense(self) -> Matrix:
        """The whole matrix, layer-major, z₀ first where it is free."""
        depth, width, _ = self.diagonal.shape
        hidden = np.zeros((depth, width, depth, width))
        layer = np.arange(depth)
        hidden[layer, :, layer, :] = self.diagonal
        for offset, blocks in self.below.items():
            hidden[layer[offset:], :, layer[:-offset], :] = blocks
            hidden[layer[:-offset], :, layer[offset:], :] = blocks.swapaxes(1, 2)
        whole = np.zeros((self.size, self.size))
        start = self.in_size
        whole[start:, start:] = hidden.reshape(depth * width, depth * width)
        if self.input is not None and self.entry is not None:
            whole[:start, :start] = self.input
            whole[start : start + width, :start] = self.entry
            whole[:start, start : start + width] = self.entry.T
        return whole


def hessian_blocks(
    network: Any,
    x: ArrayLike | None = None,
    y: ArrayLike | None = None,
    activities: Any = None,
    *,
    energy: Energy | None = None,
    free_input: bool = False,
) -> HessianBlocks:
    """The blocks of the activity Hessian ∂²F/∂z² of one sample. With M_ℓ = a_ℓ W_ℓ diag(φ′(z_{ℓ-1})) and a skip n,

        H = Σ_ℓ A_ℓᵀA_ℓ + λ M_LᵀS M_L + αI − diag(φ″(z_ℓ) ⊙ a_{ℓ+1} W_{ℓ+1}ᵀ e_{ℓ+1}),

    where A_ℓ dz = dz_ℓ − M_ℓ dz_{ℓ-1} − τ_ℓ dz_{ℓ-n}, S is the second derivative of the output loss (the identity for
    the squared error) and e_L stands for λ times the output error. For a linear network with the squared error this is
    the same at every sample and needs none. Biases enter through the errors only.

    **Arguments:**

    - `network`: a `mupc.Network`, the only source of the multipliers.
    - `x`, `y`, `activities`: one sample, (D,) or (1, D), (C,) or (1, C) or its label, and (H, N) or (H, 1, N). All but
      linear networks with the squared error need `activities` and `y`. No Hessian depends on `x`; it is checked only.
    - `energy`: `mupc.Energy(...)`; its weight penalties do not matter here.
    - `free_input`: whether z₀ is free too (the unsupervised case).

    **Example:**

    ```python
    import jax.random as jr, mupc

    network = mupc.Network(in_size=8, out_size=3, width=16, hidden_layers=4, activation="linear", key=jr.key(0))
    blocks = mupc.theory.hessian_blocks(network)
    blocks.diagonal.shape, blocks.below[1].shape     # (4, 16, 16), (3, 16, 16)
    ```
    """
    check_weights(network)
    energy = Energy() if energy is None else energy
    point = _point(network, x, y, activities, energy)
    decay = float(energy.activity_decay)
    first, hidden, last = network.multipliers
    depth, width, skip = network.hidden_layers, network.width, network.skip
    eye = np.eye(width)
    maps = hidden * matrices(network.hidden, width, depth - 1) * point.slopes[:-1, None, :]
    readout = last * matrices(network.readout, width) * point.slopes[-1]
    if skip == 1:
        maps = maps + eye
    diagonal = np.empty((depth, width, width))
    np.matmul(maps.swapaxes(1, 2), maps, out=diagonal[:-1])
    diagonal[-1] = float(energy.output_precision) * readout.T @ point.curvature @ readout
    layer, unit = np.arange(depth)[:, None], np.arange(width)
    diagonal[layer, unit, unit] += 1 + decay + point.bend
    below = {1: -maps}
    if 1 < skip < depth:
        diagonal[: depth - skip] += eye
        across = maps[skip - 1 :].swapaxes(1, 2)  # e_ℓ ties layer ℓ − 1 to layer ℓ − n
        if skip == 2:
            below[1][: depth - 2] += across
        else:
            below[skip - 1] = np.concatenate([across, np.zeros((1, width, width))])
        below[skip] = np.broadcast_to(-eye, (depth - skip, width, width))
    if not np.all(np.isfinite(diagonal)):
        raise ValueError("the activity Hessian is not finite: check activities and y for NaN, inf or huge values.")
    if not free_input:
        return HessianBlocks(diagonal, below)
    entry = -first * matrices(network.input, network.in_size)
    return HessianBlocks(diagonal, below, entry.T @ entry + decay * np.eye(network.in_size), entry)


def activity_hessian(
    network: Any,
    x: ArrayLike | None = None,
    y: ArrayLike | None = None,
    activities: Any = None,
    *,
    energy: Energy | None = None,
    free_input: bool = False,
) -> Matrix:
    """The dense activity Hessian (H·N, H·N), layer-major; (D + H·N, D + H·N) with z₀ first where that is free.

    **Arguments:** as for `mupc.theory.hessian_blocks`, which has the equation.

    **Example:**

    ```python
    import jax.random as jr, mupc

    network = mupc.Network(in_size=8, out_size=3, width=16, hidden_layers=4, activation="linear", key=jr.key(0))
    mupc.theory.activity_hessian(network).shape      # (64, 64)
    ```
    """
    return hessian_blocks(network, x, y, activities, energy=energy, free_input=free_input).dense()


def check_weights(network: Any) -> None:
    """A network with finite weights."""
    check_network(network)
    leaves = jax.tree.leaves((network.input, network.hidden, network.readout))
    if not all(bool(jnp.all(jnp.isfinite(leaf))) for leaf in leaves):
        raise ValueError("the network has NaN or infinite weights: its theory is not defined. Train at a smaller rate.")


def matrices(layer: AbstractLayer, columns: int, *stack: int) -> Float64[np.ndarray, "*stack rows columns"]:
    """A layer's W in float64, or those of a stack of layers."""
    policy = _precision.resolve(None, layer)
    eye = jnp.broadcast_to(jnp.eye(columns, dtype=policy.dtype), (*stack, columns, columns))
    return np.asarray(layer.linear_map(policy).linear(eye), np.float64)


class _Point(NamedTuple):
    """What the Hessian needs to know of a sample: φ′, the diagonal from φ″, and the curvature of the loss."""

    slopes: Float64[np.ndarray, "layers width"]
    bend: Float64[np.ndarray, "layers width"]
    curvature: Matrix


def _point(network: Network, x: Any, y: Any, activities: Any, energy: Energy) -> _Point:
    depth, width, out = network.hidden_layers, network.width, network.out_size
    x = np.zeros((1, network.in_size)) if x is None else x
    x = as_inputs(network, np.asarray(x)[None] if np.ndim(x) == 1 else np.asarray(x))
    if len(x) != 1:
        raise ValueError(f"x must be one sample, got {len(x)}: an activity Hessian belongs to one sample.")
    if y is not None:
        floating = jnp.issubdtype(jnp.result_type(y), jnp.floating)
        y = as_targets(network, np.asarray(y)[None] if np.ndim(y) == (1 if floating else 0) else np.asarray(y), 1)
    if activities is not None:
        flat = np.ndim(activities) == 2 and not hasattr(activities, "activities")
        activities = np.asarray(activities)[:, None] if flat else activities
        check_activities(network, activities, 1)
    if network.activation.name == "linear" and energy.loss == "mse":
        return _Point(np.ones((depth, width)), np.zeros((depth, width)), np.eye(out))
    if activities is None or y is None:
        missing = "activities" if activities is None else "y"
        raise ValueError(
            f"{missing} missing: the Hessian of activation {network.activation.name!r} with loss {energy.loss!r} "
            "depends on the sample. Pass x, y and activities of one sample, such as mupc.forward(network, x)[0]."
        )
    with jax.enable_x64(True):
        policy = _precision.POLICIES["float64"]
        net = policy.cast(network)
        z, inputs, targets = (jnp.asarray(np.asarray(a), jnp.float64) for a in (activities, x, y))
        _, hidden, last = network.multipliers
        e, output = errors(net, z, inputs, policy)
        inner = hidden * net.hidden.transpose(e[1:], policy)
        signal = energy.output_precision * energy.output_error(output, targets)
        back = jnp.concatenate([inner, last * net.readout.transpose(signal, policy)[None]])
        derivative = network.activation.derivative
        bend = -jax.jvp(derivative, (z,), (jnp.ones_like(z),))[1] * back
        every = (jnp.broadcast_to(output, (out, out)), jnp.broadcast_to(targets, (out, out)), jnp.eye(out))
        curvature = energy.output_curvature(*every)
        return _Point(*(np.asarray(a, np.float64) for a in (derivative(z)[:, 0], bend[:, 0], curvature)))
