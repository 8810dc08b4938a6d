"""Activity decay: condition numbers over width and depth, and accuracy over the strength of the decay."""

from collections.abc import Mapping

from . import style
from .conditioning import condition_heat_map
from .style import PathLike, Record

CHANCE = 10
"""Test accuracy of guessing one of ten classes, in per cent."""


def draw_activity_decay(record: Record, path: PathLike, decays: Mapping[str, float]) -> None:
    """Draw a panel of condition numbers for each activation, and one of the accuracies of the methods with `decays`."""
    activations = record["config"]["activations"]
    with style.saved_panels(path, 1, len(activations) + 1, preset=record["preset"]) as (figure, axes):
        *maps, accuracy = axes[0]
        for panel, activation in zip(maps, activations, strict=True):
            image = condition_heat_map(panel, record, "sp", activation)
            panel.set_title(rf"$\kappa$ with $\alpha = 1$, {style.written(activation)}", fontsize=11)
        figure.colorbar(image, ax=maps[-1], fraction=0.05).set_label(r"condition number $\kappa$")
        best = {
            place: [100 * max(run["history"]["test_accuracy"]) for run in style.select(record["data"], method=method)]
            for place, method in enumerate(decays)
        }
        style.plot_error_bars(accuracy, best, fmt="o-", color=style.BLUE)
        accuracy.axhline(CHANCE, color="black", lw=1, ls=":")
        accuracy.set_xticks(range(len(decays)), [f"{decay:g}" for decay in decays.values()])
        accuracy.set(title="linear, trained", xlabel=r"activity decay $\alpha$", ylabel="best test accuracy (%)")
        accuracy.set_ylim(0, 100)
