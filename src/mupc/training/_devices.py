"""Which devices a run may use: refuse a mesh that a network, an algorithm or a batch cannot be divided over."""

from collections.abc import Sequence

from jax.sharding import Mesh

from ..io import checks, process_count
from ..network import RUNS, AbstractNetwork, as_mesh, check_layers, check_rows
from ._step import TrainJob


def checked_mesh(mesh: Mesh | None, known: Sequence[str], job: TrainJob, network: AbstractNetwork) -> Mesh | None:
    """Return a mesh that this job can be divided over."""
    mesh = as_mesh(mesh, known)
    if RUNS in known and process_count() > 1:
        wrong = f"spans {process_count()} processes, and runs side by side share one."
        raise checks.ArgumentError("mesh", wrong, "Start a worker in each process with `mupc sweep work`.")
    check_rows("batch_size", job.source.batch_size, mesh)
    check_layers(network, mesh)
    return mesh
