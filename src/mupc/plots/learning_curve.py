"""Training loss and test accuracy over epochs."""

from collections.abc import Mapping, Sequence

from . import style
from .style import PathLike, Record

EMPTY = "diverged before the first evaluation"


def draw_learning_curve(records_by_name: Mapping[str, Sequence[Record]], path: PathLike) -> None:
    """Draw the learning curves of one or several runs, from the records that `mupc.fit` takes, into a PNG file.

    Runs without accuracies (regression) get their test loss in the second panel instead. A run that diverged ends in
    a cross; if all did before there was anything to draw, the panel says so.

    **Example:**

    ```python
    from mupc.plots import draw_learning_curve

    draw_learning_curve({"μPC": result.history}, "learning-curve.png")
    ```
    """
    every = [record for records in records_by_name.values() for record in records]
    classifies = any("test_accuracy" in record for record in every)
    second, scale = ("test_accuracy", 100.0) if classifies else ("test_loss", 1.0)
    end = max((record["epoch"] for record in every), default=0) or 1
    with style.saved_panels(path, 1, 2, size=(8.0, 3.4)) as (_, ((left, right),)):
        for colour, (name, records) in zip(style.cycle(len(records_by_name)), records_by_name.items(), strict=True):
            finite = style.select(records, diverged=False)
            diverged = len(finite) < len(records)
            label = f"{name} (diverged)" if diverged else name
            for panel, key, factor in ((left, "train_loss", 1.0), (right, second, scale)):
                points = {record["epoch"]: factor * record[key] for record in finite if record.get(key) is not None}
                look = {"color": colour, "clip_on": False}
                style.plot_points(panel, points, marker="o", label=label, in_layout=False, **look)
                if diverged and points:
                    panel.plot(*list(points.items())[-1], marker="X", markersize=10, **look)
        left.set(ylabel="training loss per sample", title="Training loss")
        style.log_ticks(left)
        if classifies:
            right.set(ylabel="test accuracy (%)", title="Test accuracy", ylim=(0, 102))
        else:
            right.set(ylabel="test loss per sample", title="Test loss")
        right.legend(loc="best")
        for panel in (left, right):
            panel.set(xlabel="epoch", xlim=(0, 1.05 * end))
            if any(record["diverged"] for record in every) and not any(len(line.get_xdata()) for line in panel.lines):
                panel.set_yticks([])
                panel.text(0.5, 0.5, EMPTY, transform=panel.transAxes, ha="center", va="center")
