"""Credit reach: how many layers really learn from a solution of inference."""

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import ArrayLike

from .._energy import Energy
from .._learn import backprop_gradients, weight_gradients
from .._network import Network
from .._solution import Solution

ADAM_EPSILON = 1e-8


@dataclasses.dataclass(frozen=True)
class CreditReach:
    """What `credit_reach` found, layers 1 … L from the input to the readout.

    - `gradient_norms`: the norm of each layer's weight gradient.
    - `entry_sizes`: its root mean square entry, which is what Adam compares with its ε.
    - `backprop_cosines`: the cosine between each layer's gradient and backpropagation's (NaN where one is zero).
    - `learning_layers`: how many layers have entries of at least ε, so that Adam moves them at least half as fast as
      it would without ε.
    - `reach`: how many layers learn without a gap, counted down from the readout.
    - `regime`: `shallow` when fewer than half of the layers learn; `backprop-like` when all that learn point within
      about 8° of backpropagation; otherwise `equilibrium` or `unconverged`, by the remaining activity gradient.
    """

    gradient_norms: np.ndarray
    entry_sizes: np.ndarray
    backprop_cosines: np.ndarray
    learning_layers: int
    reach: int
    regime: str

    @property
    def layers(self) -> int:
        """L, the number of weight layers."""
        return len(self.gradient_norms)


def credit_reach(
    network: Network,
    solution: Solution,
    x: ArrayLike,
    y: ArrayLike,
    *,
    energy: Energy | None = None,
    epsilon: float = ADAM_EPSILON,
) -> CreditReach:
    """How far down the weight gradients of a solution reach.

    **Arguments:** the network, a `mupc.Solution`, the batch it was inferred for, its `energy`, and the ε of the
    optimiser that will use the gradients.

    **Example:**

    ```python
    import jax.numpy as jnp, jax.random as jr, mupc

    network = mupc.Network(in_size=8, out_size=3, width=16, hidden_layers=64, key=jr.key(0))
    x, y = jnp.ones((2, 8)), jnp.array([0, 2])
    solution = mupc.infer(network, x, y, mupc.GradientDescent(lr=0.01, steps=64))
    mupc.credit_reach(network, solution, x, y).regime      # 'shallow'
    ```
    """
    energy = Energy() if energy is None else energy
    without_decay = eqx.tree_at(lambda e: e.activity_decay, energy, 0.0)
    pc = _rows(weight_gradients(network, solution, x, energy=energy))
    bp = _rows(backprop_gradients(network, x, y, energy=without_decay))
    norms = np.array([np.linalg.norm(row) for row in pc])
    sizes = norms / np.sqrt([row.size for row in pc])
    scale = norms * np.array([np.linalg.norm(row) for row in bp])
    dots = np.array([float(np.dot(a, b)) for a, b in zip(pc, bp, strict=True)])
    cosines = np.divide(dots, scale, out=np.full(len(pc), np.nan), where=scale > 0)
    learns = sizes >= epsilon
    reach = int(np.argmin(learns[::-1])) if not learns.all() else len(learns)
    return CreditReach(
        norms, sizes, cosines, int(learns.sum()), reach, _regime(learns, cosines, solution, float(jnp.shape(x)[0]))
    )


def _rows(gradients: Network) -> list[np.ndarray]:
    """Each layer's gradient as one float64 vector."""

    def flat(layer: eqx.Module) -> np.ndarray:
        leaves = [np.asarray(leaf, np.float64) for leaf in jax.tree.leaves(layer)]
        return np.concatenate([leaf.ravel() for leaf in leaves])

    depth = gradients.hidden_layers - 1
    hidden = [flat(jax.tree.map(lambda leaf, i=i: leaf[i], gradients.hidden)) for i in range(depth)]
    return [flat(gradients.input), *hidden, flat(gradients.readout)]


def _regime(learns: np.ndarray, cosines: np.ndarray, solution: Solution, batch: float) -> str:
    if 2 * learns.sum() < len(learns):
        return "shallow"
    if np.all(cosines[learns] > 0.99):
        return "backprop-like"
    # at equilibrium the activity gradient is a small part of the errors that are left
    left = float(jnp.sqrt(jnp.sum(solution.errors**2) / batch))
    return "equilibrium" if float(solution.gradient_norm) <= 1e-2 * left else "unconverged"
