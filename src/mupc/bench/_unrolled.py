"""The baseline: predictive coding as the reference library runs it. Layers are a Python list, each applied with
`vmap`; inference works on full activities and takes one dispatch per step, which evaluates the energy, its gradient
by autodiff and an optax update, in JAX's default precision. For comparison only, never used by the library."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array

from ..network import Network
from ._timing import Program, compiled


class Layer(eqx.Module):
    """φ, then a multiplied matrix."""

    linear: eqx.nn.Linear
    multiplier: float = eqx.field(static=True)
    phi: Callable[[Array], Array] = eqx.field(static=True)

    def __call__(self, z: Array) -> Array:
        return self.multiplier * self.linear(self.phi(z))


def _identity(z: Array) -> Array:
    return z


def unstack(network: Network) -> list[Layer]:
    """The same network as a list of layers."""
    first, hidden, last = network.multipliers
    phi = network.activation.function
    every: Any = network
    weights = [every.input.weight, *every.hidden.weight, every.readout.weight]
    roles = [(first, _identity), *[(hidden, phi)] * (len(weights) - 2), (last, phi)]

    def layer(weight: Array, role: tuple[float, Callable[[Array], Array]]) -> Layer:
        out, into = weight.shape
        linear = eqx.nn.Linear(into, out, use_bias=False, key=jax.random.key(0))
        return Layer(eqx.tree_at(lambda lin: lin.weight, linear, weight), *role)

    return [layer(weight, role) for weight, role in zip(weights, roles, strict=True)]


def energy(layers: list[Layer], activities: list[Array], x: Array, y: Array, skip: int) -> Array:
    """Eq. 1, batch mean, layers unrolled."""
    states = [x, *activities, y]
    terms = []
    for index, layer in enumerate(layers):
        predicted = jax.vmap(layer)(states[index])
        if skip and skip <= index < len(activities):
            predicted = predicted + states[index + 1 - skip]
        terms.append(jnp.sum((states[index + 1] - predicted) ** 2) / 2)
    return sum(terms, start=jnp.zeros(())) / len(x)


def program(network: Network, x: Array, y: Array, lr: float, steps: int) -> Program:
    """A whole update, compiled: forward pass, `steps` dispatches, weight gradients as a list of layers. `lr` acts per
    sample, as in `mupc`."""
    layers, skip = unstack(network), network.skip
    optimiser = optax.sgd(lr * len(x))

    def start(layers: list[Layer], x: Array) -> list[Array]:
        activities = [jax.vmap(layers[0])(x)]
        for index, layer in enumerate(layers[1:-1], start=1):
            z = jax.vmap(layer)(activities[-1])
            activities.append(z + activities[index - skip] if skip and index >= skip else z)
        return activities

    def step(layers: list[Layer], activities: list[Array], state: Any, x: Array, y: Array) -> Any:
        value, gradients = jax.value_and_grad(energy, argnums=1)(layers, activities, x, y, skip)
        updates, state = optimiser.update(gradients, state, activities)
        return value, gradients, optax.apply_updates(activities, updates), state

    def learn(layers: list[Layer], activities: list[Array], x: Array, y: Array) -> list[Layer]:
        return jax.grad(energy)(layers, activities, x, y, skip)

    forward = compiled(start, layers, x)
    begun = forward.call()
    state = optimiser.init(begun)
    once, last = compiled(step, layers, begun, state, x, y), compiled(learn, layers, begun, x, y)

    def update() -> list[Layer]:
        activities, carried = forward.function(layers, x), state
        for _ in range(steps):
            _, _, activities, carried = once.function(layers, activities, carried, x, y)
        return last.function(layers, activities, x, y)

    parts = (forward, once, last)
    return Program(
        update, (), sum(p.trace_s for p in parts), sum(p.compile_s for p in parts), max(p.memory_bytes for p in parts)
    )
