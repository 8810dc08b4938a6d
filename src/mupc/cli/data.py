"""`mupc data list | fetch | check`."""

import sys
from collections.abc import Sequence
from typing import Annotated, Any

import tyro

from .. import data as library
from .flags import DataDir, hint
from .parse import call_one

NAMES = "NAME [NAME ...]"
Flag = tyro.conf.FlagCreatePairsOff[bool]


def run(argv: list[str]) -> int:
    """Lists, fetches or checks data sets and returns the exit code."""
    return call_one(
        {"list": _list, "fetch": _fetch, "check": _check},
        argv,
        prog="mupc data",
        description="List, fetch and check data sets.",
    )


def _list(data_dir: DataDir = None, json: Flag = False, debug: Flag = False) -> int:
    """List the data sets and where they were found.

    Args:
        data_dir: Folder to search first.
        json: Print one JSON object.
        debug: Show tracebacks.
    """
    found = library.available(data_dir)
    if json:
        _print_json({entry.name: {**vars(entry), "present": entry.present} for entry in found})
        return 0
    rows = [
        (
            entry.name,
            "×".join(map(str, entry.image_shape)),
            f"{entry.train:,}",
            f"{entry.test:,}",
            str(entry.classes),
            entry.where or f"absent: mupc data fetch {entry.name}, or --data-dir DIR if you have its files",
        )
        for entry in found
    ]
    _print_table(("name", "image", "train", "test", "classes", "where"), rows)
    return 0


def _fetch(
    names: Annotated[tuple[str, ...], tyro.conf.Positional, hint("", NAMES)],
    /,
    data_dir: DataDir = None,
    quiet: Flag = False,
    debug: Flag = False,
) -> int:
    """Download data sets from their official sources, with checksums.

    Args:
        names: Data sets, or `all`.
        data_dir: Folder to store them in.
        quiet: Print errors only.
        debug: Show tracebacks.
    """
    for name in _expand(names):
        folder = library.fetch(name, data_dir=data_dir, progress=not quiet)
        if not quiet:
            print(f"{name} is in {folder}")
    return 0


def _check(
    names: Annotated[tuple[str, ...], tyro.conf.Positional, tyro.conf.arg(metavar=f"[{NAMES}]")] = ("all",),
    /,
    data_dir: DataDir = None,
    json: Flag = False,
    debug: Flag = False,
) -> int:
    """Verify the files of data sets against the published checksums; exit code 1 if something is wrong.

    Args:
        names: Data sets or .npz files, or `all` that are present.
        data_dir: Folder to search first.
        json: Print one JSON object.
        debug: Show tracebacks.
    """
    if "all" in names:
        names = tuple(entry.name for entry in library.available(data_dir) if entry.present)
    results = {name: library.check(name, data_dir) for name in names}
    if json:
        _print_json({name: [vars(result) for result in files] for name, files in results.items()})
    else:
        rows = [row for name, files in results.items() for row in _verdicts(name, files)]
        _print_table(("name", "file", "verdict", "why"), rows)
        cures = ((name, result.cure) for name, files in results.items() for result in files if result.cure)
        for name, cure in dict.fromkeys(cures):
            print(f"{name}: {cure}")
    return int(not all(result.ok for files in results.values() for result in files))


def _verdicts(name: str, files: Sequence[library.FileCheck]) -> list[tuple[str, ...]]:
    """A row for each file of a data set; what several are absent from is said once."""
    first = next((result for result in files if not result.present), None)
    rows: list[tuple[str, ...]] = []
    for result in files:
        verdict = "ok" if result.ok else "WRONG" if result.present else "absent"
        again = not result.present and result is not first
        rows.append((name, result.file, verdict, "as above" if again else result.message))
    return rows


def _expand(names: tuple[str, ...]) -> tuple[str, ...]:
    """`all` stands for every data set that can be fetched; digits come with scikit-learn."""
    if not names:
        raise ValueError("say which data sets to fetch, such as `mupc data fetch mnist`, or `all`.")
    every = tuple(entry.name for entry in library.available() if entry.where != "scikit-learn")
    return every if "all" in names else names


def _print_json(content: dict[str, Any]) -> None:
    from .run_folder import dumps

    print(dumps(content, indent=2))


def _print_table(columns: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> None:
    if not sys.stdout.isatty():
        widths = [max(map(len, column)) for column in zip(columns, *rows, strict=True)]
        for row in (columns, *rows):
            print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
        return
    from rich.console import Console
    from rich.table import Table

    table = Table(*columns, box=None, header_style="bold", pad_edge=False)
    for row in rows:
        table.add_row(*row)
    Console().print(table)
