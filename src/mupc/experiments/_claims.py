"""Judge claims. Their ids, texts and expectations are in `claims.md`, which is next to this file."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping

from ._tables import read_page, table_rows

HOLDS, FAILS, NOT_RUN, REPORTED = VERDICTS = "holds", "fails", "not run", "reported"


class MissingCellsError(Exception):
    """A claim needs cells that have not been computed."""


@dataclasses.dataclass(frozen=True)
class Claim:
    """A claim of `claims.md` with the numbers it was judged by."""

    id: str
    claim: str
    measured: str
    expected: str
    verdict: str


CLAIMS = {name: (claim, expected) for name, claim, expected in table_rows(read_page("claims.md"))}
"""Claims and what is expected of them, by id; all with names in braces."""


def judge(name: str, measure: Callable[..., tuple[bool, str]], *arguments: object, **values: object) -> Claim:
    """Return the claim with this id and its verdict.

    `measure(*arguments)` returns whether it is true and the numbers, or raises `MissingCellsError`. `values` are what
    the names in braces stand for.
    """

    def decide() -> tuple[str, str]:
        true, measured = measure(*arguments)
        return (HOLDS if true else FAILS), measured

    return _decided(name, decide, values)


def report_only(name: str, measure: Callable[..., str], *arguments: object, **values: object) -> Claim:
    """Return numbers of which nothing is asked, so that they can neither hold nor fail. See `judge`."""
    return _decided(name, lambda: (REPORTED, measure(*arguments)), values)


def _decided(name: str, decide: Callable[[], tuple[str, str]], values: dict[str, object]) -> Claim:
    claim, expected = CLAIMS[name]
    try:
        verdict, measured = decide()
    except MissingCellsError as missing:
        verdict, measured = NOT_RUN, f"not run: {missing}"
    return Claim(name.format(**values), claim.format(**values), measured, expected.format(**values), verdict)


def checked_by_id(checked: Mapping[str, str]) -> Callable[[object, object, Claim], str | None]:
    """Return a `Figure.checked` that looks up what was checked by the id of the claim."""
    return lambda config, table, claim: checked.get(claim.id)
