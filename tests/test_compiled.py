"""Compiled programs are kept on disk where the user or the command line keeps them."""

import os
import subprocess
import sys

import jax
import pytest

import mupc

SCRIPT = """
import logging, sys
import jax, jax.numpy as jnp
jax.jit(lambda x: x + 1)(jnp.ones(3))  # JAX is in use already
import mupc
print(mupc.keep_compiled(*sys.argv[1:]))
jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)
hits = []
jax.monitoring.register_event_listener(lambda event, **_: hits.append(event.endswith("/cache_hits")))
jax.jit(lambda x: jnp.linalg.inv(x @ x))(jnp.eye(3))
print(any(hits))
"""


NAMES = ("jax_compilation_cache_dir", "jax_persistent_cache_min_compile_time_secs")


def settings():
    return [getattr(jax.config, name) for name in NAMES]


def test_settings_of_the_users_own_stay():
    before = settings()
    assert str(mupc.keep_compiled()) == before[0] == os.environ["JAX_COMPILATION_CACHE_DIR"]
    assert settings() == before


def run(*arguments, **environment):
    kept = {name: value for name, value in os.environ.items() if not name.startswith("JAX_")}
    command = [sys.executable, "-c", SCRIPT, *map(str, arguments)]
    return subprocess.run(command, env=kept | environment, capture_output=True, text=True, check=True).stdout.split()


@pytest.mark.slow
def test_a_second_script_finds_the_programs_of_the_first(tmp_path):
    assert run(MUPC_CACHE=str(tmp_path)) == [str(tmp_path / "compiled"), "False"]
    assert run(MUPC_CACHE=str(tmp_path)) == [str(tmp_path / "compiled"), "True"]
    assert run(tmp_path / "mine", JAX_COMPILATION_CACHE_DIR=str(tmp_path / "theirs")) == [
        str(tmp_path / "mine"),
        "False",
    ]
    assert run(JAX_COMPILATION_CACHE_DIR=str(tmp_path / "mine")) == [str(tmp_path / "mine"), "True"]


def test_a_folder_that_cannot_be(tmp_path, as_users_see_it):
    (tmp_path / "file").write_text("")
    with pytest.raises(ValueError, match=r"folder='.*file/in' cannot be created \(Not a directory\). Choose another."):
        mupc.keep_compiled(tmp_path / "file" / "in")
    with pytest.raises(TypeError, match="folder must be a path, got 3"):
        mupc.keep_compiled(3)
