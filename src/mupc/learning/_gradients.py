"""Weight gradients: from a solution of inference, and the backpropagation baseline on the same network."""

import equinox as eqx
import jax
import jax.numpy as jnp

from ..inference import Energy, Solution, as_energy, as_targets, check_solution
from ..network import (
    POLICIES,
    Activities,
    Inputs,
    Network,
    Outputs,
    Precision,
    Rows,
    as_inputs,
    backward_pass,
    check_network,
    forward_pass,
    resolve_precision,
)


def weight_gradients(
    network: Network, solution: Solution, x: Rows | None = None, *, energy: Energy | None = None
) -> Network:
    """The gradient of the energy in the weights, at the activities that inference found.

    Each layer needs only its own error and what came into it:

        ∂F/∂W_ℓ = −a_ℓ · mean over the batch of e_ℓ φ(z_{ℓ-1})ᵀ,

    divided by the output precision λ, plus the gradients of the weight penalties, which are not divided.

    **Arguments:** the network, the `mupc.Solution`, the inputs it was found for (not needed in the unsupervised
    case), and the same `energy` that inference had.

    **Returns:** a `Network` that holds gradients in place of weights.

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
    check_network(network)
    check_solution(solution)
    energy = as_energy(energy)
    policy = POLICIES[solution.precision]
    if solution.input is not None:
        x = solution.input
    elif x is None:
        raise ValueError("x is missing: pass the inputs that the solution was inferred for.")
    inputs = as_inputs(network, x)
    if len(inputs) != solution.activities.shape[1]:
        raise ValueError(
            f"x has {len(inputs)} rows, the solution {solution.activities.shape[1]}: "
            "pass the inputs it was inferred for."
        )
    depth, _, width = solution.activities.shape
    if (depth, width) != (network.hidden_layers, network.width):
        raise ValueError(
            f"the solution has {depth} hidden layers of {width} units, the network {network.hidden_layers} of "
            f"{network.width}: pass the network that it was inferred with."
        )
    network, inputs = policy.cast((network, inputs))
    return layer_gradients(
        network, inputs, solution.activities, solution.errors, solution.output_error, energy, policy, scaled=True
    )


@eqx.filter_jit
def layer_gradients(
    network: Network,
    x: Inputs,
    activities: Activities,
    errors: Activities,
    output_error: Outputs,
    energy: Energy,
    policy: Precision,
    scaled: bool,
) -> Network:
    """Layer by layer from errors and activities; `scaled` errors carry a factor λ that is divided out."""
    first, hidden, last = network.multipliers
    phi = network.activation(activities)
    if scaled:
        errors = errors / energy.output_precision
    layers = (
        network.input.gradient(errors[0], x, first, policy),
        network.hidden.gradient(errors[1:], phi[:-1], hidden, policy),
        network.readout.gradient(output_error, phi[-1], last, policy),
    )
    gradients = eqx.tree_at(lambda n: (n.input, n.hidden, n.readout), network, layers)
    if energy.penalises_weights:
        gradients = jax.tree.map(jnp.add, gradients, energy.penalty_gradient(network))
    return gradients


def backprop_gradients(
    network: Network,
    x: Rows,
    y: Rows,
    *,
    energy: Energy | None = None,
    precision: str | None = None,
) -> Network:
    """The gradient of the loss by backpropagation, with the same network and multipliers: the baseline.

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
    network, inputs, targets = policy.cast((network, inputs, as_targets(network, y, len(inputs), energy)))
    return backprop_step(network, inputs, targets, energy, policy)[0]


def check_backprop(energy: Energy) -> None:
    """Raises for an energy that backpropagation does not have."""
    if energy.decays_activities:
        raise ValueError(
            f"backpropagation has no free activities to decay, got activity_decay={energy.activity_decay}. Set it to 0."
        )


@eqx.filter_jit
def backprop_step(
    network: Network, x: Inputs, y: Outputs, energy: Energy, policy: Precision
) -> tuple[Network, Outputs]:
    """The gradients and the prediction, on arrays that are checked and cast."""
    activities, output = forward_pass(network, x, policy)
    output_error = energy.output_error(output, y)
    top = network.multipliers[2] * network.readout.transpose(output_error, policy)
    errors = backward_pass(network, activities, top, policy)
    return layer_gradients(network, x, activities, errors, output_error, energy, policy, scaled=False), output
