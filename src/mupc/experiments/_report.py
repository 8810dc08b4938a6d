"""Write the report on what was claimed and what was measured, from the files in `results/`."""

import os
from collections.abc import Iterable
from pathlib import Path

from ._answers import duration, sections
from ._catalogue import BEYOND, CATALOGUE
from ._claims import FAILS, HOLDS, NOT_RUN, REPORTED, VERDICTS
from ._figure import Row
from ._page import TEXTS, ReportSection, as_html, as_markdown
from ._results import part_finished, read_records
from ._store import write_text

TITLE = "Reproduction of the paper's figures"


def write_report(results: Path, markdown: Path, page: Path) -> tuple[dict[str, int], str]:
    """Write the Markdown page and the self-contained HTML page. Return how many claims have each verdict, and a
    sentence about that."""
    found = read_records(results)
    paper = [result for result in found if result["preset"] == "paper" and result["slug"] not in BEYOND]
    further = [result for result in found if result["preset"] == "paper" and result["slug"] in BEYOND]
    quick = [result for result in found if result["preset"] != "paper"]
    summary = _summary(paper)
    absent = tuple(f"`{slug}`: {CATALOGUE[slug].title} ({NOT_RUN})" for slug in _missing(paper))
    whole = [
        ReportSection(TITLE, (*TEXTS["introduction"], summary), level=1),
        *sections(paper, further),
        *map(figure_section, paper),
        *([ReportSection("Not run", ("No result at the paper preset yet:",), notes=absent)] if absent else []),
        *([ReportSection("Beyond the paper", TEXTS["further"])] if further else []),
        *(figure_section(result, level=3) for result in further),
        *([ReportSection("Quick checks, which are not reproductions", TEXTS["quick"])] if quick else []),
        *(figure_section(result, level=3, label="quick: ") for result in quick),
    ]
    write_text(markdown, as_markdown(whole, Path(os.path.relpath(results, markdown.parent)).as_posix()))
    write_text(page, as_html(whole, results))
    return count_verdicts(paper), summary


def count_verdicts(results: Iterable[Row]) -> dict[str, int]:
    """Return how many claims of these results have each verdict."""
    verdicts = [claim["verdict"] for result in results for claim in result["claims"]]
    return {verdict: verdicts.count(verdict) for verdict in VERDICTS}


def _missing(paper: Iterable[Row]) -> list[str]:
    done = {result["slug"] for result in paper}
    return [slug for slug in CATALOGUE if slug not in done]


def _summary(paper: list[Row]) -> str:
    claims = count_verdicts(paper)
    judged = f"{claims[HOLDS]} hold, {claims[FAILS]} fail, {claims[NOT_RUN]} not run"
    part = sum(not result["complete"] for result in paper)
    figures = f"{len(paper)} of {len(CATALOGUE)} figures have results" + (f", {part} of them in part" if part else "")
    return f"{figures}; of their claims {judged}; {claims[REPORTED]} numbers are only reported."


def figure_section(result: Row, level: int = 2, label: str = "") -> ReportSection:
    """Return the section of one result; `label` goes before every verdict."""
    entry = (CATALOGUE | BEYOND).get(result["slug"])
    alias = f" ({entry.alias})" if entry and entry.alias else ""
    title = str(result.get("title", ""))
    claims = [
        (f"`{c['id']}`" if c.get("id") else "", c["claim"], c["expected"], _measured(c), label + c["verdict"])
        for c in result["claims"]
    ]
    return ReportSection(
        f"`{result['slug']}`{alias}: {title}",
        (str(result.get("caption", "")),),
        ([("id", "claim", "expected", "measured", "verdict"), *claims],),
        tuple(_facts(result)),
        (result["file"], title),
        level,
    )


def _facts(result: Row) -> list[str]:
    """Return how a result was made, a line each."""
    whole = "complete" if result["complete"] else part_finished(result)
    made = f"{result['device']}, {result.get('precision')}, {duration(result['seconds'])} of computing"
    unofficial = sum(row.get("official_data") is False for row in result["data"])
    copy = [f"The data is not the published one in {unofficial} runs (`official_data`)."] if unofficial else []
    versions = ", ".join(f"{name} {version}" for name, version in result["versions"].items())
    return [f"{made}; {whole}.", f"Versions: {versions}.", *copy, *result["config"]["protocol"]]


def _measured(claim: Row) -> str:
    """Return the numbers, and what was checked where they fail."""
    checked = claim.get("checked")
    return str(claim["measured"]) if checked is None else f"{claim['measured']}. Checked: {checked}"
