"""Any optax optimiser as inference."""

import functools

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax

from ...io import checks
from ...network import Real
from .._problem import AbstractProblem, Increments, Point, Unknowns
from ._base import AbstractSolver, LoopStatus, Stop, check_limits, converged_below


class Optax(AbstractSolver[optax.OptState]):
    """Move the activities with an optax optimiser, given the gradient of one sample's energy.

    **Arguments:**

    - `transform`: any optax optimiser, such as `optax.adam(0.01)`. It sees all samples and layers as one array, so
      optimisers that use norms or line searches couple the samples of a batch.
    - `steps`: how many. `tol`: stop earlier when the gradient norm has fallen to this fraction of its start.
    - `lr`: a factor of every update. Unlike a rate inside the optimiser it is a number: a new one does not compile
      again, and runs that differ in it train side by side. `Optax.adam(lr, steps)` is Adam with such a rate.

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
    leaves_rest: bool  # what has no gradient stays where it is

    def __init__(
        self, transform: optax.GradientTransformation, steps: int, *, lr: Real | None = None, tol: Real | None = None
    ) -> None:
        if not isinstance(transform, optax.GradientTransformation):
            wanted = "must be an optax optimiser such as optax.adam(0.01)"
            raise checks.ArgumentTypeError("transform", f"{wanted}, got {checks.literal(transform)}.")
        check_limits(steps, tol)
        if lr is not None:
            checks.number("lr", lr, above=0)
        self.transform, self.steps, self.lr, self.tol = transform, steps, lr, tol
        self.leaves_rest = _leaves_rest(transform)

    @classmethod
    def adam(cls, lr: Real, steps: int, *, tol: Real | None = None) -> "Optax":
        """Return Adam, with its rate as a number."""
        return cls(_adam(), steps, lr=lr, tol=tol)

    @property
    def local(self) -> bool:
        return self.leaves_rest

    def init(self, problem: AbstractProblem, point: Point) -> optax.OptState:
        return self.transform.init(eqx.filter(problem.fold(problem.activities(point.delta)), eqx.is_array))

    def step(
        self, problem: AbstractProblem[Unknowns], point: Point, gradient: Unknowns, state: optax.OptState
    ) -> tuple[Point, optax.OptState]:
        base = problem.activities(problem.start().delta)

        def value(z: Unknowns) -> jax.Array:
            return jnp.sum(problem.values(problem.at(jax.tree.map(jnp.subtract, problem.unfold(z), base))))

        update = optax.with_extra_args_support(self.transform).update
        # folded, so that a rule sees the same arrays on every device
        slopes, z = problem.fold(gradient), problem.fold(problem.activities(point.delta))
        # only transformations that search along lines use these; for others nothing is computed
        line = {"value": value(z), "grad": slopes, "value_fn": value}
        updates, state = update(slopes, state, z, **line)
        if self.lr is not None:
            updates = jax.tree.map(lambda leaf: self.lr * leaf, updates)
        return problem.at(jax.tree.map(jnp.add, point.delta, problem.unfold(updates))), state

    def terminate(self, state: optax.OptState, progress: LoopStatus) -> Stop | None:
        return converged_below(self.tol, progress)


@functools.cache
def _adam() -> optax.GradientTransformation:
    """Return the same object every time: a new one would mean a new program."""
    return optax.adam(1.0)


def _leaves_rest(transform: optax.GradientTransformation) -> bool:
    """Try a rule on three layers of which only the upper two ever have gradients: a local one leaves the lowest where
    it is, and its state there at zero, whatever the activities are."""
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
