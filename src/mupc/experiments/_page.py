"""Render sections of a report as Markdown and as one HTML page. Text is escaped; only `code` keeps its backticks."""

import dataclasses
import html
from collections.abc import Iterable, Iterator
from pathlib import Path

from ..report import Block, NoteList, Page, PageSection, Picture, PlainTable, Prose, png_uri, render
from ._claims import FAILS, HOLDS, NOT_RUN, REPORTED
from ._tables import read_page, sections

TEXTS = sections(*read_page("report.md"))
"""Paragraphs of the report, by name."""
TextTable = list[tuple[str, ...]]
"""Rows of text, of which the first is the head."""


@dataclasses.dataclass(frozen=True)
class ReportSection:
    """A heading, paragraphs, a picture (its file without ending, and what it shows), tables, and a list of notes."""

    title: str
    text: tuple[str, ...] = ()
    tables: tuple[TextTable, ...] = ()
    notes: tuple[str, ...] = ()
    picture: tuple[str, str] | None = None
    level: int = 2


def as_markdown(page: Iterable[ReportSection], folder: str) -> str:
    """Return a Markdown page whose pictures are in `folder`."""
    lines: list[str] = []
    for section in page:
        lines += [f"{'#' * section.level} {_line(section.title)}", ""]
        for paragraph in section.text:
            lines += [_line(paragraph), ""]
        if section.picture:
            lines += [f"![{_line(section.picture[1])}]({folder}/{section.picture[0]}.png)", ""]
        for head, *rows in filter(None, section.tables):
            lines += [_row(head), "|---" * len(head) + "|", *map(_row, rows), ""]
        if section.notes:
            lines += [*(f"- {_line(note)}" for note in section.notes), ""]
    return "\n".join(lines).rstrip() + "\n"


def _row(cells: Iterable[str]) -> str:
    return f"| {' | '.join(map(_line, cells))} |"


def _line(text: str) -> str:
    escaped = html.escape(text, quote=False)
    return escaped.replace("\\", "\\\\").replace("|", "\\|").replace("\n", " ")


BADGES = {HOLDS: "good", FAILS: "bad", NOT_RUN: "", REPORTED: ""}
"""How verdicts look on the HTML page."""


def as_html(page: Iterable[ReportSection], folder: Path) -> str:
    """Return an HTML page that holds its pictures, read from `folder`. The first section begins the page."""
    first, *rest = page
    opening = PageSection("Summary", tuple(_blocks(first, folder)))
    others = (PageSection(section.title, tuple(_blocks(section, folder)), section.level) for section in rest)
    return render(Page(first.title, sections=(opening, *others)))


def _blocks(section: ReportSection, folder: Path) -> Iterator[Block]:
    if section.text:
        yield Prose(section.text)
    if section.picture:
        yield Picture(_image(folder / f"{section.picture[0]}.png"), section.picture[1])
    for head, *rows in filter(None, section.tables):
        yield PlainTable(section.title, head, tuple(rows), badges=BADGES)
    if section.notes:
        yield NoteList(section.notes)


def _image(path: Path) -> str | None:
    try:
        return png_uri(path.read_bytes())
    except OSError:
        return None
