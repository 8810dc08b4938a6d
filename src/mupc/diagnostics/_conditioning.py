"""The conditioning of the inference landscape, measured as training goes."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import ArrayLike

from .. import theory
from ..inference import AbstractSolver, Energy, infer
from ..io import checks
from ..network import AbstractNetwork, Network, as_inputs, check_network, resolve_precision
from ._hessian_extremes import hessian_extremes

Metrics = dict[str, float | str | list[float] | None]


@dataclasses.dataclass(frozen=True, eq=False)
class Conditioning:
    """A metric for `mupc.fit` that measures the activity Hessian of one sample. Desideratum 4 of the paper is that its
    condition number κ = λ_max / λ_min does not change during training.

    A call with a network returns `{"largest", "smallest", "condition_number", "definite"}` from
    `mupc.theory.condition_number`, or for other networks than `mupc.Network` from `mupc.diagnostics.hessian_extremes`;
    If the network or its activities are no longer finite, all of these are None.

    **Arguments:**

    - `x`, `y`: the sample, (D,) or an image, and its target (C,) or its label.
    - `energy`: `mupc.Energy(...)`, as in training.
    - `solver`: infer the activities with it. The default are those of the forward pass. The Hessian of a linear network
      with the squared error is the same everywhere.
    - `method`: `"iterative"` or `"dense"` (for `mupc.Network`), as for `mupc.theory.condition_number`.
    - `spectrum`: also return every eigenvalue, as a list under `"eigenvalues"`. This replaces `method`: it is dense,
      for `mupc.Network` alone, and limited to 16,384 unknowns.

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
        if np.ndim(self.x) != 3:  # an image
            checks.shape("x", self.x, ("in_size",), "Pass one sample: an activity Hessian belongs to one.")

    def __call__(self, network: AbstractNetwork) -> Metrics:
        check_network(network)
        dense = "spectrum" if self.spectrum else "method"
        if not isinstance(network, Network) and (self.spectrum or self.method == "dense"):
            wrong = f"= {checks.literal(getattr(self, dense))} needs mupc.Network, and got a {type(network).__name__}."
            raise checks.ArgumentError(dense, wrong, "Leave it out.")
        x, labels = np.asarray(self.x)[None], np.ndim(self.y) < len(network.output_shape)
        if not labels:
            checks.shape("y", self.y, network.output_shape, "Pass the target of one sample, or its label.")
        y = np.asarray(self.y, None if labels else float)[None]  # targets may be whole numbers, too
        if self.solver is None:
            activities = network.forward_pass(as_inputs(network, x), resolve_precision(None, network))[0]
        else:
            activities = infer(network, x, y, self.solver, energy=self.energy).activities
        if not all(bool(jnp.all(jnp.isfinite(leaf))) for leaf in jax.tree.leaves((network, activities))):
            names = theory.Condition(0.0, 0.0, 0).record()
            return dict.fromkeys((*names, "eigenvalues") if self.spectrum else names)
        if not isinstance(network, Network):
            at = hessian_extremes(network, x, y, energy=self.energy, activities=activities)
            size = sum(leaf.size for leaf in jax.tree.leaves(activities))
            return {**theory.Condition(float(at.largest[0]), float(at.smallest[0]), size).record()}
        if self.spectrum:
            found = theory.spectrum(network, x, y, activities, energy=self.energy, method="exact")
            return {**found.ends.record(), "eigenvalues": found.values.tolist()}
        ends = theory.condition_number(network, x, y, activities, energy=self.energy, method=self.method)
        return {**ends.record()}
