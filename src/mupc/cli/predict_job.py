"""Predict new samples: from a trained network and a file or folder to a table."""

import csv
import io
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np
from rich.table import Table

from ..data import Normalisation, Schema, encode_targets, find_images, read_samples
from ..inference import Energy
from ..io import checks, json_text, write_whole
from ..network import Network, forward
from .display import percent
from .predict import PredictFlags
from .run_folder import new_file
from .runner import Session
from .trained_model import Notes, open_model

SHOWN = 10
WHITE = 255
Columns = dict[str, np.ndarray]
Summary = dict[str, Any]


class Samples(NamedTuple):
    """New samples: their names, how to read some of them, and their targets if known."""

    names: list[str]
    read: Callable[[int, int], np.ndarray]
    targets: np.ndarray | None


def predict(flags: PredictFlags, session: Session) -> Summary:
    """Predict every sample, show the first ones, write all to `--out`, and return a summary."""
    checks.integer("batch_size", flags.batch_size, 1)
    target = None if flags.out is None else new_file(flags.out, _WRITERS, flags.force, "--out ")
    network, notes = open_model(flags.model)
    samples = _open(flags.data, network, notes, flags.resize)
    classifies = notes.classes is not None or (notes.data is None and network.out_size > 1)
    given = samples.targets
    targets = None if given is None else encode_targets(given, network.out_size, classifies)
    outputs, low, high = _outputs(network, notes, samples, flags.batch_size)
    columns = _columns(outputs, samples, notes, classifies)
    scores = {} if targets is None else _scores(outputs, targets, columns, notes.loss)
    if target is not None:
        target.parent.mkdir(parents=True, exist_ok=True)
        write_whole(target, _WRITERS[target.suffix](columns))
    summary = {
        "model": flags.model,
        "data": flags.data,
        "samples": len(outputs),
        "accuracy": scores.get("accuracy"),
        "loss": scores.get("loss"),
        "loss_kind": notes.loss,
        "first": _rows(columns, SHOWN),
        "warnings": _warnings(flags, notes, outputs, low, high),
        "out": None if target is None else str(target),
    }
    _show(summary, columns, session)
    return summary


def _open(name: str, network: Network, notes: Notes, resize: bool) -> Samples:
    path = Path(name).expanduser()
    if path.is_dir():
        return _open_images(path, notes, resize)
    if path.suffix.lower() != ".npz":
        raise ValueError(f"{name} is neither a .npz file nor a folder of images: save samples as x with numpy.savez.")
    raw, targets = read_samples(name, Schema())
    if targets is not None and targets.ndim == 1 and targets.dtype.kind == "f":
        targets = targets[:, None]
    if raw.shape[1] != network.in_size:
        shape = "" if notes.image_shape is None else f" ({' × '.join(map(str, notes.image_shape))})"
        wrong = f"{name} has samples of {raw.shape[1]} numbers, and the network takes {network.in_size}{shape}"
        raise ValueError(f"{wrong}: save x with shape (n, {network.in_size}).")
    return Samples([str(number) for number in range(len(raw))], lambda start, stop: raw[start:stop], targets)


def _open_images(folder: Path, notes: Notes, resize: bool) -> Samples:
    shape, scale = notes.image_shape, getattr(notes.normalisation, "scale", 1.0)
    if shape is None:
        raise ValueError("the model does not say what images it takes: export its run again, or give a .npz file.")
    if isinstance(scale, np.ndarray) or not 0 < scale < 1:
        raise ValueError("the model was trained on numbers other than pixels: give its samples as x in a .npz file.")
    images, unit = find_images(folder), 1 / (scale * WHITE)  # digits count to 16, others to 255

    def read(start: int, stop: int) -> np.ndarray:
        pixels = images.read(start, stop, shape, resize)
        return pixels if unit == 1 else pixels * np.float32(unit)

    return Samples(list(images.names), read, images.labels)


def _outputs(network: Network, notes: Notes, samples: Samples, batch: int) -> tuple[np.ndarray, float, float]:
    """Return the outputs for every sample, and the range of the stored values."""
    normalise = notes.normalisation or Normalisation()
    found, low, high = [], math.inf, -math.inf
    with jax.enable_x64(network.readout.weight.dtype == np.float64):
        for start in range(0, len(samples.names), batch):
            raw = samples.read(start, start + batch)
            low, high = min(low, float(raw.min())), max(high, float(raw.max()))
            found.append(np.asarray(forward(network, normalise(raw))[1]))
    return np.concatenate(found), low, high


