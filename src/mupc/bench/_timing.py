"""Programs compiled apart from their first run, and times taken in turns."""

import contextlib
import dataclasses
import statistics
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import jax

ENOUGH = 0.02
"""Seconds that one taking of a time should last: quick programs are called several times."""
LIMIT = 30.0
"""Seconds after which no further turn begins, once there were three."""


COSTS = ("trace_s", "compile_s", "memory_bytes")
"""What a `Program` says of itself."""


@dataclasses.dataclass(frozen=True)
class Program:
    """A compiled function with its arguments, and what compiling it took. `memory_bytes` is what the compiler reports:
    arguments, results and temporaries together."""

    function: Callable[..., Any]
    arguments: tuple[Any, ...]
    trace_s: float
    compile_s: float
    memory_bytes: int

    def call(self) -> Any:
        return self.function(*self.arguments)


@contextlib.contextmanager
def cold() -> Iterator[None]:
    """A context without the compilation cache on disk, which would make compile times those of reading a file."""
    before = jax.config.jax_enable_compilation_cache  # type: ignore[attr-defined]
    jax.config.update("jax_enable_compilation_cache", False)
    try:
        yield
    finally:
        jax.config.update("jax_enable_compilation_cache", before)


def compiled(function: Callable[..., Any], *arguments: Any) -> Program:
    """`function` compiled for these arguments, from nothing: what other programs of the same shapes left behind in this
    process is dropped."""
    jax.clear_caches()
    begin = time.perf_counter()
    lowered = jax.jit(function).lower(*arguments)
    middle = time.perf_counter()
    program = lowered.compile()
    end = time.perf_counter()
    memory: Any = program.memory_analysis()
    parts = (memory.argument_size_in_bytes, memory.output_size_in_bytes, memory.temp_size_in_bytes)
    return Program(program, arguments, middle - begin, end - middle, sum(parts) - memory.alias_size_in_bytes)


def in_turns(calls: Mapping[str, Callable[[], Any]], repeats: int, limit: float = LIMIT) -> dict[str, dict[str, Any]]:
    """The median, fastest and slowest time of each call, after one that is not counted. They take turns, so that a
    machine that slows down slows all of them. On an accelerator calls of quick programs queue up and are awaited
    together, as the steps of a training run are; a CPU could run two of them at once, and waits for each."""
    queue = jax.default_backend() != "cpu"

    def take(call: Callable[[], Any], count: int) -> float:
        found = None
        begin = time.perf_counter()
        for _ in range(count):
            found = call()
            if not queue:
                jax.block_until_ready(found)
        jax.block_until_ready(found)
        return (time.perf_counter() - begin) / count

    counts = {}
    for name, call in calls.items():
        jax.block_until_ready(call())
        counts[name] = max(1, min(100, round(ENOUGH / max(take(call, 1), 1e-9))))
    times: dict[str, list[float]] = {name: [] for name in calls}
    begin = time.perf_counter()
    for turn in range(repeats):
        if turn >= 3 and time.perf_counter() - begin > limit:
            break
        for name, call in calls.items():
            times[name].append(take(call, counts[name]))
    return {name: summary(taken) for name, taken in times.items()}


def summary(times: list[float]) -> dict[str, Any]:
    """Median and spread."""
    return {
        "median_s": statistics.median(times),
        "fastest_s": min(times),
        "slowest_s": max(times),
        "repeats": len(times),
    }


def measure(programs: Mapping[str, Program], repeats: int) -> dict[str, dict[str, Any]]:
    """Times of compiled programs in turns, with what compiling each took and how much memory it needs."""
    times = in_turns({name: program.call for name, program in programs.items()}, repeats)
    return {name: times[name] | {cost: getattr(program, cost) for cost in COSTS} for name, program in programs.items()}
