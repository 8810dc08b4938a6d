"""The energy of Eq. 1 with its options, and its value layer by layer."""

import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PyTree

from ..io import checks
from ..network import (
    AbstractNetwork,
    Chain,
    Dense,
    Inputs,
    Outputs,
    Precision,
    Real,
    Rows,
    Scalar,
    as_floating,
    as_inputs,
    resolve_precision,
)

PerSample = Float[Array, " batch"]
PerLayer = Float[Array, " all_layers"]
LossFunction = Callable[[jax.Array, jax.Array], jax.Array]
"""A loss of the user's own: one sample's output (C,) and target (C,) → a number."""
SomeNetwork = TypeVar("SomeNetwork", bound=AbstractNetwork)


def _summed(values: Outputs) -> PerSample:
    return jnp.sum(values, axis=tuple(range(1, values.ndim)))


def _squared_error(output: Outputs, y: Outputs) -> PerSample:
    return _summed((y - output) ** 2) / 2


def _cross_entropy(output: Outputs, y: Outputs) -> PerSample:
    return -_summed(y * jax.nn.log_softmax(output))


def _residual(output: Outputs, y: Outputs) -> Outputs:
    return y - output


def _softmax_residual(output: Outputs, y: Outputs) -> Outputs:
    return y - jnp.sum(y, axis=-1, keepdims=True) * jax.nn.softmax(output)


def _identity_curvature(output: Outputs, y: Outputs, change: Outputs) -> Outputs:
    return change


def _softmax_curvature(output: Outputs, y: Outputs, change: Outputs) -> Outputs:
    p = jax.nn.softmax(output)
    return jnp.sum(y, axis=-1, keepdims=True) * p * (change - jnp.sum(p * change, axis=-1, keepdims=True))


class Loss(NamedTuple):
    """An output loss: its value, its negative gradient in the output, its Hessian there times a change of the output,
    and whether that Hessian is known to be positive semidefinite everywhere."""

    value: Callable[[Outputs, Outputs], Array]
    error: Callable[[Outputs, Outputs], Array]
    curvature: Callable[[Outputs, Outputs, Outputs], Array]
    convex: bool


PAPER_LOSS, PAPER_PRECISION = "mse", 1.0
"""The paper's loss and its λ."""
LEAST_PRECISION = 1e-15

CROSS_ENTROPY = "cross-entropy"
LOSSES = {
    "mse": Loss(_squared_error, _residual, _identity_curvature, convex=True),
    CROSS_ENTROPY: Loss(_cross_entropy, _softmax_residual, _softmax_curvature, convex=True),
}


def _own_loss(function: LossFunction) -> Loss:
    """Return a loss of the user's own, with derivatives by autodiff."""

    def one(output: Float[Array, "*out"], target: Float[Array, "*out"]) -> Scalar:
        return jnp.asarray(function(output, target), output.dtype)

    def error(output: Outputs, y: Outputs) -> Outputs:
        return -jax.vmap(jax.grad(one))(output, y)

    def curvature(output: Outputs, y: Outputs, change: Outputs) -> Outputs:
        return -jax.jvp(lambda at: error(at, y), (output,), (change,))[1]

    return Loss(jax.vmap(one), error, curvature, convex=False)


def _check_loss(loss: object) -> None:
    """Accept the name of a loss, or a function."""
    if isinstance(loss, str):
        checks.lookup("loss", loss, LOSSES)
        return
    if not callable(loss):
        raise checks.wrong_type("loss", "a name such as 'mse', or a function of one sample's output and target", loss)
    try:
        hash(loss)
    except TypeError:
        wrong = f"is an object of type {type(loss).__name__} that has no hash, so JAX could not tell it from others."
        raise checks.ArgumentTypeError("loss", wrong, "Pass a plain function.") from None


@functools.lru_cache(maxsize=64)
def _check_function(loss: LossFunction, name: str, shape: tuple[int, ...]) -> None:
    """Try a function on the shapes of one sample: it must return a floating number."""
    sample, shown = jax.ShapeDtypeStruct(shape, jnp.float32), f"one sample's output and target of shape {shape}"
    cure = "Write it with jax.numpy, for one sample."
    try:
        value = jax.eval_shape(loss, sample, sample)
    except Exception as error:
        first = (str(error) or type(error).__name__).splitlines()[0]
        raise checks.ArgumentError("loss", f"{name} fails on {shown}: {checks.literal(first)}.", cure) from None
    if not isinstance(value, jax.ShapeDtypeStruct):
        raise checks.ArgumentError("loss", f"{name} returns {checks.literal(value)} for {shown}.", cure)
    if value.shape != ():
        wrong = f"{name} returns an array of shape {value.shape} for {shown}."
        raise checks.ArgumentError("loss", wrong, "Return one number: take the sum or the mean over the outputs.")
    if not jnp.issubdtype(value.dtype, jnp.floating):
        wrong = f"{name} returns a number of type {value.dtype}, which has no gradient."
        raise checks.ArgumentError("loss", wrong, "Return a floating one.")


