"""The activity Hessian in closed form, block by block: §3.1, §A.2.1 and §A.2.4 of the paper."""

import dataclasses
from collections.abc import Iterator
from typing import Any, NamedTuple, TypedDict, Unpack

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float64

from ..inference import Energy, as_energy, as_targets, check_activities
from ..io import checks
from ..network import POLICIES, AbstractNetwork, Dense, Inputs, Network, Outputs, Rows, as_inputs, check_network

FLOAT64 = POLICIES["float64"]
Blocks = Float64[np.ndarray, "_ width width"]
Matrix = Float64[np.ndarray, "_ _"]
Vectors = Float64[np.ndarray, "size *several"]


class Ends(TypedDict, total=False):
    """Keywords that free the ends of the network; see `mupc.theory.hessian_blocks`."""

    free_input: bool
    free_output: bool
    dummy_input: bool
    dummy_output: bool


@dataclasses.dataclass(frozen=True)
class HessianBlocks:
    """A symmetric block-banded matrix over the layers 1 … H, with z₀ before and z_L after them where those are free.

    - `diagonal`: the blocks H_ℓℓ, (H, N, N).
    - `below`: for each offset k, the blocks H_{ℓ+k,ℓ}, (H − k, N, N). The blocks above the diagonal are their
      transposes. Offset 1 is always there; a skip over n > 1 layers adds n and n − 1.
    - `input`, `entry`: H₀₀ (D, D) and H₁₀ (N, D); D = 0 where z₀ is not free.
    - `output`, `exit`: H_LL (C, C) and H_{L,H} (C, N); C = 0 where z_L is not free.
    """

    diagonal: Blocks
    below: dict[int, Blocks]
    input: Matrix
    entry: Matrix
    output: Matrix
    exit: Matrix

    @property
    def in_size(self) -> int:
        """The number of unknowns in a free z₀."""
        return len(self.input)

    @property
    def size(self) -> int:
        """The number of unknowns: H·N, and D or C more where z₀ or z_L is free."""
        return self.in_size + self.diagonal.shape[0] * self.diagonal.shape[1] + len(self.output)

    def lower(self) -> Iterator[tuple[slice, slice, Matrix]]:
        """Yield rows, columns and values of every block on and below the diagonal. Those of the ends may be empty."""
        depth, width, _ = self.diagonal.shape
        stops = self.in_size + width * np.arange(1, depth + 1)
        layers = [slice(stop - width, stop) for stop in stops]
        start, end = slice(0, self.in_size), slice(stops[-1], self.size)
        yield start, start, self.input
        yield layers[0], start, self.entry
        for layer, block in zip(layers, self.diagonal, strict=True):
            yield layer, layer, block
        for offset, blocks in self.below.items():
            for row, column, block in zip(layers[offset:], layers, blocks, strict=False):
                yield row, column, block
        yield end, layers[-1], self.exit
        yield end, end, self.output

    def part(self, name: str) -> "HessianBlocks":
        """Return this matrix (`"whole"`), its block diagonal D (`"diagonal"`), or O = H − D (`"off-diagonal"`)."""
        dropped = checks.lookup("part", name, PARTS)
        zeros: dict[str, Any] = {field: jax.tree.map(_zeros, getattr(self, field)) for field in dropped}
        return dataclasses.replace(self, **zeros)

    def product(self, vectors: Vectors) -> Vectors:
        """Multiply a vector, (size,), or several, (size, k), by the matrix, in O(H·N²) each."""
        out = np.zeros_like(vectors)
        for rows, columns, block in self.lower():
            out[rows] += block @ vectors[columns]
            if rows != columns:  # while the block is in the cache
                out[columns] += block.T @ vectors[rows]
        return out

    def dense(self) -> Matrix:
        """Return the whole matrix, layer-major: z₀ where it is free, z₁ … z_H, z_L where it is free."""
        whole = np.zeros((self.size, self.size))
        for rows, columns, block in self.lower():
            whole[rows, columns] = block
            whole[columns, rows] = block.T
        return whole


PARTS: dict[str, tuple[str, ...]] = {
    "whole": (),
    "diagonal": ("entry", "below", "exit"),
    "off-diagonal": ("input", "diagonal", "output"),
}
"""The fields that are zero in each part of the matrix."""


def _zeros(blocks: np.ndarray) -> np.ndarray:
    """Return zeros of the same shape, which take the memory of one matrix."""
    return np.broadcast_to(np.zeros(blocks.shape[-2:]), blocks.shape)


