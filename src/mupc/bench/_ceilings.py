"""What the device can do at most: the rate of a large product, of products of a workload's own shape, and copies."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import jax.random as jr

from ..network import POLICIES
from ._floor import Shape
from ._timing import Program, compiled, in_turns, measure

LARGE = {"cpu": 2048, "other": 8192}
COPIED = {"cpu": 2**25, "other": 2**28}
"""Rows of a large product, and numbers to copy: far beyond the caches."""


class Ceiling(NamedTuple):
    """A program that does nothing but `work`, flops or bytes read and written."""

    program: Program
    work: int


def ceilings(precision: str, shape: Shape | None = None) -> dict[str, Ceiling]:
    """A large square product in this precision, a copy and, for a shape, the batched product of all hidden layers,
    (H−1) × [N×N]·[N×B]; by the names of the rates that they show."""
    policy = POLICIES[precision]
    size, length = (sizes["cpu" if jax.default_backend() == "cpu" else "other"] for sizes in (LARGE, COPIED))

    def factor(*shape: int) -> jax.Array:
        return jr.normal(jr.key(0), shape, policy.dtype).astype(policy.operand)

    square, long = factor(size, size), jnp.ones(length, jnp.float32)
    product = compiled(lambda a: policy.contract("ij,jk->ik", a, a), square)
    copy = compiled(jnp.negative, long)  # one that the compiler cannot leave out
    found = {
        "matmul_flops_per_s": Ceiling(product, 2 * size**3),
        "copy_bytes_per_s": Ceiling(copy, 2 * long.nbytes),
    }
    if shape is not None:
        layers = max(1, shape.hidden_layers - 1)
        factors = factor(layers, shape.width, shape.width), factor(layers, shape.width, shape.batch)
        batched = compiled(lambda w, z: policy.contract("lij,ljb->lib", w, z), *factors)
        found["batched_matmul_flops_per_s"] = Ceiling(batched, 2 * layers * shape.width**2 * shape.batch)
    return found


def rough(ceiling: Ceiling) -> float:
    """A rate by a single look."""
    return ceiling.work / in_turns({"only": ceiling.program.call}, 1)["only"]["median_s"]


def measure_beside(
    programs: Mapping[str, Program], beside: Mapping[str, Ceiling], repeats: int
) -> tuple[dict[str, dict[str, Any]], dict[str, float]]:
    """Times of programs, and rates of ceilings, all in turns."""
    times = measure({**programs, **{name: ceiling.program for name, ceiling in beside.items()}}, repeats)
    return times, {name: ceiling.work / times.pop(name)["median_s"] for name, ceiling in beside.items()}
