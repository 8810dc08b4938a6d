"""Compile functions, time them in turns, and find the device's limits: the rates of large products and of copies."""

import contextlib
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import jax.random as jr

from ..network import POLICIES, backend
from ._config import BenchCase

Timing = dict[str, Any]
"""What a row says about one program: `median_s`, `fastest_s`, `slowest_s`, `spread` (half the distance between those
two, as a share of the median), `repeats`, and the costs of compiling it."""
ENOUGH = 0.02
"""Seconds that one measurement should last: quick programs are called several times."""
LIMIT = 30.0
"""Seconds after which no further turn begins, once there were three."""
LARGE = {"cpu": 2048, "other": 8192}
COPIED = {"cpu": 2**25, "other": 2**28}
"""Rows of a large product, and numbers to copy: far beyond the caches."""


class CompiledCall(NamedTuple):
    """A compiled function with its arguments, and what it costs: `trace_compile_s` and `memory_bytes`.

    Memory is what the compiler reports: arguments, results and temporaries together. `work` has the flops, or the bytes
    read and written, of a call that shows a limit of the device.
    """

    function: Callable[..., Any]
    arguments: tuple[object, ...]
    costs: Timing
    work: int = 0

    def __call__(self) -> Any:
        return self.function(*self.arguments)


@contextlib.contextmanager
def without_disk_cache() -> Iterator[None]:
    """Switch JAX's compilation cache on disk off: with it, compile times would be those of reading a file."""
    before = jax.config.jax_enable_compilation_cache  # type: ignore[attr-defined]
    jax.config.update("jax_enable_compilation_cache", False)
    try:
        yield
    finally:
        jax.config.update("jax_enable_compilation_cache", before)


def compile_call(function: Callable[..., object], *arguments: object, work: int = 0) -> CompiledCall:
    """Compile a function for these arguments, without what other programs of this process left in JAX's caches."""
    jax.clear_caches()
    begin = time.perf_counter()
    program = jax.jit(function).lower(*arguments).compile()
    seconds = time.perf_counter() - begin
    memory: Any = program.memory_analysis()
    total = memory.argument_size_in_bytes + memory.output_size_in_bytes + memory.temp_size_in_bytes
    total -= memory.alias_size_in_bytes
    return CompiledCall(program, arguments, {"trace_compile_s": seconds, "memory_bytes": total}, work)


def time_in_turns(calls: Mapping[str, CompiledCall], repeats: int) -> dict[str, Timing]:
    """Time each call, after one that does not count, and add what compiling it cost.

    Calls take turns, so that a machine that slows down slows all of them. On an accelerator, calls of quick programs
    queue up and are awaited together, like the steps of a training run. A CPU could run two of them at the same time,
    so each is awaited there.
    """
    queue = backend().platform != "cpu"

    def seconds(call: CompiledCall, count: int) -> float:
        begin = time.perf_counter()
        for _ in range(count):
            result = call()
            if not queue:
                jax.block_until_ready(result)
        jax.block_until_ready(result)
        return (time.perf_counter() - begin) / count

    counts = {}
    for name, call in calls.items():
        jax.block_until_ready(call())
        counts[name] = max(1, min(100, round(ENOUGH / max(seconds(call, 1), 1e-9))))
    times: dict[str, list[float]] = {name: [] for name in calls}
    begin = time.perf_counter()
    for turn in range(repeats):
        if turn >= 3 and time.perf_counter() - begin > LIMIT:
            break
        for name, call in calls.items():
            times[name].append(seconds(call, counts[name]))
    return {name: median_and_spread(times[name]) | call.costs for name, call in calls.items()}


def median_and_spread(times: Sequence[float]) -> Timing:
    """Summarise seconds that were measured several times."""
    median, low, high = statistics.median(times), min(times), max(times)
    spread = (high - low) / 2 / median
    return {"median_s": median, "fastest_s": low, "slowest_s": high, "spread": spread, "repeats": len(times)}


def device_limits(precision: str, case: BenchCase) -> dict[str, CompiledCall]:
    """Compile a large square product in this precision, a copy, and the batched product of all hidden layers of a case,
    (H−1) × [N×N]·[N×B]. The keys name the rates that they show."""
    policy = POLICIES[precision]
    size, length = (sizes["cpu" if backend().platform == "cpu" else "other"] for sizes in (LARGE, COPIED))
    layers, width, batch = max(1, case.hidden_layers - 1), case.width, case.batch_size

    def product(formula: str, *shapes: tuple[int, ...], work: int) -> CompiledCall:
        factors = [jr.normal(jr.key(0), shape, policy.dtype).astype(policy.operand) for shape in shapes]
        return compile_call(lambda a, b: policy.contract(formula, a, b), *factors, work=work)

    shapes, work = ((layers, width, width), (layers, width, batch)), 2 * layers * width**2 * batch
    numbers = jnp.ones(length, jnp.float32)
    return {
        "matmul_flops_per_s": product("ij,jk->ik", (size, size), (size, size), work=2 * size**3),
        # the compiler cannot leave out a copy that changes the sign
        "copy_bytes_per_s": compile_call(jnp.negative, numbers, work=2 * numbers.nbytes),
        "batched_matmul_flops_per_s": product("lij,ljb->lib", *shapes, work=work),
    }


def time_with_limits(
    calls: Mapping[str, CompiledCall], limits: Mapping[str, CompiledCall], repeats: int
) -> tuple[dict[str, Timing], dict[str, float]]:
    """Return the times of calls and the rates of limits, all measured in turns."""
    times = time_in_turns({**calls, **limits}, repeats)
    return times, {name: limit.work / times.pop(name)["median_s"] for name, limit in limits.items()}
