"""Credit reach: how many layers really learn from a solution of inference."""

import dataclasses
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from ..inference import Energy, Solution, as_energy, as_targets, check_solution, half_squares, infer
from ..io import checks
from ..learning import (
    PC,
    AbstractAlgorithm,
    Optimiser,
    algorithm_gradients,
    as_at_base,
    backprop_gradients,
    check_algorithm,
    checked_inputs,
    solution_gradients,
)
from ..network import AbstractNetwork, BaseSize, Rows


class LearningLimit(NamedTuple):
    """The smallest entries that learn: `epsilon` itself, or `share` times the entries of the largest layer."""

    epsilon: float = 0.0
    share: float = 0.0


ADAM_EPSILON = 1e-8
UNNORMALISED = LearningLimit(share=1e-3)
"""Without normalisation a layer's step is as small as its gradient."""

LEARNING_LIMITS = {
    "adam": LearningLimit(ADAM_EPSILON),
    "adamw": LearningLimit(ADAM_EPSILON),
    "nadam": LearningLimit(ADAM_EPSILON),
    "rmsprop": LearningLimit(1e-4),  # optax adds its ε = 1e-8 to the square
    "adagrad": UNNORMALISED,  # optax starts the sum of squares at 0.1, far above what gradients of deep networks add
    "lion": LearningLimit(),  # steps by the sign: every entry but zero moves
    "momentum": UNNORMALISED,
    "sgd": UNNORMALISED,
}
"""For each optimiser of `mupc.fit`. An entry of exactly ε makes at least half the step that it would make without ε."""

UNLIKE = "unlike backprop"
"""The regime of an algorithm whose gradients point elsewhere, where nothing is known of its inference."""
ENOUGH_LAYERS, SAME_DIRECTION, AT_REST = 0.5, 0.99, 1e-2
"""The borders between regimes; see `Evidence`."""


class Evidence(NamedTuple):
    """The numbers behind a regime, in the order in which they decide.

    - `learning_fraction`: of the layers. Below 0.5: `shallow`.
    - `smallest_cosine`: to backpropagation, among the layers that learn. Above 0.99: `backprop-like`.
    - `relative_gradient`: the norm of the activity gradient over that of the remaining hidden errors. At most 0.01:
      `equilibrium`, otherwise `unconverged`. Not known: `unlike backprop`.
    """

    learning_fraction: float
    smallest_cosine: float
    relative_gradient: float

    @property
    def regime(self) -> str:
        if self.learning_fraction < ENOUGH_LAYERS:
            return "shallow"
        if self.smallest_cosine > SAME_DIRECTION:
            return "backprop-like"
        if np.isnan(self.relative_gradient):
            return UNLIKE
        return "equilibrium" if self.relative_gradient <= AT_REST else "unconverged"


@dataclasses.dataclass(frozen=True)
class CreditReach:
    """The result of `mupc.credit_reach`, for layers 1 … L from the input to the readout. Weight penalties are left out:
    they move weights, but carry no credit.

    - `names` of the layers.
    - `gradient_norms`, `backprop_norms`: the norm of each layer's weight gradient, and of backpropagation's.
    - `entry_sizes`, `backprop_sizes`: their root mean square entries, which an optimiser compares with its ε.
    - `backprop_cosines`: the cosine between the two (NaN where one is zero, and in the unsupervised case).
    - `energy_shares`: each layer's share of the energy, so that they sum to one.
    - `threshold`: the smallest entry size of hidden weights that learns with the optimiser. `learning_layers`: the
      number of layers that do. `reach`: the same without a gap, counted down from the readout.
    - `regime`: `shallow`, `backprop-like`, `equilibrium` or `unconverged`; `evidence` holds the numbers behind it.
    """

    names: tuple[str, ...]
    gradient_norms: np.ndarray
    entry_sizes: np.ndarray
    backprop_norms: np.ndarray
    backprop_sizes: np.ndarray
    backprop_cosines: np.ndarray
    energy_shares: np.ndarray
    threshold: float
    learning_layers: int
    reach: int
    evidence: Evidence

    @property
    def layers(self) -> int:
        """L, the number of weight layers."""
        return len(self.gradient_norms)

    @property
    def regime(self) -> str:
        """The label that follows from the evidence."""
        return self.evidence.regime

    @property
    def ratio(self) -> float:
        """The smallest over the largest gradient norm of layers 1 … L − 1."""
        hidden = self.gradient_norms[:-1]
        return float(hidden.min() / hidden.max()) if hidden.max() > 0 else 0.0

    def __str__(self) -> str:
        return (
            f"{self.learning_layers} of {self.layers} layers learn (gradient entries of {self.threshold:.2g} or more), "
            f"regime: {self.regime}, smallest cosine to backpropagation {self.evidence.smallest_cosine:.2f}, "
            f"smallest over largest gradient norm {self.ratio:.1e}"
        )


