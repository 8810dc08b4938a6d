"""Numbers, times and settings as a report writes them."""

import math

from .report_runs import is_number

ABSENT = "–"


def written_time(seconds: object) -> str | None:
    """Return a time as text, in the unit that suits it; None for what is not a number."""
    if not is_number(seconds):
        return None
    units = {"h": 3600, "min": 60, "s": 1, "ms": 1e-3}
    unit = next((name for name, size in units.items() if seconds >= 2 * size), "ms")
    return f"{written_number(seconds / units[unit], 3)} {unit}"


def written_number(value: float, digits: int = 4) -> str:
    """Return a number as text with this many significant digits, and no exponent if it is of a common size."""
    size = 0 if value == 0 else math.floor(math.log10(abs(value)))
    if not -4 <= size < 7:
        return f"{value:.{digits - 1}e}"
    decimals = max(0, digits - 1 - size)
    text = f"{value:,.{decimals}f}"
    return text.rstrip("0").rstrip(".") if decimals else text


def written_setting(value: object) -> str:
    """Return a value of a configuration as text."""
    if value is None:
        return ABSENT
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list | tuple):
        return " ".join(map(written_setting, value))
    return f"{value:g}" if isinstance(value, float) else str(value)
