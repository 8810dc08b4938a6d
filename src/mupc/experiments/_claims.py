"""Judge claims. Their ids, texts and expectations are in `claims.md`, which is next to this file."""

import dataclasses
from collections.abc import Callable

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


CLAIMS = {name: (claim, expected) for name, claim, expected in table_rows(*read_page("claims.md"))}
"""Claims and what is expected of them, by id; all with names in braces."""


def judge(name: str, measure: Callable[..., tuple[bool, str] | str], *arguments: object, **values: object) -> Claim:
    """Return the claim with this id and its verdict.

    `measure(*arguments)` returns whether it is true and the numbers, or raises `MissingCellsError`. It returns only the
    numbers if nothing is asked of them, so that they can neither hold nor fail. `values` are what the names in braces
    stand for.
    """
    claim, expected = CLAIMS[name]
    try:
        found = measure(*arguments)
        true, measured = (None, found) if isinstance(found, str) else found
        verdict = REPORTED if true is None else HOLDS if true else FAILS
    except MissingCellsError as missing:
        verdict, measured = NOT_RUN, f"not run: {missing}"
    return Claim(name.format(**values), claim.format(**values), measured, expected.format(**values), verdict)
