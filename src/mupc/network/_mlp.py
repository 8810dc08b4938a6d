"""The residual MLP of Eq. 1: an input layer, hidden layers stacked on a leading axis, and a readout."""

from collections.abc import Callable, Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Array, PyTree

from ..io import checks
from ._abstract import AbstractNetwork, PerLayer, WeightRole
from ._activation import Activation, resolve_activation
from ._coerce import as_inputs, check_key
from ._layer import Dense
from ._parameterisation import PARAMETERISATIONS, ROLES, Multipliers, initialise
from ._precision import Precision, resolve_precision
from ._rate_scales import BaseSize, LayerScale, RateScales
from ._recurrence import LayerState, at_bottom, recurrence, skipped
from ._types import Activities, Elementwise, Initialiser, Inputs, Outputs, PRNGKeyArray, Real, Rows

MOST_WEIGHTS = 2**40
"""Beyond this, sizes overflow before memory runs out."""


class Network(AbstractNetwork):
    """A residual multilayer perceptron with layer multipliers, the predictive coding network of the paper's Eq. 1.

    With H hidden layers, L = H + 1, multipliers a and activation φ, the layers predict

        z₁ = a₁ W₁ x,    z_ℓ = a_ℓ W_ℓ φ(z_{ℓ-1}) + τ_ℓ z_{ℓ-n},    output = a_L W_L φ(z_H),

    plus biases if asked for. φ acts before the matrix and never on the input. τ_ℓ = 1 for ℓ > n = `skip`.

    **Arguments:**

    - `in_size`, `out_size`, `width`, `hidden_layers`: D, C, N and H.
    - `activation`: `linear`, `tanh`, `relu`, `leaky_relu`, `hard_tanh`, `gelu`, `silu`, `elu`, `selu`, or any
      elementwise function of an array.
    - `parameterisation`: `mupc` (Depth-μP), `sp` (standard), `ntp` or `orthogonal`; see `network.multipliers`.
    - `skip`: 0 for none, 1 for the paper's ResNet, n for a skip over n layers.
    - `use_bias`: biases start at zero and have no multiplier.
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

    input: Dense
    hidden: Dense
    readout: Dense
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
        key: PRNGKeyArray,
    ) -> None:
        check_key(key)
        self.in_size = checks.integer("in_size", in_size, 1)
        self.out_size = checks.integer("out_size", out_size, 1)
        self.width = checks.integer("width", width, 1)
        depth = checks.integer("hidden_layers", hidden_layers, 1)
        _check_size(self, depth)
        self.skip = _checked_skip(skip, depth)
        checks.boolean("use_bias", use_bias)
        self.activation = resolve_activation(activation)
        row = checks.lookup("parameterisation", parameterisation, PARAMETERISATIONS)
        self.parameterisation = row.name
        if multipliers is None:
            self.multipliers = self._own_multipliers(depth)
        else:
            self.multipliers = _as_multipliers(multipliers)

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

    @property  # type: ignore[misc]
    def input_shape(self) -> tuple[int, ...]:  # type: ignore[override]
        """The shape of a sample, (D,)."""
        return (self.in_size,)

    @property  # type: ignore[misc]
    def output_shape(self) -> tuple[int, ...]:  # type: ignore[override]
        """The shape of an output, (C,)."""
        return (self.out_size,)

    @property
    def hidden_layers(self) -> int:
        """H, the number of layers of hidden activities."""
        return jax.tree.leaves(self.hidden)[0].shape[0] + 1

    @property
    def layer_count(self) -> int:
        """L = H + 1."""
        return self.hidden_layers + 1

    @property
    def weight_roles(self) -> tuple[WeightRole, ...]:
        """The role and fan-in of the input, the hidden and the readout weights."""
        return tuple(map(WeightRole, ROLES, (self.in_size, self.width, self.width)))

    @property
    def layer_names(self) -> tuple[str, ...]:
        """`input`, `hidden.1` and so on, `readout`."""
        return ("input", *(f"hidden.{index}" for index in range(1, self.hidden_layers)), "readout")

    @property
    def weight_stacks(self) -> tuple[tuple[Dense, int], ...]:
        """The three layers, with their numbers."""
        return (self.input, 1), (self.hidden, self.hidden_layers - 1), (self.readout, 1)

    def __call__(self, x: Rows) -> Outputs:
        """Return the prediction (B, C) for a batch of inputs (B, D)."""
        return forward(self, x)[1]

    @eqx.filter_jit
    def forward_pass(self, x: Inputs, precision: Precision) -> tuple[Activities, Outputs]:
        """Run `mupc.forward` on arrays that are already checked and cast."""
        first, hidden, last = self.multipliers
        phi = self.activation

        def step(layer: Dense, z: LayerState) -> LayerState:
            return layer.affine(phi(z), hidden, precision)

        activities = recurrence(step, self.input.affine(x, first, precision), self.hidden, self.skip)
        return activities, self.readout.affine(phi(activities[-1]), last, precision)

    def activity_shapes(self, batch: int) -> tuple[int, int, int]:
        """Return (H, B, N)."""
        return self.hidden_layers, batch, self.width

    def prediction_errors(self, activities: Activities, x: Inputs, precision: Precision) -> tuple[Activities, Outputs]:
        """Return the errors (H, B, N), and the output (B, C) that the last activities predict."""
        predicted, output = self._predictions(activities, x, precision)
        return activities - predicted - skipped(activities, self.skip), output

    def _predictions(self, activities: Activities, x: Inputs, precision: Precision) -> tuple[Activities, Outputs]:
        """Return what the weights predict, without skips, and the output: linear in the weights."""
        first, hidden, last = self.multipliers
        phi = self.activation(activities)
        into_first = self.input.affine(x, first, precision)[None]
        predicted = at_bottom(into_first, self.hidden.affine(phi[:-1], hidden, precision))
        return predicted, self.readout.affine(phi[-1], last, precision)

    def error_change(
        self, new: AbstractNetwork, activities: Activities, x: Inputs, precision: Precision
    ) -> tuple[Activities, Outputs]:
        change: Network = jax.tree.map(jnp.subtract, new, self)
        predicted, output = change._predictions(activities, x, precision)
        return -predicted, output

    def backward_pass(self, activities: Activities, output_error: Outputs, precision: Precision) -> Activities:
        """Carry an error of the output back to every layer: the transpose of the linearised forward pass."""
        top = self.multipliers[2] * self.readout.transpose(output_error, precision)
        return self.carry_back(activities, top, precision)

    def carry_back(self, activities: Activities, top: LayerState, precision: Precision) -> Activities:
        """Carry a signal on φ of the last hidden layer back to every layer."""
        hidden = self.multipliers[1]
        slopes = self.activation.derivative(activities)

        def step(layer_and_slope: PyTree, v: LayerState) -> LayerState:
            layer, slope = layer_and_slope
            return slope * (hidden * layer.transpose(v, precision))

        return recurrence(step, slopes[-1] * top, (self.hidden, slopes[:-1]), self.skip, reverse=True)

    def local_gradients(
        self,
        x: Inputs,
        activities: Activities,
        errors: Activities,
        output_error: Outputs,
        precision: Precision,
        factor: Real = 1.0,
    ) -> "Network":
        """Return −a_ℓ · mean over the batch of e_ℓ φ(z_{ℓ-1})ᵀ for every layer ℓ, times `factor` but for the last."""
        first, hidden, last = self.multipliers
        errors = factor * errors
        phi = self.activation(activities)
        layers = (
            self.input.gradient(errors[0], x, first, precision),
            self.hidden.gradient(errors[1:], phi[:-1], hidden, precision),
            self.readout.gradient(output_error, phi[-1], last, precision),
        )
        return eqx.tree_at(lambda n: (n.input, n.hidden, n.readout), self, layers)

    def backpropagate(
        self, x: Inputs, output_error: Callable[[Outputs], Outputs], precision: Precision
    ) -> tuple["Network", Outputs]:
        activities, output = self.forward_pass(x, precision)
        error = output_error(output)
        errors = self.backward_pass(activities, error, precision)
        return self.local_gradients(x, activities, errors, error, precision), output

    def per_layer(self, function: Callable[[Dense], Array]) -> PerLayer:
        """Apply a function to the weights of every layer; return its values from the input to the readout."""
        return jnp.concatenate([jnp.atleast_1d(function(part)) for part in (self.input, self.hidden, self.readout)])

    def _own_multipliers(self, hidden_layers: int) -> Multipliers:
        """Return the multipliers of the parameterisation."""
        row = PARAMETERISATIONS[self.parameterisation]
        depth_factor = self._depth_factor(hidden_layers)
        first, hidden, last = (row.multiplier(*weight, depth_factor) for weight in self.weight_roles)
        return first, hidden, last

    def _depth_factor(self, hidden_layers: int) -> int:
        return hidden_layers + 1 if self.skip else 1

    @property
    def why_no_rate_rule(self) -> str | None:
        if PARAMETERISATIONS[self.parameterisation].rate_rule is None:
            return f"the parameterisation {self.parameterisation}"
        own = self._own_multipliers(self.hidden_layers)
        return None if self.multipliers == own else "multipliers of your own"

    def rate_scales(self, base: BaseSize) -> RateScales:
        rule = PARAMETERISATIONS[self.parameterisation].rate_rule
        assert rule is not None
        depth, base_depth = map(self._depth_factor, (self.hidden_layers, base.hidden_layers))
        return rule(self.width / base.width, depth / base_depth)

    def scaled(self, scales: Sequence[LayerScale]) -> "Network":
        layers = (self.input, self.hidden, self.readout)
        scaled = tuple(layer.scaled(*factors) for layer, factors in zip(layers, scales, strict=True))
        return eqx.tree_at(lambda n: (n.input, n.hidden, n.readout), self, scaled)


def _check_size(network: Network, depth: int) -> None:
    width = network.width
    weights = width * (network.in_size + network.out_size) + (depth - 1) * width**2
    if weights > MOST_WEIGHTS:
        raise checks.ArgumentError(
            "width",
            f"= {width} and {{hidden_layers}} = {depth} make {float(weights):.1e} weights, "
            "more than any machine holds.",
            "Use a smaller network.",
        )


def _checked_skip(skip: int, depth: int) -> int:
    checks.integer("skip", skip, 0)
    if skip > 1 and skip >= depth:
        raise checks.ArgumentError(
            "skip",
            f"= {skip} needs more than {skip} {{hidden_layers}}, got {depth}.",
            "Use a shorter skip, or 0 for none.",
        )
    return skip


def _as_multipliers(given: Sequence[int | float]) -> Multipliers:
    if np.shape(given) != (3,):
        raise checks.ArgumentError(
            "multipliers", f"must be three numbers (input, hidden, readout), got {checks.literal(given)}."
        )
    for role, value in zip(ROLES, given, strict=True):
        checks.number(f"the {role} multiplier", value)
    first, hidden, last = given
    return float(first), float(hidden), float(last)


def forward(network: Network, x: Rows, *, precision: str | None = None) -> tuple[Activities, Outputs]:
    """Run the forward pass: return activities (H, B, N) at which every error is zero, and the output (B, C).

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
    return network.forward_pass(inputs, policy)
