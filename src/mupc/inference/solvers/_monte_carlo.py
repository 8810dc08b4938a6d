"""Sampling by Langevin dynamics: gradient descent on the activities, with noise."""

import dataclasses

import jax
import jax.numpy as jnp
import jax.random as jr

from ...io import checks
from ...network import PRNGKeyArray, Real, check_key
from .._problem import AbstractProblem, Point, Unknowns
from ._base import AbstractStochasticSolver, LoopStatus, Stop, check_limits, is_zero


class MonteCarlo(AbstractStochasticSolver[PRNGKeyArray]):
    """Draw the activities from exp(−F/T) instead of minimising F, by Langevin dynamics on every sample and layer:

        z ← z − lr·∂F/∂z + √(2·lr·T)·ξ,      ξ ~ N(0, I).

    At T = 1 this is the posterior of the activities in the model that `mupc.sample` draws from, given the input and
    the output. `mupc.PC(mupc.MonteCarlo(...))` is Monte Carlo predictive coding: each weight follows the gradient at a
    sample of the posterior, so that on average it climbs the likelihood of the model.

    **Arguments:**

    - `lr`: the step size, on one sample's energy. It biases the samples a little: where F is quadratic with Hessian H,
      their covariance is T·H⁻¹(I − lr·H/2)⁻¹.
    - `steps`: how many. After about 1/(lr·λ₀) steps, with the smallest eigenvalue λ₀ of H, the start is forgotten.
    - `temperature`: T; zero is plain gradient descent.
    - `key`: a JAX random key, by default `jax.random.key(0)`. `mupc.fit` replaces it for every batch.

    **Example:**

    ```python
    import jax.numpy as jnp, jax.random as jr, mupc

    network = mupc.Network(in_size=8, out_size=3, width=16, hidden_layers=4, key=jr.key(0))
    x, y = jnp.ones((100, 8)), jnp.zeros((100, 3))      # equal rows are independent chains
    solution = mupc.infer(network, x, y, mupc.MonteCarlo(lr=0.1, steps=50, temperature=0.5, key=jr.key(1)))
    solution.activities.var(axis=1).mean(axis=1)        # the variance in each layer
    ```
    """

    lr: Real
    steps: int
    temperature: Real
    key: PRNGKeyArray

    def __init__(self, lr: Real, steps: int, temperature: Real = 1.0, key: PRNGKeyArray | None = None) -> None:
        checks.number("lr", lr, above=0)
        checks.number("temperature", temperature, at_least=0)
        check_limits(steps, None)
        self.lr, self.steps, self.temperature = lr, steps, temperature
        self.key = jr.key(0) if key is None else key
        check_key(self.key)

    @property
    def local(self) -> bool:
        """Noise moves all layers at once."""
        return is_zero(self.temperature)

    def with_key(self, key: PRNGKeyArray) -> "MonteCarlo":
        return dataclasses.replace(self, key=key)

    def init(self, problem: AbstractProblem, point: Point) -> PRNGKeyArray:
        return self.key

    def step(
        self, problem: AbstractProblem[Unknowns], point: Point, gradient: Unknowns, state: PRNGKeyArray
    ) -> tuple[Point, PRNGKeyArray]:
        delta = jax.tree.map(lambda d, g: d - self.lr * g, point.delta, gradient)
        if is_zero(self.temperature):
            return problem.at(delta), state
        state, own = jr.split(state)
        size = jnp.sqrt(2 * self.lr * self.temperature)
        delta = jax.tree.map(lambda d, noise: d + (size * noise).astype(d.dtype), delta, problem.noise(own))
        return problem.at(delta), state

    def terminate(self, state: PRNGKeyArray, progress: LoopStatus) -> Stop | None:
        return None
