"""Plain gradient descent on a CPU, where elementwise work over a whole stack of layers costs as much as its products.

The stack is cut into blocks where the active windows begin, the last layer by itself, and each block is moved by
itself: nothing is gathered or shifted over all layers, and what one operation writes is still in the cache for the
next. With E the errors that the weights of a block lead to, one layer above it each, and e those of its own layers,

    E = δ_above − τ δ − a W Δφ,      δ ← δ − lr (e − τ E − φ′ ⊙ a WᵀE).
"""

import itertools
from collections.abc import Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from ...network import AbstractMap, DenseMap, Real
from .._problem import Errors, Increments, Layer, Problem

Layers = Float[Array, "_ width batch"]  # of one block; others may have more or fewer


class _Block(NamedTuple):
    """Some layers, and the weights that lead out of each."""

    base: Layers
    weights: AbstractMap


def available(problem: Problem) -> bool:
    """Whether this is there for a problem: on a CPU, dense layers, no skip over more than one layer, started at the
    forward pass, so that signals spread from the top."""
    dense = isinstance(problem.hidden, DenseMap) and jax.default_backend() == "cpu"
    return dense and problem.spreads_from_the_top and problem.skip <= 1


def descend(problem: Problem, lr: Real, plan: Sequence[tuple[int, int]]) -> Increments:
    """δ after the steps of a plan, each part of which takes some steps on so many of the uppermost layers. The problem
    must be `prepared` for these windows and no larger than the last."""
    assert isinstance(problem.hidden, DenseMap)
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
    problem: Problem, lr: Real, blocks: list[_Block], top: Layer, deltas: tuple[Layers, ...]
) -> tuple[Layer, tuple[Layers, ...]]:
    """One step of the last layer and of the blocks under it, from the top down."""
    _, hidden, last = problem.multipliers
    phi, tau = problem.activation, problem.skip
    output = problem.base_output + last * problem.readout.linear(phi.difference(problem.base[-1], top))
    signal = problem.output_error(Errors(problem.base, output)).T
    back_top = last * problem.energy.output_precision * problem.readout.transpose(signal)

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
