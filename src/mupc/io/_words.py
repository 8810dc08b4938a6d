"""Write numbers of things in messages, and make texts comparable."""

import re

_ADDRESS = re.compile(r" at 0x[0-9a-f]+")


def without_addresses(text: str) -> str:
    """Return a text without the addresses in memory that functions have in it, others in each process."""
    return _ADDRESS.sub("", text)


def counted(number: int, one: str, many: str | None = None) -> str:
    """Return a number with its noun: `1 cell`, `2 cells`. `many` is the plural of nouns that take more than an s."""
    return f"1 {one}" if number == 1 else f"{number} {many or one + 's'}"


def size_in_words(width: int, depth: int | None, depth_name: str | None) -> str:
    """Return the size of a network, such as "8 hidden layers of 64"."""
    if depth_name is None or depth is None:
        return f"width {width}"
    return f"{counted(depth, depth_name.replace('_', ' ').removesuffix('s'))} of {width}"
