"""`mupc reproduce`: regenerate figures of the paper and judge its claims."""

import json as json_module
import sys
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro
from rich.console import Console
from rich.table import Table

from .. import experiments
from ..data import DataError
from ..experiments.__main__ import WORK, describe
from ..io import Interruption, checks
from .flags import DataDir, hint
from .parse import call

Flag = tyro.conf.FlagCreatePairsOff[bool]
RESULTS = Path("results")
USAGE_ERROR, FAILURE = 2, 1
COLOURS = dict(zip(experiments.VERDICTS, ("green", "red", "yellow", "cyan"), strict=True))


def run(argv: list[str]) -> int:
    """Reproduces figures and returns the exit code: 1 if a cell failed or another process has it, 2 for a wrong name,
    missing data or a disk that cannot be written, 130 or 143 for an interruption.

    A claim that fails is a finding and no error.
    """
    return call(
        reproduce,
        argv,
        prog="mupc reproduce",
        description="Regenerate figures of the paper and judge its claims: SLUG.json and SLUG.png for each.",
    )


def reproduce(
    slugs: Annotated[tuple[str, ...], tyro.conf.Positional, hint("(see --list)", "SLUG [SLUG ...]")] = (),
    /,
    list: Flag = False,
    preset: Literal["quick", "paper"] = "quick",
    resume: bool = True,
    merge: Flag = False,
    out: Annotated[Path, tyro.conf.arg(metavar="DIR")] = RESULTS,
    work: Annotated[Path, tyro.conf.arg(metavar="DIR")] = WORK,
    data_dir: DataDir = None,
    shard: Annotated[str, tyro.conf.arg(metavar="I/N")] = "1/1",
    seconds_limit: Annotated[float | None, hint("(default: none)", "S")] = None,
    at_once: Annotated[int, tyro.conf.arg(metavar="N")] = 1,
    precision: Annotated[Literal["float32", "tf32", "bf16", "float64"] | None, hint("(default: the preset's)")] = None,
    json: Flag = False,
    quiet: Flag = False,
    debug: Flag = False,
) -> int:
    """Regenerate figures.

    Args:
        slugs: Figures by slug or alias (fig1 … fig6), or `all` that can be regenerated.
        list: List every figure of the paper and how far it is.
        preset: `paper` is the paper's setup and wants an accelerator; `quick` is a small check on built-in data,
            under a minute each, and never counts as a reproduction.
        resume: Reuse the cells that are finished.
        merge: Compute nothing: judge and draw what is finished, such as cells brought back from another machine.
        out: Folder for SLUG.json and SLUG.png.
        work: Folder of finished cells, one file each.
        data_dir: Folder with the files of the data sets.
        shard: Compute only part I of N.
        seconds_limit: Start no cell after so many seconds.
        at_once: Compute so many cells at the same time: one compiles while another runs.
        precision: Override the preset's precision.
        json: Print one JSON object.
        quiet: Print errors only.
        debug: Show tracebacks.
    """
    console = Console(quiet=quiet or json, highlight=False, soft_wrap=True)
    if list:
        return _list(out, console, json)
    if not slugs:
        return _complain("name a figure, or `all`; `mupc reproduce --list` shows them.")
    try:
        entries = _entries(slugs)
        figures = [entry.load() for entry in entries]
        part = experiments.Shard.parse(shard)
        checks.integer("--at-once", at_once, 1)
    except ValueError as error:
        return _complain(str(error))
    limit = 0.0 if merge else seconds_limit
    store, interruption = experiments.CellStore(work), Interruption("mupc reproduce")
    context = experiments.RunContext(data_dir, stop=interruption)
    code, results = 0, []
    for figure in figures:
        config = figure.config(preset, precision)
        try:
            with interruption, _Display(console, figure.slug) as display:
                progress = experiments.execute(
                    figure,
                    config,
                    store,
                    context,
                    shard=part,
                    seconds_limit=limit,
                    resume=resume or merge,
                    at_once=at_once,
                    report=display.update,
                )
        except KeyboardInterrupt:
            again = "the same command" if resume else "the same command without --no-resume"
            return _complain(
                f"{figure.slug}: interrupted; what is finished is kept, {again} goes on.", interruption.code
            )
        except DataError as error:
            code = _complain(f"{figure.slug}: {error}")
            continue
        for cell, reason in progress.failed.items():
            code = _complain(f"{figure.slug}: {cell.label}: {reason}", max(code, FAILURE))
        if progress.busy:
            line = f"another process computes {len(progress.busy)} cells in {work}: repeat this once it has ended."
            code = _complain(f"{figure.slug}: {line}", max(code, FAILURE))
        if not progress.finished:
            code = _complain(f"{figure.slug}: no cell is finished, so there is nothing to save.", max(code, FAILURE))
            continue
        result = experiments.record(figure, preset, config, progress)
        path = experiments.save(figure, result, out)
        results.append(result)
        _show(console, result, path)
    if json:
        print(json_module.dumps({result["slug"]: _summary(result) for result in results}, ensure_ascii=False))
    return code


