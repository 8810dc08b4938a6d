"""Strict JSON, which has no NaN and no infinity."""

import json
import math
from typing import Any


def json_ready(value: object, digits: int | None = None) -> Any:
    """Return a value that JSON can hold: NaN and infinity become null, and numpy's numbers plain ones. Floats are
    rounded to this many significant `digits`, if given."""
    if isinstance(value, dict):
        return {str(key): json_ready(item, digits) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [json_ready(item, digits) for item in value]
    if hasattr(value, "tolist"):
        return json_ready(value.tolist(), digits)
    if isinstance(value, float):
        finite = value if digits is None else float(f"{value:.{digits}g}")
        return finite if math.isfinite(value) else None
    return value


def json_text(value: object, indent: int | None = None, digits: int | None = None) -> str:
    """Return strict JSON text; see `json_ready`."""
    return json.dumps(json_ready(value, digits), indent=indent, allow_nan=False, ensure_ascii=False)
