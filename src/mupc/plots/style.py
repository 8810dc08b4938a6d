"""The look that all figures share: sizes, colours, axes, legends, and how they are saved.

No module here imports JAX, and matplotlib and numpy are imported only to draw.
"""

import contextlib
import statistics
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.cm import ScalarMappable
    from matplotlib.figure import Figure
    from numpy import ndarray as Array
    from numpy.typing import ArrayLike
else:
    Array = ArrayLike = Axes = Figure = ScalarMappable = Any

T = TypeVar("T")
Number = int | float
X = TypeVar("X", bound=Number)
Colour = str | tuple[float, float, float, float]
PathLike = str | Path
Options = dict[str, Any]
Record = Mapping[str, Any]
"""A saved result, or a row of its table."""
Labels = Mapping[str, str]
"""The names of methods or kinds of networks in titles and legends."""
Drawing = Callable[[dict[str, Any], Path, Labels], None]
"""Draws a saved result into a file."""

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#F0E442", "#000000")
"""Okabe and Ito's colours, which can be told apart with any colour vision."""
BLUE, RED, GREEN = COLOURS[:3]
YELLOW = COLOURS[6]
GREY = "#666666"
NO_VALUE = "#888888"
"""Where a heat map has no value."""

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
    "pdf.fonttype": 42,  # letters that other programs can edit
    "svg.hashsalt": "mupc",
}
DPI = 120
PANEL = (3.6, 2.9)
"""Width and height of one of several panels, in inches."""
SINGLE = (6.4, 4.2)
"""Width and height of a figure with one panel, in inches."""
MAX_BYTES = 300_000
UNDATED: dict[str, dict[str, Any]] = {".png": {}, ".pdf": {"CreationDate": None}, ".svg": {"Date": None}}
"""The endings of figures, and what leaves the date out of the file."""
UNDER = 0.5
"""How far below a panel its own legend begins, in inches: ticks and label come first."""
BAND = 0.2
"""The opacity of the band around a curve."""
BRIGHT = 0.6
"""Above this fraction of a heat map's colours, black letters are easier to read than white ones."""
PALEST = 0.88
"""The fraction of viridis above which its colours are too pale for a line."""

ACCURACY = "test accuracy (%)"
NARROW = 15
"""Accuracies that differ by fewer points are on a linear axis."""
NEAREST = 0.3
"""Added to the error, in per cent, so that an accuracy of 100 % has a place on a logarithmic axis."""
TICKS = (10, 30, 50, 70, 80, 90, 95, 97, 98, 99, 99.5, 100)
LOSSES = {"mse": "½ sum of squared errors", "cross-entropy": "cross-entropy in nats"}
"""What the losses of one sample are, in words."""

KAPPA = r"condition number $\kappa$"
WRITTEN = {
    "relu": "ReLU",
    "mnist": "MNIST",
    "fashion-mnist": "Fashion-MNIST",
    "cifar10": "CIFAR-10",
    "tinyshakespeare": "tiny Shakespeare",
}


def written(name: str) -> str:
    """Return an activation or a data set as people write it."""
    return WRITTEN.get(name, name)


def short(value: float, *, small: str = ".2g", large: float = 1e3) -> str:
    """Write a number in few letters: 2.3, 35, 470 or 9e3; in the format `small` below 10, with a power from `large`."""
    if value < large:
        return f"{value:.0f}" if value >= 10 else f"{value:{small}}"
    mantissa, exponent = f"{value:.0e}".split("e")
    return f"{mantissa}e{int(exponent)}"


def cycle(count: int) -> list[str]:
    """Return `count` colours, starting again when there are no more."""
    return [COLOURS[i % len(COLOURS)] for i in range(count)]


def ramped(values: Sequence[T]) -> list[tuple[T, Colour]]:
    """Return each value of an ordered quantity such as depth with its colour: viridis, up to where it gets pale."""
    from matplotlib import colormaps

    last = max(len(values) - 1, 1)
    return [(value, colormaps["viridis"](PALEST * place / last)) for place, value in enumerate(values)]


