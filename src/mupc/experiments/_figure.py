"""What a figure is: frozen configs, cells to compute, predicates on the table they make, and a plot of it."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, ClassVar

HOLDS, FAILS, NOT_RUN, REPORTED = VERDICTS = "holds", "fails", "not run", "reported"
PRESETS = ("quick", "paper")

Row = dict[str, Any]
Table = list[Row]


class UnknownFigureError(ValueError):
    """A figure that is not in the paper, or that cannot be regenerated yet; the message is one line with the cure."""


class MissingCellsError(Exception):
    """A claim needs cells that have not been computed."""


@dataclasses.dataclass(frozen=True)
class FigureConfig:
    """One preset of a figure. `protocol` says, a sentence each, what was decided and how it differs from the paper."""

    precision: str = "float32"
    protocol: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True)
class FigureCell:
    """One training run or one computation: hashable, JSON-able, and all that its result depends on.

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
    """What a computation may use that its result does not depend on.

    - `scratch`: a folder of its own for checkpoints to go on from; it is deleted when the result is saved.
    - `stop`: whether to end early, with a checkpoint and `KeyboardInterrupt`.
    """

    data_dir: str | None = None
    scratch: Path | None = None
    stop: Callable[[], bool] = lambda: False


@dataclasses.dataclass(frozen=True)
class Claim:
    """A predicate of claims.md with the numbers it was judged by."""

    claim: str
    measured: str
    expected: str
    verdict: str


def judge(claim: str, expected: str, measure: Callable[..., tuple[bool, str]], *arguments: object) -> Claim:
    """Return the claim with its verdict. `measure(*arguments)` returns whether it is true and the numbers; it raises
    `MissingCellsError` where cells are missing."""

    def verdict() -> tuple[str, str]:
        true, measured = measure(*arguments)
        return (HOLDS if true else FAILS), measured

    return _decided(claim, expected, verdict)


def report_only(claim: str, expected: str, measure: Callable[..., str], *arguments: object) -> Claim:
    """Return numbers of which nothing is asked, so that they can neither hold nor fail."""
    return _decided(claim, expected, lambda: (REPORTED, measure(*arguments)))


def _decided(claim: str, expected: str, decide: Callable[[], tuple[str, str]]) -> Claim:
    try:
        verdict, measured = decide()
    except MissingCellsError as missing:
        verdict, measured = NOT_RUN, f"not run: {missing}"
    return Claim(claim, measured, expected, verdict)


@dataclasses.dataclass(frozen=True)
class Figure:
    """A figure on the rails.

    - `cells(config, finished)`: every cell known so far, most valuable first. Later stages (runs with a tuned rate)
      appear once the cells they depend on are in `finished`.
    - `run_cell(cell, context)`: the numbers of one cell.
    - `claims(config, table)`: the predicates, on the rows of the finished cells (a row is a cell and its numbers).
    - `plot(record, path)`: draws what `results/SLUG.json` holds.
    - `run_group(cells, context)`: the numbers of several cells of one group, computed as one program.
    - `checked(config, table, claim)`: for a claim that fails, a sentence on what was checked to rule out a mistake of
      ours; None if nothing was.
    - `title`: set by the catalogue, where it is written.
    """

    slug: str
    caption: str
    presets: Mapping[str, FigureConfig]
    cells: Callable[[Any, Finished], list[FigureCell]]
    run_cell: Callable[[Any, RunContext], Row]
    claims: Callable[[Any, Table], list[Claim]]
    plot: Callable[[Row, Path], None]
    run_group: Callable[[Any, RunContext], list[Row]] | None = None
    checked: Callable[[Any, Table, Claim], str | None] = lambda config, table, claim: None
    title: str = ""

    def config(self, preset: str, precision: str | None = None) -> FigureConfig:
        """The frozen config of a preset, with its precision overridden if asked."""
        if preset not in self.presets:
            raise ValueError(f"preset {preset!r} is not known. Choose one of: {', '.join(self.presets)}.")
        config = self.presets[preset]
        return config if precision is None else dataclasses.replace(config, precision=precision)

    def table(self, config: FigureConfig, finished: Finished) -> Table:
        """The rows of the finished cells, in the order of `cells`."""
        cells = self.cells(config, finished)
        return [{**dataclasses.asdict(cell), **finished[cell]} for cell in cells if cell in finished]


def sentences(checked: Mapping[str, str]) -> Callable[[Any, Table, Claim], str | None]:
    """For `Figure.checked`: what was checked, by claim."""
    return lambda config, table, claim: checked.get(claim.claim)


def select(table: Iterable[Row], **wanted: object) -> Table:
    """The rows whose fields have these values."""
    return [row for row in table if all(row.get(name) == value for name, value in wanted.items())]