def credit_reach(
    network: AbstractNetwork,
    solution: Solution,
    x: Rows | None,
    y: Rows,
    *,
    optimiser: str = "adam",
    epsilon: int | float | None = None,
    base: BaseSize | None = None,
) -> CreditReach:
    """Measure how far down the weight gradients of a solution reach.

    **Arguments:** the network, a `mupc.Solution`, the batch it was inferred for (x may be None in the unsupervised
    case), and the name of the `optimiser` that will use the gradients. `epsilon` replaces the
    optimiser's own, which is 1e-8 for Adam. `base`: the base size of scaled rates, from which ε scales as well;
    `TrainConfig.base(network)` has that of a run.

    **Example:**

    ```python
    import jax.numpy as jnp, jax.random as jr, mupc

    network = mupc.Network(in_size=8, out_size=3, width=16, hidden_layers=64, key=jr.key(0))
    x, y = jnp.ones((2, 8)), jnp.array([0, 2])
    solution = mupc.infer(network, x, y, mupc.GradientDescent(lr=0.01, steps=64))
    mupc.credit_reach(network, solution, x, y).regime      # 'shallow'
    ```
    """
    check_solution(solution)
    energy = solution.objective
    plain = _without_penalties(energy)
    weights, inputs = checked_inputs(network, solution, x)
    gradients = solution_gradients(weights, solution, inputs, plain)
    exact = backprop_gradients(network, x, y, energy=plain) if solution.input is None and x is not None else None
    left = float(jnp.sqrt(2 * jnp.sum(half_squares(solution.errors))))
    relative = float(solution.gradient_norm) / left if left > 0 else np.nan
    found = _compare(gradients, exact, optimiser, epsilon, base)
    shares = _energy_shares(network, solution, y, energy)
    return dataclasses.replace(
        found, energy_shares=shares, evidence=found.evidence._replace(relative_gradient=relative)
    )


def algorithm_reach(
    network: AbstractNetwork,
    algorithm: AbstractAlgorithm,
    x: Rows,
    y: Rows,
    *,
    energy: Energy | None = None,
    precision: str | None = None,
    optimiser: str = "adam",
    base: BaseSize | None = None,
    memory: Any = None,
) -> CreditReach:
    """Measure how far down the weight gradients of any algorithm reach, and how close they are to backpropagation's.

    For `mupc.PC` this is `mupc.credit_reach` of what its solver finds. Other algorithms do not have shares of the
    energy, and those whose gradients point elsewhere are `unlike backprop`.

    **Arguments:** the network, the algorithm, inputs and targets of a batch, `energy`, `precision` and `optimiser` as
    `mupc.fit` takes them, `base` as for `mupc.credit_reach`, and `memory` as for `mupc.algorithm_gradients`.

    **Example:**

    ```python
    import jax.numpy as jnp, jax.random as jr, mupc

    network = mupc.Network(in_size=8, out_size=3, width=16, hidden_layers=4, key=jr.key(0))
    reach = mupc.algorithm_reach(network, mupc.ZIL(), jnp.ones((2, 8)), jnp.array([0, 2]))
    reach.learning_layers, reach.regime      # (5, 'backprop-like')
    ```
    """
    check_algorithm(algorithm)
    energy = as_energy(energy, algorithm.defaults.output_precision)
    if isinstance(algorithm, PC):
        solution = infer(network, x, y, algorithm.solver, energy=energy, precision=precision)
        return credit_reach(network, solution, x, y, optimiser=optimiser, base=base)
    plain = _without_penalties(energy)
    gradients = algorithm_gradients(network, algorithm, x, y, energy=plain, precision=precision, memory=memory)
    return _compare(gradients, backprop_gradients(network, x, y, energy=plain), optimiser, None, base)


def _without_penalties(energy: Energy) -> Energy:
    """Return an energy without weight penalties, which carry no credit."""
    return Energy(loss=energy.loss, output_precision=energy.output_precision)


