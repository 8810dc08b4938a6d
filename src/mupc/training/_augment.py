"""Augmentation of images on the device: a random crop, a horizontal flip of colour images and, if asked for, a small
rotation, as the paper's code does for CIFAR-10."""

import functools

import jax
import jax.numpy as jnp
import jax.random as jr
from jax.scipy.ndimage import map_coordinates
from jaxtyping import Array, Float, Num

from ..network import PRNGKeyArray

PADDING = 4
DEGREES = 10.0


def augment(
    key: PRNGKeyArray, rows: Num[Array, "batch features"], shape: tuple[int, ...], degrees: float = DEGREES
) -> Float[Array, "batch _"]:
    """Move each image by up to 4 pixels (black comes in), flip it with probability ½ and turn it by up to `degrees`.
    Grey images are not flipped: many show digits or letters.

    `rows` are flattened images of the given shape, (height, width) or (channels, height, width), not yet normalised.
    """
    channels = shape if len(shape) == 3 else (1, *shape)
    keys = jr.split(key, len(rows))
    images = rows.astype(jnp.float32).reshape(len(rows), *channels)
    return jax.vmap(functools.partial(_augment_one, degrees))(keys, images).reshape(rows.shape)


def _augment_one(
    degrees: float, key: PRNGKeyArray, image: Float[Array, "channels height width"]
) -> Float[Array, "_ _ _"]:
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
