"""Predict new samples: from a trained model and a file or folder to a table."""

import csv
import io
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from rich.table import Table

from ..data import DataError, find_images, read_samples
from ..io import checks, json_text, write_whole
from ..io.progress import percent
from ..prediction import Model, load
from ..training import SCORES
from .display import describe_loss
from .predict import PredictFlags
from .run_folder import new_file
from .runner import Session

SHOWN = 10
WHITE = 255
Columns = dict[str, np.ndarray]
Summary = dict[str, Any]


class Samples(NamedTuple):
    """New samples: their names, how to read some of them, and their targets if known."""

    names: list[str]
    read: Callable[[int, int], np.ndarray]
    targets: np.ndarray | None


def continue_text(flags: PredictFlags, text: str, session: Session) -> Summary:
    """Show a text and how the model continues it."""
    model = load(flags.model)
    added = model.generate(text, flags.characters, flags.temperature, flags.seed)
    session.say(text + added)
    return {"model": flags.model, "text": text, "continuation": added}


def predict(flags: PredictFlags, data: str, session: Session) -> Summary:
    """Predict every sample, show the first ones, write all to `--out`, and return a summary."""
    checks.integer("batch_size", flags.batch_size, 1)
    target = None if flags.out is None else new_file(flags.out, _WRITERS, flags.force, "--out ")
    model = load(flags.model)
    samples = _open(data, model, flags.resize)
    try:
        outputs, low, high = _outputs(model, samples, flags.batch_size)
        scores = {} if samples.targets is None else model.scores(outputs, samples.targets)
    except DataError as error:
        named = error.problem if data in error.problem else f"{data}: {error.problem}"
        raise DataError(named, error.cure) from None
    columns = _columns(outputs, samples, model)
    if target is not None:
        target.parent.mkdir(parents=True, exist_ok=True)
        write_whole(target, _WRITERS[target.suffix](columns, output_names(model)))
    summary = {
        "model": flags.model,
        "data": data,
        "samples": len(outputs),
        **{name: scores.get(name) for name in SCORES},
        "loss_kind": model.loss,
        "first": _rows(columns, SHOWN),
        "warnings": _warnings(flags, model, outputs, low, high),
        "out": None if target is None else str(target),
    }
    _show(summary, columns, session)
    return summary


def _open(name: str, model: Model, resize: bool) -> Samples:
    path = Path(name).expanduser()
    if path.is_dir():
        return _open_images(path, model, resize)
    x, targets = read_samples(name, model.schema)
    return Samples([str(number) for number in range(len(x))], lambda start, stop: x[start:stop], targets)


def _open_images(folder: Path, model: Model, resize: bool) -> Samples:
    shape, scale = model.schema.image_shape, model.schema.normalisation.scale
    if shape is None:
        raise ValueError("the model does not say what images it takes: export its run again, or give a .npz file.")
    if isinstance(scale, np.ndarray) or not 0 < scale < 1:
        raise ValueError("the model was trained on numbers other than pixels: give its samples as x in a .npz file.")
    images, unit = find_images(folder, model.schema), 1 / (scale * WHITE)  # digits count to 16, others to 255

    def read(start: int, stop: int) -> np.ndarray:
        pixels = images.read(start, stop, shape, resize)
        return pixels if unit == 1 else pixels * np.float32(unit)

    return Samples(list(images.names), read, images.labels)


def _outputs(model: Model, samples: Samples, batch: int) -> tuple[np.ndarray, float, float]:
    """Return the outputs for every sample, and the range of the stored values."""
    found, low, high = [], math.inf, -math.inf
    for start in range(0, len(samples.names), batch):
        raw = model.schema.read(samples.read(start, start + batch))
        low, high = min(low, float(raw.min())), max(high, float(raw.max()))
        found.append(model.outputs(raw))
    return np.concatenate(found), low, high


def _columns(outputs: np.ndarray, samples: Samples, model: Model) -> Columns:
    """Return the columns of the table. Outputs of a classifier are the network's own numbers; only cross-entropy turns
    them into probabilities. Those of a regression are in the units of its targets."""
    schema, given = model.schema, samples.targets
    columns: Columns = {"sample": np.array(samples.names)}
    if schema.task == "text":
        columns["predicted"] = np.array(["".join(row) for row in schema.decode(outputs)])
        return columns | ({} if given is None else {"text": np.array([schema.text(row) for row in given])})
    if schema.labels is None:
        return columns | ({} if given is None else {"target": given}) | {"outputs": schema.decode(outputs)}
    columns["class"] = schema.decode(outputs)
    if schema.class_names and schema.class_names != tuple(map(str, schema.labels)):
        columns["class_name"] = np.array(schema.class_names)[outputs.argmax(axis=1)]
    if given is not None:
        columns["label"] = np.array(schema.labels)[schema.indices(given)]
    if model.has_probabilities:
        every = model.probabilities(outputs)
        columns |= {"probability": every.max(axis=1), "probabilities": every}
    return columns | {"outputs": outputs}


