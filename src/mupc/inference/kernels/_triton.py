"""Plain gradient descent on a GPU: two kernels a step, one around each of its batched products.

With the layers numbered from 0 and the readout as layer H, a step is

    predict    e_ℓ = δ_ℓ − τ δ_{ℓ-1} − a W_ℓ Δφ_{ℓ-1},                        for all ℓ at once, then
    correct    δ_ℓ ← δ_ℓ − lr (e_ℓ − τ e_{ℓ+1} − φ′_ℓ ⊙ a W_{ℓ+1}ᵀ e_{ℓ+1})   and Δφ_ℓ from it.

A program of either kernel takes some units of one layer and some samples. It stores δ and e, and copies of Δφ and e in
the format that products read; nothing else goes to memory. Layers that no signal has
reached yet are left out, so that the active window is exact; their arrays hold the zeros they began with.

Sizes are filled up with zeros to what the matrix units take, which changes nothing: a unit without weights has no
error.
"""

import math
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import triton
from jaxtyping import Array, Float

from ...network import ACTIVATIONS, Activation, Real
from .._dense_problem import DenseProblem
from .._problem import Increments

SMALLEST = 16
"""The smallest size along any axis that a GPU's matrix units accept."""

SAMPLES, UNITS, PIECE = 64, 64, 64
"""The most samples and units per program, and the length of the pieces of its sums. Larger tiles read
less, but then the state of the units no longer fits into registers together with the sums."""

OUTPUTS = 64
"""The most outputs: one program does all of them."""

WARPS, STAGES = 4, 4

Slice = Any  # what pl.ds gives


class _Form(NamedTuple):
    """Constants compiled into the kernels: padded sizes, tile sizes, multipliers, activation."""

    layers: int
    batch: int
    width: int
    samples: int
    units: int
    piece: int
    skip: bool
    hidden: float
    last: float
    activation: Activation
    interpret: bool


class _KernelState(NamedTuple):
    """δ and the errors, each with the copy that products read."""

    delta: Float[Array, "layers batch width"]
    change: Float[Array, "layers batch width"]
    error: Float[Array, "layers batch width"]
    rounded: Float[Array, "layers batch width"]
    output: Float[Array, "batch out"]


class _Data(NamedTuple):
    """What stays the same from step to step: lr and λ, and in `wanted` the target less the output at the start."""

    numbers: Float[Array, " 2"]
    base: Float[Array, "layers batch width"]
    weights: Float[Array, "layers width width"]
    readout: Float[Array, "out width"]
    wanted: Float[Array, "batch out"]


def why_plain(problem: DenseProblem) -> str | None:
    """Return why the kernels cannot take a problem; None if they can."""
    if problem.activation not in ACTIVATIONS.values():
        return "the activation is a function of your own"
    if problem.energy.output_function != "mse":
        return f'they know the loss "mse" only, not {problem.energy.loss_name!r}'
    if len(problem.y) > OUTPUTS:
        return f"they take at most {OUTPUTS} outputs, not {len(problem.y)}"
    if any(part.precision.name != "bf16" for part in (problem.hidden, problem.readout)):
        return f"they multiply in bf16, and the precision is {problem.hidden.precision.name}"
    return None