def _compare(
    gradients: AbstractNetwork,
    exact: AbstractNetwork | None,
    optimiser: str,
    epsilon: int | float | None,
    base: BaseSize | None,
) -> CreditReach:
    """Compare gradients with those of backpropagation (None: there are none), and with what an optimiser needs."""
    if epsilon is not None:
        checks.number("epsilon", epsilon, at_least=0)
    if base is not None and gradients.why_no_rate_rule is not None:
        raise checks.ArgumentError("base", f"has no rule for {gradients.why_no_rate_rule}.", "Leave it out.")
    for size in base or ():
        checks.integer("base", size, 1)
    pc = _rows(gradients)
    bp = [np.full_like(row, np.nan) for row in pc] if exact is None else _rows(exact)
    norms, backprop_norms = (np.array([np.linalg.norm(row) for row in rows]) for rows in (pc, bp))
    sizes, backprop_sizes = _sizes(pc), _sizes(bp)
    dots = np.array([np.dot(a, b) for a, b in zip(pc, bp, strict=True)])
    cosines = _ratio(dots, norms * backprop_norms)
    seen = sizes if base is None else _sizes(_rows(as_at_base(gradients, BaseSize(*base))))
    least = learning_threshold(seen, optimiser) if epsilon is None else epsilon
    learns = layers_that_learn(seen, optimiser, epsilon)
    return CreditReach(
        names=gradients.layer_names,
        gradient_norms=norms,
        entry_sizes=sizes,
        backprop_norms=backprop_norms,
        backprop_sizes=backprop_sizes,
        backprop_cosines=cosines,
        energy_shares=np.full(len(norms), np.nan),
        threshold=least if base is None else least * _gradient_growth(gradients, base),
        learning_layers=int(learns.sum()),
        reach=len(learns) if learns.all() else int(np.argmin(learns[::-1])),
        evidence=Evidence(
            learning_fraction=float(learns.mean()),
            smallest_cosine=float(np.min(cosines[learns])) if learns.any() else np.nan,
            relative_gradient=np.nan,
        ),
    )


def _gradient_growth(network: AbstractNetwork, base: BaseSize) -> float:
    """Return how much larger gradients of the first hidden weights are than at the base size."""
    return network.rate_scales(BaseSize(*base)).gradients[:2][-1].weight


def learning_threshold(entry_sizes: np.ndarray, optimiser: Optimiser = "adam") -> float:
    """Return the size from which gradient entries move their weights. Any other optax transformation counts as Adam."""
    name = optimiser if isinstance(optimiser, str) else "adam"
    limit = checks.lookup("optimiser", name, LEARNING_LIMITS)
    return max(limit.epsilon, limit.share * float(np.max(entry_sizes)))


def layers_that_learn(
    entry_sizes: np.ndarray, optimiser: Optimiser = "adam", epsilon: int | float | None = None
) -> np.ndarray:
    """Return which layers learn, given the root mean square entry of each layer's gradient. `epsilon` replaces the
    optimiser's threshold."""
    least = learning_threshold(entry_sizes, optimiser) if epsilon is None else epsilon
    return (entry_sizes > 0) & (entry_sizes >= least)


def _rows(gradients: AbstractNetwork) -> list[np.ndarray]:
    """Return each layer's gradient as one float64 vector; a zero for a layer without weights."""
    found: list[np.ndarray] = []
    for stack, layers in gradients.weight_stacks:
        if layers:
            leaves = [np.asarray(leaf, np.float64).reshape(layers, -1) for leaf in jax.tree.leaves(stack)]
            found += list(np.concatenate(leaves or [np.zeros((layers, 1))], axis=1))
    return found


def _sizes(rows: list[np.ndarray]) -> np.ndarray:
    """Return the root mean square entry of each row."""
    return np.array([np.sqrt(np.mean(row**2)) for row in rows])


def _energy_shares(network: AbstractNetwork, solution: Solution, y: Rows, energy: Energy) -> np.ndarray:
    """Compute shares from the solution's errors, which are exact where the activities' last digits are not."""
    targets = as_targets(network, y, len(solution.output), energy)
    hidden = half_squares(solution.errors) + energy.activity_decay * half_squares(solution.activities)
    if solution.input is not None:
        hidden = hidden.at[0].add(energy.activity_decay * half_squares(solution.input[None])[0])
    top = energy.output_weight * jnp.mean(energy.output_loss(solution.output, targets))
    parts = np.asarray(jnp.append(hidden, top), np.float64)
    return _ratio(parts, np.sum(parts))


def _ratio(above: np.ndarray, below: np.ndarray | np.floating) -> np.ndarray:
    """Divide; NaN where the divisor is zero."""
    return np.divide(above, below, out=np.full(len(above), np.nan), where=below > 0)