@contextlib.contextmanager
def saved_panels(
    path: PathLike,
    rows: int = 1,
    columns: int = 1,
    record: Record | None = None,
    *,
    size: tuple[float, float] | None = None,
    xlabel: str = "",
    ylabel: str | Sequence[str] = "",
    **options: Any,
) -> Iterator[tuple[Figure, Array]]:
    """Open a figure with equal panels, and save it at the end, in the format of the file's ending. Needs no screen.

    **Arguments:** the file; rows and columns of panels; the `record` of the data, to name its preset under the figure
    unless it is the paper's; the `size` of the figure in inches (default: `PANEL` for each panel); the labels of the
    last row's x axes and of the first column's y axes, or one for each row; options of matplotlib's `subplots`. The
    panels are indexed `axes[row, column]`.
    """
    from matplotlib import rc_context
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure as NewFigure

    with rc_context(RC):
        figure = NewFigure(figsize=size or (PANEL[0] * columns, PANEL[1] * rows), dpi=DPI, layout="constrained")
        FigureCanvasAgg(figure)
        axes = figure.subplots(rows, columns, squeeze=False, **options)
        for panel in axes[-1]:
            panel.set_xlabel(xlabel)
        for panel, label in zip(axes[:, 0], [ylabel] * rows if isinstance(ylabel, str) else ylabel, strict=True):
            panel.set_ylabel(label)
        yield figure, axes
        if record and record["preset"] != "paper":
            figure.supxlabel(f"{record['preset']} preset: not a reproduction", fontsize=8, color=GREY)
        save(figure, path)


def save(figure: Figure, path: PathLike) -> None:
    """Write a .png, .pdf or .svg file and create its folder if necessary. The same figure gives the same file. A PNG
    that gets too large is written with fewer pixels."""
    target = Path(path)
    if target.suffix not in UNDATED:
        raise ValueError(f"the figure {path} must end in {', '.join(UNDATED)}.")
    target.parent.mkdir(parents=True, exist_ok=True)
    for dpi in (DPI, DPI / 1.5, DPI / 2) if target.suffix == ".png" else (DPI,):
        figure.savefig(target, dpi=dpi, metadata=UNDATED[target.suffix])
        if target.stat().st_size < MAX_BYTES:
            break


def select(rows: Iterable[Record], **wanted: object) -> list[Record]:
    """Return the rows that have all these values; a row without one of the names does not."""
    return [row for row in rows if all(name in row and row[name] == value for name, value in wanted.items())]


def medians(rows: Iterable[Record], x: str, y: str) -> dict[Number, Number]:
    """Return the median of the rows' y, over seeds, at each of their x in order; None is left out."""
    found: dict[Number, list[Number]] = {}
    for row in rows:
        if row[y] is not None:
            found.setdefault(row[x], []).append(row[y])
    return {at: statistics.median(found[at]) for at in sorted(found)}


def numbers(values: Iterable[Number | None]) -> list[Number]:
    """Return a saved curve with NaN, which is not drawn, for None, which stands for values that were not finite."""
    return [float("nan") if value is None else value for value in values]


def plot_points(panel: Axes, points: Mapping[X, Number | None], *look: str, **options: Any) -> None:
    """Plot values over their keys; None is left out."""
    shown = {x: y for x, y in points.items() if y is not None}
    panel.plot(list(shown), list(shown.values()), *look, **options)


def plot_band(panel: Axes, x: Sequence[Number], runs: Sequence[Sequence[Number]], **options: Any) -> None:
    """Plot the mean over runs with a band of ± one standard deviation, as far as the shortest run goes."""
    import numpy as np

    length = min(len(run) for run in runs)
    values = np.array([run[:length] for run in runs], float)
    mean = values.mean(axis=0)
    panel.plot(x[:length], mean, **options)
    if len(values) > 1:
        spread = values.std(axis=0, ddof=1)
        fill(panel, x[:length], mean - spread, mean + spread, options.get("color"))


def fill(panel: Axes, x: ArrayLike, low: ArrayLike, high: ArrayLike, colour: Colour | None) -> None:
    """Draw the band between two curves."""
    panel.fill_between(x, low, high, color=colour, alpha=BAND, lw=0)


def plot_error_bars(panel: Axes, samples: Mapping[X, Sequence[Number]], **options: Any) -> None:
    """Plot the mean of each key's samples with ± one standard deviation; keys without samples are left out."""
    shown = {x: values for x, values in samples.items() if values}
    spreads = [statistics.stdev(values) if len(values) > 1 else 0.0 for values in shown.values()]
    panel.errorbar(list(shown), [statistics.fmean(values) for values in shown.values()], spreads, capsize=3, **options)


def heat_map(
    panel: Axes,
    grid: Array,
    columns: Sequence[Number],
    rows: Sequence[Number],
    limits: tuple[Number, Number],
    *,
    texts: Mapping[tuple[int, ...], str] | None = None,
    dark_high: bool = False,
) -> ScalarMappable:
    """Draw values as colours on a logarithmic scale, the first row at the bottom, and return the image.

    **Arguments:** values (rows, columns), NaN where there is none; the names of columns and rows; the `limits` of the
    colours; `texts` to write at some (row, column); and whether high values are the dark ones.
    """
    from matplotlib.colors import LogNorm

    norm = LogNorm(*limits)
    panel.set_facecolor(NO_VALUE)
    image = panel.imshow(grid, origin="lower", aspect="auto", cmap="viridis_r" if dark_high else "viridis", norm=norm)
    for (row, column), text in (texts or {}).items():
        bright = (norm(grid[row, column]) > BRIGHT) != dark_high
        colour = "black" if bright else "white"
        panel.text(column, row, text, ha="center", va="center", fontsize=7, color=colour)
    name_cells(panel, columns, rows)
    return image