def output_names(model: Model) -> list[str]:
    """Return a name for every output: that of its class, or of the target column, or its number."""
    schema = model.schema
    return [
        str(name) for name in schema.class_names or schema.labels or schema.targets or range(model.network.out_size)
    ]


def _warnings(flags: PredictFlags, model: Model, outputs: np.ndarray, low: float, high: float) -> list[str]:
    """Return warnings about things that may be wrong but are not errors."""
    found = []
    if not model.describes_samples:
        found.append(f"{flags.model} does not say how its inputs were normalised: they were taken as they are")
    scale = model.schema.normalisation.scale
    if isinstance(scale, float) and 0 < scale < 1 and (low < 0 or high > 1.5 / scale or high * scale < 0.1):
        ranges = f"from {low:g} to {high:g}, those of the training data from 0 to {1 / scale:g}"
        found.append(f"stored values run {ranges}: give samples on the same scale, not normalised")
    broken = int((~np.isfinite(outputs)).reshape(len(outputs), -1).any(axis=1).sum())
    if broken:
        found.append(f"{broken} samples have outputs that are not finite: their predictions mean nothing")
    return found


def _rows(columns: Columns, most: int | None = None) -> list[dict[str, Any]]:
    rows = zip(*(column[:most] for column in columns.values()), strict=True)
    return [dict(zip(columns, row, strict=True)) for row in rows]


def _as_npz(columns: Columns, names: list[str]) -> bytes:
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **columns)  # type: ignore[arg-type]
    return buffer.getvalue()


def _as_csv(columns: Columns, names: list[str]) -> bytes:
    wide: Columns = {}
    for title, column in columns.items():
        if title in _PER_OUTPUT:
            parts = zip(names, column.reshape(len(column), -1).T, strict=True)
            wide |= {f"{_PER_OUTPUT[title]}_{name}": part for name, part in parts}
        else:
            wide[title] = column
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow(wide)
    writer.writerows(zip(*(column.tolist() for column in wide.values()), strict=True))
    return text.getvalue().encode()


def _as_json(columns: Columns, names: list[str]) -> bytes:
    return (json_text(_rows(columns)) + "\n").encode()


_PER_OUTPUT = {"outputs": "output", "target": "target", "probabilities": "probability"}
"""Columns that become one for each output in a table, and how the names of those begin."""
_WRITERS = {".npz": _as_npz, ".csv": _as_csv, ".json": _as_json}


def _show(summary: Summary, columns: Columns, session: Session) -> None:
    table = Table(box=None, header_style="bold", pad_edge=False, padding=(0, 1))
    classifies = "class" in columns
    columns = {name: column for name, column in columns.items() if name != "probabilities"}
    for name in columns:
        title = "output of its class" if classifies and name == "outputs" else name.replace("_", " ")
        table.add_column(title, justify="left" if name in ("sample", "class_name") else "right")
    for row in summary["first"]:
        shown = row | {"outputs": row["outputs"].max()} if classifies else row
        table.add_row(*(_text(shown[name]) for name in columns))
    session.console.print(table)
    left = summary["samples"] - len(summary["first"])
    if left:
        session.say(f"… and {left:,} more" + ("" if summary["out"] else "; --out FILE writes them all"))
    if summary["loss"] is not None:
        session.say(f"{_quality(summary)} on {summary['samples']:,} samples")
    session.warn(summary["warnings"])
    if summary["out"]:
        session.say(f"predictions {summary['out']}")


def _quality(summary: Summary) -> str:
    """Return how good the predictions are, in words."""
    loss = f"{describe_loss(summary['loss_kind'])} {summary['loss']:.4f}"
    if summary["perplexity"] is not None:
        loss = f"{summary['loss']:.4f} nats or {summary['bits_per_character']:.4f} bits per character"
        return f"perplexity {summary['perplexity']:.4f}, {loss}, accuracy {percent(summary['accuracy'])}"
    if summary["accuracy"] is not None:
        return f"accuracy {percent(summary['accuracy'])}, {loss}"
    errors = f"mean absolute error {_number(summary['mae'])}, root mean square error {_number(summary['rmse'])}"
    return f"R² {summary['r2']:.4f}, {errors}, {loss}"


def _text(value: Any) -> str:
    """Return the text of a cell on one line, with the brackets escaped that rich would take for markup."""
    if isinstance(value, np.ndarray):
        return " ".join(_text(part) for part in value[:4])
    if isinstance(value, np.floating):
        return _number(float(value))
    return str(value).replace("[", r"\[").replace("\n", "↵")


def _number(value: float) -> str:
    """Return a number with four digits, and large ones whole, as 123,456."""
    return f"{value:,.0f}" if 1e4 <= abs(value) < 1e12 else f"{value:.4g}"
