"""The least time that a workload can take on a device, counted from its products and its memory traffic.

Gradient descent starts at the forward pass, where every increment δ is zero, and a step carries the error down by one
layer (in a network with skips over no more than one): before step t, counted from 0, the top r(t) = min(H, t) layers
have δ ≠ 0 and e ≠ 0. Step t then cannot avoid

- the prediction W_ℓ Δφ_{ℓ-1} into every layer above the lowest of them: max(0, r(t) − 1) hidden matrices;
- the return W_ℓᵀ e_ℓ from all of them: min(H − 1, r(t)) hidden matrices;
- the readout once each way (at t = 0 on the way back alone).

Around the steps there are the forward pass, the prediction at the last δ, and the weight gradients.

Traffic: weights are stored in one format and multiplied in another (`Format`). The forward pass reads them as stored,
copies them where the formats differ, and the update writes as many gradients. Per step, predictions and returns read
operands: a matrix for each product (*twice*), or, if both products of a layer share one reading, only once. Activities
are float arrays of B·N for each layer: *twice* keeps e in memory between the two products, *once* on the chip.

The floor is the larger of bytes / copy bandwidth and flops / rate of a large product. Networks whose weights fit into
the caches read them faster than from memory, and can be quicker than the first of these.
"""

import dataclasses
from typing import NamedTuple


class Format(NamedTuple):
    """Bytes of a stored number, and of a factor of a product."""

    stored: int
    operand: int


FORMATS = {"float32": Format(4, 4), "tf32": Format(4, 4), "bf16": Format(4, 2), "float64": Format(8, 8)}


class Shape(NamedTuple):
    """H, N and B, and the network's ends."""

    hidden_layers: int
    width: int
    batch: int
    in_size: int = 784
    out_size: int = 10


class Matrices(NamedTuple):
    """How many times each kind of matrix is multiplied with, or read."""

    input: int
    hidden: int
    readout: int

    def elements(self, shape: Shape) -> int:
        """Entries of all of them together."""
        inner = self.hidden * shape.width**2
        return inner + shape.width * (self.input * shape.in_size + self.readout * shape.out_size)

    def plus(self, *others: "Matrices") -> "Matrices":
        """The sum of the counts."""
        return Matrices(*(sum(counts) for counts in zip(self, *others, strict=True)))


@dataclasses.dataclass(frozen=True)
class Work:
    """Arithmetic and memory traffic: flops, and bytes with weights read `twice` or `once` per inference step."""

    flops: int
    twice: int
    once: int

    def seconds(self, matmul: float, copy: float, once: bool = False) -> float:
        """The floor on a device that does `matmul` flops and moves `copy` bytes a second."""
        return max(self.flops / matmul, (self.once if once else self.twice) / copy)

    def limit(self, matmul: float, copy: float) -> str:
        """Which of both it is."""
        return "compute" if self.flops / matmul > self.twice / copy else "memory"


def every(shape: Shape, times: int = 1) -> Matrices:
    """All matrices of a network, so many times."""
    return Matrices(times, times * (shape.hidden_layers - 1), times)


def _update(shape: Shape, format: Format, products: Matrices, read: tuple[Matrices, Matrices], arrays: tuple[int, int]
            ) -> Work:  # fmt: skip
    """An update with these products in all, of which inference reads operands and arrays B·N twice or once."""
    weights = every(shape).elements(shape)
    copied = weights * format.operand if format.operand != format.stored else 0
    around = 2 * weights * format.stored + copied  # the weights as stored, and their gradients
    traffic = [
        around + matrices.elements(shape) * format.operand + count * shape.batch * shape.width * format.stored
        for matrices, count in zip(read, arrays, strict=True)
    ]
    return Work(2 * shape.batch * products.elements(shape), *traffic)


def gradient_descent(shape: Shape, steps: int, format: Format) -> Work:
    """A weight update by gradient descent inference.

    **Arguments:** the sizes, the number of steps, and the formats.

    **Example:**

    ```python
    from mupc.bench._floor import FORMATS, Shape, gradient_descent

    gradient_descent(Shape(128, 512, 64), 128, FORMATS["bf16"]).seconds(matmul=700e12, copy=4.3e12)     # about 0.004
    ```
    """
    depth = shape.hidden_layers

    def reached(step: int) -> int:
        return min(depth, step)

    def predicted(step: int) -> Matrices:
        return Matrices(0, max(0, reached(step) - 1), int(step > 0))

    def returned(step: int) -> Matrices:
        return Matrices(0, min(depth - 1, reached(step)), 1)

    none = Matrices(0, 0, 0)
    predictions = none.plus(*(predicted(step) for step in range(steps)), predicted(steps))
    returns = none.plus(*(returned(step) for step in range(steps)))
    learnt = Matrices(int(reached(steps) == depth), min(depth - 1, reached(steps)), 1)
    # the layers that a prediction needs are among those that a return needs: sharing leaves the returns, and the last
    # prediction, which no return follows
    shared = returns.plus(predicted(steps))
    before = sum(reached(step) for step in range(steps))  # layers that have an increment before a step …
    after = sum(reached(step + 1) for step in range(steps))  # … and after it
    # twice: z⁰, δ in, e out; then e, z⁰, δ in, δ out. Once: z⁰, δ in, δ out.
    arrays = (5 * before + 2 * after, before + 2 * after)
    products = every(shape).plus(predictions, returns, learnt)
    return _update(shape, format, products, (predictions.plus(returns), shared), arrays)


def error_space(shape: Shape, cg_steps: int, format: Format) -> Work:
    """A weight update in error space: each conjugate-gradient step goes down and up the network, and the activities
    follow from the errors in one more pass up. Every pass reads all weights and an array in and out for each layer."""
    passes = 2 * cg_steps + 1
    inner = Matrices(0, passes * (shape.hidden_layers - 1), passes)
    arrays = 2 * passes * shape.hidden_layers
    return _update(shape, format, inner.plus(every(shape, 2)), (inner, inner), (arrays, arrays))


def backprop(shape: Shape, format: Format) -> Work:
    """A weight update by backpropagation: activities are written once and read twice, errors written and read."""
    back = Matrices(0, shape.hidden_layers - 1, 1)
    arrays = 5 * shape.hidden_layers
    return _update(shape, format, back.plus(every(shape, 2)), (back, back), (arrays, arrays))


def evaluation(shape: Shape, samples: int, format: Format) -> Work:
    """The forward pass on so many samples, in chunks of `shape.batch`: weights are read once a chunk."""
    chunks = -(-samples // shape.batch)
    weights = every(shape).elements(shape)
    traffic = chunks * (weights + shape.batch * shape.in_size) * format.stored
    return Work(2 * chunks * shape.batch * weights, traffic, traffic)
