"""Whether inference in training moves activities by more than rounding."""

import jax.numpy as jnp

from ..inference import infer_batch, rounding_warning
from ..learning import AbstractSolving
from ..network import AbstractNetwork, Chain
from ._step import TrainJob
from ._stream import Batches, StreamedBatches


def first_rounding_warning(job: TrainJob, network: AbstractNetwork, batches: Batches) -> str | None:
    """Return the warning of `mupc.infer` for the first batch, if its solver moves nodes that lack exact differences
    step by step. A stream is not asked for a batch."""
    algorithm, policy = job.algorithm, job.context.policy
    if not (isinstance(network, Chain) and isinstance(algorithm, AbstractSolving) and algorithm.solver.local):
        return None
    if network.exact or isinstance(batches, StreamedBatches):
        return None
    source, order, first, _ = next(iter(batches.dispatches(job.source, range(1), None)))
    batch, key = source.draw(order, jnp.asarray(first), jnp.asarray(0), network.in_size)
    network, batch, solver = policy.cast((network, batch, algorithm.keyed_solver(key)))
    solution = infer_batch(network, batch, solver, job.context.energy, policy)
    return rounding_warning(network, batch, solution, policy)
