"""What targets are: labels of classes, or values of a regression."""

from __future__ import annotations

import numpy as np

from ..io import checks
from ._arrays import as_array, finite
from ._columns import is_missing
from ._errors import DataError
from ._normalisation import far_from_unit
from ._schema import Schema, Task, is_one_hot

_TASKS = ("auto", "classification", "regression")
_FEW = 20


def check_task(task: str) -> None:
    """Accept the name of a task, or "auto"."""
    if task not in _TASKS:
        raise checks.unknown("task", task, _TASKS)


def choose_task(what: str, y: np.ndarray, task: str) -> Task:
    """Return the task that targets are for; `what` names them in messages. This is the rule of `task="auto"`:

    - Text, truth values and one-hot rows are classes. Other rows are values of a regression.
    - Numbers with a fraction are values.
    - Whole numbers, also when stored as floats, are classes if there are few different ones: at most 20, and at most
      half as many as samples (two are always few). If there are more, they may be ages as well as classes: ask.
    - Rows of zeros and ones with several ones or none belong to several classes at once, which is an error.
    """
    check_task(task)
    if y.ndim > 2:
        raise DataError(f"{what} has shape {y.shape}", "give targets of shape (n,) or (n, outputs)")
    if y.dtype.kind == "U" and (y.ndim == 2 or task == "regression"):
        raise DataError(f"{what} holds text ({str(y.flat[0])!r} first)", "give numbers, or one label per sample")
    if task == "regression":
        return "regression"
    if y.ndim == 2:
        return _task_of_rows(what, y, task)
    if task == "classification" or y.dtype.kind in "bU":
        return "classification"
    if (y != np.round(y)).any():
        return "regression"
    values = len(np.unique(y))
    if values > max(2, min(_FEW, len(y) / 2)):
        raise DataError(
            f"{what} holds {values} different whole numbers in {len(y)} samples, which may be values or classes",
            'set {task} to "regression" or "classification"',
        )
    return "classification"


def _task_of_rows(what: str, y: np.ndarray, task: str) -> Task:
    if y.shape[1] == 1:
        return "classification" if task == "classification" else "regression"
    if is_one_hot(y):
        return "classification"
    if ((y == 0) | (y == 1)).all():
        row = int(np.argmax(y.sum(axis=1) != 1))
        raise DataError(
            f"{what} has {int(y[row].sum())} ones in row {row}, and a sample belongs to one class",
            'train one network per column, or set {task} to "regression"',
        )
    if task == "classification":
        raise DataError(f"{what} has shape {y.shape} and is not one-hot", "give one label per sample, of shape (n,)")
    return "regression"


def plain_targets(what: str, y: object) -> np.ndarray:
    """Return targets of a plain type, truth values, numbers or text, without missing ones."""
    array = as_array(what, y)
    if array.dtype.kind == "U" and isinstance(y, list | tuple):
        array = np.array(y, object)  # numbers among text would turn into text
    if array.dtype.kind in "OT":
        array = _plain_cells(what, array)
    if array.dtype.kind == "u" and array.size and array.max() >= 2**63:
        array = array.astype(object)  # no type holds these and negative ones
    if array.dtype.kind not in "buifU":
        odd = "values that are not 64-bit numbers" if array.dtype == object else array.dtype
        raise DataError(f"{what} holds {odd}", "give text, or numbers below 2**63")
    if array.dtype.kind == "U" and not (array != "").all():
        raise DataError(f"{what} has no value at sample {int(np.argmax(array == ''))}", "fill it in, or drop it")
    if array.dtype.kind == "f":
        finite(what, array)
    return array


def _plain_cells(what: str, array: np.ndarray) -> np.ndarray:
    cells = array.ravel().tolist()
    missing = next((i for i, cell in enumerate(cells) if is_missing(cell)), None)
    if missing is not None:
        sample = missing * len(array) // len(cells)
        raise DataError(f"{what} has no value at sample {sample}", "fill it in, or drop the sample")
    texts = [isinstance(cell, str) for cell in cells]
    if any(texts) and not all(texts):
        odd = cells[texts.index(not texts[0])]
        raise DataError(f"{what} mixes text and numbers ({cells[0]!r} and {odd!r})", "give one type")
    return as_array(what, cells).reshape(array.shape)


def targets_warning(schema: Schema, targets: np.ndarray) -> str | None:
    """Return what to say when values of a regression are far from unit size as the network learns them, or None.

    **Arguments:** the schema of a data set, and targets as its splits hold them.
    """
    if schema.task != "regression" or not len(targets):
        return None
    size = far_from_unit(schema.scale(targets))
    if size is None:
        return None
    return (
        f"targets are not scaled and of size {size:.3g} (root mean square), so that training may hardly begin or "
        "diverge: divide them by it, or use mupc.data.from_arrays, which standardises them"
    )
