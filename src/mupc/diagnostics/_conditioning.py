"""The conditioning of the inference landscape, measured as training goes."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import ArrayLike

from .. import theory
from ..inference import AbstractSolver, Energy, infer
from ..io import checks
from ..network import Network, forward

Metrics = dict[str, float | str | list[float] | None]


@dataclasses.dataclass(frozen=True, eq=False)
class Conditioning:
    """A metric for `mupc.fit` that measures the activity Hessian of one sample. Desideratum 4 of the paper is that its
    condition number κ = λ_max / λ_min does not change during training.

    A call with a network returns `{"largest", "smallest", "condition_number", "definite"}` from
    `mupc.theory.condition_number`, or None for each if the network or its activities are no longer finite.

    **Arguments:**

    - `x`, `y`: the sample, (D,), and its target (C,) or its label.
    - `energy`: `mupc.Energy(...)`, as in training.
    - `solver`: infer the activities with it. The default are those of the forward pass. The Hessian of a linear network
      with the squared error is the same everywhere.
    - `method`: `"iterative"` or `"dense"`, as for `mupc.theory.condition_number`.
    - `spectrum`: also return every eigenvalue, as a list under `"eigenvalues"`. This replaces `method`: it is dense,
      and limited to 16,384 unknowns.

    **Example:**

    ```python
    import jax.random as jr, mupc

    digits = mupc.data.load("digits")
    network = mupc.Network(digits.in_size, digits.out_size, width=16, hidden_layers=4, key=jr.key(0))
    recorder = mupc.Conditioning(digits.x_train[0], digits.y_train[0])
    solver = mupc.GradientDescent(lr=0.4, steps=4)
    result = mupc.fit(network, digits, solver, weight_lr=0.05, metrics={"conditioning": recorder})
    [record["conditioning"]["condition_number"] for record in result.history]
    ```
    """

    x: ArrayLike
    y: ArrayLike
    _: dataclasses.KW_ONLY
    energy: Energy | None = None
    solver: AbstractSolver | None = None
    method: str = "iterative"
    spectrum: bool = False

    def __post_init__(self) -> None:
        checks.lookup("method", self.method, theory.CONDITION_METHODS)
        checks.shape("x", self.x, ("in_size",), "Pass one sample: an activity Hessian belongs to one.")
        if np.ndim(self.y):
            checks.shape("y", self.y, ("out_size",), "Pass the target of one sample, or its label.")

    def __call__(self, network: Network) -> Metrics:
        x = np.asarray(self.x)[None]
        y = np.asarray(self.y, float if np.ndim(self.y) else None)[None]  # a vector is a target, whatever its format
        if self.solver is None:
            activities = forward(network, x)[0]
        else:
            activities = infer(network, x, y, self.solver, energy=self.energy).activities
        if not all(bool(jnp.all(jnp.isfinite(leaf))) for leaf in jax.tree.leaves((network, activities))):
            names = theory.Condition(0.0, 0.0, 0).record()
            return dict.fromkeys((*names, "eigenvalues") if self.spectrum else names)
        if self.spectrum:
            found = theory.spectrum(network, x, y, activities, energy=self.energy, method="exact")
            return {**found.ends.record(), "eigenvalues": found.values.tolist()}
        ends = theory.condition_number(network, x, y, activities, energy=self.energy, method=self.method)
        return {**ends.record()}
