"""The network of Eq. 1: an input layer, hidden layers stacked on a leading axis, and a readout."""

from collections.abc import Callable, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Array, Float, PyTree

from ..io import checks
from ._activation import Activation, resolve_activation
from ._layer import AbstractLayer, Dense
from ._parameterisation import PARAMETERISATIONS, Multipliers, Sizes, initialise
from ._precision import Precision, resolve_precision
from ._types import Activities, Elementwise, Initialiser, Inputs, Outputs, PRNGKeyArray, Rows

UNROLL = 4
"""Layers per turn of the loop over depth on a GPU, where a turn costs more than the arithmetic of a layer."""

SHALLOW = 16
"""Networks of at most so many layers need no loop there; for many networks at once it would reorder all weights."""

MOST_WEIGHTS = 2**40
"""Beyond this, sizes overflow before memory runs out."""

BatchedState = Float[Array, "_ _"]  # (batch, width), or (width, batch) inside inference


class Network(eqx.Module):
    """A residual multilayer perceptron with layer multipliers, the predictive coding network of the paper's Eq. 1.

    With H hidden layers, L = H + 1, multipliers a and activation φ, the layers predict

        z₁ = a₁ W₁ x,    z_ℓ = a_ℓ W_ℓ φ(z_{ℓ-1}) + τ_ℓ z_{ℓ-n},    output = a_L W_L φ(z_H),

    plus biases if asked for. φ acts before the matrix and never on the input. τ_ℓ = 1 for ℓ > n = `skip`.

    **Arguments:**

    - `in_size`, `out_size`, `width`, `hidden_layers`: D, C, N and H.
    - `activation`: `linear`, `tanh`, `relu`, `leaky_relu`, `hard_tanh`, `gelu`, `silu`, `selu`, or any elementwise
      function of an array.
    - `parameterisation`: `mupc` (Depth-μP), `sp` (standard), `ntp` or `orthogonal`; see `network.multipliers`.
    - `skip`: 0 for none, 1 for the paper's ResNet, n for a skip over n layers.
    - `use_bias`: biases start at zero and carry no multiplier.
    - `init`: overrides the parameterisation's own initial weights: `"gaussian"`, `"kaiming-uniform"`
      (U(±1/√fan_in)), `"orthogonal"`, or a function `init(key, (out, in))`.
    - `multipliers`: overrides the parameterisation's own (a₁, a_hidden, a_L).
    - `key`: a JAX random key.

    **Example:**

    ```python
    import jax.numpy as jnp, jax.random as jr, mupc

    network = mupc.Network(in_size=64, out_size=10, width=32, hidden_layers=16, key=jr.key(0))
    network(jnp.ones((5, 64))).shape   # (5, 10)
    network.hidden.weight.shape        # (15, 32, 32)
    ```
    """

    input: AbstractLayer
    hidden: AbstractLayer
    readout: AbstractLayer
    activation: Activation = eqx.field(static=True)
    parameterisation: str = eqx.field(static=True)
    multipliers: Multipliers = eqx.field(static=True)
    skip: int = eqx.field(static=True)
    in_size: int = eqx.field(static=True)
    out_size: int = eqx.field(static=True)
    width: int = eqx.field(static=True)

    def __init__(
        self,
        in_size: int,
        out_size: int,
        width: int,
        hidden_layers: int,
        *,
        activation: str | Activation | Elementwise = "relu",
        parameterisation: str = "mupc",
        skip: int = 1,
        use_bias: bool = False,
        init: str | Initialiser | None = None,
        multipliers: Sequence[int | float] | None = None,
        key: Any,
    ) -> None:
        check_key(key)
        self.in_size = checks.integer("in_size", in_size, 1)
        self.out_size = checks.integer("out_size", out_size, 1)
        self.width = checks.integer("width", width, 1)
        depth = checks.integer("hidden_layers", hidden_layers, 1)
        weights = width * (in_size + out_size) + (depth - 1) * width**2
        if weights > MOST_WEIGHTS:
            raise ValueError(
                f"width={width} and hidden_layers={hidden_layers} make {float(weights):.1e} weights, more than any "
                "machine holds. Use a smaller network."
            )
        self.skip = checks.integer("skip", skip, 0)
        if skip > 1 and skip >= depth:
            raise ValueError(
                f"skip={skip} needs more than {skip} hidden layers, got {depth}. "
                "Use a shorter skip, or skip=0 for none."
            )
        checks.boolean("use_bias", use_bias)
        self.activation = resolve_activation(activation)
        row = checks.lookup("parameterisation", parameterisation, PARAMETERISATIONS)
        self.parameterisation = row.name
        sizes = Sizes(in_size, width, depth + 1 if skip else 1)
        self.multipliers = row.multipliers(sizes) if multipliers is None else _as_multipliers(multipliers)

        def dense(key: PRNGKeyArray, out: int, into: int) -> Dense:
            weight = initialise(key, (out, into), row, self.activation.name, init)
            return Dense(weight, jnp.zeros(out, weight.dtype) if use_bias else None)

        input_key, hidden_key, readout_key = jr.split(key, 3)
        self.input = dense(input_key, width, in_size)
        self.readout = dense(readout_key, out_size, width)
        if depth > 1:
            self.hidden = jax.vmap(lambda k: dense(k, width, width))(jr.split(hidden_key, depth - 1))
        else:  # an empty stack, so that every loop over layers also covers H = 1
            self.hidden = jax.tree.map(lambda leaf: leaf[None][:0], dense(hidden_key, width, width))

    @property
    def hidden_layers(self) -> int:
        """H, the number of layers of hidden activities."""
        return jax.tree.leaves(self.hidden)[0].shape[0] + 1

    def __call__(self, x: Rows) -> Outputs:
        """The prediction (B, C) for a batch of inputs (B, D)."""
        return forward(self, x)[1]


