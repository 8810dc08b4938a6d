"""Write numbers of things in messages."""


def counted(number: int, one: str, many: str | None = None) -> str:
    """Return a number with its noun: `1 cell`, `2 cells`. `many` is the plural of nouns that take more than an s."""
    return f"1 {one}" if number == 1 else f"{number} {many or one + 's'}"
