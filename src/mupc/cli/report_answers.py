"""What a network predicts, as blocks of a page: a confusion matrix, residuals, and the worst mistakes."""

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from ..io.progress import percent
from ..report import (
    Alert,
    Block,
    Chart,
    ChartGrid,
    Gallery,
    GalleryItem,
    Heading,
    Matrix,
    PageSection,
    PlainTable,
    Prose,
    Series,
    ShadedText,
    pixels_as_png,
    png_uri,
)
from .report_measures import Predictions, RunMeasures
from .report_runs import RecordedRun
from .report_sections import SCORES, alerts
from .report_words import written_number

MOST_CLASSES = 26
"""The largest confusion matrix; of more classes the commonest mistakes are listed."""
MOST_IMAGES, MOST_ROWS, MOST_COLUMNS, MOST_OUTPUTS = 24, 12, 8, 4
MOST_POINTS, BINS = 1000, 30
TEXT_LENGTH = 600
WHITE = 255


def prediction_section(runs: Sequence[RecordedRun], measures: Sequence[RunMeasures]) -> PageSection:
    """Return the section on predictions, run by run."""
    blocks: list[Block] = list(alerts(runs, [found.about_predictions for found in measures]))
    for run, found in zip(runs, measures, strict=True):
        if found.predictions is not None:
            blocks += [Heading(run.name)] if len(runs) > 1 else []
            blocks += describe_predictions(found.predictions)
    return PageSection("Predictions", tuple(blocks))


def describe_predictions(found: Predictions) -> Iterator[Block]:
    """Yield how good predictions are, where they are wrong, and the worst of them."""
    scores = found.model.scores(found.outputs, _targets(found))
    first, *others = (f"{SCORES[name][0]} {SCORES[name][2](scores[name])}" for name in SCORES if name in scores)
    told = [first, *(words[0].lower() + words[1:] if words[1].islower() else words for words in others)]
    part = "" if len(found.samples) == found.available else f" (the first of {found.available:,})"
    yield Prose((f"{', '.join(told)} on {len(found.samples):,} samples of the {found.split} split{part}.",))
    yield from {"classification": _classes, "regression": _values, "text": _text}[found.model.schema.task](found)


def _targets(found: Predictions) -> np.ndarray:
    """Return targets as a user would give them."""
    schema, targets = found.model.schema, found.samples.targets
    return targets if schema.labels is None or schema.context is not None else np.array(schema.labels)[targets]


def class_names(found: Predictions) -> list[str]:
    """Return the names of all classes; those of characters are quoted where they would not show."""
    schema = found.model.schema
    names = [str(name) for name in schema.class_names or schema.labels or ()]
    return [repr(name)[1:-1] if name.isprintable() and name.strip() else repr(name) for name in names]


def _classes(found: Predictions) -> Iterator[Block]:
    predicted, true = found.predicted, found.samples.targets
    yield from _confusion(found, true, predicted)
    wrong = np.flatnonzero(predicted != true)
    if not len(wrong):
        yield Alert((f"No prediction is wrong: there is nothing to show of the {found.split} split.",))
        return
    rows = np.arange(len(true))
    margins = found.outputs[rows, predicted] - found.outputs[rows, true]
    worst = wrong[np.argsort(-margins[wrong], kind="stable")]
    yield _images(found, worst) if found.model.schema.image_shape else _rows(found, worst)


