"""The baseline: predictive coding as the reference library runs it. Layers are a Python list, each applied with
`vmap`; inference works on full activities and takes one dispatch per step, which evaluates the energy, its gradient
by autodiff and an optax update. Used to compare speed and rounding error, never by the library."""

import equinox as eqx
import jax
import jax.numpy as jnp
import optax

import mupc


class Layer(eqx.Module):
    """φ, then a multiplied matrix."""

    linear: eqx.nn.Linear
    multiplier: float = eqx.field(static=True)
    phi: object = eqx.field(static=True)

    def __call__(self, z):
        return self.multiplier * self.linear(self.phi(z))


def unstack(network: mupc.Network) -> list[Layer]:
    """The same network as a list of layers."""
    first, hidden, last = network.multipliers
    identity, phi = (lambda z: z), network.activation.function
    weights = [network.input.weight, *network.hidden.weight, network.readout.weight]
    roles = [(first, identity), *[(hidden, phi)] * (len(weights) - 2), (last, phi)]

    def layer(weight, role):
        linear = eqx.nn.Linear(*weight.shape[::-1], use_bias=False, key=jax.random.key(0))
        return Layer(eqx.tree_at(lambda lin: lin.weight, linear, weight), *role)

    return [layer(weight, role) for weight, role in zip(weights, roles, strict=True)]


def energy(layers, activities, x, y, skip):
    """Eq. 1, batch mean, layers unrolled."""
    states = [x, *activities, y]
    terms = []
    for index, layer in enumerate(layers):
        predicted = jax.vmap(layer)(states[index])
        if skip <= index < len(activities) and skip:
            predicted = predicted + states[index + 1 - skip]
        terms.append(jnp.sum((states[index + 1] - predicted) ** 2) / 2)
    return sum(terms) / len(x)


def update_functions(skip: int, lr: float, batch: int):
    """Jitted forward pass, one inference step, and weight gradients. `lr` acts per sample, as in `mupc`."""
    optimiser = optax.sgd(lr * batch)

    @eqx.filter_jit
    def start(layers, x):
        activities = [jax.vmap(layers[0])(x)]
        for index, layer in enumerate(layers[1:-1], start=1):
            z = jax.vmap(layer)(activities[-1])
            activities.append(z + activities[index - skip] if skip and index >= skip else z)
        return activities

    @eqx.filter_jit
    def step(layers, activities, state, x, y):
        value, gradients = jax.value_and_grad(energy, argnums=1)(layers, activities, x, y, skip)
        updates, state = optimiser.update(gradients, state, activities)
        return value, gradients, eqx.apply_updates(activities, updates), state

    @eqx.filter_jit
    def learn(layers, activities, x, y):
        return eqx.filter_grad(energy)(layers, activities, x, y, skip)

    return optimiser, start, step, learn


def weight_gradients(functions, layers, x, y, steps: int):
    """One whole update: forward pass, `steps` dispatches, weight gradients."""
    optimiser, start, step, learn = functions
    activities = start(layers, x)
    state = optimiser.init(activities)
    for _ in range(steps):
        _, _, activities, state = step(layers, activities, state, x, y)
    return learn(layers, activities, x, y)
