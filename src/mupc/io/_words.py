"""Words in messages."""


def counted(number: int, one: str, many: str | None = None) -> str:
    """So many of a thing: `1 cell`, `2 cells`; `many` where an s does not make it."""
    return f"1 {one}" if number == 1 else f"{number} {many or one + 's'}"
