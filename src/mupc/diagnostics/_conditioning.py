"""The conditioning of the inference landscape, measured as training goes."""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import ArrayLike

from .. import theory
from ..inference import AbstractSolver, Energy, infer
from ..io import checks
from ..network import Activities, Network, forward
from ..theory import CONDITION_METHODS


@dataclasses.dataclass(frozen=True, eq=False)
class Conditioning:
    """Measures the activity Hessian of one sample at each evaluation of `mupc.fit`: desideratum 4 of the paper is that
    its condition number κ = λ_max / λ_min stays where it was.

    A call with a network returns `{"largest", "smallest", "condition_number", "definite"}` as
    `mupc.theory.condition_number` has them, and None for each if the network or its activities are not finite any more.

    **Arguments:**

    - `x`, `y`: the sample, (D,), and its target (C,) or its label.
    - `energy`: `mupc.Energy(...)`, that of the training.
    - `solver`: infer the activities with it; by default they are those of the forward pass. The Hessian of a linear
      network with the squared error is the same everywhere.
    - `method`: `"iterative"` or `"dense"`, as for `mupc.theory.condition_number`.
    - `spectrum`: also return every eigenvalue, a list under `"eigenvalues"`. It takes the place of `method`, is dense,
      and has its limit of unknowns.

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
        checks.lookup("method", self.method, CONDITION_METHODS)
        checks.shape("x", self.x, ("in_size",), "Pass one sample: an activity Hessian belongs to one.")
        if np.ndim(self.y):
            checks.shape("y", self.y, ("out_size",), "Pass the target of one sample, or its label.")

    def __call__(self, network: Network) -> dict[str, Any]:
        x = np.asarray(self.x)[None]
        y = np.asarray(self.y, float if np.ndim(self.y) else None)[None]  # a vector is a target, whatever its format
        activities = self._activities(network, x, y)
        names = ("largest", "smallest", "condition_number", "definite")
        if not all(bool(jnp.all(jnp.isfinite(leaf))) for leaf in jax.tree.leaves((network, activities))):
            return dict.fromkeys((*names, "eigenvalues") if self.spectrum else names)
        if not self.spectrum:
            found = theory.condition_number(network, x, y, activities, energy=self.energy, method=self.method)
            return {name: getattr(found, name) for name in names}
        values = theory.spectrum(network, x, y, activities, energy=self.energy, method="exact").values
        found = theory.Condition(float(values[-1]), float(values[0]), len(values))
        return {name: getattr(found, name) for name in names} | {"eigenvalues": values.tolist()}

    def _activities(self, network: Network, x: np.ndarray, y: np.ndarray) -> Activities:
        if self.solver is None:
            return forward(network, x)[0]
        return infer(network, x, y, self.solver, energy=self.energy).activities
