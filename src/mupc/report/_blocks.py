"""What a page is made of. The template has a macro for each kind of block, which has the block's name."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Literal

Number = int | float
WORDY = 120
"""Letters from which a cell of a table holds sentences."""


@dataclasses.dataclass(frozen=True)
class Prose:
    """Paragraphs."""

    paragraphs: tuple[str, ...]


@dataclasses.dataclass(frozen=True)
class Heading:
    """A heading within a section."""

    text: str


@dataclasses.dataclass(frozen=True)
class Alert:
    """Sentences that must not be missed: a `warning`, or what is `missing` on the page and why."""

    lines: tuple[str, ...]
    kind: Literal["warning", "missing"] = "missing"


@dataclasses.dataclass(frozen=True)
class NoteList:
    """Short notes, in small letters."""

    notes: tuple[str, ...]


@dataclasses.dataclass(frozen=True)
class Fact:
    """A number that stands out, with its name above and a note below."""

    name: str
    value: str
    note: str = ""


@dataclasses.dataclass(frozen=True)
class Facts:
    """A row of facts."""

    facts: tuple[Fact, ...]


@dataclasses.dataclass(frozen=True)
class PlainTable:
    """A table of text.

    - `head`: the titles of the columns. The first column names the rows.
    - `numeric`: columns from this one on are numbers, aligned to the right; None: there are none.
    - `marked`: rows to mark. With `foldable`, a button hides all others.
    - `badges`: texts that are shown as a badge, and its class.
    """

    caption: str
    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    numeric: int | None = None
    marked: frozenset[int] = frozenset()
    foldable: bool = False
    badges: Mapping[str, str] = dataclasses.field(default_factory=dict)

    @property
    def wordy(self) -> bool:
        """Whether cells hold sentences. A narrow screen then shows cells one below the other."""
        return any(len(cell) > WORDY for row in self.rows for cell in row)


@dataclasses.dataclass(frozen=True)
class TableGrid:
    """Small tables side by side, where there is room."""

    tables: tuple[PlainTable, ...]


@dataclasses.dataclass(frozen=True)
class Series:
    """Points of a chart that belong together.

    **Arguments:** its `name`, the points `x` and `y` (None: a gap), the number of its `colour` and of its `dash`, or in
    place of a colour its place between the first and the last of an ordered quantity, a `shade` from 0 to 1.
    """

    name: str
    x: Sequence[Number]
    y: Sequence[Number | None]
    colour: int = 0
    dash: int = 0
    shade: float | None = None


@dataclasses.dataclass(frozen=True)
class Chart:
    """A chart that shows values under the pointer and zooms.

    - `x_label`, `y_label`: what the axes show, with units.
    - `kind`: `line`, `points` (of which a series with a dash is a line all the same) or `bars`.
    - `log_x`, `log_y`: logarithmic axes; values of zero or less become gaps.
    - `y_range`: the ends of the y axis; None: those of the values.
    - `marks`: horizontal lines, by their label. `x_names`: what stands for x = 1, 2 … in tooltips.
    """

    title: str
    x_label: str
    y_label: str
    series: tuple[Series, ...]
    kind: Literal["line", "points", "bars"] = "line"
    log_x: bool = False
    log_y: bool = False
    y_range: tuple[Number, Number] | None = None
    marks: Mapping[str, Number] = dataclasses.field(default_factory=dict)
    x_names: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True)
class ChartGrid:
    """Charts side by side, where there is room."""

    charts: tuple[Chart, ...]


@dataclasses.dataclass(frozen=True)
class Matrix:
    """A table of counts, a row for each true class and a column for each predicted one."""

    caption: str
    labels: tuple[str, ...]
    counts: tuple[tuple[int, ...], ...]


@dataclasses.dataclass(frozen=True)
class GalleryItem:
    """A picture, as the address of its data, what it shows, and two lines below it."""

    source: str
    alt: str
    first: str
    second: str


@dataclasses.dataclass(frozen=True)
class Gallery:
    """Small pictures, enlarged without smoothing."""

    caption: str
    items: tuple[GalleryItem, ...]


@dataclasses.dataclass(frozen=True)
class ShadedText:
    """A text in which each character has a shade from 0 to 1."""

    caption: str
    characters: tuple[tuple[str, float], ...]


@dataclasses.dataclass(frozen=True)
class Picture:
    """A picture, as the address of its data (None: not drawn yet), and what it shows."""

    source: str | None
    alt: str


Block = (
    Prose | Heading | Alert | NoteList | Facts | PlainTable | TableGrid | ChartGrid | Matrix | Gallery | ShadedText
    | Picture
)  # fmt: skip


@dataclasses.dataclass(frozen=True)
class PageSection:
    """A heading and what stands under it. Sections of level 2 are in the list of contents."""

    title: str
    blocks: tuple[Block, ...] = ()
    level: int = 2


@dataclasses.dataclass(frozen=True)
class Page:
    """A page: its title, a line below it, and its sections."""

    title: str
    subtitle: str = ""
    sections: tuple[PageSection, ...] = ()
