"""Oracles need float64; tests of float32 behaviour cast explicitly, README snippets run in a process of their own.

Arrays are small, so compiling takes most of the time. The settings that shorten it also hold for the workers and for
the processes that tests start: they inherit the environment and share the compiled programs of this session.
"""

import contextlib
import gc
import os
import shutil
import tempfile

import jax
import jaxtyping
import pytest
from hypothesis import HealthCheck, settings

FASTER = "--xla_cpu_use_fusion_emitters=false --xla_cpu_parallel_codegen_split_count=1"
"""With these, compiling takes half as long. XLA reads its flags when it compiles the first program."""
DEVICES = "--xla_force_host_platform_device_count=8"
"""For tests of several devices. All others compute on the first."""

WORKER = "PYTEST_XDIST_WORKER" in os.environ
KEPT = os.environ.get("MUPC_TEST_CACHE")
"""A folder in which to keep compiled programs from one session to the next."""
CACHE = os.environ["JAX_COMPILATION_CACHE_DIR"] if WORKER else KEPT or tempfile.mkdtemp(prefix="mupc-tests-")

if FASTER not in os.environ.get("XLA_FLAGS", ""):
    os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} {FASTER} {DEVICES}"
for name, value in {
    "jax_disable_most_optimizations": True,
    "jax_compilation_cache_dir": CACHE,
    "jax_persistent_cache_min_compile_time_secs": 0,
    "jax_persistent_cache_min_entry_size_bytes": -1,
}.items():
    jax.config.update(name, value)
    os.environ[name.upper()] = str(value)
jax.config.update("jax_enable_x64", True)  # not for processes that tests start

# the same examples in every run, and no limits in time
settings.register_profile("repeatable", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("repeatable")

MAPPINGS = 25_000
"""Compiled programs hold memory mappings. Linux gives a process 65,530; beyond that the compiler aborts."""


def pytest_addoption(parser):
    parser.addoption("--zoo", action="store_true", help="cross every option with every other (make zoo)")


def pytest_collection_modifyitems(config, items):
    """Leave the zoo out unless it is asked for."""
    zoo = [item for item in items if item.get_closest_marker("zoo") and not config.getoption("--zoo")]
    config.hook.pytest_deselected(items=zoo)
    items[:] = [item for item in items if item not in zoo]


def pytest_collection_finish():
    """Collect garbage less often, and leave out what lives until the end: tracing makes many short-lived objects."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 20)


def pytest_runtest_teardown(item):
    """Drop compiled programs when they have become too many for one process."""
    with contextlib.suppress(OSError), open("/proc/self/maps") as file:
        if sum(1 for _ in file) > MAPPINGS:
            jax.clear_caches()


@pytest.fixture
def as_users_see_it():
    """Switch off the type checks of tests, which would be the first to complain."""
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", False)


def pytest_unconfigure():
    if not (WORKER or KEPT):
        shutil.rmtree(CACHE, ignore_errors=True)
