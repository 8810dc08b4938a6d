"""The nodes of a chain: layers with weights, and what is put together from them.

A node maps one sample's signal to the prediction of the next one, without a batch axis; images have channels first. Any
`eqx.Module` that does so is a node. The ones here also have an accurate difference f(z + δ) − f(z), as activations
have, because gradient descent moves activities by as little as 1e-15 of their size.
"""

import abc
import dataclasses
import math
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from ..io import checks
from ._activation import Activation, resolve_activation
from ._parameterisation import PARAMETERISATIONS, initialise
from ._precision import Precision, resolve_precision
from ._rate_scales import BaseSize, LayerScale, RateScales
from ._types import Elementwise, Initialiser, PRNGKeyArray

__all__ = [
    "AbstractNode",
    "Conv2d",
    "Flatten",
    "Foreign",
    "GlobalMean",
    "Linear",
    "MaxPool",
    "MeanPool",
    "Pointwise",
    "Residual",
    "Sequential",
    "as_node",
]

Signal = Float[Array, "..."]
Image = Float[Array, "_ _ _"]  # channels first
AnyNode = eqx.Module | Activation | Elementwise | str
SomeNode = TypeVar("SomeNode", bound="AbstractRounding")

NODE_ROLES = {"input": "input", "hidden": "hidden", "inner": "hidden", "branch": "hidden", "readout": "readout"}
"""The roles of weights in nodes, and the role in the table of parameterisations that each one has."""


class AbstractNode(eqx.Module):
    """A node with an accurate difference."""

    @abc.abstractmethod
    def __call__(self, z: Signal) -> Signal:
        """Return the prediction for one sample's signal."""

    @abc.abstractmethod
    def difference(self, z: Signal, delta: Signal) -> Signal:
        """Return f(z + δ) − f(z) with a small error relative to the result."""

    @property
    def exact(self) -> bool:
        """Whether `difference` is accurate for every δ."""
        return True


class AbstractAffine(AbstractNode):
    """A node f(z) = M z + b."""

    @abc.abstractmethod
    def product(self, z: Signal) -> Signal:
        """Return M z."""

    def __call__(self, z: Signal) -> Signal:
        return self.product(z)

    def difference(self, z: Signal, delta: Signal) -> Signal:
        return self.product(delta)


class AbstractRounding(eqx.Module):
    """A node whose products follow a precision policy; None: that of its arrays, in full."""

    precision: eqx.AbstractVar[Precision | None]

    def with_precision(self: SomeNode, precision: Precision) -> SomeNode:
        """Return the node with products of this precision."""
        made = object.__new__(type(self))  # without __init__, which would draw new weights
        for field in dataclasses.fields(self):
            object.__setattr__(made, field.name, getattr(self, field.name))
        object.__setattr__(made, "precision", precision)
        return made


