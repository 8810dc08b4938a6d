"""Augmentation of images on the device: a random crop, a horizontal flip of colour images and a small rotation, as the
paper's code does for CIFAR-10, and cutout."""

import functools

import jax
import jax.numpy as jnp
import jax.random as jr
from jax.scipy.ndimage import map_coordinates
from jaxtyping import Array, Bool, Float, Num

from ..network import PRNGKeyArray

PADDING = 4
DEGREES = 10.0


def augment(
    key: PRNGKeyArray,
    rows: Num[Array, "batch features"],
    shape: tuple[int, ...],
    degrees: float = DEGREES,
    cutout: int = 0,
) -> Float[Array, "batch _"]:
    """Move each image by up to 4 pixels (black comes in), flip it with probability ½ and turn it by up to `degrees`.
    Then give a square of `cutout` pixels a side, centred anywhere, the mean colour of the image. Grey images are not
    flipped: many show digits or letters.

    `rows` are flattened images of the given shape, (height, width) or (channels, height, width), not yet normalised.
    """
    channels = shape if len(shape) == 3 else (1, *shape)
    keys = jr.split(key, len(rows))
    images = rows.astype(jnp.float32).reshape(len(rows), *channels)
    return jax.vmap(functools.partial(_augment_one, degrees, cutout))(keys, images).reshape(rows.shape)


def _augment_one(
    degrees: float, cutout: int, key: PRNGKeyArray, image: Float[Array, "channels height width"]
) -> Float[Array, "_ _ _"]:
    image = _moved(degrees, key, image)
    # a key apart from the three of the move, so that images move as they do without cutout
    return _without_square(cutout, jr.fold_in(key, 3), image) if cutout else image


def _moved(degrees: float, key: PRNGKeyArray, image: Float[Array, "channels height width"]) -> Float[Array, "_ _ _"]:
    move, flip, turn = jr.split(key, 3)
    channels, height, width = image.shape
    padded = jnp.pad(image, ((0, 0), (PADDING, PADDING), (PADDING, PADDING)))
    top, left = jr.randint(move, (2,), 0, 2 * PADDING + 1)
    image = jax.lax.dynamic_slice(padded, (0, top, left), image.shape)
    image = jnp.where((channels > 1) & jr.bernoulli(flip), image[:, :, ::-1], image)
    if not degrees:
        return image
    angle = jr.uniform(turn, minval=-degrees, maxval=degrees) * jnp.pi / 180
    y, x = jnp.meshgrid(jnp.arange(height) - (height - 1) / 2, jnp.arange(width) - (width - 1) / 2, indexing="ij")
    rows = jnp.cos(angle) * y - jnp.sin(angle) * x + (height - 1) / 2
    columns = jnp.sin(angle) * y + jnp.cos(angle) * x + (width - 1) / 2
    # nearest pixel, black outside, as torchvision's RandomRotation does by default
    return jax.vmap(lambda plane: map_coordinates(plane, [rows, columns], order=0, mode="constant"))(image)


def _without_square(side: int, key: PRNGKeyArray, image: Float[Array, "_ _ _"]) -> Float[Array, "_ _ _"]:
    """Hide a square, a part of which may be outside the image."""

    def covered(key: PRNGKeyArray, pixels: int) -> Bool[Array, " pixels"]:
        place = jnp.arange(pixels) - jr.randint(key, (), 0, pixels) + side // 2
        return (place >= 0) & (place < side)

    rows, columns = map(covered, jr.split(key), image.shape[1:])
    return jnp.where(jnp.outer(rows, columns), jnp.mean(image, axis=(1, 2), keepdims=True), image)