class Energy(eqx.Module):
    """Options of the energy

        F = Σ_{ℓ≤H} ½‖e_ℓ‖² + λ·loss(output, y) + (α/2) Σ_{ℓ≤H} ‖z_ℓ‖²  +  Σ_ℓ (w/2 ‖W_ℓ‖² + ρ/2 ‖G_ℓ − I‖²),

    the first three terms averaged over the batch. G is the smaller of WᵀW and WWᵀ. Biases are not penalised.

    **Arguments:**

    - `loss`: `"mse"` (½ the sum of squared errors over the outputs, the paper's), `"cross-entropy"` (of logits), or a
      function of your own: one sample's output (C,) and target (C,) to a number, made of `jax.numpy` operations. Its
      derivatives come by autodiff. Define it once: another function, even with the same text, compiles again.
      None: cross-entropy in `mupc.fit` of a text, and `"mse"` everywhere else.
    - `output_precision`: λ. Weight gradients of the batch terms are divided by it, so that as λ → 0 they become
      backpropagation's instead of vanishing. None: in `mupc.fit` what suits the algorithm (0.01 in error space,
      otherwise 1), 1 everywhere else.
    - `activity_decay`: α; it acts on every free layer, z₀ too in the unsupervised case.
    - `weight_decay`, `orthogonality`: w and ρ, on all weights. With the optimisers `"adamw"` and `"lion"` `mupc.fit`
      subtracts w·W times the rate from the weights, separately from the update; other optimisers see it in their
      gradient.

    **Example:**

    ```python
    import jax.numpy as jnp, jax.random as jr, mupc

    def huber(output, target):
        size = jnp.abs(output - target)
        return jnp.sum(jnp.where(size < 1, size**2 / 2, size - 0.5))

    network = mupc.Network(in_size=8, out_size=3, width=16, hidden_layers=4, key=jr.key(0))
    energy = mupc.Energy(loss=huber, output_precision=0.1)
    mupc.infer(network, jnp.ones((2, 8)), jnp.zeros((2, 3)), mupc.ErrorSpace(), energy=energy).energy
    ```
    """

    loss: str | LossFunction | None = eqx.field(static=True, default=None)
    output_precision: Real | None = None
    activity_decay: Real = 0.0
    weight_decay: Real = 0.0
    orthogonality: Real = 0.0

    def __check_init__(self) -> None:
        if self.loss is not None:
            _check_loss(self.loss)
        if self.output_precision is not None:
            checks.number("output_precision", self.output_precision, above=0)
            cure = "Squares of errors would vanish in float32."
            checks.number("output_precision", self.output_precision, at_least=LEAST_PRECISION, cure=cure)
        for name in ("activity_decay", "weight_decay", "orthogonality"):
            checks.number(name, getattr(self, name), at_least=0)

    @property
    def output_weight(self) -> Real:
        """λ as a number."""
        return PAPER_PRECISION if self.output_precision is None else self.output_precision

    @property
    def decays_activities(self) -> bool:
        """Whether activity decay acts. A plain 0 switches it off; a traced value counts as on."""
        return not (isinstance(self.activity_decay, int | float) and self.activity_decay == 0)

    @property
    def output_function(self) -> str | LossFunction:
        """The loss as a name or a function."""
        return PAPER_LOSS if self.loss is None else self.loss

    @property
    def loss_name(self) -> str:
        """The loss in messages: its name, or that of the function."""
        loss = self.output_function
        return loss if isinstance(loss, str) else getattr(loss, "__name__", type(loss).__name__)

    @property
    def _loss(self) -> Loss:
        loss = self.output_function
        return LOSSES[loss] if isinstance(loss, str) else _own_loss(loss)

    @property
    def has_convex_loss(self) -> bool:
        """Whether the loss is known to be convex. Of a user's own nothing is known."""
        return self._loss.convex

    def check_outputs(self, shape: tuple[int, ...]) -> None:
        """Refuse a function that is not a loss of outputs of this shape. Functions of our own need no check."""
        if not isinstance(loss := self.output_function, str):
            _check_function(loss, self.loss_name, shape)

    def output_loss(self, output: Outputs, y: Outputs) -> PerSample:
        """Return the loss of each sample, not yet times λ."""
        return self._loss.value(output, y)

    def output_error(self, output: Outputs, y: Outputs) -> Outputs:
        """Return the negative gradient of the loss in the output: y − output, or y − softmax(output)."""
        return self._loss.error(output, y)

    def output_curvature(self, output: Outputs, y: Outputs, change: Outputs) -> Outputs:
        """Return the second derivative of the loss in the output times a change of the output."""
        return self._loss.curvature(output, y, change)

    def layer_penalties(self, network: AbstractNetwork) -> PerLayer:
        """Return the weight penalties of layers 1 … L."""
        is_zero = isinstance(self.orthogonality, int | float) and self.orthogonality == 0
        if isinstance(network, Chain) and not is_zero:
            wrong = "is for the matrices of mupc.Network, and the nodes of a chain may hold any weights."
            raise checks.ArgumentError("orthogonality", wrong, "Leave it out, or use weight_decay.")

        def penalty(layer: Dense) -> Array:
            return (self.weight_decay * layer.squared_norm() + self.orthogonality * layer.orthogonality_defect()) / 2

        return network.per_layer(penalty)

    def penalty_gradient(self, network: SomeNetwork) -> SomeNetwork:
        """Return the gradient of all weight penalties in the weights."""
        return eqx.filter_grad(lambda n: jnp.sum(self.layer_penalties(n)))(network)

    @property
    def penalises_weights(self) -> bool:
        """Whether a weight penalty acts."""
        return any(not isinstance(w, int | float) or w != 0 for w in (self.weight_decay, self.orthogonality))


