"""Agreement between the processes of one run. Each function must be called by all of them together."""

from __future__ import annotations

import json
from collections.abc import Mapping

from . import checks


def process_count() -> int:
    """Return how many processes compute together."""
    import jax

    return jax.process_count()


def is_first_process() -> bool:
    """Return whether this process is the one that writes files."""
    import jax

    return jax.process_index() == 0


def any_process(flag: bool) -> bool:
    """Return whether the flag is set in any process, so that all of them go the same way."""
    if process_count() == 1:
        return flag
    import numpy as np
    from jax.experimental.multihost_utils import process_allgather

    return bool(np.any(process_allgather(np.asarray(flag))))


def gather_texts(text: str) -> list[str]:
    """Return the texts of all processes, in their order."""
    if process_count() == 1:
        return [text]
    import numpy as np
    from jax.experimental.multihost_utils import process_allgather

    own = np.frombuffer(text.encode(), np.uint8)
    sizes = process_allgather(np.asarray(len(own)))
    rows = process_allgather(np.pad(own, (0, int(sizes.max()) - len(own))))
    return [row[:size].tobytes().decode() for row, size in zip(rows, sizes, strict=True)]


def check_same_run(settings: Mapping[str, str]) -> None:
    """Refuse processes that would train different runs, and name the first difference."""
    first, *others = map(json.loads, gather_texts(json.dumps(settings)))
    for index, other in enumerate(others, start=1):
        for name in first | other:
            if first.get(name) != other.get(name):
                wrong = f"was started for another run: {name} is {other.get(name)} there, and {first.get(name)} in"
                cure = "process 0. Start all processes with the same data and settings."
                raise checks.ArgumentError(f"process {index}", wrong.replace("{", "{{").replace("}", "}}"), cure)
