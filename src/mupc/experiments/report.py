"""The report: what was claimed, what was measured and what came of it, from the files in `results/`."""

from __future__ import annotations

import base64
import html
from collections.abc import Iterable
from pathlib import Path

from ._answers import Section, duration, sections
from ._catalogue import BEYOND, CATALOGUE
from ._figure import FAILS, HOLDS, NOT_RUN, REPORTED, VERDICTS, Row
from ._results import read_all
from ._store import write_text
from .cost import every_cell, predicted

TITLE = "Reproduction of the paper's figures"
INTRODUCTION = (
    "Every figure of the paper with the claims it carries, as predicates on measured numbers. A claim holds, fails "
    "or was not run; a number of which nothing is asked is reported. Only results at the paper preset count. This page "
    "is made by `mupc report` from the files in `results/`."
)
FURTHER = "Beyond the paper"
FURTHER_TEXT = "Studies of our own on the same rails: what the paper's inference leaves undone, and what does better."
QUICK = "Quick checks, which are not reproductions"
QUICK_TEXT = "Small networks on built-in data, with rates and thresholds of their own. They test the machinery."


def write(results: Path, markdown: Path, page: Path | None) -> tuple[dict[str, int], str]:
    """Writes the Markdown and, unless None, a self-contained HTML page; returns how many claims have each verdict, and
    a sentence about that."""
    found = read_all(results)
    paper = [result for result in found if result["preset"] == "paper" and result["slug"] not in BEYOND]
    further = [result for result in found if result["preset"] == "paper" and result["slug"] in BEYOND]
    quick = [result for result in found if result["preset"] != "paper"]
    write_text(markdown, _markdown(paper, further, quick, _relative(results, markdown.parent)))
    if page is not None:
        write_text(page, _html(paper, further, quick, results))
    return count(paper), _summary(paper)


def count(paper: Iterable[Row]) -> dict[str, int]:
    """How many claims of these results have each verdict."""
    verdicts = [claim["verdict"] for result in paper for claim in result["claims"]]
    return {verdict: verdicts.count(verdict) for verdict in VERDICTS}


def missing(paper: Iterable[Row]) -> list[str]:
    """The figures without a result at the paper preset."""
    done = {result["slug"] for result in paper}
    return [slug for slug in CATALOGUE if slug not in done]


def _not_run(slug: str) -> str:
    """That a figure was not run, and what it would cost."""
    seconds = predicted(every_cell(CATALOGUE[slug].load()))
    return NOT_RUN if seconds is None else f"{NOT_RUN}; predicted {duration(seconds)} on one H200"


def _summary(paper: list[Row]) -> str:
    claims = count(paper)
    judged = f"{claims[HOLDS]} hold, {claims[FAILS]} fail, {claims[NOT_RUN]} were not run"
    numbers = f"{judged}; {claims[REPORTED]} numbers are only reported"
    figures = f"{len(paper)} of {len(CATALOGUE)} figures have results, {len(missing(paper))} were not run"
    return f"{figures}; of the claims of those with results: {numbers}."


def _facts(result: Row) -> list[str]:
    """How a result was made, a line each."""
    counts = result.get("cells") or {}
    whole = (
        "complete" if result.get("complete") else f"{counts.get('finished')} of at least {counts.get('known')} cells"
    )
    made = f"{result.get('device')}, {result.get('precision')}, {duration(result.get('seconds') or 0)} of computing"
    unofficial = sum(row.get("official_data") is False for row in result.get("data") or [])
    copy = [f"The data is not the published one in {unofficial} runs (`official_data`)."] if unofficial else []
    versions = ", ".join(f"{name} {version}" for name, version in (result.get("versions") or {}).items())
    return [f"{made}; {whole}.", f"Versions: {versions}.", *copy, *(result.get("config") or {}).get("protocol", [])]


def _measured(claim: Row) -> str:
    """The numbers, and what was checked where they fail."""
    checked = claim.get("checked")
    return claim["measured"] if checked is None else f"{claim['measured']}. Checked: {checked}"


def _relative(target: Path, start: Path) -> str:
    import os

    return Path(os.path.relpath(target, start)).as_posix()


def _cell(text: object) -> str:
    """Text inside a Markdown table."""
    escaped = html.escape(str(text), quote=False)
    return escaped.replace("\\", "\\\\").replace("|", "\\|").replace("\n", " ")


def _markdown(paper: list[Row], further: list[Row], quick: list[Row], folder: str) -> str:
    lines = [f"# {TITLE}", "", INTRODUCTION, "", _summary(paper), ""]
    for section in sections(paper, further):
        lines += _markdown_section(section)
    for result in paper:
        lines += _markdown_figure(result, folder)
    absent = missing(paper)
    if absent:
        lines += ["## Not run", "", "No result at the paper preset yet:", ""]
        lines += [f"- `{slug}`: {CATALOGUE[slug].title} ({_not_run(slug)})" for slug in absent] + [""]
    if further:
        lines += [f"## {FURTHER}", "", FURTHER_TEXT, ""]
        for result in further:
            lines += _markdown_figure(result, folder, "###")
    if quick:
        lines += [f"## {QUICK}", "", QUICK_TEXT, ""]
        for result in quick:
            lines += _markdown_figure(result, folder, "###", "quick: ")
    return "\n".join(lines).rstrip() + "\n"


