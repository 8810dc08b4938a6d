"""`infer`: minimise the energy over the activities."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
from jaxtyping import Array

from ..network import (
    Activities,
    Inputs,
    Network,
    Outputs,
    Precision,
    PRNGKeyArray,
    Rows,
    as_floating,
    as_inputs,
    check_key,
    check_network,
    resolve_precision,
)
from ._energy import Energy, as_energy, as_targets, check_activities
from ._problem import problem
from ._solution import Solution
from .solvers import AbstractSolver, check_solver, solve, traced


def infer(
    network: Any,
    x: Rows | None,
    y: Rows | None,
    solver: Any,
    *,
    energy: Energy | None = None,
    activities: Rows | None = None,
    input: Rows | None = None,
    key: PRNGKeyArray | None = None,
    precision: str | None = None,
    history: bool = False,
) -> Solution:
    """Minimises the energy (Eq. 1) over the activities, with inputs and targets held fixed.

    It works on increments from the forward pass, where errors are exactly zero, so that signals many orders of
    magnitude below the activities survive in any precision.

    **Arguments:**

    - `network`, inputs `x` (B, D), targets `y` (B, C) or class labels (B,).
    - `x=None` is the unsupervised case: z₀ is free like a hidden layer. It starts from `input` (B, D), or from
      standard normal values drawn with `key` (default `jax.random.key(0)`), and ends in `solution.input`.
    - `solver`: how, such as `mupc.GradientDescent(lr=0.01, steps=128)`.
    - `energy`: `mupc.Energy(...)`, its options.
    - `activities`: start here instead of at the forward pass.
    - `precision`: `"float32"`, `"tf32"`, `"bf16"` or `"float64"`; by default that of the weights, in full.
    - `history`: also return the energy and gradient norm at every step.

    **Returns:** a `mupc.Solution`.

    **Example:**

    ```python
    import jax.numpy as jnp, jax.random as jr, mupc

    network = mupc.Network(in_size=8, out_size=3, width=16, hidden_layers=4, key=jr.key(0))
    solution = mupc.infer(network, jnp.ones((2, 8)), jnp.array([0, 2]), mupc.GradientDescent(lr=0.1, steps=4))
    solution.energy, mupc.RESULTS[solution.result]
    ```
    """
    check_network(network)
    check_solver(solver)
    energy = as_energy(energy)
    policy = resolve_precision(precision, network)
    free = x is None
    if x is not None and (input is not None or key is not None):
        raise ValueError("input= and key= start the free z₀ of the unsupervised case: leave them out, or pass x=None.")
    if x is None:
        targets = as_targets(network, y, None, energy)
        inputs = as_inputs(network, _free_start(network, len(targets), input, key))
    else:
        inputs = as_inputs(network, x)
        targets = as_targets(network, y, len(inputs), energy)
    if len(inputs) != len(targets):
        raise ValueError(f"input has {len(inputs)} rows and y has {len(targets)}. Pass one row each per sample.")
    start = None
    if activities is not None:
        check_activities(network, activities, len(inputs))
        start = as_floating("activities", activities)
    solver = traced(solver)
    network, inputs, targets, solver, start = policy.cast((network, inputs, targets, solver, start))
    return _infer(network, inputs, targets, solver, start, energy, policy, free, history)


def _free_start(network: Network, batch: int, start: Rows | None, key: PRNGKeyArray | None) -> Rows:
    if start is not None:
        return start
    key = jr.key(0) if key is None else key
    check_key(key)
    # one key per row, so that a sample's start does not depend on the size of its batch
    return jax.vmap(lambda i: jr.normal(jr.fold_in(key, i), (network.in_size,)))(jnp.arange(batch))


@eqx.filter_jit
def _infer(
    network: Network,
    x: Inputs,
    y: Outputs,
    solver: AbstractSolver,
    activities: Activities | None,
    energy: Energy,
    policy: Precision,
    free_input: bool,
    history: bool,
) -> Solution:
    posed = problem(network, x, y, energy, policy, activities=activities, free_input=free_input)
    solver.check(network, posed)
    solved = solve(solver.tuned(posed), posed, history)
    e = solved.errors
    penalties: Array | float = jnp.sum(energy.layer_penalties(network)) if energy.penalises_weights else 0.0
    return Solution(
        activities=(posed.base + solved.delta.hidden).mT,
        errors=e.hidden.mT,
        output_error=posed.output_error(e),
        input=None if solved.delta.input is None else x + solved.delta.input.T,
        prediction=posed.base_output.T,
        output=e.output.T,
        energy=solved.value + penalties,
        steps=solved.steps,
        gradient_norm=solved.gradient_norm,
        result=solved.result,
        history=solved.history,
        precision=policy.name,
    )
