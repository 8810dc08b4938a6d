"""Convolutional networks that classify images: residual ones, and VGG as in the literature of predictive coding."""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax.random as jr

from ...io import checks
from .._activation import AnyActivation, resolve_activation, saved_name
from .._chain import Chain, Recipe
from .._coerce import check_key
from .._parts import Stack
from .._types import PRNGKeyArray
from ..nodes import AnyNode, Conv2d, Flatten, GlobalMean, Linear, MaxPool, Residual, Sequential

VGG_LAYERS: dict[str, tuple[tuple[int, int, bool], ...]] = {
    "vgg5": ((1, 1, True), (2, 1, True), (4, 1, True), (4, 1, True)),
    "vgg7": ((1, 1, True), (1, 1, False), (2, 1, True), (2, 0, False), (4, 1, True), (4, 0, False)),
}
"""For each convolution its channels in units of the width, its padding, and whether a pool follows."""


def resnet(
    input_shape: Sequence[int] = (3, 32, 32),
    out_size: int = 10,
    width: int = 64,
    blocks: Sequence[int] = (6, 6, 6),
    *,
    convolutions: int = 1,
    activation: AnyActivation = "relu",
    parameterisation: str = "mupc",
    use_bias: bool = False,
    key: PRNGKeyArray,
) -> Chain:
    """Return a convolutional residual network.

    A stem, stages of residual blocks z + conv(φ(z)), and a readout from the mean over all pixels. Between two stages, a
    convolution with stride 2 and without a skip doubles the channels. Every block is one node.

    **Arguments:**

    - `input_shape`: channels, height and width of the images; `out_size`: the number of classes.
    - `width`: the channels of the first stage.
    - `blocks`: the number of blocks in each stage.
    - `convolutions`: how many convolutions the branch of a block has, each after an activation.
    - `activation`, `parameterisation`, `use_bias`, `key`: as for `mupc.Network`.

    **Example:**

    ```python
    import jax.numpy as jnp, jax.random as jr, mupc

    network = mupc.models.resnet((1, 8, 8), width=16, blocks=(2, 2), key=jr.key(0))
    network(jnp.ones((5, 1, 8, 8))).shape    # (5, 10)
    network.layer_names                      # ('stem', 'stage 1.1', 'stage 1.2', 'down 2', 'stage 2.1', …)
    ```
    """
    check_key(key)
    shape = _image_shape(input_shape)
    counts = _checked_blocks(blocks, shape)
    phi = resolve_activation(activation)
    width, repeats = checks.integer("width", width, 1), checks.integer("convolutions", convolutions, 1)
    nodes_in_all = sum(counts) + len(counts) + 1
    options: Any = {"parameterisation": parameterisation, "use_bias": checks.boolean("use_bias", use_bias)}

    def block_of(channels: int) -> Callable[[PRNGKeyArray], AnyNode]:
        def block(key: PRNGKeyArray) -> AnyNode:
            branch: list[AnyNode] = []
            for index, own in enumerate(jr.split(key, repeats)):
                role = "branch" if index + 1 == repeats else "inner"
                branch += [phi, Conv2d(channels, channels, role=role, depth=nodes_in_all, key=own, **options)]
            return Residual(branch)

        return block

    stem_key, readout_key, *keys = jr.split(key, 2 + 2 * len(counts))
    made: dict[str, AnyNode | Stack] = {"stem": Conv2d(shape[0], width, role="input", key=stem_key, **options)}
    for index, count in enumerate(counts):
        channels = width * 2**index
        if index:
            down = Conv2d(channels // 2, channels, stride=2, key=keys[2 * index], **options)
            made[f"down {index + 1}"] = Sequential([phi, down])
        made[f"stage {index + 1}"] = Stack(block_of(channels), count, key=keys[2 * index + 1])
    readout = Linear(channels, out_size, role="readout", key=readout_key, **options)
    made["readout"] = Sequential([phi, GlobalMean(), readout])
    arguments = {
        "input_shape": shape,
        "out_size": out_size,
        "width": width,
        "blocks": counts,
        "convolutions": repeats,
        "activation": saved_name(phi),
        **options,
    }
    return _named_chain(made, shape, Recipe("resnet", tuple(arguments.items())))


def vgg(
    input_shape: Sequence[int] = (3, 32, 32),
    out_size: int = 10,
    width: int = 128,
    layers: str | Sequence[Sequence[int]] = "vgg5",
    *,
    activation: AnyActivation = "gelu",
    parameterisation: str = "mupc",
    use_bias: bool = True,
    key: PRNGKeyArray,
) -> Chain:
    """Return a convolutional network without skips, as the literature of predictive coding trains them.

    A node is a 3 × 3 convolution, the activation and, for some, a pool of 2 × 2 pixels. The readout is linear in all
    pixels and channels that are left.

    **Arguments:**

    - `input_shape`: channels, height and width of the images; `out_size`: the number of classes.
    - `width`: the channels of the first convolution; 128 in the literature.
    - `layers`: `"vgg5"`, `"vgg7"`, or three values for each convolution: its channels in units of `width`, its padding,
      and whether a pool follows.
    - `activation`, `parameterisation`, `use_bias`, `key`: as for `mupc.Network`.

    **Example:**

    ```python
    import jax.numpy as jnp, jax.random as jr, mupc

    network = mupc.models.vgg(width=16, key=jr.key(0))
    network.latent_shapes      # ((16, 16, 16), (32, 8, 8), (64, 4, 4), (64, 2, 2))
    ```
    """
    check_key(key)
    shape = _image_shape(input_shape)
    width, channels = checks.integer("width", width, 1), shape[0]
    plan = checks.lookup("layers", layers, VGG_LAYERS) if isinstance(layers, str) else _checked_layers(layers)
    pixels = _pixels_left(plan, shape[1:])
    phi = resolve_activation(activation)
    options: Any = {"parameterisation": parameterisation, "use_bias": checks.boolean("use_bias", use_bias)}
    readout_key, *keys = jr.split(key, 1 + len(plan))
    made: dict[str, AnyNode] = {}
    for index, ((multiple, padding, pooled), own) in enumerate(zip(plan, keys, strict=True)):
        into, channels = channels, width * multiple
        role = "hidden" if index else "input"
        convolution = Conv2d(into, channels, padding=padding, role=role, key=own, **options)
        made[f"conv {index + 1}"] = Sequential([convolution, phi, *([MaxPool()] if pooled else [])])
    readout = Linear(channels * pixels, out_size, role="readout", key=readout_key, **options)
    made["readout"] = Sequential([Flatten(), readout])
    arguments = {
        "input_shape": shape,
        "out_size": out_size,
        "width": width,
        "layers": layers if isinstance(layers, str) else plan,
        "activation": saved_name(phi),
        **options,
    }
    return _named_chain(made, shape, Recipe("vgg", tuple(arguments.items())))


def _named_chain(made: Mapping[str, AnyNode | Stack], shape: tuple[int, ...], recipe: Recipe) -> Chain:
    return Chain(list(made.values()), input_shape=shape, names=list(made), recipe=recipe)


def _image_shape(given: Sequence[int]) -> tuple[int, ...]:
    shape = _whole_numbers("input_shape", given, 1)
    if len(shape) != 3:
        wrong = f"must have three entries, got {checks.literal(shape)}."
        raise checks.ArgumentError("input_shape", wrong, "Give channels, height and width, such as (3, 32, 32).")
    return shape


def _whole_numbers(name: str, given: Sequence[int], at_least: int) -> tuple[int, ...]:
    if isinstance(given, str) or not isinstance(given, Sequence):
        raise checks.wrong_type(name, "a list of whole numbers", given)
    return tuple(checks.integer(name, number, at_least) for number in given)


def _checked_blocks(given: Sequence[int], shape: tuple[int, ...]) -> tuple[int, ...]:
    blocks = _whole_numbers("blocks", given, 1)
    if not blocks:
        raise checks.ArgumentError("blocks", "is empty.", "Give a number of blocks for each stage.")
    most = min(shape[1:]).bit_length()
    if len(blocks) > most:
        wrong = (
            f"has {len(blocks)} stages, and each but the first halves the image: {shape[1]} × {shape[2]} pixels are "
            f"enough for {most}."
        )
        raise checks.ArgumentError("blocks", wrong, "Give fewer stages.")
    return blocks


def _pixels_left(plan: Sequence[tuple[int, int, bool]], sides: Sequence[int]) -> int:
    """Return how many pixels the last of these convolutions has."""
    left = sides
    for index, (_, padding, pooled) in enumerate(plan):
        left = [(side + 2 * padding - 2) // (2 if pooled else 1) for side in left]
        if min(left) < 1:
            wrong = f"leave no pixels of images of {sides[0]} × {sides[1]} after convolution {index + 1}."
            raise checks.ArgumentError("the layers", wrong, "Use fewer pools, or larger images.")
    return math.prod(left)


def _checked_layers(given: Sequence[Sequence[int]]) -> tuple[tuple[int, int, bool], ...]:
    rows = []
    for row in given:
        multiple, padding, pooled = row if isinstance(row, Sequence) and len(row) == 3 else (None, None, None)
        if not isinstance(pooled, bool):
            wrong = f"has {checks.literal(row)} for a convolution."
            cure = "Give its channels in units of {width}, its padding, and True if a pool follows."
            raise checks.ArgumentError("layers", wrong, cure)
        rows.append((checks.integer("layers", multiple, 1), checks.integer("layers", padding, 0), pooled))
    if not rows:
        raise checks.ArgumentError("layers", "is empty.", "Give at least one convolution.")
    return tuple(rows)
