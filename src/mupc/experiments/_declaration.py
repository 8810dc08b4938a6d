"""What figure modules share when they declare a figure: both presets, and cells over axes."""

import dataclasses
import itertools
from typing import TypeVar

from ._figure import FigureCell, FigureConfig
from ._tables import read_page, sections, table_rows

CellT = TypeVar("CellT", bound=FigureCell)


_PROTOCOLS, _CHECKED, _OPEN = read_page("protocols.md")
PROTOCOLS, CHECKED, LEFT_OPEN = sections(_PROTOCOLS), sections(_CHECKED), table_rows(_OPEN)
"""Sections of protocols by name, what was checked by figure and claim, and what the paper leaves open."""


def protocol(*names: str) -> tuple[str, ...]:
    """Return the paragraphs of these sections of `protocols.md`."""
    return tuple(itertools.chain(*(PROTOCOLS[name] for name in names)))


def presets(paper: FigureConfig, *names: str, **quick: object) -> dict[str, FigureConfig]:
    """Return both presets. The quick one has these sections before the protocol, and the fields of `quick` replaced."""
    changed = {"protocol": (*protocol(*names), *paper.protocol)} | quick
    return {"quick": dataclasses.replace(paper, **changed), "paper": paper}  # type: ignore[arg-type]


def cells_over(cell: type[CellT], config: FigureConfig, /, **axes: object) -> list[CellT]:
    """Return a cell for every combination of values, the last axis fastest.

    An axis is a tuple, list or range of values, or one value. Other fields are the config's fields of the same name.
    """
    names = [field.name for field in dataclasses.fields(cell) if field.name not in axes]
    shared = {name: getattr(config, name) for name in names if hasattr(config, name)}
    values = [axis if isinstance(axis, tuple | list | range) else (axis,) for axis in axes.values()]
    return [cell(**shared, **dict(zip(axes, point, strict=True))) for point in itertools.product(*values)]