class AbstractWeighted(AbstractAffine, AbstractRounding):
    """An affine node whose weights have a role and a fan-in, from which the parameterisation derives how they start,
    what multiplies them and how fast they learn.

    The roles: `input`, `readout`; `branch` for the last weights of a residual branch, and `inner` for those before
    them; `hidden` for all others. `depth` is the number of layers L over which branches add up.
    """

    weight: Float[Array, "..."]
    bias: Float[Array, "..."] | None
    multiplier: float = eqx.field(static=True)
    role: str = eqx.field(static=True)
    fan_in: int = eqx.field(static=True)
    width: int = eqx.field(static=True)  # of the hidden signal next to these weights
    depth: int = eqx.field(static=True)
    parameterisation: str = eqx.field(static=True)
    precision: Precision | None = eqx.field(static=True)
    rate: float = eqx.field(static=True)  # a factor on the learning rate, whatever the size

    def _set_weights(
        self,
        shape: tuple[int, ...],
        *,
        role: str,
        depth: int,
        parameterisation: str,
        init: str | Initialiser | None,
        use_bias: bool,
        key: PRNGKeyArray,
        inputs_on: int | None = None,
        rate: float = 1.0,
    ) -> None:
        """Draw the weights. `inputs_on` is the fan-in if few of the inputs are on at a time, as in a table."""
        listed = checks.lookup("role", role, NODE_ROLES)
        row = checks.lookup("parameterisation", parameterisation, PARAMETERISATIONS)
        self.role, self.depth = role, checks.integer("depth", depth, 1)
        self.parameterisation, self.precision, self.rate = row.name, None, float(rate)
        columns = math.prod(shape[1:])
        self.fan_in = columns if inputs_on is None else inputs_on
        self.width = math.prod((shape[0], *shape[2:])) if role == "input" else self.fan_in
        self.multiplier = row.multiplier(listed, self.fan_in, depth if role == "branch" else 1)
        weight = initialise(key, (shape[0], columns), row, "", init).reshape(shape)
        self.weight = weight * math.sqrt(row.variance(self.fan_in) / row.variance(columns))
        self.bias = jnp.zeros(shape[0], self.weight.dtype) if use_bias else None

    @property
    def policy(self) -> Precision:
        """The precision of products; by default that of the weights, in full."""
        return resolve_precision(None, self.weight) if self.precision is None else self.precision

    def rate_scales(self, base: BaseSize) -> RateScales:
        """Return how gradients and updates of these weights compare with those at the base size."""
        rule = PARAMETERISATIONS[self.parameterisation].rate_rule
        assert rule is not None
        deeper = self.depth / (base.hidden_layers + 1) if self.role in ("inner", "branch") else 1.0
        found = rule(self.width / base.width, deeper)
        index = ("input", "hidden", "readout").index(NODE_ROLES[self.role])
        weight, bias = found.updates[index]
        return RateScales((found.gradients[index],), (LayerScale(self.rate * weight, self.rate * bias),))


class Linear(AbstractWeighted):
    """A matrix on the last axis of a signal, with an optional bias.

    **Arguments:** `in_size`, `out_size`; `role` and `depth`, as `AbstractWeighted` explains them; `rate`, a factor on
    the learning rate where rates are scaled; `parameterisation`, `init` and `use_bias` as for `mupc.Network`; a random
    `key`.
    """

    def __init__(
        self,
        in_size: int,
        out_size: int,
        *,
        role: str = "hidden",
        depth: int = 1,
        rate: float = 1.0,
        parameterisation: str = "mupc",
        init: str | Initialiser | None = None,
        use_bias: bool = False,
        key: PRNGKeyArray,
    ) -> None:
        shape = checks.integer("out_size", out_size, 1), checks.integer("in_size", in_size, 1)
        checks.number("rate", rate, above=0)
        self._set_weights(
            shape,
            role=role,
            depth=depth,
            rate=rate,
            parameterisation=parameterisation,
            init=init,
            use_bias=use_bias,
            key=key,
        )

    def product(self, z: Signal) -> Signal:
        if z.shape[-1:] != self.weight.shape[1:]:
            raise checks.ArgumentError("a Linear", f"takes {self.weight.shape[1]} features in the last axis.")
        return self.multiplier * self.policy.contract("...i,oi->...o", z, self.weight)

    def __call__(self, z: Signal) -> Signal:
        return self.product(z) if self.bias is None else self.product(z) + self.bias