def _confusion(found: Predictions, true: np.ndarray, predicted: np.ndarray) -> Iterator[Block]:
    names = class_names(found)
    counts = np.zeros((len(names), len(names)), np.int64)
    np.add.at(counts, (true.ravel(), predicted.ravel()), 1)
    if len(names) <= MOST_CLASSES:
        yield Matrix(f"Confusion matrix, {found.split} split: samples by class.", tuple(names), _as_rows(counts))
        return
    mistakes = counts * (1 - np.eye(len(names), dtype=np.int64))
    order = np.argsort(-mistakes, axis=None, kind="stable")[:MOST_ROWS]
    pairs = [(int(place) // len(names), int(place) % len(names)) for place in order if mistakes.flat[place]]
    rows = tuple(
        (names[i], names[j], f"{counts[i, j]:,}", percent(float(counts[i, j] / counts[i].sum()))) for i, j in pairs
    )
    yield PlainTable("The commonest mistakes.", ("true", "predicted", "how often", "of this class"), rows, 2)


def _as_rows(counts: np.ndarray) -> tuple[tuple[int, ...], ...]:
    return tuple(tuple(row) for row in counts.tolist())


def _images(found: Predictions, worst: np.ndarray) -> Gallery:
    """Return the images that are predicted wrongly with the largest margin."""
    names, true, predicted = class_names(found), found.samples.targets, found.predicted
    items = []
    for sample in worst[:MOST_IMAGES].tolist():
        right, answer = names[true[sample]], names[predicted[sample]]
        picture = png_uri(pixels_as_png(_pixels(found, sample)))
        alt = f"Sample {sample}: {right}, predicted as {answer}"
        items.append(GalleryItem(picture, alt, f"{right} → {answer}", f"sample {sample}"))
    which = "All" if len(worst) <= MOST_IMAGES else f"The {len(items)} worst of"
    caption = f"{which} {len(worst):,} wrong predictions (true → predicted), the most confident mistake first"
    return Gallery(caption, tuple(items))


def _pixels(found: Predictions, sample: int) -> np.ndarray:
    """Return an image as uint8 pixels, channels last."""
    schema = found.model.schema
    raw, scale = found.samples.raw[sample].astype(np.float64), schema.normalisation.scale
    if isinstance(scale, float) and 0 < scale < 1:
        unit = raw * scale
    else:
        low, high = float(found.samples.raw.min()), float(found.samples.raw.max())
        unit = (raw - low) / ((high - low) or 1.0)
    channels, height, width = schema.sample_shape or (1, 1, len(raw))
    image = np.clip(WHITE * unit, 0, WHITE).astype(np.uint8).reshape(channels, height, width)
    return image.transpose(1, 2, 0) if channels == 3 else image[0]


def _rows(found: Predictions, worst: np.ndarray) -> PlainTable:
    """Return the samples of a table that are predicted wrongly with the largest margin."""
    names, true, predicted = class_names(found), found.samples.targets, found.predicted
    titles, inputs = _inputs(found)
    shown = worst[:MOST_ROWS].tolist()
    rows = tuple((str(i), names[true[i]], names[predicted[i]], *inputs(i)) for i in shown)
    caption = f"{len(rows)} of {len(worst):,} wrong predictions, the most confident mistake first."
    return PlainTable(caption, ("sample", "true", "predicted", *titles), rows)


def _inputs(found: Predictions) -> tuple[list[str], Callable[[int], list[str]]]:
    """Return the titles of the first inputs, and a function that returns those of a sample as text."""
    columns = found.model.schema.columns
    raw = found.samples.raw
    if columns is None:
        count = min(raw.shape[1], MOST_COLUMNS)
        return [f"x{i}" for i in range(count)], lambda sample: [*map(written_number, raw[sample, :count].tolist())]
    ends = np.cumsum([column.width for column in columns])
    kept = columns[:MOST_COLUMNS]

    def cells(sample: int) -> list[str]:
        parts = [raw[sample, end - column.width : end] for column, end in zip(kept, ends[: len(kept)], strict=True)]
        return [
            written_number(float(part[0])) if column.categories is None else column.categories[int(part.argmax())]
            for column, part in zip(kept, parts, strict=True)
        ]

    return [column.name for column in kept], cells


def _values(found: Predictions) -> Iterator[Block]:
    true, predicted = found.samples.targets.astype(np.float64), found.predicted
    names = [str(name) for name in found.model.schema.targets] or [f"output {i}" for i in range(true.shape[1])]
    names = names[:MOST_OUTPUTS] if true.shape[1] > 1 else (names or ["target"])[:1]
    some = slice(0, MOST_POINTS)
    points = tuple(
        Series(name, true[some, i].tolist(), predicted[some, i].tolist(), colour=i) for i, name in enumerate(names)
    )
    low, high = float(true.min()), float(true.max())
    exact = Series("exact", [low, high], [low, high], colour=6, dash=1)
    charts = [Chart("Predicted and true values", "true value", "predicted value", (*points, exact), kind="points")]
    errors = predicted - true
    for i, name in enumerate(names):
        heights, edges = np.histogram(errors[:, i], bins=min(BINS, max(5, len(errors) // 5)))
        middles = (edges[:-1] + edges[1:]) / 2
        bars = Series(name, middles.tolist(), heights.tolist(), colour=i)
        charts.append(Chart(f"Residuals of {name}", "predicted − true", "samples", (bars,), kind="bars"))
    yield ChartGrid(tuple(charts))
    titles, inputs = _inputs(found)
    worst = np.argsort(-np.abs(errors).max(axis=1), kind="stable")[:MOST_ROWS].tolist()

    def numbers(row: np.ndarray) -> str:
        return ", ".join(map(written_number, row[:MOST_OUTPUTS].tolist()))

    rows = tuple((str(i), numbers(true[i]), numbers(predicted[i]), numbers(errors[i]), *inputs(i)) for i in worst)
    yield PlainTable("The largest errors.", ("sample", "true", "predicted", "error", *titles), rows, 1)


def _text(found: Predictions) -> Iterator[Block]:
    yield from _confusion(found, found.samples.targets, found.predicted)
    schema, context = found.model.schema, found.samples.targets.shape[1]
    windows = -(-TEXT_LENGTH // context)
    true, outputs = found.samples.targets[:windows], found.outputs[:windows].astype(np.float64)
    powers = np.exp(outputs - outputs.max(axis=-1, keepdims=True))
    shares = np.take_along_axis(powers / powers.sum(axis=-1, keepdims=True), true[..., None], axis=-1).ravel()
    text = schema.text(true.ravel())
    surprises = np.minimum(1, -np.log(np.maximum(shares, np.finfo(float).tiny)) / np.log(outputs.shape[-1]))
    caption = "The beginning of the text: the stronger its colour, the more a character surprised the network"
    characters = zip(text[:TEXT_LENGTH], surprises[:TEXT_LENGTH].tolist(), strict=True)
    yield ShadedText(caption, tuple(characters))