def as_energy(energy: Energy | None, output_precision: Real = PAPER_PRECISION) -> Energy:
    """Return the energy that was given, with the paper's loss and λ = `output_precision` where they were left open.
    None stands for the paper's energy."""
    energy = with_loss(energy, PAPER_LOSS)
    chosen = output_precision if energy.output_precision is None else energy.output_precision
    return dataclasses.replace(energy, output_precision=chosen)


def with_loss(energy: Energy | None, loss: str) -> Energy:
    """Return the energy that was given, with this loss where it was left open."""
    energy = Energy() if energy is None else energy
    if not isinstance(energy, Energy):
        raise checks.ArgumentTypeError(
            "energy", f'must be a mupc.Energy such as mupc.Energy(loss="mse"), got {checks.literal(energy)}.'
        )
    return dataclasses.replace(energy, loss=loss) if energy.loss is None else energy


def as_targets(network: AbstractNetwork, y: Rows | None, batch: int | None, energy: Energy | None = None) -> Outputs:
    """Return targets (B, C) as a floating array that the loss of the energy can use. Whole-number class labels (B,)
    become one-hot rows."""
    if y is None:
        raise checks.ArgumentError(
            "y", "is missing:", "pass targets (batch, out_size), or whole-number class labels (batch,)."
        )
    y = jnp.asarray(y) if isinstance(y, Sequence) else y
    if np.shape(y)[:1] == (0,):
        raise checks.ArgumentError("y", f"has no rows, its shape is {np.shape(y)}:", "pass at least one sample.")
    targets_shape = f"(batch, {', '.join(map(str, network.output_shape))})"
    as_labels = np.ndim(y) == len(network.output_shape)  # one axis less than targets: the classes
    if as_labels and network.out_size > 1 and jnp.issubdtype(jnp.result_type(y), jnp.floating):
        raise checks.ArgumentError(
            "y",
            f"has shape {np.shape(y)} and holds {jnp.result_type(y)}:",
            f"convert class labels to whole numbers, or pass targets of shape {targets_shape}.",
        )
    rows, positions = "batch" if batch is None else batch, network.output_shape[:-1]
    cure = "Pass one row per sample of x, out_size columns, or whole-number class labels of shape (batch,)."
    if positions:
        shape = f"(batch, {', '.join(map(str, positions))})"
        cure = f"Pass a whole number for each position, of shape {shape}, or one-hot rows."
    if as_labels and jnp.issubdtype(jnp.result_type(y), jnp.integer):
        if positions:
            checks.shape("y", y, (rows, *positions), cure)
        y = _one_hot(y, network.output_shape[-1])
    checks.shape("y", y, (rows, *network.output_shape), cure)
    targets = as_floating("y", y)
    if energy is not None:
        energy.check_outputs(network.output_shape)
    cross_entropy = energy is not None and energy.output_function == CROSS_ENTROPY
    if cross_entropy and not isinstance(targets, jax.core.Tracer) and jnp.min(targets) < 0:
        raise checks.ArgumentError(
            "y",
            f"has {float(jnp.min(targets)):g} in it, and cross-entropy needs class labels or probabilities.",
            'Pass those, or use the loss "mse".',
        )
    return targets