class Conv2d(AbstractWeighted):
    """A convolution of images (C, height, width), with an optional bias.

    **Arguments:** numbers of channels; `kernel`, the number of pixels along each side of the filters; `stride`;
    `padding`, by default such that the image keeps its size at stride 1; the rest as for `Linear`.
    """

    stride: int = eqx.field(static=True)
    padding: int = eqx.field(static=True)

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel: int = 3,
        *,
        stride: int = 1,
        padding: int | None = None,
        role: str = "hidden",
        depth: int = 1,
        parameterisation: str = "mupc",
        init: str | Initialiser | None = None,
        use_bias: bool = False,
        key: PRNGKeyArray,
    ) -> None:
        channels = checks.integer("out_channels", out_channels, 1), checks.integer("in_channels", in_channels, 1)
        side = checks.integer("kernel", kernel, 1)
        self.stride = checks.integer("stride", stride, 1)
        self.padding = side // 2 if padding is None else checks.integer("padding", padding, 0)
        self._set_weights(
            (*channels, side, side),
            role=role,
            depth=depth,
            parameterisation=parameterisation,
            init=init,
            use_bias=use_bias,
            key=key,
        )

    def product(self, z: Image) -> Image:
        channels = self.weight.shape[1]
        if z.ndim != 3 or len(z) != channels:
            raise checks.ArgumentError("a Conv2d", f"takes images of shape ({channels}, height, width).")
        return self.multiplier * self.policy.convolve(z, self.weight, self.stride, self.padding)

    def __call__(self, z: Image) -> Image:
        return self.product(z) if self.bias is None else self.product(z) + self.bias[:, None, None]


class Pointwise(AbstractNode):
    """An activation as a node."""

    activation: Activation = eqx.field(static=True)

    def __call__(self, z: Signal) -> Signal:
        return self.activation(z)

    def difference(self, z: Signal, delta: Signal) -> Signal:
        return self.activation.difference(z, delta)


class Sequential(AbstractNode):
    """Nodes one after the other, as one node: there is one latent for all of them, after the last.

    **Arguments:** `parts`: nodes, or names of activations.
    """

    parts: tuple[eqx.Module, ...]

    def __init__(self, parts: Sequence[AnyNode]) -> None:
        self.parts = tuple(map(as_node, parts))

    @property
    def exact(self) -> bool:
        return all(map(is_exact, self.parts))

    def __call__(self, z: Signal) -> Signal:
        for part in self.parts:
            z = call(part, z)
        return z

    def difference(self, z: Signal, delta: Signal) -> Signal:
        for part in self.parts:
            z, delta = call(part, z), difference(part, z, delta)
        return delta


class Residual(AbstractNode):
    """z + f(z), for a node f, the branch.

    **Arguments:** `branch`: a node, or several to be put one after the other.
    """

    branch: eqx.Module

    def __init__(self, branch: AnyNode | Sequence[AnyNode]) -> None:
        several = isinstance(branch, Sequence) and not isinstance(branch, str)
        self.branch = Sequential(branch) if several else as_node(branch)  # type: ignore[arg-type]

    @property
    def exact(self) -> bool:
        return is_exact(self.branch)

    def __call__(self, z: Signal) -> Signal:
        added = call(self.branch, z)
        if added.shape != z.shape:
            wrong = f"of a Residual turns the shape {z.shape} into {added.shape}."
            raise checks.ArgumentError("branch", wrong, "It must keep the shape.")
        return z + added

    def difference(self, z: Signal, delta: Signal) -> Signal:
        return delta + difference(self.branch, z, delta)


class Flatten(AbstractAffine):
    """An image or another signal as one row of numbers."""

    def product(self, z: Signal) -> Signal:
        return z.reshape(-1)


class GlobalMean(AbstractAffine):
    """The mean over all pixels of each channel."""

    def product(self, z: Image) -> Float[Array, " channels"]:
        return jnp.mean(z, axis=(1, 2))


class MeanPool(AbstractAffine):
    """The mean over squares of `size` × `size` pixels."""

    size: int = eqx.field(static=True, default=2)

    def product(self, z: Image) -> Image:
        return jnp.mean(_squares(z, self.size), axis=(2, 4))


class MaxPool(AbstractNode):
    """The largest value in each square of `size` × `size` pixels."""

    size: int = eqx.field(static=True, default=2)

    def __call__(self, z: Image) -> Image:
        return jnp.max(_squares(z, self.size), axis=(2, 4))

    def difference(self, z: Image, delta: Image) -> Image:
        squares = _squares(z, self.size)
        below = squares - jnp.max(squares, axis=(2, 4), keepdims=True)  # zero at the largest, so that its δ is kept
        return jnp.max(below + _squares(delta, self.size), axis=(2, 4))


