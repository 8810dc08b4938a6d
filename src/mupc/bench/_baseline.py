"""The step-by-step baseline: predictive coding as the reference library runs it.

Layers are a Python list, each applied with `vmap`. Inference works on full activities and dispatches every step by
itself: the energy, its gradient by autodiff and an optax update, in JAX's default precision. It is here for comparison
only; the library never uses it.
"""

from typing import Any

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array

from ..network import Network
from ._timing import CompiledCall, compile_call

Arrays = list[Array]


def baseline_update(network: Network, x: Array, y: Array, lr: float, steps: int) -> CompiledCall:
    """Compile a whole update: the forward pass, `steps` dispatches, and the gradients as a list of matrices. `lr` acts
    on one sample's energy, as in `mupc`."""
    dense: Any = network
    weights: Arrays = [dense.input.weight, *dense.hidden.weight, dense.readout.weight]
    (first, hidden, last), skip, top = network.multipliers, network.skip, len(weights) - 1
    multipliers = [first, *[hidden] * (top - 1), last]
    phis = [jax.nn.identity, *[network.activation.function] * top]
    optimiser = optax.sgd(lr * len(x))

    def predict(weights: Arrays, states: Arrays, index: int) -> Array:
        """Return what layer `index` predicts from the states below it, of which the first is x."""
        predicted = jax.vmap(lambda z: multipliers[index] * (weights[index] @ phis[index](z)))(states[index])
        return predicted + states[index + 1 - skip] if skip and skip <= index < top else predicted

    def forward(weights: Arrays, x: Array) -> Arrays:
        states = [x]
        for index in range(top):
            states.append(predict(weights, states, index))
        return states[1:]

    def energy(weights: Arrays, activities: Arrays, x: Array, y: Array) -> Array:
        """Return the mean over the batch of Eq. 1."""
        states = [x, *activities, y]
        errors = [states[index + 1] - predict(weights, states, index) for index in range(top + 1)]
        return sum((jnp.sum(error**2) / 2 for error in errors), start=jnp.zeros(())) / len(x)

    def step(weights: Arrays, activities: Arrays, state: optax.OptState, x: Array, y: Array) -> Any:
        value, gradients = jax.value_and_grad(energy, argnums=1)(weights, activities, x, y)
        updates, state = optimiser.update(gradients, state, activities)
        return value, gradients, optax.apply_updates(activities, updates), state

    start = compile_call(forward, weights, x)
    state = optimiser.init(start())
    once = compile_call(step, weights, start(), state, x, y)
    learn = compile_call(jax.grad(energy), weights, start(), x, y)

    def update() -> Arrays:
        activities, carried = start(), state
        for _ in range(steps):
            _, _, activities, carried = once.function(weights, activities, carried, x, y)
        return learn.function(weights, activities, x, y)

    parts = [call.costs for call in (start, once, learn)]
    memory = max(part["memory_bytes"] for part in parts)
    return CompiledCall(
        update, (), {"trace_compile_s": sum(part["trace_compile_s"] for part in parts), "memory_bytes": memory}
    )
