"""Count the least time that a workload can take on a device, from its products and its memory traffic.

Gradient descent starts at the forward pass, where every increment δ is zero. A step carries the error down by one layer
(networks with skips longer than one are not counted here): before step t, counted from 0, the top r(t) = min(H, t)
layers have δ ≠ 0 and e ≠ 0. Step t then cannot avoid

- the prediction W_ℓ Δφ_{ℓ-1} into every layer above the lowest of them: max(0, r(t) − 1) hidden matrices;
- the return W_ℓᵀ e_ℓ from all of them: min(H − 1, r(t)) hidden matrices;
- the readout once each way (at t = 0 only on the way back).

Around the steps there are the forward pass, the prediction at the last δ, and the weight gradients.

Traffic: weights are stored in one format and multiplied in another (`mupc.network.Precision`). The forward pass reads
them as stored and copies them where the formats differ; the update writes a gradient for each weight. In every step,
predictions and returns read operands: a matrix for each product (*twice*), or only once if both products of a layer
share one reading. Activities are arrays of B·N stored numbers for each layer: *twice* keeps e in memory between the two
products, *once* keeps it on the chip.

The floor is the larger of bytes / copy bandwidth and flops / rate of a large product. Networks whose weights fit into
the caches read them faster than from memory, and can be quicker than the first of these.
"""

from collections.abc import Mapping
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np

from ..network import POLICIES
from ._config import IN_SIZE, OUT_SIZE, BenchCase


class LeastWork(NamedTuple):
    """Arithmetic and memory traffic: flops, and bytes with weights read `twice` or `once` in each inference step."""

    flops: int
    twice: int
    once: int

    def seconds(self, rates: Mapping[str, float], once: bool = False) -> float:
        """Return the floor on a device with these rates of large products and of copies."""
        traffic = (self.once if once else self.twice) / rates["copy_bytes_per_s"]
        return max(self.flops / rates["matmul_flops_per_s"], traffic)

    def limit(self, rates: Mapping[str, float]) -> str:
        """Return which of the two rates gives the floor."""
        compute = self.flops / rates["matmul_flops_per_s"] > self.twice / rates["copy_bytes_per_s"]
        return "compute" if compute else "memory"


def _every(case: BenchCase) -> np.ndarray:
    """Return how many input, hidden and readout matrices a network has. All counts of matrices have this order."""
    return np.array([1, case.hidden_layers - 1, 1])


def _entries(case: BenchCase, matrices: np.ndarray) -> int:
    return int(case.width * (matrices @ [IN_SIZE, case.width, OUT_SIZE]))


def _update_work(
    case: BenchCase, precision: str, products: np.ndarray, *inference: tuple[np.ndarray, int]
) -> LeastWork:
    """Count an update with these products in total. `inference` has, for *twice* and for *once*, the matrices that are
    read as operands and the number of arrays of B·N that are read or written."""
    policy = POLICIES[precision]
    stored, operand = jnp.dtype(policy.dtype).itemsize, jnp.dtype(policy.operand).itemsize  # bytes of a number
    weights = _entries(case, _every(case))
    around = 2 * weights * stored + (weights * operand if operand != stored else 0)  # weights, gradients, a copy
    array = case.batch_size * case.width * stored
    traffic = [around + _entries(case, matrices) * operand + arrays * array for matrices, arrays in inference]
    return LeastWork(2 * case.batch_size * _entries(case, products), *traffic)


def gradient_descent_work(case: BenchCase, steps: int, precision: str) -> LeastWork:
    """Count a weight update by gradient descent with `steps` inference steps.

    **Example:**

    ```python
    from mupc.bench import BenchCase
    from mupc.bench._floors import gradient_descent_work

    work = gradient_descent_work(BenchCase("gd", 128, 512), 128, "bf16")
    work.seconds({"matmul_flops_per_s": 700e12, "copy_bytes_per_s": 4.3e12})     # about 0.004
    ```
    """
    depth = case.hidden_layers
    reached = np.minimum(depth, np.arange(steps + 1))  # before each step, and after the last
    predicted, returned = np.maximum(0, reached - 1), np.minimum(depth - 1, reached)
    predictions = np.array([0, predicted.sum(), steps])
    returns = np.array([0, returned[:-1].sum(), steps])
    learnt = np.array([reached[-1] == depth, returned[-1], 1])
    # the layers that a prediction needs are among those that a return needs: with shared readings, only the returns
    # are left, and the last prediction, which no return follows
    shared = returns + np.array([0, predicted[-1], steps > 0])
    before, after = int(reached[:-1].sum()), int(reached[1:].sum())  # layers with an increment before and after steps
    # twice: z⁰, δ in, e out; then e, z⁰, δ in, δ out. Once: z⁰, δ in, δ out.
    twice, once = (predictions + returns, 5 * before + 2 * after), (shared, before + 2 * after)
    return _update_work(case, precision, _every(case) + predictions + returns + learnt, twice, once)


def error_space_work(case: BenchCase, cg_steps: int | None, precision: str) -> LeastWork:
    """Count a weight update in error space: each conjugate-gradient step goes down and up all matrices except the
    input's, and the activities follow from the errors in one more pass up. Without such steps (None) there is one pass
    down before it. A pass reads and writes an array for each layer."""
    passes = 2 if cg_steps is None else 2 * cg_steps + 1
    inner = passes * (_every(case) - [1, 0, 0])
    read = inner, 2 * passes * case.hidden_layers
    return _update_work(case, precision, inner + 2 * _every(case), read, read)
