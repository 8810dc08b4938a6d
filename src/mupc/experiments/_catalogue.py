"""Every figure of the paper under its slug, and the studies beyond it, from `figures.md`."""

import dataclasses
import importlib
from collections.abc import Iterable

from ..io import checks
from ._figure import Figure, UnknownFigureError
from ._tables import read_page, sections, table_rows


@dataclasses.dataclass(frozen=True)
class CatalogueEntry:
    """A figure of the paper or a study; `module` regenerates it."""

    slug: str
    title: str
    module: str
    alias: str | None = None

    def load(self) -> Figure:
        """Return the figure."""
        figures: dict[str, Figure] = importlib.import_module(f"{__package__}.{self.module}").FIGURES
        return dataclasses.replace(figures[self.slug], title=self.title, caption=CAPTIONS[self.slug][0])


_PAPER, _STUDIES, _CAPTIONS = read_page("figures.md")
CAPTIONS = sections(_CAPTIONS)
_ALIASES = {slug: f"fig{number}" for number, (slug, *_) in enumerate(table_rows(_PAPER)[:6], 1)}
CATALOGUE, BEYOND = (
    {slug: CatalogueEntry(slug, title, module, _ALIASES.get(slug)) for slug, title, module in table_rows(page)}
    for page in (_PAPER, _STUDIES)
)
"""The figures of the paper, and the studies that go beyond it on the same rails."""
_NAMES = CATALOGUE | BEYOND | {alias: CATALOGUE[slug] for slug, alias in _ALIASES.items()}


def find_figures(names: Iterable[str]) -> list[CatalogueEntry]:
    """Return the entries with these slugs or aliases, each once; `all` stands for every figure of the paper."""
    wanted = list(names)
    return [*CATALOGUE.values()] if "all" in wanted else [*dict.fromkeys(map(find_figure, wanted))]


def find_figure(name: str) -> CatalogueEntry:
    """Return the entry with this slug or alias."""
    if name in _NAMES:
        return _NAMES[name]
    hint = checks.suggestion(name, _NAMES)
    raise UnknownFigureError(f"there is no figure {name!r}.{hint} `mupc reproduce --list` shows all of them.")