def hessian_blocks(
    network: Network,
    x: Rows | None = None,
    y: Rows | None = None,
    activities: Rows | None = None,
    *,
    energy: Energy | None = None,
    **ends: Unpack[Ends],
) -> HessianBlocks:
    """Return the blocks of the activity Hessian ∂²F/∂z² of one sample. With M_ℓ = a_ℓ W_ℓ diag(φ′(z_{ℓ-1})), skip n,

        H = Σ_ℓ A_ℓᵀA_ℓ + λ M_LᵀS M_L + αI − diag(φ″(z_ℓ) ⊙ a_{ℓ+1} W_{ℓ+1}ᵀ e_{ℓ+1}),

    where A_ℓ dz = dz_ℓ − M_ℓ dz_{ℓ-1} − τ_ℓ dz_{ℓ-n}, S is the second derivative of the output loss (the identity for
    the squared error) and e_L stands for λ times the output error. The Hessian of a linear network with the squared
    error is the same at every sample and needs none. Biases enter through the errors only.

    **Arguments:**

    - `network`: a `mupc.Network`.
    - `x`, `y`, `activities`: one sample, (D,) or (1, D), (C,) or (1, C) or its label, and (H, N) or (H, 1, N). All but
      linear networks with the squared error need `activities` and `y`. No Hessian depends on `x`; it is only checked.
    - `energy`: `mupc.Energy(...)`. Its weight penalties do not matter here.
    - `free_input`: free z₀ too (the unsupervised case): H₀₀ = a₁²W₁ᵀW₁ + αI and H₁₀ = −a₁W₁.
    - `dummy_input`: the same with the energy ½‖x − z₀‖² added, which adds I to H₀₀.
    - `free_output`: free z_L too, with the energy ½‖z_L − a_LW_Lz_H‖² and no target: H_LL = (1 + α)I,
      H_{LH} = −a_LW_L, and no λ in H_HH. Only for linear networks with the squared error.
    - `dummy_output`: the same with the loss λ/2 ‖y − z_L‖² added: H_LL = (1 + λ + α)I, the paper's 2I.

    **Example:**

    ```python
    import jax.random as jr, mupc

    network = mupc.Network(in_size=8, out_size=3, width=16, hidden_layers=4, activation="linear", key=jr.key(0))
    blocks = mupc.theory.hessian_blocks(network)
    blocks.diagonal.shape, blocks.below[1].shape     # (4, 16, 16), (3, 16, 16)
    ```
    """
    check_weights(network)
    energy = as_energy(energy)
    return _blocks(network, _expansion(network, x, y, activities, energy), energy, **ends)


def activity_hessian(
    network: Network,
    x: Rows | None = None,
    y: Rows | None = None,
    activities: Rows | None = None,
    *,
    energy: Energy | None = None,
    **ends: Unpack[Ends],
) -> Matrix:
    """Return the dense activity Hessian (H·N, H·N), layer-major. The D unknowns of a free z₀ come first, the C unknowns
    of a free z_L last.

    **Arguments:** as for `mupc.theory.hessian_blocks`, which has the equation.

    **Example:**

    ```python
    import jax.random as jr, mupc

    network = mupc.Network(in_size=8, out_size=3, width=16, hidden_layers=4, activation="linear", key=jr.key(0))
    mupc.theory.activity_hessian(network).shape      # (64, 64)
    ```
    """
    return hessian_blocks(network, x, y, activities, energy=energy, **ends).dense()


def check_weights(network: AbstractNetwork) -> None:
    """Accept a network with finite weights."""
    check_network(network)
    if not isinstance(network, Network):
        raise TypeError(
            f"mupc.theory is for mupc.Network, got a {type(network).__name__}: for the ends of the spectrum of any "
            "network call mupc.diagnostics.hessian_extremes."
        )
    leaves = jax.tree.leaves((network.input, network.hidden, network.readout))
    if not all(bool(jnp.all(jnp.isfinite(leaf))) for leaf in leaves):
        raise checks.ArgumentError("network", "has NaN or infinite weights.", "Train at a smaller rate.")


def is_quadratic(network: Network, energy: Energy) -> bool:
    """Return whether the energy is quadratic in the activities, so that its Hessian is the same everywhere."""
    return network.activation.name == "linear" and energy.output_function == "mse"


def matrices(layer: Dense) -> Float64[np.ndarray, "*stack rows columns"]:
    """Return a layer's W in float64, or those of a stack of layers."""
    return np.asarray(layer.weight, np.float64)


def batch_of_one(network: Network, x: Rows, y: Rows, energy: Energy) -> tuple[Inputs, Outputs]:
    """Return one sample with a batch axis, from inputs (D,) or (1, D) and targets (C,) or (1, C) or a label."""
    sample, target = np.asarray(x), np.asarray(y)
    inputs = as_inputs(network, sample[None] if sample.ndim == 1 else sample)
    if len(inputs) != 1:
        raise checks.ArgumentError("x", f"must be one sample, got {len(inputs)}.", "Pass x[:1].")
    single = 1 if jnp.issubdtype(target.dtype, jnp.floating) else 0
    return inputs, as_targets(network, target[None] if target.ndim == single else target, 1, energy)


