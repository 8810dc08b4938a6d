"""The weight gradient that an algorithm computes for a batch."""

import dataclasses
from typing import Any, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import optax

from ..inference import Batch, Energy, as_energy, as_targets, traced
from ..io import checks
from ..network import AbstractNetwork, Precision, PRNGKeyArray, Rows, as_inputs, check_network, resolve_precision
from ._algorithm import AbstractAlgorithm, LearningContext

SomeNetwork = TypeVar("SomeNetwork", bound=AbstractNetwork)


def algorithm_gradients(
    network: SomeNetwork,
    algorithm: AbstractAlgorithm,
    x: Rows,
    y: Rows,
    *,
    energy: Energy | None = None,
    precision: str | None = None,
    key: PRNGKeyArray | None = None,
    memory: Any = None,
) -> SomeNetwork:
    """Return the weight gradient that an algorithm computes for a batch: what its optimiser receives, summed over its
    weight steps, with weights held still.

    Unlike `mupc.weight_gradients` it works for every algorithm. Compare it with `mupc.backprop_gradients` to see how
    close an algorithm is to backpropagation.

    **Arguments:** the network, the algorithm, inputs (B, D), targets (B, C) or labels (B,), `energy` (λ is by default
    what suits the algorithm), a precision policy as for `mupc.infer`, and a random `key` for those that need one.
    `memory`: what the algorithm has learnt itself, the `memory` of a `mupc.FitResult`, such as the second network of
    `mupc.Amortised`. Without it the algorithm is as at the start of a run.

    **Example:**

    ```python
    import jax.numpy as jnp, jax.random as jr, mupc

    network = mupc.Network(in_size=8, out_size=3, width=16, hidden_layers=4, key=jr.key(0))
    gradients = mupc.algorithm_gradients(network, mupc.ZIL(), jnp.ones((2, 8)), jnp.array([0, 2]))
    gradients.hidden.weight.shape      # (3, 16, 16)
    ```
    """
    check_network(network)
    check_algorithm(algorithm)
    energy = as_energy(energy, algorithm.defaults.output_precision)
    algorithm.check(network, energy, False)
    policy = resolve_precision(precision, network)
    inputs = as_inputs(network, x)
    batch = policy.cast(Batch(inputs, as_targets(network, y, len(inputs), energy)))
    key = jr.key(0) if key is None else key
    return taken_gradients(network, batch, traced(algorithm), energy, policy, key, memory)


def check_algorithm(algorithm: object) -> None:
    """Accept an algorithm."""
    if not isinstance(algorithm, AbstractAlgorithm):
        wrong = f"must be an algorithm, got an object of type {type(algorithm).__name__}."
        cure = "Write mupc.PC(solver) for a solver. The order is (network, algorithm, x, y)."
        raise checks.ArgumentTypeError("algorithm", wrong, cure)


@eqx.filter_jit
def taken_gradients(
    network: SomeNetwork,
    batch: Batch,
    algorithm: AbstractAlgorithm,
    energy: Energy,
    policy: Precision,
    key: PRNGKeyArray,
    memory: Any = None,
) -> SomeNetwork:
    """Run `algorithm_gradients` on arguments that are checked and cast."""
    context = LearningContext(
        energy=energy,
        weight_lr=jnp.ones((), policy.dtype),
        optimiser=_collector(),
        schedule="constant",
        total_steps=jnp.ones((), int),
        precision=policy.name,
    )
    if algorithm.tunes_every is not None:
        algorithm = algorithm.tuned(network, batch, context)
    state = algorithm.init(policy.cast(network), context)
    if memory is not None:
        state = dataclasses.replace(state, memory=_checked_memory(policy.cast(memory), state.memory))
    state, _ = algorithm.update(state, batch, key, context)
    found: SomeNetwork = state.optimiser
    return found


def _checked_memory(memory: Any, fresh: Any) -> Any:
    """Accept a memory of the same form as a fresh one."""
    one, other = (
        (jax.tree.structure(tree), [(jnp.shape(leaf), jnp.result_type(leaf)) for leaf in jax.tree.leaves(tree)])
        for tree in (memory, fresh)
    )
    if one != other:
        wrong = "is of another algorithm, or of a network of another size."
        raise checks.ArgumentError("memory", wrong, "Pass that of the run that trained this network.")
    return memory


def _collector() -> optax.GradientTransformation:
    """Return an optimiser whose state is the sum of all gradients, and which moves nothing."""

    def init(weights: optax.Params) -> optax.Params:
        return jax.tree.map(jnp.zeros_like, weights)

    def update(
        gradients: optax.Updates, state: optax.Params, weights: optax.Params | None = None
    ) -> tuple[optax.Updates, optax.Params]:
        return init(gradients), jax.tree.map(jnp.add, state, gradients)

    return optax.GradientTransformation(init, update)
