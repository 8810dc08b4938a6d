"""What a figure is: frozen configs, cells to compute, claims about the table they make, and a drawing of it."""

import dataclasses
from collections.abc import Callable, Hashable, Iterable, Mapping
from pathlib import Path
from typing import Any, ClassVar

from ..io import checks
from ._claims import Claim

PRESETS = ("quick", "paper")

Row = dict[str, Any]
Table = list[Row]


class UnknownFigureError(ValueError):
    """A name that is not that of a figure; the message is one line with the cure."""


@dataclasses.dataclass(frozen=True)
class FigureConfig:
    """One preset of a figure. `protocol` lists, a sentence each, what was decided and how it differs from the paper."""

    precision: str = "float32"
    protocol: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True)
class FigureCell:
    """One training run or one computation: hashable, JSON-able, and everything that its result depends on.

    `version` is raised when the code of a family changes its numbers, so that cells saved before are not reused.
    `words` is a format of the cell's fields for its label; without one, the label lists all of them.
    """

    family: ClassVar[str] = "none"
    version: ClassVar[int] = 1
    words: ClassVar[str] = ""

    @property
    def label(self) -> str:
        """A few words for a progress line."""
        fields = dataclasses.asdict(self)
        return self.words.format(**fields) if self.words else " ".join(map(str, fields.values()))

    @property
    def group(self) -> object:
        """Cells with the same one may be computed together, where the figure has a `run_group`."""
        return self

    @property
    def program(self) -> object:
        """Cells with the same one compile the same programs, and are not computed at the same time."""
        return self.group


Finished = Mapping[FigureCell, Row]


@dataclasses.dataclass(frozen=True)
class RunContext:
    """What a computation may use without its result depending on it.

    - `scratch`: a folder of its own for checkpoints to go on from; it is deleted when the result is saved.
    - `stop`: whether to end early, with a checkpoint and `KeyboardInterrupt`.
    - `tell`: show a line about work that takes long.
    """

    data_dir: str | None = None
    scratch: Path | None = None
    stop: Callable[[], bool] = lambda: False
    tell: Callable[[str], object] = lambda line: None


@dataclasses.dataclass(frozen=True)
class Figure:
    """A figure that `mupc reproduce` can make.

    - `cells(config, finished)`: every cell known so far, most valuable first. Later stages (runs with a tuned rate)
      appear once the cells they depend on are in `finished`.
    - `run_cell(cell, context)`: the numbers of one cell.
    - `claims(config, table)`: the claims, judged on the rows of the finished cells (a row is a cell and its numbers).
    - `plot(record, path)`: draw what `results/SLUG.json` holds.
    - `run_group(cells, context)`: the numbers of several cells of one group, computed as one program.
    - `checked(config, table, claim)`: for a claim that fails, numbers of the table that help to rule out a mistake.
    - `title`, `caption`: set by the catalogue.
    """

    slug: str
    presets: Mapping[str, FigureConfig]
    cells: Callable[[Any, Finished], list[FigureCell]]
    run_cell: Callable[[Any, RunContext], Row]
    claims: Callable[[Any, Table], list[Claim]]
    plot: Callable[[Row, Path], None]
    run_group: Callable[[Any, RunContext], list[Row]] | None = None
    checked: Callable[[Any, Table, Claim], str] | None = None
    title: str = ""
    caption: str = ""

    def config(self, preset: str, precision: str | None = None) -> FigureConfig:
        """Return the frozen config of a preset, with its precision overridden if asked."""
        config = checks.lookup("preset", preset, self.presets)
        return config if precision is None else dataclasses.replace(config, precision=precision)

    def table(self, config: FigureConfig, finished: Finished) -> Table:
        """Return the rows of the finished cells, in the order of `cells`."""
        cells = self.cells(config, finished)
        return [{**dataclasses.asdict(cell), **finished[cell]} for cell in cells if cell in finished]


def by_slug(*figures: Figure) -> dict[str, Figure]:
    """Return the figures of a module by their slugs."""
    return {figure.slug: figure for figure in figures}


def select(table: Iterable[Row], **wanted: object) -> Table:
    """Return the rows whose fields have these values."""
    return [row for row in table if all(row.get(name) == value for name, value in wanted.items())]


def grouped(rows: Iterable[Row], *names: str) -> dict[tuple[Hashable, ...], Table]:
    """Return the rows by their values of these fields, in the order in which they come."""
    groups: dict[tuple[Hashable, ...], Table] = {}
    for row in rows:
        groups.setdefault(tuple(row[name] for name in names), []).append(row)
    return groups