def one_state(network: Network, activities: Rows) -> Float64[np.ndarray, "layers width"]:
    """Return activities (H, N) in float64, from those or from a batch of one (H, 1, N)."""
    flat = np.ndim(activities) == 2 and not hasattr(activities, "activities")
    batch = np.asarray(activities)[:, None] if flat else activities
    check_activities(network, batch, 1)
    return np.array(batch, np.float64)[:, 0]


class Expansion(NamedTuple):
    """The sample's part in the Hessian: φ′, the diagonal from φ″, and the curvature of the loss."""

    slopes: Float64[np.ndarray, "layers width"]
    bend: Float64[np.ndarray, "layers width"]
    curvature: Matrix


def _blocks(
    network: Network,
    at: Expansion,
    energy: Energy,
    *,
    free_input: bool = False,
    free_output: bool = False,
    dummy_input: bool = False,
    dummy_output: bool = False,
) -> HessianBlocks:
    for end, both in (("input", free_input and dummy_input), ("output", free_output and dummy_output)):
        if both:
            raise ValueError(f"free_{end} and dummy_{end} exclude each other: pass one of them.")
    open_input, open_output = free_input or dummy_input, free_output or dummy_output
    if open_output and not is_quadratic(network, energy):
        raise ValueError(
            'a free or dummy output is for linear networks with the loss "mse" only, got activation '
            f"{network.activation.name!r} with loss {energy.loss_name!r}. Leave free_output and dummy_output out."
        )
    decay, weight = float(energy.activity_decay), float(energy.output_weight)
    first, hidden, last = network.multipliers
    depth, width, skip = network.hidden_layers, network.width, network.skip
    eye = np.eye(width)
    maps = hidden * matrices(network.hidden) * at.slopes[:-1, None, :]
    readout = last * matrices(network.readout) * at.slopes[-1]
    if skip == 1:
        maps = maps + eye
    diagonal = np.empty((depth, width, width))
    np.matmul(maps.swapaxes(1, 2), maps, out=diagonal[:-1])
    diagonal[-1] = (1 if open_output else weight) * readout.T @ at.curvature @ readout
    layer, unit = np.arange(depth)[:, None], np.arange(width)
    diagonal[layer, unit, unit] += 1 + decay + at.bend
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
    entry = -first * matrices(network.input) if open_input else np.zeros((width, 0))
    exit = -readout if open_output else np.zeros((0, width))
    own_input = entry.T @ entry + (decay + dummy_input) * np.eye(entry.shape[1])
    own_output = (1 + decay + weight * dummy_output) * np.eye(len(exit))
    return HessianBlocks(diagonal, below, own_input, entry, own_output, exit)


def _expansion(network: Network, x: Rows | None, y: Rows | None, activities: Rows | None, energy: Energy) -> Expansion:
    """Expand the energy of one sample to second order. Arguments are checked even where they do not matter."""
    depth, width, out = network.hidden_layers, network.width, network.out_size
    with jax.enable_x64(True):
        sample = np.zeros(network.in_size) if x is None else x
        batch = batch_of_one(network, sample, np.zeros(out) if y is None else y, energy)
        state = np.zeros((depth, width)) if activities is None else one_state(network, activities)
        if is_quadratic(network, energy):
            return Expansion(np.ones((depth, width)), np.zeros((depth, width)), np.eye(out))
        if activities is None or y is None:
            raise ValueError(
                f"{'activities' if activities is None else 'y'} missing: the Hessian of activation "
                f"{network.activation.name!r} with loss {energy.loss_name!r} depends on the sample. Pass x, y and "
                "activities of one sample, such as mupc.forward(network, x)[0]."
            )
        z = jnp.asarray(state)[:, None]
        exact, inputs, targets = FLOAT64.cast((network, *batch))
        e, output = exact.prediction_errors(z, inputs, FLOAT64)
        _, hidden, last = network.multipliers
        inner = hidden * exact.hidden.transpose(e[1:], FLOAT64)
        signal = energy.output_weight * energy.output_error(output, targets)
        back = jnp.concatenate([inner, last * exact.readout.transpose(signal, FLOAT64)[None]])
        derivative = network.activation.derivative
        bend = -jax.jvp(derivative, (z,), (jnp.ones_like(z),))[1] * back
        every = jnp.broadcast_to(output, (out, out)), jnp.broadcast_to(targets, (out, out))
        curvature = energy.output_curvature(*every, jnp.eye(out))
        return Expansion(*(np.asarray(a, np.float64) for a in (derivative(z)[:, 0], bend[:, 0], curvature)))
