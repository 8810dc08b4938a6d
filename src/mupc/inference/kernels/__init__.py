"""Faster programs for plain gradient descent: blocks that stay in a CPU's cache, Triton kernels on a GPU.

`descend` chooses one for the backend. Where there is none, the common loop takes the steps: `why_plain` says why.
"""

from collections.abc import Sequence

from ...network import Backend, Real, backend
from .._dense_problem import DenseProblem
from .._problem import AbstractProblem, Increments, Window
from . import _blocks


def descend(windows: Sequence[Window], lr: Real) -> Increments | None:
    """Return δ after the steps of all windows, or None where the backend has no program for this problem."""
    last = windows[-1].problem
    if why_plain(last) is not None:
        return None
    assert isinstance(last, DenseProblem)
    if backend().kernels == "triton":
        from . import _triton  # needs Pallas, which takes a while to import

        return _triton.descend(last, lr, sum(window.steps for window in windows))
    return _blocks.descend(last, lr, [(window.problem.depth, window.steps) for window in windows])


def why_plain(problem: AbstractProblem, on: Backend | None = None) -> str | None:
    """Return why the backend has no fast program for a problem; None if it has one."""
    on = backend() if on is None else on
    if on.kernels is None:
        return on.why_plain
    if not isinstance(problem, DenseProblem):
        return "only the residual MLP has kernels"
    if not problem.spreads_from_the_top:
        return "they start at the forward pass, with given inputs and without activity decay"
    if problem.skip > 1:
        return "they cover skips over one layer only"
    if on.kernels == "blocks":
        return None
    from . import _triton

    return _triton.why_plain(problem)