def _columns(outputs: np.ndarray, samples: Samples, notes: Notes, classifies: bool) -> Columns:
    """Return the columns of the table. Outputs are the network's own numbers; only cross-entropy turns them into
    probabilities."""
    columns: Columns = {"sample": np.array(samples.names)}
    if classifies:
        columns["class"] = outputs.argmax(axis=1).astype(np.int32)
        if notes.class_names and notes.class_names != tuple(map(str, range(len(notes.class_names)))):
            columns["class_name"] = np.array(notes.class_names)[columns["class"]]
    if samples.targets is not None:
        columns["label" if classifies else "target"] = samples.targets
    if classifies and notes.loss == "cross-entropy":
        with np.errstate(invalid="ignore"):
            powers = np.exp(outputs - outputs.max(axis=1, keepdims=True))
            columns["probability"] = (powers / powers.sum(axis=1, keepdims=True)).max(axis=1)
    columns["outputs"] = outputs
    return columns


def _scores(outputs: np.ndarray, targets: np.ndarray, columns: Columns, loss: str) -> dict[str, float]:
    with jax.enable_x64(outputs.dtype == np.float64):
        each = np.asarray(Energy(loss=loss).output_loss(jax.numpy.asarray(outputs), jax.numpy.asarray(targets)))
    scores = {"loss": float(each.mean(dtype=np.float64))}
    return scores | {"accuracy": float(np.mean(columns["class"] == columns["label"]))} if "class" in columns else scores


def _warnings(flags: PredictFlags, notes: Notes, outputs: np.ndarray, low: float, high: float) -> list[str]:
    """Return warnings about things that may be wrong but are not errors."""
    found = []
    if notes.normalisation is None:
        found.append(f"{flags.model} does not say how its inputs were normalised: they were taken as they are")
    scale = getattr(notes.normalisation, "scale", 1.0)
    if isinstance(scale, float) and 0 < scale < 1 and (low < 0 or high > 1.5 / scale or high * scale < 0.1):
        ranges = f"from {low:g} to {high:g}, those of the training data from 0 to {1 / scale:g}"
        found.append(f"stored values run {ranges}: give samples on the same scale, not normalised")
    broken = int((~np.isfinite(outputs)).any(axis=1).sum())
    if broken:
        found.append(f"{broken} samples have outputs that are not finite: their classes mean nothing")
    return found


def _rows(columns: Columns, most: int | None = None) -> list[dict[str, Any]]:
    rows = zip(*(column[:most] for column in columns.values()), strict=True)
    return [dict(zip(columns, row, strict=True)) for row in rows]


def _as_npz(columns: Columns) -> bytes:
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **columns)  # type: ignore[arg-type]
    return buffer.getvalue()


def _as_csv(columns: Columns) -> bytes:
    wide: Columns = {}
    for name, column in columns.items():
        one = name.removesuffix("s")
        wide |= {name: column} if column.ndim == 1 else {f"{one}_{i}": part for i, part in enumerate(column.T)}
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow(wide)
    writer.writerows(zip(*(column.tolist() for column in wide.values()), strict=True))
    return text.getvalue().encode()


def _as_json(columns: Columns) -> bytes:
    return (json_text(_rows(columns)) + "\n").encode()


_WRITERS = {".npz": _as_npz, ".csv": _as_csv, ".json": _as_json}


def _show(summary: Summary, columns: Columns, session: Session) -> None:
    table = Table(box=None, header_style="bold", pad_edge=False, padding=(0, 1))
    classifies = "class" in columns
    for name in columns:
        title = "output of its class" if classifies and name == "outputs" else name.replace("_", " ")
        table.add_column(title, justify="left" if name in ("sample", "class_name") else "right")
    for row in summary["first"]:
        shown = row | {"outputs": row["outputs"][row["class"]]} if classifies else row
        table.add_row(*map(_text, shown.values()))
    session.console.print(table)
    left = summary["samples"] - len(summary["first"])
    if left:
        session.say(f"… and {left:,} more" + ("" if summary["out"] else "; --out FILE writes them all"))
    if summary["loss"] is not None:
        accuracy = "" if summary["accuracy"] is None else f"accuracy {percent(summary['accuracy'])}, "
        session.say(f"{accuracy}{summary['loss_kind']} loss {summary['loss']:.4f} on {summary['samples']:,} samples")
    session.warn(summary["warnings"])
    if summary["out"]:
        session.say(f"predictions {summary['out']}")


def _text(value: Any) -> str:
    """Return the text of a cell, with the brackets escaped that rich would take for markup."""
    if isinstance(value, np.ndarray):
        return " ".join(_text(part) for part in value[:4])
    return f"{value:.4g}" if isinstance(value, np.floating) else str(value).replace("[", r"\[")