def _markdown_section(section: Section) -> list[str]:
    lines = [f"## {section.title}", ""]
    for paragraph in section.text:
        lines += [paragraph, ""]
    for head, *rows in filter(None, section.tables):
        lines += [_markdown_row(head), "|---" * len(head) + "|", *map(_markdown_row, rows), ""]
    return lines


def _markdown_row(cells: Iterable[object]) -> str:
    return f"| {' | '.join(map(_cell, cells))} |"


def _markdown_figure(result: Row, folder: str, heading: str = "##", label: str = "") -> list[str]:
    entry = (CATALOGUE | BEYOND).get(result["slug"])
    alias = f" ({entry.alias})" if entry and entry.alias else ""
    title = _cell(result.get("title", ""))
    rows = [_markdown_row((c["claim"], c["expected"], _measured(c), label + c["verdict"])) for c in result["claims"]]
    return [
        f"{heading} `{result['slug']}`{alias}: {title}",
        "",
        _cell(result.get("caption", "")),
        "",
        f"![{title}]({folder}/{result['file']}.png)",
        "",
        "| claim | expected | measured | verdict |",
        "|---|---|---|---|",
        *rows,
        "",
        *(f"- {_cell(fact)}" for fact in _facts(result)),
        "",
    ]


_STYLE = """
body{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem;color:#222}
img{max-width:100%}table{border-collapse:collapse;width:100%;font-size:.9rem}
td,th{border:1px solid #ccc;padding:.3rem .5rem;text-align:left;vertical-align:top}
.holds{color:#007a55;font-weight:bold}.fails{color:#b34700;font-weight:bold}.not-run,.reported{color:#666}
ul{font-size:.85rem;color:#444}section.quick{background:#f6f6f6;padding:0 1rem}
"""


def _html(paper: list[Row], further: list[Row], quick: list[Row], folder: Path) -> str:
    absent = "".join(
        f"<li><code>{_text(slug)}</code>: {_text(CATALOGUE[slug].title)} ({_not_run(slug)})</li>"
        for slug in missing(paper)
    )
    studies = "".join(_html_figure(result, folder, "h3") for result in further)
    checks = "".join(_html_figure(result, folder, "h3", "quick: ") for result in quick)
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{_text(TITLE)}</title>'
        f"<style>{_STYLE}</style></head><body><h1>{_text(TITLE)}</h1><p>{_text(INTRODUCTION)}</p>"
        f"<p>{_text(_summary(paper))}</p>"
        + "".join(map(_html_section, sections(paper, further)))
        + "".join(_html_figure(result, folder) for result in paper)
        + (f"<h2>Not run</h2><ul>{absent}</ul>" if absent else "")
        + (f"<h2>{_text(FURTHER)}</h2><p>{_text(FURTHER_TEXT)}</p>{studies}" if further else "")
        + (
            f'<section class="quick"><h2>{_text(QUICK)}</h2><p>{_text(QUICK_TEXT)}</p>{checks}</section>'
            if quick
            else ""
        )
        + "</body></html>\n"
    )


def _html_section(section: Section) -> str:
    def row(cells: Iterable[object], tag: str) -> str:
        return "<tr>" + "".join(f"<{tag}>{_text(cell)}</{tag}>" for cell in cells) + "</tr>"

    tables = "".join(
        f"<table>{row(head, 'th')}{''.join(row(cells, 'td') for cells in rows)}</table>"
        for head, *rows in filter(None, section.tables)
    )
    return f"<h2>{_text(section.title)}</h2>" + "".join(f"<p>{_text(line)}</p>" for line in section.text) + tables


def _html_figure(result: Row, folder: Path, heading: str = "h2", label: str = "") -> str:
    rows = "".join(
        f"<tr><td>{_text(c['claim'])}</td><td>{_text(c['expected'])}</td><td>{_text(_measured(c))}</td>"
        f'<td class="{_text(str(c["verdict"]).replace(" ", "-"))}">{_text(label)}{_text(c["verdict"])}</td></tr>'
        for c in result["claims"]
    )
    facts = "".join(f"<li>{_text(fact)}</li>" for fact in _facts(result))
    return (
        f"<{heading}><code>{_text(result['slug'])}</code>: {_text(result.get('title', ''))}</{heading}>"
        f"<p>{_text(result.get('caption', ''))}</p>{_image(folder / (result['file'] + '.png'), result)}"
        f"<table><tr><th>claim</th><th>expected</th><th>measured</th><th>verdict</th></tr>{rows}</table>"
        f"<ul>{facts}</ul>"
    )


def _image(path: Path, result: Row) -> str:
    try:
        data = base64.b64encode(path.read_bytes()).decode()
    except OSError:
        return "<p>(The figure has not been drawn.)</p>"
    return f'<p><img alt="{_text(result.get("title", ""))}" src="data:image/png;base64,{data}"></p>'


def _text(value: object) -> str:
    return html.escape(str(value), quote=True)
