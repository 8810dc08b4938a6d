"""Activation functions, each with a difference φ(z + δ) − φ(z) that stays accurate when δ is tiny.

Inference moves activities by as little as 1e-15 of their size. Subtracting two rounded values of φ would leave
noise in place of that signal, so every φ here comes with a formula in δ itself.
"""

import dataclasses
import importlib
import sys
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ..io import checks
from ._types import Elementwise

Values = Float[Array, "..."]
Difference = Callable[[jax.Array, jax.Array], jax.Array]
OWN = "own:"
"""Before the name of a function of the user's own, which a file does not hold."""


@dataclasses.dataclass(frozen=True)
class Activation:
    """An elementwise nonlinearity φ with its derivative and its accurate difference.

    **Arguments:** `name`, the function itself, and optionally `exact_difference(z, delta)`; without one a
    difference for arbitrary smooth or kinked functions is used.
    """

    name: str
    function: Elementwise
    exact_difference: Difference | None = None

    def __call__(self, z: Values) -> Values:
        return self.function(z)

    def __reduce__(self) -> tuple[Callable[..., "Activation"], tuple[object, ...]]:
        """Pickle an activation of ours by its name."""
        if ACTIVATIONS.get(self.name) is self:
            return resolve_activation, (self.name,)
        return _unpickled, (self.name, *map(_importable, (self.function, self.exact_difference)))

    def derivative(self, z: Values) -> Values:
        """Return φ′(z), elementwise, with JAX's convention at kinks."""
        return jax.jvp(self.function, (z,), (jnp.ones_like(z),))[1]

    def difference(self, z: Values, delta: Values) -> Values:
        """Return φ(z + δ) − φ(z) with a small error *relative to the result*."""
        if self.exact_difference is not None:
            return self.exact_difference(z, delta)
        return self._quadrature_difference(z, delta)

    def _quadrature_difference(self, z: Values, delta: Values) -> Values:
        # δ times the mean of φ′ over [z, z + δ] (two Gauss points) has no cancellation, and an error of about δ⁵/4320
        # for smooth φ. It is taken for small δ where plain subtraction, within its own rounding error, agrees: where
        # it does not, there is a kink between z and z + δ.
        half, offset = delta / 2, delta / (2 * 3**0.5)
        mean = (self.derivative(z + half - offset) + self.derivative(z + half + offset)) / 2
        smooth = delta * mean
        before, after = self.function(z), self.function(z + delta)
        subtracted = after - before
        scale = jnp.abs(before) + jnp.abs(after) + (jnp.abs(z) + jnp.abs(delta)) * (1 + jnp.abs(mean))
        eps = float(jnp.finfo(z.dtype).eps)
        small = jnp.abs(delta) < (4320 * eps) ** 0.2
        return jnp.where(small & (jnp.abs(smooth - subtracted) <= 4 * eps * scale), smooth, subtracted)


def _relu_difference(z: jax.Array, delta: jax.Array) -> jax.Array:
    return jnp.where(z > 0, jnp.maximum(delta, -z), jnp.maximum(z + delta, 0))


def _leaky_relu_difference(z: jax.Array, delta: jax.Array, slope: float = 0.01) -> jax.Array:
    return slope * delta + (1 - slope) * _relu_difference(z, delta)


def _hard_tanh_difference(z: jax.Array, delta: jax.Array) -> jax.Array:
    return _relu_difference(z + 1, delta) - _relu_difference(z - 1, delta)


def _tanh_difference(z: jax.Array, delta: jax.Array) -> jax.Array:
    """Apply the addition theorem: tanh(z+δ) − tanh z = tanh δ · (1 − tanh² z) / (1 + tanh z · tanh δ)."""
    t, d = jnp.tanh(z), jnp.tanh(delta)
    small = d * ((1 - t) * (1 + t)) / (1 + t * d)  # 0/0 from one saturation to the other; there subtract
    return jnp.where(jnp.abs(delta) < 1, small, jnp.tanh(z + delta) - t)


def _silu_difference(z: jax.Array, delta: jax.Array) -> jax.Array:
    rise = _tanh_difference(z / 2, delta / 2) / 2  # of the logistic function
    return delta * jax.nn.sigmoid(z + delta) + z * rise


def _gelu_difference(z: jax.Array, delta: jax.Array) -> jax.Array:
    """Follow jax.nn.gelu's default form, z/2 · (1 + tanh u(z)) with a cubic u."""
    root, cubic = (2 / jnp.pi) ** 0.5, 0.044715
    u = root * (z + cubic * z**3)
    du = root * delta * (1 + cubic * (3 * z**2 + 3 * z * delta + delta**2))
    return (delta * (1 + jnp.tanh(u + du)) + z * _tanh_difference(u, du)) / 2