def descend(problem: DenseProblem, lr: Real, steps: int, interpret: bool = False) -> Increments:
    """Return δ after `steps` steps of size `lr` from δ = 0."""
    layers, width, batch = problem.base.shape
    samples, units = min(SAMPLES, _power(batch)), min(UNITS, _power(width))
    b, n = (-(-size // piece) * piece for size, piece in ((batch, samples), (width, units)))
    c = _power(len(problem.y))
    form = _Form(
        layers, b, n, samples, units, min(PIECE, units), bool(problem.skip), *problem.multipliers[1:],
        problem.activation, interpret,
    )  # fmt: skip
    base = _fill(problem.base.mT, (layers, b, n))
    data = _Data(
        jnp.stack([jnp.asarray(lr, base.dtype), jnp.asarray(problem.energy.output_weight, base.dtype)]),
        base,
        _fill(jnp.concatenate(problem.hidden.blocks), (max(layers - 1, 1), n, n)),
        _fill(jnp.concatenate(problem.readout.blocks), (c, n)),
        _fill((problem.y - problem.base_output).T, (b, c)),
    )
    zero, small = jnp.zeros_like(base), jnp.zeros_like(base, data.weights.dtype)
    state = _KernelState(zero, small, zero, small, jnp.zeros_like(data.wanted, small.dtype))
    state = jax.lax.fori_loop(0, steps, lambda taken, s: _step(form, data, taken, s), state)
    return Increments(state.delta[:, :batch, :width].mT, None)


def _step(form: _Form, data: _Data, taken: Array, state: _KernelState) -> _KernelState:
    count = jnp.asarray(taken, jnp.int32).reshape(1)
    state = _call(form, _predict, form.layers + 1, count, data, state, ("error", "rounded", "output"))
    return _call(form, _correct, form.layers, count, data, state, ("delta", "change"))


def _call(
    form: _Form, kernel: Callable, layers: int, count: Array, data: _Data, state: _KernelState, written: tuple[str, ...]
) -> _KernelState:
    """Run a kernel that overwrites the fields `written`. No program reads what another program writes."""
    names = ("count", *_Data._fields, *_KernelState._fields)
    old = [getattr(state, name) for name in written]

    def body(*refs) -> None:  # type: ignore[no-untyped-def]
        named = dict(zip(names, refs, strict=False))
        named.update(zip(written, refs[len(names) :], strict=True))
        kernel(form, SimpleNamespace(**named))

    new = pl.pallas_call(
        body,
        out_shape=[jax.ShapeDtypeStruct(array.shape, array.dtype) for array in old],
        grid=(form.width // form.units, form.batch // form.samples, layers),
        input_output_aliases={names.index(name): place for place, name in enumerate(written)},
        interpret=form.interpret,
        compiler_params=triton.CompilerParams(num_warps=WARPS, num_stages=STAGES),
        name=f"mupc{kernel.__name__}",
    )(count, *data, *state)
    return state._replace(**dict(zip(written, new, strict=True)))


def _predict(form: _Form, a: SimpleNamespace) -> None:
    """Errors of some units of one layer, or of the output."""
    group, part, layer = (pl.program_id(axis) for axis in range(3))  # groups first: neighbours read the same lines
    rows, units = _slices(form, part, group)
    below = layer - 1

    def product(load: Callable[[Slice], Array], size: int) -> Array:
        """Δφ of the layer below times rows of W, given by pieces."""
        return _sum(form, size, lambda piece: (a.change[below, rows, piece], load(piece).T))

    @pl.when((layer == form.layers) & (group == 0))
    def _() -> None:
        found = form.last * product(lambda piece: a.readout[:, piece], a.readout.shape[0])
        a.output[rows, :] = (a.wanted[rows, :] - found).astype(a.output.dtype)

    @pl.when((layer == 0) & (a.count[0] >= form.layers))
    def _() -> None:
        a.error[layer, rows, units] = a.delta[layer, rows, units]

    @pl.when((layer > 0) & (layer < form.layers) & (layer >= form.layers - a.count[0]))
    def _() -> None:
        predicted = form.hidden * product(lambda piece: a.weights[below, units, piece], form.units)
        if form.skip:
            predicted += a.delta[below, rows, units]
        e = a.delta[layer, rows, units] - predicted
        a.error[layer, rows, units] = e
        a.rounded[layer, rows, units] = e.astype(a.rounded.dtype)


def _correct(form: _Form, a: SimpleNamespace) -> None:
    """One step of some units of one layer."""
    group, part, layer = (pl.program_id(axis) for axis in range(3))  # groups first: neighbours read the same lines
    rows, units = _slices(form, part, group)
    above = layer + 1

    def move(back: Array, direct: Array | float) -> None:
        z, delta = a.base[layer, rows, units], a.delta[layer, rows, units]
        slope = a.error[layer, rows, units] - direct - form.activation.derivative(z + delta) * back
        delta -= a.numbers[0] * slope
        a.delta[layer, rows, units] = delta
        a.change[layer, rows, units] = form.activation.difference(z, delta).astype(a.change.dtype)

    @pl.when(above == form.layers)
    def _() -> None:
        move(form.last * a.numbers[1] * _dot(a.output[rows, :], a.readout[:, units]), 0.0)

    @pl.when((above < form.layers) & (above >= form.layers - a.count[0]))
    def _() -> None:
        back = _sum(form, form.units, lambda piece: (a.rounded[above, rows, piece], a.weights[layer, piece, units]))
        move(form.hidden * back, a.error[above, rows, units] if form.skip else 0.0)


def _slices(form: _Form, part: Array, group: Array) -> tuple[Slice, Slice]:
    return pl.ds(part * form.samples, form.samples), pl.ds(group * form.units, form.units)


def _sum(form: _Form, size: int, load: Callable[[Slice], tuple[Array, Array]]) -> Array:
    """The product of two matrices over the whole width, piece by piece."""

    def add(index: Array, total: Array) -> Array:
        left, right = load(pl.ds(index * form.piece, form.piece))
        return total + _dot(left, right)

    start = jnp.zeros((form.samples, size), jnp.float32)
    return jax.lax.fori_loop(0, form.width // form.piece, add, start)


def _dot(a: Array, b: Array) -> Array:
    return jax.lax.dot(a, b, preferred_element_type=jnp.float32)


def _power(size: int) -> int:
    return max(SMALLEST, 2 ** math.ceil(math.log2(size)))


def _fill(values: Array, shape: tuple[int, ...]) -> Array:
    """Zeros up to `shape`."""
    return jnp.pad(values, [(0, want - have) for have, want in zip(values.shape, shape, strict=True)])
