"""Loss and accuracy over epochs."""

from collections.abc import Mapping, Sequence

from . import style
from .style import Axes, Number, PathLike, Record

EMPTY = "diverged before the first evaluation"
SCORES = {
    "perplexity": ("Perplexity", "{} perplexity", 1.0),
    "accuracy": ("Accuracy", "{} accuracy (%)", 100.0),
    "rmse": ("Root mean squared error", "{} RMSE (units of the target)", 1.0),
}
"""What may stand next to the loss: its title, its label with the name of the split, and its factor."""


def draw_learning_curve(records_by_name: Mapping[str, Sequence[Record]], path: PathLike, loss: str = "") -> None:
    """Draw the learning curves of one or several runs, from the records that `mupc.fit` takes, into a file: the
    training and the test loss, and next to them the test accuracy, the error of a regression, or the perplexity of a
    text. Without a test split, those of the validation split.

    A run that diverged ends in a cross; if all did before there was anything to draw, the panel says so.

    **Arguments:** the records by the name of their run, the .png, .pdf or .svg file, and the name of the loss.

    **Example:**

    ```python
    from mupc.plots import draw_learning_curve

    draw_learning_curve({"μPC": result.history}, "learning-curve.png", loss="mse")
    ```
    """
    every = [record for records in records_by_name.values() for record in records]
    split = "test" if any("test_loss" in record or "test_accuracy" in record for record in every) else "validation"
    score = next((name for name in SCORES if any(f"{split}_{name}" in record for record in every)), None)
    end = max((record["epoch"] for record in every), default=0) or 1
    with style.saved_panels(path, 1, 1 if score is None else 2, size=(8.0, 3.7), xlabel="epoch") as (figure, (panels,)):
        left, *rest = panels
        for colour, (name, records) in zip(style.cycle(len(records_by_name)), records_by_name.items(), strict=True):
            label = f"{name} (diverged)" if any(record["diverged"] for record in records) else name
            _plot(left, records, "train_loss", color=colour, label=label)
            _plot(left, records, f"{split}_loss", color=colour, ls="--")
            for panel in rest:
                _plot(panel, records, f"{split}_{score}", SCORES[score][2] if score else 1.0, color=colour)
        for named, dashes in (("training", "-"), (split, "--")):
            left.plot([], [], dashes, color=style.GREY, label=named)
        left.set(
            title=f"Loss of a {'character' if score == 'perplexity' else 'sample'}",
            ylabel=style.LOSSES.get(loss, loss) or "loss",
        )
        style.log_ticks(left)
        for panel in rest:
            title, label, _ = SCORES[str(score)]
            panel.set(title=title, ylabel=label.format(split))
            (style.accuracy_axis if score == "accuracy" else style.log_ticks)(panel)
        for panel in panels:
            panel.set_xlim(0, 1.05 * end)
            if any(record["diverged"] for record in every) and not any(len(line.get_xdata()) for line in panel.lines):
                panel.set_yticks([])
                panel.text(0.5, 0.5, EMPTY, transform=panel.transAxes, ha="center", va="center")
        style.legend_outside(figure, left, loc="outside lower center", ncols=4)


def _plot(panel: Axes, records: Sequence[Record], key: str, factor: Number = 1.0, **look: object) -> None:
    """Plot one value over epochs, with a cross at the end if the run diverged."""
    finite = style.select(records, diverged=False)
    points = {record["epoch"]: factor * record[key] for record in finite if record.get(key) is not None}
    style.plot_points(panel, points, marker="o", in_layout=False, clip_on=False, **look)
    if points and len(finite) < len(records):
        panel.plot(*list(points.items())[-1], marker="X", markersize=10, clip_on=False, color=look["color"])
