"""Oracles need float64; tests of float32 behaviour cast explicitly, README snippets run in a process of their own."""

import jax

jax.config.update("jax_enable_x64", True)
jax.config.update("jax_disable_most_optimizations", True)  # small arrays: compiling is what takes the time


def pytest_addoption(parser):
    parser.addoption("--zoo", action="store_true", help="cross every option with every other (make zoo)")
