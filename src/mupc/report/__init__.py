"""One self-contained HTML page from titles, tables, charts and pictures, without JAX.

Jinja2 is imported only to render.

>>> from mupc import report
>>> page = report.Page("A page", sections=(report.PageSection("Numbers", (report.Prose(("One & two",)),)),))
>>> "One &amp; two" in report.render(page)
True
"""

from ._blocks import (
    Alert,
    Block,
    Chart,
    ChartGrid,
    Fact,
    Facts,
    Gallery,
    GalleryItem,
    Heading,
    Matrix,
    NoteList,
    Page,
    PageSection,
    Picture,
    PlainTable,
    Prose,
    Series,
    ShadedText,
    TableGrid,
)
from ._pictures import pixels_as_png, png_uri
from ._render import render
