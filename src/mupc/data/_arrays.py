"""Read what users pass as arrays: numpy and JAX arrays, lists, data frames and series."""

from __future__ import annotations

import numpy as np

from ._errors import DataError


def as_array(what: str, values: object) -> np.ndarray:
    """Return an array with one row per sample, of any type. `what` names it in messages."""
    if hasattr(values, "toarray"):
        raise DataError(f"{what} is sparse", "pass its toarray()")
    if isinstance(values, np.ma.MaskedArray) and np.ma.is_masked(values):
        raise DataError(f"{what} has masked values", "fill them in, or drop those samples")
    try:
        array = np.asarray(values)
    except ValueError:
        raise DataError(f"{what} has rows of different lengths", "pass rows of equal lengths") from None
    if not array.ndim or 0 in array.shape[1:]:
        raise DataError(f"{what} has shape {array.shape}", "pass one row per sample, each with at least one value")
    return array


def as_samples(what: str, x: object) -> np.ndarray:
    """Return samples as they are stored, of shape `(n, features)`: uint8, or finite float32."""
    array = as_array(what, x)
    flat = array.reshape(len(array), -1) if array.size else array.reshape(0, int(np.prod(array.shape[1:])))
    return flat if flat.dtype == np.uint8 else finite(what, flat)


def finite(what: str, values: np.ndarray) -> np.ndarray:
    """Return finite float32 values, or say which are not."""
    if values.dtype.kind not in "buifO":
        raise DataError(f"{what} holds {_kind_name(values)}", "pass numbers")
    with np.errstate(over="ignore"):
        try:
            values = values.astype(np.float32)
        except (TypeError, ValueError, OverflowError):
            raise DataError(f"{what} holds values that are not numbers", "pass numbers") from None
    bad = np.argwhere(~np.isfinite(values))
    if len(bad):
        first = tuple(int(i) for i in bad[0])
        found = f"{what} has {len(bad)} values that are not finite in float32, first {values[first]} at {first}"
        raise DataError(found, "remove or fill in those samples")
    return values


def refuse_coarse(what: str, values: np.ndarray) -> None:
    """Refuse columns whose values differ by less than float32 resolves, such as times in seconds since 1970."""
    if not len(values) or values.dtype.kind not in "uif" or values.dtype == np.float32:
        return
    values = values[:: max(1, len(values) // 10_000)]  # enough to tell
    error = np.abs(values - values.astype(np.float32)).max(axis=0)
    coarse = np.flatnonzero((error > 0.1 * values.std(axis=0)) & (values.min(axis=0) < values.max(axis=0)))
    if len(coarse):
        column = values[:, coarse[0]]
        where = f" in column {coarse[0]}" if values.shape[1] > 1 else ""
        raise DataError(
            f"{what} has values from {column.min()} to {column.max()}{where}, too close together for float32",
            "subtract the smallest of them",
        )


def _kind_name(values: np.ndarray) -> str:
    return "text" if values.dtype.kind in "SUT" else str(values.dtype)
