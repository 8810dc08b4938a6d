"""Training at the exact equilibrium: loss, energy and accuracy over steps."""

from . import style
from .style import PathLike, Record
from .training import accuracy_axis, plot_accuracy, shortest_steps, trained_runs


def draw_exact_inference(record: Record, path: PathLike, name: str) -> None:
    """Draw a panel for each quantity with a curve for each depth. The loss begins at the untrained network's."""
    config = record["config"]
    with style.saved_panels(path, 1, 3, preset=record["preset"], sharex=True) as (figure, axes):
        loss, energy, accuracy = axes[0]
        for depth, colour in style.ramped(config["depths"]):
            runs = trained_runs(record, depth=depth)
            if not runs:
                continue
            look = {"color": colour, "label": f"H = {depth}"}
            steps = shortest_steps(runs)
            losses = [[run["first_train_loss"], *run["history"]["train_loss"][1:]] for run in runs]
            style.plot_band(loss, steps, losses, **look)
            style.plot_band(energy, steps[1:], [run["history"]["energy"][1:] for run in runs], **look)
            plot_accuracy(accuracy, runs, "step", **look)
        loss.set(title="training MSE of the prediction", ylabel=r"$\frac{1}{2}\|y - f(x)\|^2$")
        energy.set(title="energy at the equilibrium", ylabel=r"$\mathcal{F}(z^*)$")
        accuracy.set_title("test accuracy")
        accuracy_axis(accuracy)
        for panel in (loss, energy):
            style.log_ticks(panel)
        for panel in axes[0]:
            panel.set_xlabel("training step")
        style.legend_outside(figure, accuracy)
        figure.suptitle(f"{name}, linear, N = {config['widths'][0]}, {style.written(config['data'])}", fontsize=12)