def name_cells(panel: Axes, columns: Sequence[Number], rows: Sequence[Number]) -> None:
    """Write a number at each column and row of a grid of cells."""
    panel.set_xticks(range(len(columns)), [f"{value:g}" for value in columns])
    panel.set_yticks(range(len(rows)), [f"{value:g}" for value in rows])
    panel.grid(False)


def log_ticks(panel: Axes, which: str = "y", decades: int = 3) -> None:
    """Make an axis logarithmic, unless nothing is plotted. Over less than `decades` it has plain numbers at 1, 2, 5;
    over less than a factor of 4, at equal distances.

    Call it after plotting.
    """
    if panel.dataLim.y0 > panel.dataLim.y1:  # nothing plotted
        return
    from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullLocator

    axis = getattr(panel, f"{which}axis")
    getattr(panel, f"set_{which}scale")("log")
    low, high = axis.get_view_interval()
    if high > 10**decades * low:
        return
    axis.set_major_locator(LogLocator(subs=(1, 2, 5)) if high > 4 * low else MaxNLocator(5))
    axis.set_minor_locator(NullLocator())
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))


def size_axis(panel: Axes, label: str = "", ticks: Sequence[int] | None = None) -> None:
    """Make the x axis one for widths or depths: to the base 2, with these ticks only, if there are any."""
    panel.set_xscale("log", base=2)
    if label:
        panel.set_xlabel(label)
    if ticks is not None:
        panel.set_xticks(ticks, [str(tick) for tick in ticks])
        panel.minorticks_off()


def legend_outside(figure: Figure, *panels: Axes, order: Iterable[str] = (), **options: Any) -> None:
    """Put a legend of what these panels show on the right of the figure, each name once; none for empty panels.

    Names in `order` come first, in that order. `options` are those of matplotlib's `legend`.
    """
    found = [panel.get_legend_handles_labels() for panel in panels]
    handles = {label: handle for pair in found for handle, label in zip(*pair, strict=True)}
    names = list(dict.fromkeys([*(name for name in order if name in handles), *handles]))
    if names:
        figure.legend([handles[name] for name in names], names, **{"loc": "outside right center"} | options)


def legend_under(panel: Axes, **options: Any) -> None:
    """Put a legend under a panel and the label of its x axis, unless it is empty."""
    from matplotlib.transforms import ScaledTranslation

    if panel.get_legend_handles_labels()[0]:
        below = panel.transAxes + ScaledTranslation(0, -UNDER, panel.figure.dpi_scale_trans)
        panel.legend(**{"loc": "upper center", "bbox_to_anchor": (0.5, 0), "bbox_transform": below} | options)


def accuracy_axis(panel: Axes) -> None:
    """Make the y axis, and those that share it, one for accuracies in per cent: with the logarithm of the error, so
    that 96 and 97 are as far apart as 70 and 78. Over less than `NARROW` points it stays linear.

    Call it after plotting.
    """
    import numpy as np

    def stretched(accuracy: ArrayLike) -> Array:
        return -np.log(np.maximum(100 - np.asarray(accuracy), 0) + NEAREST)

    def accuracy_at(height: ArrayLike) -> Array:
        return 100 + NEAREST - np.exp(-np.asarray(height))

    panel.set_ylabel(panel.get_ylabel() or ACCURACY)
    lines = [line.get_ydata() for one in panel.get_shared_y_axes().get_siblings(panel) for line in one.lines]
    shown = np.array([value for line in lines for value in line if np.isfinite(value)])  # bands may go beyond 100
    if not shown.size or np.ptp(shown) <= NARROW:
        return
    panel.set_yscale("function", functions=(stretched, accuracy_at))
    bottom, top = stretched(shown.min()), stretched(shown.max())
    room = 0.07 * (top - bottom)
    panel.set_ylim(float(accuracy_at(bottom - room)), float(accuracy_at(top + room)))
    ticks: list[float] = []
    for tick in reversed(TICKS):
        apart = not ticks or stretched(ticks[-1]) - stretched(tick) > room
        if apart and bottom - room <= stretched(tick) <= top + room:
            ticks.append(tick)
    panel.set_yticks(ticks)
    panel.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
