"""`mupc report`: what was reproduced, from the files in `results/`."""

import json as json_module
from pathlib import Path
from typing import Annotated

import tyro

from ..experiments import report as library
from .parse import call

Flag = tyro.conf.FlagCreatePairsOff[bool]


def run(argv: list[str]) -> int:
    """Writes the report and returns the exit code."""
    return call(
        report,
        argv,
        prog="mupc report",
        description="Gather the reproduced figures into a Markdown page and a self-contained HTML page.",
    )


def report(
    results: Annotated[Path, tyro.conf.arg(metavar="DIR")] = Path("results"),
    markdown: Annotated[Path, tyro.conf.arg(metavar="FILE")] = Path("docs/reproduction.md"),
    html: Annotated[Path, tyro.conf.arg(metavar="FILE")] = Path("runs/report.html"),
    json: Flag = False,
    quiet: Flag = False,
    debug: Flag = False,
) -> int:
    """Gather the reproduced figures.

    Args:
        results: Folder that `mupc reproduce` wrote.
        markdown: The Markdown page; it shows the figures where they are.
        html: The HTML page; it holds the figures and needs nothing beside it.
        json: Print one JSON object.
        quiet: Print errors only.
        debug: Show tracebacks.
    """
    if not results.is_dir():
        raise ValueError(f"{results} is not a folder: run `mupc reproduce SLUG` first.")
    verdicts, summary = library.write(results, markdown, html)
    if json:
        print(json_module.dumps({"verdicts": verdicts, "markdown": str(markdown), "html": str(html)}))
    elif not quiet:
        print(f"At the paper preset, {summary}\n{markdown} and {html}")
    return 0