def _entries(slugs: tuple[str, ...]) -> list[experiments.CatalogueEntry]:
    if "all" in slugs:
        return [entry for entry in experiments.CATALOGUE.values() if entry.module]
    return [*dict.fromkeys(experiments.find_figure(slug) for slug in slugs)]


def _list(out: Path, console: Console, json: bool) -> int:
    found = experiments.status(out)
    if json:
        rows: dict[str, Any] = {line.entry.slug: {"alias": line.entry.alias, "state": line.state} for line in found}
        print(json_module.dumps(rows, ensure_ascii=False))
        return 0
    wide = max(len(line.entry.slug) for line in found)
    state = max(len(line.state) for line in found)
    for line in found:
        alias = line.entry.alias or ""
        console.print(f"{line.entry.slug:<{wide}}  {alias:<4}  {line.state:<{state}}  {line.entry.title}", markup=False)
    return 0


def _show(console: Console, result: dict[str, Any], path: Path) -> None:
    label = "" if result["preset"] == "paper" else " (quick preset: not a reproduction)"
    part = "" if result["complete"] else ", not complete"
    table = Table(title=f"{result['slug']}{label}{part}", title_justify="left", show_lines=False)
    for name in ("claim", "expected", "measured", "verdict"):
        table.add_column(name, overflow="fold")
    for claim in result["claims"]:
        colour = COLOURS[claim["verdict"]]
        table.add_row(claim["claim"], claim["expected"], claim["measured"], f"[{colour}]{claim['verdict']}[/]")
    console.print(table, soft_wrap=False)
    console.print(f"{path} and {path.with_suffix('.png').name}, {result['seconds']:.0f} s of computing", markup=False)


def _summary(result: dict[str, Any]) -> dict[str, Any]:
    return {name: result[name] for name in ("preset", "complete", "cells", "claims", "device", "seconds")}


def _complain(line: str, code: int = USAGE_ERROR) -> int:
    print(f"mupc reproduce: {line}", file=sys.stderr)
    return code


class _Display:
    """A bar of cells on a terminal, a line per cell elsewhere."""

    def __init__(self, console: Console, slug: str) -> None:
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

        self.console, self.slug = console, slug
        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
        self.bar = Progress(*columns, console=console) if console.is_terminal and not console.quiet else None
        self.task = self.bar.add_task(slug, total=None) if self.bar else None

    def __enter__(self) -> "_Display":
        if self.bar:
            self.bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self.bar:
            self.bar.stop()

    def update(self, cell: experiments.FigureCell, result: dict[str, Any] | None, done: int, known: int) -> None:
        line = describe(cell, result, done, known)
        if self.bar and self.task is not None:
            self.bar.update(self.task, completed=done, total=known, description=f"{self.slug}: {cell.label}")
        else:
            self.console.print(line, markup=False)
