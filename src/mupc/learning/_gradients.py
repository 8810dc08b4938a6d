"""Weight gradients: from a solution of inference, and by backpropagation on the same network."""

from collections.abc import Iterable
from typing import TypeVar, cast

import equinox as eqx
import jax
import jax.numpy as jnp

from ..inference import Arrays, Batch, Energy, Solution, as_energy, as_targets, check_solution
from ..io import checks
from ..network import (
    POLICIES,
    AbstractNetwork,
    Inputs,
    Outputs,
    Precision,
    Rows,
    as_inputs,
    check_network,
    resolve_precision,
)

SomeNetwork = TypeVar("SomeNetwork", bound=AbstractNetwork)


def weight_gradients(network: SomeNetwork, solution: Solution, x: Rows | None = None) -> SomeNetwork:
    """Return the gradient of the energy in the weights, at the activities that inference found.

    Each layer needs only its own error and what came into it:

        ∂F/∂W_ℓ = −a_ℓ · mean over the batch of e_ℓ φ(z_{ℓ-1})ᵀ,

    divided by the output precision λ, plus the gradients of the weight penalties, which are not divided.

    **Arguments:** the network, the `mupc.Solution`, which carries the energy it was found with, and the inputs it was
    found for (not needed in the unsupervised case).

    **Returns:** a network that holds gradients in place of weights.

    **Example:**

    ```python
    import jax.numpy as jnp, jax.random as jr, mupc

    network = mupc.Network(in_size=8, out_size=3, width=16, hidden_layers=4, key=jr.key(0))
    x, y = jnp.ones((2, 8)), jnp.array([0, 2])
    solution = mupc.infer(network, x, y, mupc.GradientDescent(lr=0.1, steps=4))
    gradients = mupc.weight_gradients(network, solution, x)
    gradients.hidden.weight.shape      # (3, 16, 16)
    ```
    """
    network, inputs = checked_inputs(network, solution, x)
    return solution_gradients(network, solution, inputs, solution.objective)


def checked_inputs(network: SomeNetwork, solution: Solution, x: Rows | None) -> tuple[SomeNetwork, Inputs]:
    """Return the network and the inputs of a solution in its precision, after a check that they belong together."""
    check_network(network)
    check_solution(solution)
    if solution.input is not None:
        x = solution.input
    elif x is None:
        raise checks.ArgumentError("x", "is missing:", "pass the inputs that the solution was inferred for.")
    inputs = as_inputs(network, x)
    stacks = jax.tree.leaves(solution.activities)
    rows = stacks[0].shape[1]
    if len(inputs) != rows:
        raise checks.ArgumentError(
            "x", f"has {len(inputs)} rows, the solution {rows}:", "pass the inputs it was inferred for."
        )
    expected = network.activity_shapes(rows)
    expected = expected if isinstance(expected[0], tuple) else (expected,)
    if [stack.shape for stack in stacks] != list(expected):
        raise checks.ArgumentError(
            "solution",
            f"has activities of shape {_shown(stack.shape for stack in stacks)}, the network {_shown(expected)}:",
            "pass the network that it was inferred with.",
        )
    return POLICIES[solution.precision].cast((network, inputs))


def _shown(shapes: Iterable[tuple[int, ...]]) -> str:
    return ", ".join(map(str, shapes))


@eqx.filter_jit
def solution_gradients(network: SomeNetwork, solution: Solution, x: Inputs, energy: Energy) -> SomeNetwork:
    """Run `weight_gradients` on arguments that are checked and cast, with the penalties of any energy."""
    return with_penalties(error_gradients(network, solution, x, energy, POLICIES[solution.precision]), network, energy)


def error_gradients(
    network: SomeNetwork, found: Solution | Arrays, x: Inputs, energy: Energy, policy: Precision
) -> SomeNetwork:
    """Return the gradients from every layer's own error, without penalties. Errors carry a factor λ, which is divided
    out. The inputs are `x`, unless they were inferred."""
    inputs, factor = x if found.input is None else found.input, 1 / energy.output_weight
    gradients = network.local_gradients(inputs, found.activities, found.errors, found.output_error, policy, factor)
    return cast(SomeNetwork, gradients)


def with_penalties(gradients: AbstractNetwork, network: SomeNetwork, energy: Energy) -> SomeNetwork:
    """Return gradients with those of the weight penalties."""
    if not energy.penalises_weights:
        return cast(SomeNetwork, gradients)
    return jax.tree.map(jnp.add, gradients, energy.penalty_gradient(network))


def backprop_gradients(
    network: SomeNetwork, x: Rows, y: Rows, *, energy: Energy | None = None, precision: str | None = None
) -> SomeNetwork:
    """Return the gradient of the loss by backpropagation, with the same network and multipliers: the baseline.

    It is the limit of `mupc.weight_gradients` at equilibrium as the output precision goes to zero, and does not
    depend on that precision.

    **Arguments:** network, inputs (B, D), targets (B, C) or labels (B,), `energy` (its loss and weight penalties;
    activity decay has no meaning here), and a precision policy as for `mupc.infer`.

    **Example:**

    ```python
    import jax.numpy as jnp, jax.random as jr, mupc

    network = mupc.Network(in_size=8, out_size=3, width=16, hidden_layers=4, key=jr.key(0))
    gradients = mupc.backprop_gradients(network, jnp.ones((2, 8)), jnp.array([0, 2]))
    ```
    """
    energy = as_energy(energy)
    check_backprop(energy)
    policy = resolve_precision(precision, network)
    inputs = as_inputs(network, x)
    network, batch = policy.cast((network, Batch(inputs, as_targets(network, y, len(inputs), energy))))
    return backprop_step(network, batch, energy, policy)[0]


def check_backprop(energy: Energy) -> None:
    """Refuse an energy that backpropagation does not have."""
    if energy.decays_activities:
        raise checks.ArgumentError(
            "activity_decay",
            f"= {energy.activity_decay}, but backpropagation does not have free activities to decay.",
            "Set it to 0.",
        )


@eqx.filter_jit
def backprop_step(network: SomeNetwork, batch: Batch, energy: Energy, policy: Precision) -> tuple[SomeNetwork, Outputs]:
    """Return the gradients and the prediction, on arguments that are checked and cast."""
    gradients, output = network.backpropagate(batch.x, lambda at: energy.output_error(at, batch.y), policy)
    return with_penalties(gradients, network, energy), output
