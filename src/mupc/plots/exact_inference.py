"""Training at the exact equilibrium: loss, energy and accuracy over steps."""

from __future__ import annotations

from pathlib import Path

from . import style
from .training import Record, _accuracy_axis, _curve, _runs


def draw_exact_inference(record: Record, path: Path, name: str) -> None:
    """A panel for each quantity, a curve for each depth. The loss begins at the untrained network's."""
    config = record["config"]
    depths = config["depths"]
    with style.panels(1, 3, sharex=True) as (figure, axes):
        loss, energy, accuracy = axes[0]
        for depth, colour in zip(depths, style.ramp(len(depths)), strict=True):
            runs = _runs(record, depth=depth)
            if not runs:
                continue
            look = {"color": colour, "label": f"H = {depth}"}
            steps = min((run["history"]["step"] for run in runs), key=len)
            style.band(
                loss, steps, [[run["first_train_loss"], *run["history"]["train_loss"][1:]] for run in runs], **look
            )
            style.band(energy, steps[1:], [run["history"]["energy"][1:] for run in runs], **look)
            _curve(accuracy, runs, "step", **look)
        loss.set_title("training MSE of the prediction")
        loss.set_ylabel(r"$\frac{1}{2}\|y - f(x)\|^2$")
        energy.set_title("energy at the equilibrium")
        energy.set_ylabel(r"$\mathcal{F}(z^*)$")
        accuracy.set_title("test accuracy")
        _accuracy_axis(accuracy, True)
        for panel in (loss, energy):
            style.log_ticks(panel)
        for panel in axes[0]:
            panel.set_xlabel("training step")
        handles, labels = accuracy.get_legend_handles_labels()
        if handles:
            figure.legend(handles, labels, loc="outside right center")
        figure.suptitle(f"{name}, linear, N = {config['widths'][0]}, {style.written(config['data'])}", fontsize=12)
        style.label_preset(figure, record["preset"])
        style.save(figure, path)
