"""Plain gradient descent on the activities, the paper's inference."""

from typing import ClassVar

import jax

from .. import _check
from .._problem import Increments, Problem
from .._types import Real
from ._base import AbstractSolver


class GradientDescent(AbstractSolver[None]):
    """z ← z − lr·∂F/∂z for every sample and layer at once.

    **Arguments:**

    - `lr`: the step size, acting on *one sample's* energy, so that it means the same at any batch size. The paper's
      β multiplies the gradient of the batch mean instead: lr = β / 64 at its batch size.
    - `steps`: how many. The paper takes as many as there are hidden layers. `steps=0` gives the forward pass.
    - `tol`: stop earlier when the gradient norm has fallen to this fraction of its start.

    **Example:**

    ```python
    import jax.numpy as jnp, jax.random as jr, mupc

    network = mupc.Network(in_size=8, out_size=3, width=16, hidden_layers=4, key=jr.key(0))
    x, y = jnp.ones((5, 8)), jnp.eye(3)[jnp.array([0, 1, 2, 0, 1])]
    solution = mupc.infer(network, x, y, mupc.GradientDescent(lr=0.1, steps=4))
    ```
    """

    lr: Real  # type: ignore[misc]
    steps: int
    tol: Real | None = None
    local: ClassVar[bool] = True

    def __check_init__(self) -> None:
        _check.number("lr", self.lr, above=0)
        _check.integer("steps", self.steps, 0)
        if self.tol is not None:
            _check.number("tol", self.tol, above=0)

    def init(self, problem: Problem, delta: Increments) -> None:
        return None

    def step(self, problem: Problem, delta: Increments, gradient: Increments, state: None) -> tuple[Increments, None]:
        return jax.tree.map(lambda d, g: d - self.lr * g, delta, gradient), state
