"""List, fetch and check data sets."""

import dataclasses
import sys
from collections.abc import Sequence
from typing import Annotated

import tyro

from .. import data as library
from .flags import DataDir, ScreenFlags, hint
from .runner import FAILURE, Command, CommandResult, Session

NAMES = "NAME [NAME ...]"


@dataclasses.dataclass(frozen=True, kw_only=True)
class DataListFlags(ScreenFlags):
    """List the data sets and where they were found."""

    data_dir: DataDir = None
    """Folder to search first."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class DataFetchFlags(ScreenFlags):
    """Download data sets from their official sources, with checksums."""

    names: Annotated[tyro.conf.Positional[tuple[str, ...]], hint("", NAMES)]
    """Data sets, or `all`."""
    data_dir: DataDir = None
    """Folder to store them in."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class DataCheckFlags(ScreenFlags):
    """Verify the files of data sets against the published checksums; exit code 1 if something is wrong."""

    names: Annotated[tyro.conf.Positional[tuple[str, ...]], tyro.conf.arg(metavar=f"[{NAMES}]")] = ("all",)
    """Data sets or .npz files, or `all` that are present."""
    data_dir: DataDir = None
    """Folder to search first."""


def list_data(flags: DataListFlags, session: Session) -> CommandResult:
    """Show the data sets and where they were found."""
    found = library.available(flags.data_dir)
    rows = [
        (
            entry.name,
            "×".join(map(str, entry.image_shape)) if entry.image_shape else "text",
            f"{entry.train:,}",
            f"{entry.test:,}",
            str(entry.classes),
            entry.where or f"absent: mupc data fetch {entry.name}, or --data-dir DIR if you have its files",
        )
        for entry in found
    ]
    _show(session, ("name", "image", "train", "test", "classes", "where"), rows)
    return CommandResult({entry.name: {**vars(entry), "present": entry.present} for entry in found})


def fetch_data(flags: DataFetchFlags, session: Session) -> CommandResult:
    """Download data sets."""
    if not flags.names:
        raise ValueError("say which data sets to fetch, such as `mupc data fetch mnist`, or `all`.")
    every = tuple(entry.name for entry in library.available() if entry.where != "scikit-learn")
    folders = {}
    for name in every if "all" in flags.names else flags.names:
        folders[name] = str(library.fetch(name, data_dir=flags.data_dir, progress=not session.console.quiet))
        session.say(f"{name} is in {folders[name]}")
    return CommandResult(folders)


def check_data(flags: DataCheckFlags, session: Session) -> CommandResult:
    """Compare the files of data sets with the published checksums."""
    names = flags.names
    if "all" in names:
        names = tuple(entry.name for entry in library.available(flags.data_dir) if entry.present)
    results = {name: library.check(name, flags.data_dir) for name in names}
    rows = [row for name, files in results.items() for row in _verdicts(name, files)]
    _show(session, ("name", "file", "verdict", "why"), rows)
    cures = ((name, result.cure) for name, files in results.items() for result in files if result.cure)
    for name, cure in dict.fromkeys(cures):
        session.say(f"{name}: {cure}")
    good = all(result.ok for files in results.values() for result in files)
    summary = {name: [vars(result) for result in files] for name, files in results.items()}
    return CommandResult(summary, code=0 if good else FAILURE)


def _verdicts(name: str, files: Sequence[library.FileCheck]) -> list[tuple[str, ...]]:
    """Return a row for each file of a data set; the reason for several absent ones stands in the first of them."""
    first = next((result for result in files if not result.present), None)
    rows: list[tuple[str, ...]] = []
    for result in files:
        verdict = "ok" if result.ok else "WRONG" if result.present else "absent"
        again = not result.present and result is not first
        rows.append((name, result.file, verdict, "as above" if again else result.message))
    return rows


def _show(session: Session, columns: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> None:
    """Show a table, folded to the terminal; where there is none, a line for each row, however long."""
    if sys.stdout.isatty():
        from rich.table import Table

        table = Table(*columns, box=None, header_style="bold", pad_edge=False)
        for row in rows:
            table.add_row(*row)
        session.console.print(table)
        return
    widths = [max(map(len, column)) for column in zip(columns, *rows, strict=True)]
    for row in (columns, *rows):
        session.say("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


COMMANDS = {
    "list": Command(flags=DataListFlags, run=list_data),
    "fetch": Command(flags=DataFetchFlags, run=fetch_data),
    "check": Command(flags=DataCheckFlags, run=check_data),
}
