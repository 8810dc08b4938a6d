"""Map stored values to numbers of about unit size, and back."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ._errors import DataError

_UNIT = (0.1, 10.0)
DARK = 63  # no image of a data set is that dark: these are counts or truth values


@dataclass(frozen=True, eq=False)
class Normalisation:
    """The map from stored values to network inputs, `x = (raw * scale - mean) / std`, in float32.

    `scale`, `mean` and `std` are numbers, or arrays of shape `(features,)`. Only plain arithmetic is used,
    so that the same object normalises numpy arrays here and JAX arrays on the device.

    >>> Normalisation(scale=1 / 255, mean=0.5, std=0.5)(np.array([0, 255], np.uint8))
    array([-1.,  1.], dtype=float32)
    """

    scale: float | np.ndarray = 1.0
    mean: float | np.ndarray = 0.0
    std: float | np.ndarray = 1.0

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            value = np.asarray(getattr(self, field.name), np.float32)
            # A Python float promotes weakly, which keeps the result in float32; a numpy float64 would not.
            weak = float(getattr(self, field.name)) if value.ndim == 0 else value
            object.__setattr__(self, field.name, weak)

    def __repr__(self) -> str:
        shown = (
            f"{name}={value.dtype}{value.shape}" if isinstance(value, np.ndarray) else f"{name}={value!r}"
            for name, value in vars(self).items()
        )
        return f"Normalisation({', '.join(shown)})"

    def __call__(self, raw: Any) -> Any:
        return (raw.astype("float32") * self.scale - self.mean) / self.std

    def undo(self, normalised: Any) -> Any:
        """Return the stored values that become `normalised`.

        >>> Normalisation(mean=2.0, std=4.0).undo(np.array([-0.5, 0.0, 0.5]))
        array([0., 2., 4.])
        """
        return (normalised * self.std + self.mean) / self.scale

    @property
    def size(self) -> int | None:
        """The number of features, or None if any number of them fits."""
        return next((part.size for part in vars(self).values() if isinstance(part, np.ndarray)), None)


PIXELS = Normalisation(scale=1 / 255, mean=0.5, std=0.5)
"""From uint8 pixels to [-1, 1]."""


def pixel_scale(x: np.ndarray) -> Normalisation:
    """Return how uint8 inputs are normalised; refuse those that are too small for pixels."""
    if x.max() <= DARK:
        raise DataError(f"x is uint8, as pixels are, and only goes up to {x.max()}", "pass x.astype(float)")
    return PIXELS


def standardisation(values: ArrayLike) -> Normalisation:
    """Return the map of every feature to mean 0 and standard deviation 1. Constant features become 0.

    **Arguments:** samples of shape `(n, ...)`, each of which is flattened, or `(n,)` numbers.

    >>> standardisation([1.0, 3.0])
    Normalisation(scale=1.0, mean=2.0, std=1.0)
    """
    raw = np.asarray(values)
    raw = raw.reshape(len(raw), -1) if raw.ndim > 1 else raw
    # Sums of float32 values are exact in float64, so that a constant feature has a std of exactly 0.
    std = raw.std(axis=0, dtype=np.float64).astype(np.float32)
    return Normalisation(mean=raw.mean(axis=0, dtype=np.float64), std=np.where(std == 0, 1, std))


def far_from_unit(values: np.ndarray) -> float | None:
    """Return the root mean square of values if networks train badly on values of that size, else None."""
    size = float(np.sqrt(np.mean(np.square(values, dtype=np.float64))))
    return None if size == 0 or _UNIT[0] <= size <= _UNIT[1] else size
