"""Read the pages of this folder that hold data: Markdown tables in `figures.md` and `claims.md`."""

from __future__ import annotations

import importlib.resources
import re


def read_page(name: str) -> str:
    """Return the text of a page of this folder."""
    return importlib.resources.files(__package__).joinpath(name).read_text(encoding="utf-8")


def table_rows(page: str) -> list[tuple[str, ...]]:
    """Return the rows of all tables, without their heads. A `|` inside a cell is written `\\|`."""
    rows = re.findall(r"^\| (.*) \|$", re.sub(r"^.*\n\|---.*\n", "", page, flags=re.MULTILINE), re.MULTILINE)
    return [tuple(cell.replace("\\|", "|") for cell in row.split(" | ")) for row in rows]
