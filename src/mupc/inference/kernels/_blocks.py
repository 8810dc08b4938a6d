"""Plain gradient descent on a CPU, where elementwise work over a whole stack of layers costs as much as its products.

The stack is cut into blocks where the active windows begin; the last layer is a block of its own. Each block moves by
itself: nothing is gathered or shifted over all layers, and what one operation writes is still in the cache for the
next. With E the errors one layer above those of a block, and e those of its own layers,

    E = δ_above − τ δ − a W Δφ,      δ ← δ − lr (e − τ E − φ′ ⊙ a WᵀE).
"""

import itertools
from collections.abc import Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from ...network import Real
from .._dense_problem import DenseProblem, Layer
from .._operand import WeightOperand
from .._problem import Increments, LayerErrors

Layers = Float[Array, "_ width batch"]  # of one block; others may have more or fewer


class _Block(NamedTuple):
    """Some layers, and the weights that lead out of each."""

    base: Layers
    weights: WeightOperand


def descend(problem: DenseProblem, lr: Real, plan: Sequence[tuple[int, int]]) -> Increments:
    """Return δ after the steps of a plan: (layers, steps) pairs, each for that many of the uppermost layers. The
    problem must be cut for these windows and as large as the last."""
    parts = [part for part in problem.hidden.parts() if len(part)]
    ends = [*itertools.accumulate(len(part) for part in parts)]
    blocks = [_Block(problem.base[end - len(part) : end], part) for part, end in zip(parts, ends, strict=True)][::-1]
    top: Layer = jnp.zeros_like(problem.base[-1])
    deltas: list[Layers] = []
    for layers, steps in plan:
        reached = sum(len(delta) for delta in deltas) + 1
        while reached < layers:
            deltas.append(jnp.zeros_like(blocks[len(deltas)].base))
            reached += len(deltas[-1])
        carry = (top, tuple(deltas))
        top, found = jax.lax.fori_loop(0, steps, lambda _, c: _step(problem, lr, blocks, *c), carry)
        deltas = list(found)
    return Increments(jnp.concatenate([*deltas[::-1], top[None]]), None)


def _step(
    problem: DenseProblem, lr: Real, blocks: list[_Block], top: Layer, deltas: tuple[Layers, ...]
) -> tuple[Layer, tuple[Layers, ...]]:
    """Move the last layer and the blocks under it by one step, from the top down."""
    _, hidden, last = problem.multipliers
    phi, tau = problem.activation, problem.skip
    output = problem.base_output + last * problem.readout.linear(phi.difference(problem.base[-1], top))
    signal = problem.output_error(LayerErrors(problem.base, output)).T
    back_top = last * problem.energy.output_weight * problem.readout.transpose(signal)

    above, sent, backs = top[None], [], []
    for delta, block in zip(deltas, blocks, strict=False):
        inner = hidden * block.weights.linear(phi.difference(block.base, delta))
        e = jnp.concatenate([delta[1:], above]) - inner - (delta if tau else 0.0)
        sent.append(e)
        backs.append((e if tau else 0.0) + phi.derivative(block.base + delta) * (hidden * block.weights.transpose(e)))
        above = delta[:1]
    below = [*(e[-1:] for e in sent), above]  # under the lowest layer nothing changes: its error is its own δ
    own = [jnp.concatenate([under, e[:-1]]) for e, under in zip(sent, below[1:], strict=True)]
    moved = tuple(delta - lr * (e - back) for delta, e, back in zip(deltas, own, backs, strict=True))
    slope = phi.derivative(problem.base[-1] + top)
    return top - lr * (below[0][0] - slope * back_top), moved
