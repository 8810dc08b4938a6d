"""Oracles need float64; tests of float32 behaviour cast explicitly, README snippets run in a process of their own."""

import contextlib

import jax
import pytest

jax.config.update("jax_enable_x64", True)
jax.config.update("jax_disable_most_optimizations", True)  # small arrays: compiling is what takes the time

MAPPINGS = 25_000
"""Compiled programs hold memory mappings, of which Linux gives a process 65,530; beyond them the compiler aborts."""


def pytest_addoption(parser):
    parser.addoption("--zoo", action="store_true", help="cross every option with every other (make zoo)")


def pytest_configure(config):
    config.addinivalue_line("markers", "zoo: runs only with --zoo")


def pytest_collection_modifyitems(config, items):
    if not config.getoption("--zoo"):
        for item in items:
            if item.get_closest_marker("zoo"):
                item.add_marker(pytest.mark.skip(reason="only with --zoo"))


def pytest_runtest_teardown(item):
    """Drops compiled programs when they have become too many for one process."""
    with contextlib.suppress(OSError), open("/proc/self/maps") as file:
        if sum(1 for _ in file) > MAPPINGS:
            jax.clear_caches()