def _one_hot(labels: Rows, classes: int) -> Outputs:
    if not isinstance(labels, jax.core.Tracer) and (np.min(labels) < 0 or np.max(labels) >= classes):
        raise checks.ArgumentError(
            "y",
            f"must hold class labels 0 … {classes - 1} for {{out_size}} = {classes}, "
            f"got {np.min(labels)} … {np.max(labels)}.",
            "Make {out_size} the number of classes.",
        )
    return jax.nn.one_hot(jnp.asarray(labels), classes)


def layer_energies(
    network: AbstractNetwork,
    activities: PyTree[Rows],
    x: Rows,
    y: Rows,
    *,
    energy: Energy | None = None,
    free_input: bool = False,
) -> PerLayer:
    """Return the energy of layers 1 … L, batch mean; they sum to `mupc.energy`.

    Each layer has its error, its weight penalties and, if hidden, its activity decay.

    **Arguments:** the network, activities (H, B, N), inputs (B, D), targets (B, C) or labels (B,), and
    `energy=mupc.Energy(...)`. With `free_input` x is the free z₀ of the unsupervised case, which activity decay
    also acts on; that term belongs to layer 1.

    **Example:**

    ```python
    import jax.numpy as jnp, jax.random as jr, mupc

    network = mupc.Network(in_size=8, out_size=3, width=16, hidden_layers=4, key=jr.key(0))
    x, y = jnp.ones((5, 8)), jnp.zeros((5, 3))
    activities, _ = mupc.forward(network, x)
    mupc.layer_energies(network, activities, x, y)    # zero but for the last
    ```
    """
    energy = as_energy(energy)
    inputs = as_inputs(network, x)
    targets = as_targets(network, y, len(inputs), energy)
    check_activities(network, activities, len(inputs))
    policy = resolve_precision(None, (network, activities))
    states = jax.tree.map(lambda stack: as_floating("activities", stack), activities)
    network, states, inputs, targets = policy.cast((network, states, inputs, targets))
    return _layer_energies(network, states, inputs, targets, energy, free_input, policy)


@eqx.filter_jit
def _layer_energies(
    network: AbstractNetwork,
    activities: PyTree,
    x: Inputs,
    y: Outputs,
    energy: Energy,
    free_input: bool,
    policy: Precision,
) -> PerLayer:
    hidden_errors, output = network.prediction_errors(activities, x, policy)
    hidden = half_squares(hidden_errors) + energy.activity_decay * half_squares(activities)
    if free_input:
        hidden = hidden.at[0].add(energy.activity_decay * half_squares(x[None])[0])
    top = energy.output_weight * jnp.mean(energy.output_loss(output, y))
    return jnp.append(hidden, top) + energy.layer_penalties(network)


def energy(
    network: AbstractNetwork,
    activities: PyTree[Rows],
    x: Rows,
    y: Rows,
    *,
    energy: Energy | None = None,
    free_input: bool = False,
) -> Scalar:
    """Return the energy F of Eq. 1, averaged over the batch: the sum of `mupc.layer_energies`, with its arguments."""
    return jnp.sum(layer_energies(network, activities, x, y, energy=energy, free_input=free_input))


def check_activities(network: AbstractNetwork, activities: object, batch: int) -> None:
    """Accept activities (H, B, N) of a network, or a tuple of those of a chain."""
    if hasattr(activities, "activities"):
        raise checks.ArgumentTypeError("activities", "must be an array, got a Solution:", "pass solution.activities.")
    expected = network.activity_shapes(batch)
    if not isinstance(expected[0], tuple):
        checks.shape("activities", activities, expected, "They are (hidden_layers, batch, width).")
        return
    if not isinstance(activities, Sequence) or len(activities) != len(expected):
        cure = f"Pass a tuple of {len(expected)} arrays, one for each node or stack but the readout."
        raise checks.ArgumentError("activities", "does not fit the chain.", cure)
    for stack, shape in zip(activities, expected, strict=True):
        checks.shape("activities", stack, shape, "They are (nodes, batch, *shape) for each node or stack.")


def half_squares(stacks: PyTree[Float[Array, "_ batch ..."]]) -> Float[Array, " layers"]:
    """Return ½‖·‖² of each layer, batch mean. In every array layers come first, then the batch."""
    found = [jnp.sum(a**2, axis=tuple(range(1, a.ndim))) / (2 * a.shape[1]) for a in jax.tree.leaves(stacks)]
    return jnp.concatenate(found)