def _elu_difference(z: jax.Array, delta: jax.Array, alpha: float = 1.0) -> jax.Array:
    fall = -_relu_difference(-z, -delta)  # change of min(z, 0)
    return _relu_difference(z, delta) + alpha * jnp.exp(jnp.minimum(z, 0)) * jnp.expm1(fall)


def _selu_difference(z: jax.Array, delta: jax.Array) -> jax.Array:
    alpha, scale = 1.6732632423543772, 1.0507009873554805
    return scale * _elu_difference(z, delta, alpha)


def _identity(z: jax.Array) -> jax.Array:
    return z


ACTIVATIONS = {
    activation.name: activation
    for activation in (
        Activation("linear", _identity, lambda z, delta: delta),
        Activation("tanh", jnp.tanh, _tanh_difference),
        Activation("relu", jax.nn.relu, _relu_difference),
        Activation("leaky_relu", jax.nn.leaky_relu, _leaky_relu_difference),
        Activation("hard_tanh", jax.nn.hard_tanh, _hard_tanh_difference),
        Activation("gelu", jax.nn.gelu, _gelu_difference),
        Activation("silu", jax.nn.silu, _silu_difference),
        Activation("elu", jax.nn.elu, _elu_difference),
        Activation("selu", jax.nn.selu, _selu_difference),
    )
}


AnyActivation = str | Activation | Elementwise


def saved_name(activation: Activation) -> str:
    """Return the name of an activation in files, which tells those of ours from those of the user's own."""
    known = ACTIVATIONS.get(activation.name) == activation
    return activation.name if known else OWN + activation.name


def resolve_activation(activation: AnyActivation) -> Activation:
    """Return an `Activation` from its name, or from any elementwise function of an array. `jax.nn.relu` and the like
    stand for those with a name."""
    if isinstance(activation, Activation):
        if ACTIVATIONS.get(activation.name) is not activation:
            _check_elementwise(activation.function)
        return activation
    if isinstance(activation, str) or not callable(activation):
        return checks.lookup("activation", activation, ACTIVATIONS)
    for named in ACTIVATIONS.values():
        if activation is named.function or activation is getattr(jax.lax, named.name, None):
            return named
    _check_elementwise(activation)
    return Activation(getattr(activation, "__name__", type(activation).__name__), activation)


def _importable(function: Callable[..., Any] | None) -> Callable[..., Any] | tuple[str, str] | None:
    """Return where to import a function from, which pickles also if it is compiled; or the function itself."""
    place = getattr(function, "__module__", ""), getattr(function, "__qualname__", "")
    module = None if place[0] == "__main__" else sys.modules.get(place[0])
    return place if getattr(module, place[1], None) is function is not None else function


def _unpickled(name: str, *functions: Any) -> Activation:
    imported = [
        getattr(importlib.import_module(place[0]), place[1]) if isinstance(place, tuple) else place
        for place in functions
    ]
    return Activation(name, *imported)


def _check_elementwise(activation: Elementwise) -> None:
    """Try a function: it must keep the shape, and each value may depend on its own entry only."""
    probe, shown = jax.ShapeDtypeStruct((2, 3), jnp.float32), checks.literal(activation)
    try:
        out = jax.eval_shape(activation, probe)
    except Exception as error:
        raise checks.ArgumentError(
            "activation",
            f"{shown} cannot be applied to an array: {checks.literal(str(error))}.",
            "Pass a function of one array, made of jax.numpy operations.",
        ) from None
    if getattr(out, "shape", None) != probe.shape:
        raise checks.ArgumentError(
            "activation",
            f"{shown} is not elementwise: it maps shape {probe.shape} to {getattr(out, 'shape', out)}.",
            "Pass a function that keeps the shape.",
        )
    z = np.array([[-0.7, 0.2, 1.1], [0.4, -1.3, 0.9]], np.float32)
    with jax.ensure_compile_time_eval():  # values, also where the network is created inside a traced function
        together = np.asarray(activation(jnp.asarray(z)))
        alone = [np.asarray(activation(jnp.full((1, 1), entry))).item() for entry in z.flat]
        if not np.allclose(together.flat, alone, rtol=1e-5, atol=1e-6, equal_nan=True):
            raise checks.ArgumentError(
                "activation",
                f"{shown} is not elementwise: its value at one entry changes with the others.",
                "Pass a function that acts on each entry by itself, such as jax.numpy.tanh.",
            )
