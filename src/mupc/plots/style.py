"""The look that all figures share: sizes, colours, and how they are saved. No JAX, matplotlib only when drawing."""

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

Record = dict[str, Any]
"""A saved result, or a row of its table."""
Drawing = Callable[[Record, Path, Mapping[str, str]], None]
"""Draws a record into a PNG file; the mapping says how methods or kinds of networks are called in the legend."""

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#F0E442", "#000000")
"""Okabe and Ito's colours, told apart with any colour vision."""

RC: dict[Any, Any] = {
    "axes.grid": True,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlesize": 12,
    "font.size": 11,
    "grid.alpha": 0.3,
    "legend.frameon": False,
    "lines.linewidth": 2,
    "lines.markersize": 4,
}
DPI = 120
PANEL = (3.6, 2.9)
"""Width and height, in inches, of one of several panels."""
MAX_BYTES = 300_000
BAND = 0.2
BRIGHT = 0.6
"""From here on, of the way up the colours of a heat map, black letters are read better than white ones."""


WRITTEN = {"relu": "ReLU", "mnist": "MNIST", "fashion-mnist": "Fashion-MNIST", "cifar10": "CIFAR-10"}


def written(name: str) -> str:
    """An activation or a data set as people write it."""
    return WRITTEN.get(name, name)


def cycle(count: int) -> list[str]:
    """So many colours, from the start again when there are no more."""
    return [COLOURS[i % len(COLOURS)] for i in range(count)]


def ramp(count: int) -> list[Any]:
    """So many colours for an ordered quantity such as depth: viridis, which is perceptually uniform, up to where it
    gets pale."""
    from matplotlib import colormaps

    return [colormaps["viridis"](0.88 * place / max(count - 1, 1)) for place in range(count)]


@contextlib.contextmanager
def figure(rows: int = 1, columns: int = 1, width: float = 8.0, height: float = 3.4) -> Iterator[tuple[Any, Any]]:
    """A figure and its axes (inches) in the shared style, closed at the end. Needs no screen."""
    from matplotlib import rc_context
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    with rc_context(RC):
        made = Figure(figsize=(width, height), dpi=DPI, layout="constrained")
        FigureCanvasAgg(made)
        yield made, made.subplots(rows, columns)


@contextlib.contextmanager
def panels(rows: int, columns: int, **options: Any) -> Iterator[tuple[Any, Any]]:
    """A figure of equal panels and their axes, always indexed `axes[row, column]`; options are those of `subplots`."""
    with figure(width=PANEL[0] * columns, height=PANEL[1] * rows) as (made, only):
        only.remove()
        yield made, made.subplots(rows, columns, squeeze=False, **options)


def band(axes: Any, x: Sequence[int | float], runs: Sequence[Sequence[int | float]], **options: Any) -> None:
    """The mean over runs with ± one standard deviation, as far as the shortest run goes."""
    import numpy as np

    length = min(len(run) for run in runs)
    values = np.array([run[:length] for run in runs], float)
    mean = values.mean(axis=0)
    axes.plot(x[:length], mean, **options)
    if len(values) > 1:
        spread = values.std(axis=0, ddof=1)
        axes.fill_between(x[:length], mean - spread, mean + spread, color=options.get("color"), alpha=BAND, lw=0)


def heat_map(
    axes: Any,
    grid: Any,
    columns: Sequence[object],
    rows: Sequence[object],
    limits: tuple[int | float, int | float],
    *,
    texts: Mapping[tuple[int, int], str] | None = None,
    dark_high: bool = False,
) -> Any:
    """Values as colours on a logarithmic scale, the first row at the bottom; grey where there is none. With a text for
    each (row, column) that has one, and returns the image. `dark_high`: the lowest are the bright ones."""
    import numpy as np
    from matplotlib.colors import LogNorm

    norm = LogNorm(*limits)
    axes.set_facecolor("#888888")
    image = axes.imshow(grid, origin="lower", aspect="auto", cmap="viridis_r" if dark_high else "viridis", norm=norm)
    for (row, column), text in (texts or {}).items():
        bright = (norm(np.asarray(grid)[row, column]) > BRIGHT) != dark_high
        colour = "black" if bright else "white"
        axes.text(column, row, text, ha="center", va="center", fontsize=7, color=colour)
    axes.set_xticks(range(len(columns)), [f"{value:g}" for value in columns])
    axes.set_yticks(range(len(rows)), [f"{value:g}" for value in rows])
    axes.grid(False)
    return image


def label_preset(figure: Any, preset: str) -> None:
    """Says under a figure that it is no reproduction, unless it is made at the paper preset."""
    if preset != "paper":
        figure.supxlabel(f"{preset} preset: not a reproduction", fontsize=8, color="#666666")


def log_ticks(axes: Any, which: str = "y", decades: int = 3) -> None:
    """A logarithmic axis, if there is anything on it; over less than so many decades with plain numbers at 1, 2 and 5.
    Call it after plotting."""
    if axes.dataLim.y0 > axes.dataLim.y1:  # nothing plotted
        return
    from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

    axis = getattr(axes, f"{which}axis")
    getattr(axes, f"set_{which}scale")("log")
    low, high = axis.get_view_interval()
    if high > 10**decades * low:
        return
    axis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axis.set_minor_locator(NullLocator())
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))


def save(figure: Any, path: str | Path) -> Path:
    """Writes a PNG file, with its folder if need be; a large one with fewer pixels."""
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    for dpi in (DPI, DPI / 1.5, DPI / 2):
        figure.savefig(target, format="png", dpi=dpi)
        if target.stat().st_size < MAX_BYTES:
            break
    return target
