"""How commands show tables and name losses."""

from collections.abc import Collection

from rich.table import Table


def describe_loss(loss: str) -> str:
    """Return the name of a loss, and what it is if that is not plain."""
    return "mse loss (½ squared error, summed over outputs)" if loss == "mse" else f"{loss} loss"


def plain_table(*columns: str, left: Collection[str] = ()) -> Table:
    """Return a table without lines. Columns are right-aligned, except those in `left`."""
    table = Table(box=None, header_style="bold", pad_edge=False, padding=(0, 1))
    for name in columns:
        table.add_column(name, justify="left" if name in left else "right", no_wrap=True)
    return table
