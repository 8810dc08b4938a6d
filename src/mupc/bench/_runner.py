"""Measures one case: the mode, the precision and the caches are set here, and running out of memory is a result."""

import dataclasses
import time
from typing import Any

import jax

from ..io import device, versions
from ..network import resolve_activation, resolve_precision
from ._cases import UPDATES, Case, Options
from ._fits import compile_ratios, fits
from ._timing import cold
from ._training import SAMPLES, measure_epoch, measure_grid, training_data
from ._update import Row, measure_compile, measure_evaluation, measure_update

MEASURES = dict.fromkeys(UPDATES, measure_update) | {
    "evaluation": measure_evaluation,
    "epoch": measure_epoch,
    "grid": measure_grid,
    "compile": measure_compile,
}


def measure(case: Case, options: Options) -> Row:
    """Measures a case and returns its row, ready for JSON.

    **Arguments:** a `mupc.bench.Case` and the `mupc.bench.Options`.

    **Example:**

    ```python
    from mupc import bench
    from mupc.bench._runner import measure

    row = measure(bench.Case("gd", hidden_layers=4, width=16), bench.Options(quick=True))
    row["ratios"]["unrolled / mupc"], row["shares"]["floor"]
    ```
    """
    name = options.precision or ("bf16" if jax.default_backend() == "gpu" else "float32")
    about = {
        "workload": case.workload,
        "hidden_layers": case.hidden_layers,
        "width": case.width,
        "steps": case.inference_steps,
        "steps_follow_depth": case.inference_steps is not None and case.steps is None,
        "batch_size": case.batch_size,
        "label": case.label,
    }
    started = time.perf_counter()
    with cold(), jax.enable_x64(name == "float64"):
        precision = resolve_precision(name, None).name
        about["precision"] = precision
        try:
            found = MEASURES[case.workload](case, options, precision)
        except (RuntimeError, MemoryError) as error:
            if not (isinstance(error, MemoryError) or "RESOURCE_EXHAUSTED" in str(error)):
                raise
            found = {"failed": "out of memory"}
    return {**about, **found, "seconds": time.perf_counter() - started}


def begin(options: Options, cases: list[Case]) -> dict[str, Any]:
    """What a record says of how it was made, after those checks that need JAX or files."""
    resolve_activation(options.activation)
    for case in cases:
        if case.workload in SAMPLES:
            training_data(case, options)
    return {"config": dataclasses.asdict(options) | options.grid, "device": device(), "versions": versions()}


def conclusions(rows: list[Row]) -> dict[str, Any]:
    """What follows from all rows together."""
    return {"fits": [fit._asdict() for fit in fits(rows)], "compile_ratios": compile_ratios(rows)}