def _as_multipliers(given: Sequence[int | float]) -> Multipliers:
    if np.shape(given) != (3,):
        raise ValueError(f"multipliers must be three numbers (input, hidden, readout), got {given!r}.")
    for name, value in zip(("input", "hidden", "readout"), given, strict=True):
        checks.number(f"the {name} multiplier", value)
    first, hidden, last = given
    return float(first), float(hidden), float(last)


def forward(network: Network, x: Rows, *, precision: str | None = None) -> tuple[Activities, Outputs]:
    """The forward pass: activities (H, B, N) at which every error is zero, and the output (B, C).

    **Arguments:** the network, inputs (B, D), and a precision policy (default: that of the weights, in full).

    **Example:**

    ```python
    import jax.numpy as jnp, jax.random as jr, mupc

    network = mupc.Network(in_size=64, out_size=10, width=32, hidden_layers=16, key=jr.key(0))
    activities, output = mupc.forward(network, jnp.ones((5, 64)))
    activities.shape, output.shape     # (16, 5, 32), (5, 10)
    ```
    """
    policy = resolve_precision(precision, network)
    network, inputs = policy.cast((network, as_inputs(network, x)))
    return forward_pass(network, inputs, policy)


def check_network(network: Any) -> None:
    """The first argument of most functions."""
    if not isinstance(network, Network):
        raise TypeError(f"the first argument must be a mupc.Network, got {type(network).__name__}.")


def check_key(key: Any) -> None:
    """What random numbers are drawn with."""
    raw = getattr(key, "dtype", None) == jnp.uint32 and key.shape == (2,)  # as jax.random.PRNGKey makes them
    if not (raw or (hasattr(key, "dtype") and jnp.issubdtype(key.dtype, jax.dtypes.prng_key))):
        raise TypeError(f"key must be a JAX random key such as jax.random.key(0), got {key!r}.")


def as_inputs(network: Any, x: Rows) -> Inputs:
    """`x` as a floating array, after a check of its shape."""
    check_network(network)
    checks.shape("x", x, ("batch", network.in_size), "Pass one row per sample, in_size columns.")
    return as_floating("x", x)


def as_floating(what: str, values: Rows) -> Float[Array, "..."]:
    """Numbers as a floating array. Complex ones would lose a part."""
    array = jnp.asarray(values)
    if jnp.issubdtype(array.dtype, jnp.complexfloating):
        raise TypeError(f"{what} must hold real numbers, got {array.dtype}. Pass {what}.real, or the parts as columns.")
    return array if jnp.issubdtype(array.dtype, jnp.floating) else array.astype(jnp.float32)


@eqx.filter_jit
def forward_pass(network: Network, x: Inputs, precision: Precision) -> tuple[Activities, Outputs]:
    """`forward` on arrays that are checked and cast."""
    first, hidden, last = network.multipliers
    phi = network.activation

    def step(layer: AbstractLayer, z: BatchedState) -> BatchedState:
        return layer.affine(phi(z), hidden, precision)

    activities = recurrence(step, network.input.affine(x, first, precision), network.hidden, network.skip)
    return activities, network.readout.affine(phi(activities[-1]), last, precision)


def backward_pass(network: Network, activities: Activities, top: BatchedState, precision: Precision) -> Activities:
    """Carries a signal at the last hidden layer's output back to every layer: the transpose of the linearised
    forward pass. Given Wᵀ_L times an output gradient it yields what backpropagation computes."""
    hidden = network.multipliers[1]
    slopes = network.activation.derivative(activities)

    def step(layer_and_slope: PyTree, v: BatchedState) -> BatchedState:
        layer, slope = layer_and_slope
        return slope * (hidden * layer.transpose(v, precision))

    return recurrence(step, slopes[-1] * top, (network.hidden, slopes[:-1]), network.skip, reverse=True)


def recurrence(
    step: Callable[[PyTree, BatchedState], BatchedState],
    first: BatchedState,
    items: PyTree,
    skip: int,
    reverse: bool = False,
    keep: Callable[[BatchedState], BatchedState] = lambda v: v,
) -> Float[Array, "layers _ _"]:
    """v₁ = first, v_{k+1} = step(item_k, v_k) + v_{k+1-skip}, `keep` of all of them stacked (in reverse: from the top
    down).

    One compiled body whatever the depth. What lies before v₁ counts as zero, which is where an n-skip begins.
    """
    delay = jnp.zeros((max(skip, 1), *first.shape), first.dtype).at[-1].set(first)

    def body(delay: Float[Array, "n _ _"], item: PyTree) -> tuple[Array, BatchedState]:
        following = step(item, delay[-1])
        if skip:
            following = following + delay[0]
        return jnp.concatenate([delay[1:], following[None]]), keep(following)

    count = len(jax.tree.leaves(items)[0])
    if jax.default_backend() == "gpu" and 0 < count < SHALLOW:
        found = []
        for index in reversed(range(count)) if reverse else range(count):
            delay, following = body(delay, jax.tree.map(lambda leaf, at=index: leaf[at], items))
            found.append(following)
        rest = jnp.stack(found[::-1] if reverse else found)
    else:
        unroll = UNROLL if jax.default_backend() == "gpu" else 1
        rest = jax.lax.scan(body, delay, items, reverse=reverse, unroll=unroll)[1]
    end = keep(first)[None]
    return jnp.concatenate([rest, end] if reverse else [end, rest])
