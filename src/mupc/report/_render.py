"""Render a page: `page.html.j2` with the style and the scripts that are next to it."""

import base64
import dataclasses
import functools
import hashlib
import re
from importlib import resources
from typing import TYPE_CHECKING, Any

from ..io import json_ready
from ._blocks import Block, Chart, Page

if TYPE_CHECKING:
    from jinja2 import Environment
    from markupsafe import Markup

SCRIPTS = "chart.js", "page.js"
CHART_DIGITS = 6


def render(page: Page) -> str:
    """Return the page as HTML that needs no other file. All text is escaped; only `code` loses its backticks.

    The page forbids everything but its own two scripts, which it names by their hashes, and pictures that it holds.
    """
    scripts = [_read(name) for name in SCRIPTS]
    template = _environment().get_template("page.html.j2")
    anchors = _anchors([section.title for section in page.sections])
    return template.render(
        page=page,
        sections=list(zip(anchors, page.sections, strict=True)),
        style=_read("page.css"),
        scripts=scripts,
        hashes=[_hash(script) for script in scripts],
    )


@functools.cache
def _read(name: str) -> str:
    return resources.files(__package__).joinpath(name).read_text(encoding="utf-8")


@functools.cache
def _environment() -> "Environment":
    from jinja2 import Environment, FunctionLoader, StrictUndefined

    made = Environment(
        loader=FunctionLoader(_read), autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    made.globals["zip"] = zip
    made.filters |= {"code": _with_code, "kind": _kind, "chart_data": _chart_data}
    return made


def _hash(script: str) -> str:
    return base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()


def _anchors(titles: list[str]) -> list[str]:
    """Return a name for each section, from the letters of its title and its number."""
    words = (re.sub("[^a-z0-9]+", "-", title.lower()).strip("-") for title in titles)
    return [f"{number}-{name}" for number, name in enumerate(words, start=1)]


def _with_code(text: str) -> "Markup":
    """Escape a text, and set what stands in backticks as code."""
    from markupsafe import Markup, escape

    return Markup(re.sub("`(.*?)`", r"<code>\1</code>", str(escape(text))))


def _kind(block: Block) -> str:
    return type(block).__name__


def _chart_data(chart: Chart) -> Any:
    """Return what the script needs, as strict JSON can hold it."""
    return json_ready(dataclasses.asdict(chart), CHART_DIGITS)