def _squares(z: Image, size: int) -> Float[Array, "_ _ size _ size"]:
    channels, height, wide = z.shape
    if min(height, wide) < checks.integer("size", size, 1):
        wrong = f"of a pool is {size}, and images of {height} × {wide} pixels are smaller."
        raise checks.ArgumentError("size", wrong, "Use a smaller one, or larger images.")
    rows, columns = height // size, wide // size
    return z[:, : rows * size, : columns * size].reshape(channels, rows, size, columns, size)


@dataclasses.dataclass(frozen=True)
class _Constants:
    """Everything in a module that is not an array, comparable and hashable, as JAX asks of constants."""

    structure: Any
    leaves: tuple[Any, ...]


class Foreign(AbstractRounding):
    """A module of the user's own or of equinox as a node: its arrays, and apart from them all its other leaves, such as
    functions."""

    arrays: eqx.Module
    rest: _Constants = eqx.field(static=True)
    precision: Precision | None = eqx.field(static=True)

    def __init__(self, module: eqx.Module) -> None:
        self.arrays, rest = eqx.partition(module, eqx.is_array)
        leaves, structure = jax.tree.flatten(rest)
        self.rest, self.precision = _Constants(structure, tuple(leaves)), None

    @property
    def module(self) -> eqx.Module:
        """The module as it was given."""
        found: eqx.Module = eqx.combine(self.arrays, jax.tree.unflatten(self.rest.structure, self.rest.leaves))
        return found

    def __call__(self, z: Signal) -> Signal:
        module = self.module if self.precision is None else with_products(self.module, self.precision)
        policy = self.precision or resolve_precision(None, self.arrays)
        with jax.default_matmul_precision(policy.product_name):
            return call(module, z)


def as_node(node: AnyNode) -> eqx.Module:
    """Return what was given as a node: a module, or the name or the function of an activation."""
    if isinstance(node, AbstractNode | Foreign):
        return node
    if isinstance(node, eqx.Module):
        return Foreign(node)
    return Pointwise(resolve_activation(node))


def is_exact(node: eqx.Module) -> bool:
    """Return whether a node has an accurate difference."""
    return isinstance(node, AbstractNode) and node.exact


def difference(node: eqx.Module, z: Signal, delta: Signal) -> Signal:
    """Return f(z + δ) − f(z): by the node's own formula, or by plain subtraction if it has none."""
    if isinstance(node, AbstractNode):
        return node.difference(z, delta)
    return call(node, z + delta) - call(node, z)


def call(node: eqx.Module, z: Signal) -> Signal:
    """Return a node's prediction for one sample."""
    called: Callable[[Signal], Signal] = node  # type: ignore[assignment]
    return called(z)


def weighted_layers(tree: Any) -> list[AbstractWeighted]:
    """Return all layers in a tree whose weights have a role, in its order."""
    leaves = jax.tree.leaves(tree, is_leaf=lambda leaf: isinstance(leaf, AbstractWeighted))
    return [leaf for leaf in leaves if isinstance(leaf, AbstractWeighted)]


def with_products(tree: Any, precision: Precision) -> Any:
    """Return a tree with products of this precision in all its nodes."""
    return map_layers(lambda node: node.with_precision(precision), tree, AbstractRounding)


def map_layers(function: Callable[[Any], Any], tree: Any, kind: type[eqx.Module] = AbstractWeighted) -> Any:
    """Return a tree with a function applied to all layers of a kind in it: by default those whose weights have a
    role."""
    return jax.tree.map(
        lambda leaf: function(leaf) if isinstance(leaf, kind) else leaf,
        tree,
        is_leaf=lambda leaf: isinstance(leaf, kind),
    )
