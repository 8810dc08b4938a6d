"""Render sections of a report as Markdown and as one HTML page. Text is escaped; only `code` keeps its backticks."""

import base64
import dataclasses
import html
import re
from collections.abc import Iterable
from pathlib import Path

from ._claims import VERDICTS
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


STYLE = """
body{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem;color:#222}
img{max-width:100%}table{border-collapse:collapse;width:100%;font-size:.9rem}
td,th{border:1px solid #ccc;padding:.3rem .5rem;text-align:left;vertical-align:top}
.holds{color:#007a55;font-weight:bold}.fails{color:#b34700;font-weight:bold}.not-run,.reported{color:#666}
ul{font-size:.85rem;color:#444}
"""


def as_html(page: Iterable[ReportSection], folder: Path) -> str:
    """Return an HTML page that holds its pictures, read from `folder`."""
    page = list(page)
    head = f'<meta charset="utf-8"><title>{escape(page[0].title)}</title><style>{STYLE}</style>'
    body = "".join(_html_section(section, folder) for section in page)
    return f'<!doctype html><html lang="en"><head>{head}</head><body>{body}</body></html>\n'


def _html_section(section: ReportSection, folder: Path) -> str:
    parts = [_tag(f"h{section.level}", section.title), *(_tag("p", paragraph) for paragraph in section.text)]
    if section.picture:
        parts.append(_image(folder / f"{section.picture[0]}.png", section.picture[1]))
    for head, *rows in filter(None, section.tables):
        cells = ["".join(_tag("th", cell) for cell in head), *("".join(map(_html_cell, row)) for row in rows)]
        parts.append(f"<table>{''.join(f'<tr>{row}</tr>' for row in cells)}</table>")
    if section.notes:
        parts.append(f"<ul>{''.join(_tag('li', note) for note in section.notes)}</ul>")
    return "".join(parts)


def _html_cell(cell: str) -> str:
    return f'<td class="{cell.replace(" ", "-")}">{escape(cell)}</td>' if cell in VERDICTS else _tag("td", cell)


def _tag(name: str, text: str) -> str:
    shown = re.sub("`(.*?)`", r"<code>\1</code>", escape(text))
    return f"<{name}>{shown}</{name}>"


def _image(path: Path, title: str) -> str:
    try:
        data = base64.b64encode(path.read_bytes()).decode()
    except OSError:
        return "<p>(This figure is not drawn yet.)</p>"
    return f'<p><img alt="{escape(title)}" src="data:image/png;base64,{data}"></p>'


def escape(text: str) -> str:
    """Return text that is safe between HTML tags and in quotes."""
    return html.escape(text, quote=True)
