"""The ways to build and train a network that figures compare, by name."""

from __future__ import annotations

import dataclasses


@dataclasses.dataclass(frozen=True)
class FigureMethod:
    """How a network is built and trained. Inference is by gradient descent with `steps` steps (None: as many as
    hidden layers) or fewer if the gradient falls to `tol` of its start, by Adam if `adam`, in error space with
    `cg_steps` conjugate-gradient steps, or `exact` (linear networks only)."""

    label: str
    parameterisation: str = "mupc"
    init: str | None = None
    algorithm: str = "pc"
    steps: int | None = None
    tol: float | None = None
    adam: bool = False
    cg_steps: int | None = None
    exact: bool = False
    output_precision: float = 1.0
    activity_decay: float = 0.0
    skip: int = 1


ERROR_SPACE = {f"error-space-{precision:g}": precision for precision in (1.0, 0.1, 0.03, 0.01)}
"""Methods that infer in error space, and their output precisions λ."""

DECAYS = {f"sp-decay-{decay:g}": decay for decay in (0.0, 0.001, 0.01, 0.1, 1.0)}
"""Methods of standard networks without skips, inferred exactly, and their activity decay α."""

TOLERANCES = {f"mupc-tol-{tol:g}": tol for tol in (0.9,)}
"""Methods whose inference stops early, and the fraction of its start that the gradient must fall to."""

LONG = 500
"""Steps of inference that is meant to converge: the most that the paper allows."""

_STANDARD = FigureMethod("SP", "sp", "kaiming-uniform")
_CONVERGED = dataclasses.replace(_STANDARD, steps=LONG)

METHODS = {
    "mupc": FigureMethod("μPC"),
    "bp": FigureMethod("BP with Depth-μP", algorithm="bp"),
    "sp": _STANDARD,
    "sp-gd": dataclasses.replace(_CONVERGED, label="SP with GD", skip=0),
    "sp-adam": dataclasses.replace(_CONVERGED, label="SP with Adam", skip=0, adam=True),
    "sp-skips": dataclasses.replace(_CONVERGED, label="SP with skips"),
    "sp-exact": dataclasses.replace(_STANDARD, label="SP, exact inference", exact=True),
    "orthogonal": FigureMethod("orthogonal", "orthogonal", skip=0),
    "mupc-exact": FigureMethod("μPC, exact inference", exact=True),
    "mupc-one-step": FigureMethod("μPC, one inference step", steps=1),
    **{
        name: FigureMethod(f"error space, λ = {precision:g}", cg_steps=2, output_precision=precision)
        for name, precision in ERROR_SPACE.items()
    },
    **{
        name: dataclasses.replace(_STANDARD, label=f"α = {decay:g}", exact=True, activity_decay=decay, skip=0)
        for name, decay in DECAYS.items()
    },
    **{name: FigureMethod(f"μPC, tolerance {tol:g}", tol=tol) for name, tol in TOLERANCES.items()},
}
