"""Read the pages of this folder that hold data: tables and sections of Markdown."""

import importlib.resources
import re


def read_page(name: str) -> list[str]:
    """Return the parts of a page of this folder, one for each `#` heading."""
    return importlib.resources.files(__package__).joinpath(name).read_text(encoding="utf-8").split("\n# ")


def table_rows(page: str) -> list[tuple[str, ...]]:
    """Return the rows of all tables, without their heads. A `|` inside a cell is written `\\|`."""
    rows = re.findall(r"^\| (.*) \|$", re.sub(r"^.*\n\|---.*\n", "", page, flags=re.MULTILINE), re.MULTILINE)
    return [tuple(cell.replace("\\|", "|") for cell in row.split(" | ")) for row in rows]


def sections(part: str) -> dict[str, tuple[str, ...]]:
    """Return the paragraphs of every `##` section, by the names in its heading."""
    found: dict[str, tuple[str, ...]] = {}
    for section in re.split(r"^## ", part.rstrip(), flags=re.MULTILINE)[1:]:
        heading, *paragraphs = re.split(r"\n\n+", section.rstrip())
        found |= dict.fromkeys(heading.split(", "), tuple(" ".join(each.split()) for each in paragraphs))
    return found
