"""Any optax optimiser as inference."""

import functools
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax

from ...io import checks
from ...network import Real
from .._problem import Increments, Problem
from ._base import AbstractSolver, check_limits


class Optax(AbstractSolver[Any]):
    """The activities move as an optax transformation says, given the gradient of one sample's energy.

    **Arguments:**

    - `transform`: any optax optimiser, such as `optax.adam(0.01)`. It sees all samples and layers as one array, so
      that those which take norms or search along lines couple the samples of a batch.
    - `steps`: how many. `tol`: stop earlier when the gradient norm has fallen to this fraction of its start.
    - `lr`: a factor of every update. Unlike a rate inside the optimiser it is a number: a new one does not compile
      anew, and runs that differ in it train side by side. `Optax.adam(lr, steps)` is Adam with such a rate.

    **Example:**

    ```python
    import jax.numpy as jnp, jax.random as jr, mupc, optax

    network = mupc.Network(in_size=8, out_size=3, width=16, hidden_layers=4, key=jr.key(0))
    solver = mupc.Optax(optax.adam(0.01), steps=20)
    solution = mupc.infer(network, jnp.ones((2, 8)), jnp.array([0, 2]), solver)
    ```
    """

    transform: optax.GradientTransformation
    steps: int
    lr: Real | None
    tol: Real | None
    keeps_rest: bool  # what has no gradient stays where it is

    def __init__(self, transform: Any, steps: int, *, lr: Any = None, tol: Any = None) -> None:
        if not isinstance(transform, optax.GradientTransformation):
            raise TypeError(f"transform must be an optax optimiser such as optax.adam(0.01), got {transform!r}.")
        check_limits(steps, tol)
        if lr is not None:
            checks.number("lr", lr, above=0)
        self.transform, self.steps, self.lr, self.tol = transform, steps, lr, tol
        self.keeps_rest = _keeps_rest(transform)

    @classmethod
    def adam(cls, lr: Any, steps: int, *, tol: Any = None) -> "Optax":
        """Adam, with its rate as a number."""
        return cls(_adam(), steps, lr=lr, tol=tol)

    @property
    def local(self) -> bool:
        return self.keeps_rest

    def init(self, problem: Problem, delta: Increments) -> Any:
        return self.transform.init(eqx.filter(problem.at(delta), eqx.is_array))

    def step(self, problem: Problem, delta: Increments, gradient: Increments, state: Any) -> tuple[Increments, Any]:
        def value(z: Increments) -> jax.Array:
            moved = jax.tree.map(jnp.subtract, z, problem.at(problem.start()))
            return jnp.sum(problem.values(moved, problem.errors(moved)))

        update = optax.with_extra_args_support(self.transform).update
        z = problem.at(delta)
        # of these only transformations that search along lines make use; for the others nothing is computed
        line = {"value": value(z), "grad": gradient, "value_fn": value}
        updates, state = update(gradient, state, z, **line)
        if self.lr is not None:
            updates = jax.tree.map(lambda leaf: self.lr * leaf, updates)
        return jax.tree.map(jnp.add, delta, updates), state


@functools.cache
def _adam() -> optax.GradientTransformation:
    """One for all, since programs are told apart by it."""
    return optax.adam(1.0)


def _keeps_rest(transform: optax.GradientTransformation) -> bool:
    """Tries it out on three layers of which only the upper two ever have gradients: a local rule leaves the lowest
    where it is, and its state there at zero, whatever the activities are."""
    rng = np.random.default_rng(0)
    z = Increments(jnp.asarray(rng.normal(size=(3, 2, 5)), jnp.float32), None)
    state = transform.init(z)
    try:
        for _ in range(3):
            slopes = rng.normal(size=(3, 2, 5)) * np.array([0.0, 1.0, 1.0])[:, None, None]
            updates, state = transform.update(Increments(jnp.asarray(slopes, jnp.float32), None), state, z)
            z = jax.tree.map(jnp.add, z, updates)
            shaped = [leaf for leaf in jax.tree.leaves((updates, state)) if jnp.shape(leaf) == (3, 2, 5)]
            if any(bool(jnp.any(leaf[0] != 0)) for leaf in shaped):
                return False
    except Exception:  # it wants more than gradients: assume the least
        return False
    return True
