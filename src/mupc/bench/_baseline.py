"""The step-by-step baseline: predictive coding as the reference library runs it.

Layers are a Python list, each applied with `vmap`. Inference works on full activities and dispatches every step by
itself: the energy, its gradient by autodiff and an optax update, in JAX's default precision. It is here for comparison
only; the library never uses it.
"""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array

from ..network import Network
from ._timing import CompiledCall, compile_call


class BaselineLayer(eqx.Module):
    """φ, then a matrix with its multiplier."""

    linear: eqx.nn.Linear
    multiplier: float = eqx.field(static=True)
    phi: Callable[[Array], Array] = eqx.field(static=True)

    def __call__(self, z: Array) -> Array:
        return self.multiplier * self.linear(self.phi(z))


def baseline_layers(network: Network) -> list[BaselineLayer]:
    """Return the same network as a list of layers."""
    first, hidden, last = network.multipliers
    phi = network.activation.function
    dense: Any = network
    weights = [dense.input.weight, *dense.hidden.weight, dense.readout.weight]
    roles = [(first, jax.nn.identity), *[(hidden, phi)] * (len(weights) - 2), (last, phi)]

    def layer(weight: Array, multiplier: float, phi: Callable[[Array], Array]) -> BaselineLayer:
        out, into = weight.shape
        linear = eqx.nn.Linear(into, out, use_bias=False, key=jax.random.key(0))
        return BaselineLayer(eqx.tree_at(lambda lin: lin.weight, linear, weight), multiplier, phi)

    return [layer(weight, *role) for weight, role in zip(weights, roles, strict=True)]


def _energy(layers: list[BaselineLayer], activities: list[Array], x: Array, y: Array, skip: int) -> Array:
    """Return the mean over the batch of Eq. 1."""
    states = [x, *activities, y]
    terms = []
    for index, layer in enumerate(layers):
        predicted = jax.vmap(layer)(states[index])
        if skip and skip <= index < len(activities):
            predicted = predicted + states[index + 1 - skip]
        terms.append(jnp.sum((states[index + 1] - predicted) ** 2) / 2)
    return sum(terms, start=jnp.zeros(())) / len(x)


def _forward(layers: list[BaselineLayer], x: Array, skip: int) -> list[Array]:
    activities = [jax.vmap(layers[0])(x)]
    for index, layer in enumerate(layers[1:-1], start=1):
        z = jax.vmap(layer)(activities[-1])
        activities.append(z + activities[index - skip] if skip and index >= skip else z)
    return activities


def baseline_update(network: Network, x: Array, y: Array, lr: float, steps: int) -> CompiledCall:
    """Compile a whole update: the forward pass, `steps` dispatches, and the weight gradients as a list of layers. `lr`
    acts on one sample's energy, as in `mupc`."""
    layers, skip = baseline_layers(network), network.skip
    optimiser = optax.sgd(lr * len(x))

    def step(layers: list[BaselineLayer], activities: list[Array], state: optax.OptState, x: Array, y: Array) -> Any:
        value, gradients = jax.value_and_grad(_energy, argnums=1)(layers, activities, x, y, skip)
        updates, state = optimiser.update(gradients, state, activities)
        return value, gradients, optax.apply_updates(activities, updates), state

    def learn(layers: list[BaselineLayer], activities: list[Array], x: Array, y: Array) -> list[BaselineLayer]:
        return jax.grad(_energy)(layers, activities, x, y, skip)

    forward = compile_call(lambda layers, x: _forward(layers, x, skip), layers, x)
    start = forward()
    state = optimiser.init(start)
    once, last = compile_call(step, layers, start, state, x, y), compile_call(learn, layers, start, x, y)

    def update() -> list[BaselineLayer]:
        activities, carried = forward(), state
        for _ in range(steps):
            _, _, activities, carried = once.function(layers, activities, carried, x, y)
        return last.function(layers, activities, x, y)

    parts = [call.costs for call in (forward, once, last)]
    costs = {name: sum(part[name] for part in parts) for name in ("trace_s", "compile_s")}
    return CompiledCall(update, (), costs | {"memory_bytes": max(part["memory_bytes"] for part in parts)})
