"""`infer`: minimise the energy over the activities."""

import dataclasses
import warnings

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
from jax.sharding import Mesh
from jaxtyping import Array, PyTree

from ..io import checks
from ..network import (
    DATA,
    LAYERS,
    AbstractNetwork,
    Inputs,
    Precision,
    PRNGKeyArray,
    Rows,
    as_floating,
    as_inputs,
    as_mesh,
    axis_size,
    backend,
    check_key,
    check_layers,
    check_network,
    check_rows,
    constrain,
    fetch,
    put,
    put_spread,
    resolve_precision,
    using,
    whole,
)
from ._chain_problem import rounding_warning
from ._dense_problem import pose
from ._energy import Energy, as_energy, as_targets, check_activities
from ._problem import AbstractProblem, Batch
from ._solution import Solution
from .kernels import why_plain
from .solvers import AbstractSolver, GradientDescent, check_solver, solve, traced


def infer(
    network: AbstractNetwork,
    x: Rows | None,
    y: Rows | None,
    solver: AbstractSolver,
    *,
    energy: Energy | None = None,
    activities: PyTree[Rows] | None = None,
    input: Rows | None = None,
    key: PRNGKeyArray | None = None,
    precision: str | None = None,
    history: bool = False,
    mesh: Mesh | None = None,
) -> Solution:
    """Minimise the energy (Eq. 1) over the activities, with inputs and targets held fixed.

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
    - `mesh`: devices to divide the work over, as for `mupc.fit`. The solution comes back on one of them.

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
    if x is not None and (input is not None or key is not None):
        raise ValueError("input= and key= start the free z₀ of the unsupervised case: leave them out, or pass x=None.")
    if x is None:
        targets = as_targets(network, y, None, energy)
        inputs = as_inputs(network, _given_start(network, len(targets), key) if input is None else input)
    else:
        inputs = as_inputs(network, x)
        targets = as_targets(network, y, len(inputs), energy)
    if len(inputs) != len(targets):
        raise checks.ArgumentError(
            "input", f"has {len(inputs)} rows and y has {len(targets)}.", "Pass one row each per sample."
        )
    start = None
    if activities is not None:
        check_activities(network, activities, len(inputs))
        start = jax.tree.map(lambda stack: as_floating("activities", stack), activities)
    batch = Batch(inputs, targets, start, free_input=x is None)
    network, batch, solver = policy.cast((network, batch, traced(solver)))
    if (mesh := as_mesh(mesh, (DATA, LAYERS))) is None:
        solution = infer_batch(network, batch, solver, energy, policy, history)
    else:
        check_rows("x", len(inputs), mesh)
        check_layers(network, mesh)
        arguments = put_spread(network, mesh), *put((batch, solver), mesh)
        with using(mesh):
            solution = fetch(_infer_divided(*arguments, energy, policy, history))
    if solver.local and (warning := rounding_warning(network, batch, solution, policy)):
        warnings.warn(warning, stacklevel=2)
    return solution


def _given_start(network: AbstractNetwork, rows: int, key: PRNGKeyArray | None) -> Inputs:
    key = jr.key(0) if key is None else key
    check_key(key)
    return free_start(key, rows, network.in_size)


def free_start(key: PRNGKeyArray, rows: int, in_size: int) -> Inputs:
    """Draw where a free z₀ starts. Each row has its own key, so that a sample's start does not depend on the size of
    its batch."""
    return jax.vmap(lambda i: jr.normal(jr.fold_in(key, i), (in_size,)))(jnp.arange(rows))


@eqx.filter_jit
def infer_batch(
    network: AbstractNetwork,
    batch: Batch,
    solver: AbstractSolver,
    energy: Energy,
    policy: Precision,
    history: bool = False,
) -> Solution:
    """Run `infer` on arguments that are checked and cast."""
    return infer_problem(network, pose_for(solver, network, batch, energy, policy), solver, policy, history)


def pose_for(
    solver: AbstractSolver, network: AbstractNetwork, batch: Batch, energy: Energy, policy: Precision
) -> AbstractProblem:
    """State the problem that a solver is to solve."""
    return pose(network, dataclasses.replace(batch, rounds_start=solver.rounds_start), energy, policy)


@eqx.filter_jit
def _infer_divided(
    network: AbstractNetwork,
    batch: Batch,
    solver: AbstractSolver,
    energy: Energy,
    policy: Precision,
    history: bool,
) -> Solution:
    """Run `infer_batch` with the batch divided over the mesh in use."""
    x, y = constrain((batch.x, batch.y), DATA)
    batch = dataclasses.replace(batch, x=x, y=y)
    return constrain(infer_batch(whole(network), batch, solver, energy, policy, history))


def infer_problem(
    network: AbstractNetwork,
    problem: AbstractProblem,
    solver: AbstractSolver,
    policy: Precision,
    history: bool = False,
) -> Solution:
    """Solve the problem that a network has posed."""
    energy, solved = problem.energy, solve(solver, problem, history)
    penalties: Array | float = jnp.sum(energy.layer_penalties(network)) if energy.penalises_weights else 0.0
    return Solution(
        **problem.unpack(solved.point)._asdict(),
        energy=solved.value + penalties,
        steps=solved.steps,
        gradient_norm=solved.gradient_norm,
        result=solved.result,
        history=solved.history,
        objective=energy,
        precision=policy.name,
    )


def why_no_kernels(
    network: AbstractNetwork, solver: AbstractSolver, energy: Energy, policy: Precision, free_input: bool = False
) -> str | None:
    """Return why the device's kernels do not run inference; None if they do. Only shapes are computed."""
    if backend().kernels is None:
        return backend().why_plain
    if not isinstance(solver, GradientDescent):
        return "only plain gradient descent has them"
    if solver.plain_rate is None:
        return "they take a given rate, without momentum or tolerance"
    x, y = (jnp.zeros((axis_size(DATA), *shape), policy.dtype) for shape in ((network.in_size,), network.output_shape))
    return why_plain(eqx.filter_eval_shape(pose, network, Batch(x, y, free_input=free_input), energy, policy))
