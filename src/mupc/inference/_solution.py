"""The result of inference."""

import equinox as eqx
from jaxtyping import Array, Float, Int, PyTree

from ..io import checks
from ..network import Inputs, Outputs, Scalar
from ._energy import Energy


class RESULTS(eqx.Enumeration):
    """Why inference stopped."""

    steps_done = "all the steps asked for were taken"
    converged = "the relative gradient norm fell below the tolerance"
    settled = "the last step lowered the energy by less than the tolerance, relative to the decrease so far"
    time_over = "the end time of the gradient flow came before the tolerance was reached"
    not_converged = "the step limit came before the tolerance was reached"
    nonfinite = "the energy is not finite: take smaller steps in the solver, or mend NaN in inputs or weights"


class History(eqx.Module):
    """Energies (without weight penalties) and gradient norms before each step and after the last.

    When a tolerance stops inference early the rest is NaN.
    """

    energies: Float[Array, " steps_and_one"]
    gradient_norms: Float[Array, " steps_and_one"]


class Solution(eqx.Module):
    """Where inference arrived.

    - `activities` (H, B, N), `errors` (H, B, N) and `output_error` (B, C): z, e and the negative gradient of the
      loss in the output, y − output for the squared error. Those of a chain are tuples, with an array for each node or
      stack.
    - `input` (B, D): the inferred z₀ in the unsupervised case, else None.
    - `prediction` (B, C): the output at the start of inference, before the targets act: what the network predicts.
    - `output` (B, C): what the last activities predict.
    - `energy`: its value there, as `mupc.energy` gives it. `objective`: the `mupc.Energy` that was minimised.
    - `steps`: steps taken. `gradient_norm`: root mean square over samples of each sample's activity gradient norm.
    - `result`: why it stopped; `mupc.RESULTS[solution.result]` says it in words.
    - `precision`: the policy that was used. `history`: see `mupc.infer`.
    """

    activities: PyTree[Float[Array, "_ ..."]]
    errors: PyTree[Float[Array, "_ ..."]]
    output_error: Outputs
    input: Inputs | None
    prediction: Outputs
    output: Outputs
    energy: Scalar
    steps: Int[Array, ""]
    gradient_norm: Scalar
    result: RESULTS
    history: History | None
    objective: Energy
    precision: str = eqx.field(static=True)


def check_solution(solution: object) -> None:
    """Accept a solution of inference."""
    if not isinstance(solution, Solution):
        raise checks.ArgumentTypeError(
            "solution",
            "must be a mupc.Solution, as mupc.infer(network, x, y, solver) returns it, got an object of type "
            f"{type(solution).__name__}.",
            "The order is (network, solution, x).",
        )
