"""The notebooks run, at a reduced size, as the scripts that they are."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

NOTEBOOKS = sorted((Path(__file__).parents[2] / "notebooks").glob("*.py"))
RUN = "import runpy, sys\nfor path in sys.argv[1:]:\n    runpy.run_path(path)"


@pytest.mark.slow
def test_notebooks(tmp_path):
    """In one process: importing JAX takes longer than most of them."""
    assert len(NOTEBOOKS) == 5
    environment = {**os.environ, "JAX_PLATFORMS": "cpu", "MPLBACKEND": "Agg", "MUPC_NOTEBOOKS": "quick"}
    environment.pop("JAX_ENABLE_X64", None)
    command = [sys.executable, "-c", RUN, *map(str, NOTEBOOKS)]
    ended = subprocess.run(command, capture_output=True, text=True, env=environment, cwd=tmp_path, check=False)
    assert ended.returncode == 0, ended.stderr
    assert "% on the test set" in ended.stdout
    assert ended.stdout.count("layers learn") == 5
