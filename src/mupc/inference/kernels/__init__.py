"""Faster programs for plain gradient descent: blocks that stay in a CPU's cache, Triton kernels on a GPU.

`descend` chooses one for the backend. Where there is none, the common loop takes the steps: `why_plain` says why.
"""

from collections.abc import Callable, Sequence

import equinox as eqx
import jax
from jax.sharding import PartitionSpec

from ...network import DATA, LAYERS, Backend, Real, axis_size, backend
from .._dense_problem import DenseProblem
from .._problem import AbstractProblem, Increments, Window
from . import _blocks


def descend(windows: Sequence[Window], lr: Real) -> Increments | None:
    """Return δ after the steps of all windows, or None where the backend has no program for this problem."""
    last = windows[-1].problem
    if why_plain(last) is not None:
        return None
    assert isinstance(last, DenseProblem)
    plan = [(window.problem.depth, window.steps) for window in windows]

    def run(problem: DenseProblem, lr: Real) -> Increments:
        if backend().kernels == "triton":
            from . import _triton  # needs Pallas, which takes a while to import

            return _triton.descend(problem, lr, sum(steps for _, steps in plan))
        return _blocks.descend(problem, lr, plan)

    return run(last, lr) if axis_size(DATA) == 1 else _by_batch(run, last, lr)


def _by_batch(run: Callable[[DenseProblem, Real], Increments], problem: DenseProblem, lr: Real) -> Increments:
    """Run a kernel on every device for its own samples: the compiler cannot divide a kernel."""
    arrays, rest = eqx.partition((problem, lr), eqx.is_array)
    samples = PartitionSpec(None, None, DATA)
    specs = jax.tree.map(lambda _: PartitionSpec(), arrays)
    by_sample = (samples, PartitionSpec(None, DATA), PartitionSpec(None, DATA))
    specs = eqx.tree_at(lambda s: (s[0].base, s[0].base_output, s[0].y), specs, by_sample)
    call = jax.shard_map(
        lambda own: run(*eqx.combine(own, rest)).hidden,
        in_specs=(specs,),
        out_specs=samples,
        axis_names={DATA},
        check_vma=False,  # Pallas does not say how its results vary
    )
    return Increments(call(arrays), None)


def why_plain(problem: AbstractProblem, on: Backend | None = None) -> str | None:
    """Return why the backend has no fast program for a problem; None if it has one."""
    on = backend() if on is None else on
    if on.kernels is None:
        return on.why_plain
    if not isinstance(problem, DenseProblem):
        return "only the residual MLP has kernels"
    if not problem.spreads_from_the_top:
        return "they start at the forward pass, with given inputs and without activity decay"
    if axis_size(LAYERS) > 1:
        return "layers are divided over devices"
    if problem.y.shape[-1] % axis_size(DATA):
        return "the devices do not have equal numbers of samples"
    if problem.skip > 1:
        return "they cover skips over one layer only"
    if on.kernels == "blocks":
        return None
    from . import _triton

    return _triton.why_plain(problem)
