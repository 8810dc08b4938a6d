"""Training loss and test accuracy over epochs."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from . import style

Record = Mapping[str, Any]
EMPTY = "diverged before the first evaluation"


def draw_learning_curve(records_by_name: Mapping[str, Sequence[Record]], path: str | Path) -> None:
    """Draws the learning curves of one or several runs, from the records that `mupc.fit` takes, into a PNG file.

    Runs without accuracies (regression) get their test loss in the second panel instead. A run that diverged ends in
    a cross; if all did before there was anything to draw, the panel says so.

    **Example:**

    ```python
    from mupc.plots.learning_curve import draw_learning_curve

    draw_learning_curve({"μPC": result.history}, "learning-curve.png")
    ```
    """
    every = [record for records in records_by_name.values() for record in records]
    classifies = any("test_accuracy" in record for record in every)
    end = max((record["epoch"] for record in every), default=0) or 1
    with style.figure(columns=2) as (figure, (left, right)):
        for colour, (name, records) in zip(style.cycle(len(records_by_name)), records_by_name.items(), strict=True):
            good = [record for record in records if not record["diverged"]]
            diverged = len(good) < len(records)
            label = f"{name} (diverged)" if diverged else name
            for axes, key, scale in ((left, "train_loss", 1), (right, *_second(classifies))):
                points = [(record["epoch"], scale * record[key]) for record in good if record.get(key) is not None]
                x, y = zip(*points, strict=True) if points else ((), ())
                axes.plot(x, y, color=colour, marker="o", label=label, clip_on=False, in_layout=False)
                if diverged and points:
                    axes.plot(x[-1], y[-1], color=colour, marker="X", markersize=10, clip_on=False)
        left.set(xlabel="epoch", ylabel="training loss per sample", title="Training loss")
        style.log_ticks(left)
        right.set(xlabel="epoch")
        if classifies:
            right.set(ylabel="test accuracy (%)", title="Test accuracy", ylim=(0, 102))
        else:
            right.set(ylabel="test loss per sample", title="Test loss")
        right.legend(loc="best")
        for axes in (left, right):
            axes.set_xlim(0, 1.05 * end)
            if any(record["diverged"] for record in every) and not any(len(line.get_xdata()) for line in axes.lines):
                axes.set_yticks([])
                axes.text(0.5, 0.5, EMPTY, transform=axes.transAxes, ha="center", va="center")
        style.save(figure, path)


def _second(classifies: bool) -> tuple[str, float]:
    return ("test_accuracy", 100.0) if classifies else ("test_loss", 1.0)
