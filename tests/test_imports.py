"""Imports stay light: help, lists and data sets come at once, and large libraries only when they are needed."""

import ast
import subprocess
import sys
from pathlib import Path

import mupc

SOURCE = Path(mupc.__file__).parent

STAGES = """
import contextlib, importlib, io, sys

def light(stage, *heavy):
    found = {name for name in heavy if name in sys.modules}
    assert not found, f"{stage} imports {sorted(found)}"

SHOWING = ("matplotlib", "rich", "tensorboardX", "sklearn", "pooch", "requests", "optuna", "diffrax", "orbax")
COMPUTING = ("jax", "equinox", "optax")

import mupc.data, mupc.bench
light("import mupc.data, mupc.bench", *COMPUTING, *SHOWING, "tyro")

from mupc import experiments
for entry in experiments.CATALOGUE.values():
    entry.load()
light("the list of figures", *COMPUTING, *SHOWING, "tyro")

from mupc.cli import main
names = "train export predict sweep check transfer hessian reproduce report bench data".split()
for words in (["--help"], ["--version"], ["data", "list"], *([name, "--help"] for name in names)):
    with contextlib.redirect_stdout(io.StringIO()) as out:
        assert main(words) == 0, words
    assert out.getvalue().strip(), words
light("help", *COMPUTING, "jinja2", "matplotlib", "tensorboardX", "sklearn", "optuna", "diffrax", "orbax")

import mupc.training
mupc.Network, mupc.infer, mupc.fit
light("the library", "matplotlib", "tensorboardX", "sklearn", "optuna", "diffrax", "orbax")

for name in ("train", "predict", "check", "transfer", "hessian", "report"):
    importlib.import_module(f"mupc.cli.{name}_job")
light("the work of commands that need no extra", "optuna", "sqlalchemy")
"""


def test_imports_are_light():
    """In one process, from the lightest to the heaviest."""
    ended = subprocess.run([sys.executable, "-c", STAGES], capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stderr) == (0, "")


def test_no_package_imports_private_modules_of_another():
    """What others need is in a package's `__init__`."""
    found = []
    for path in sorted(SOURCE.rglob("*.py")):
        package = path.relative_to(SOURCE).parts[:-1]
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and node.level:
                base = package[: len(package) - node.level + 1]
                target = (*base, *(node.module.split(".") if node.module else ()))
                if target[:1] != package[:1] and any(part.startswith("_") for part in target):
                    found.append(f"{path.relative_to(SOURCE)}: {'.'.join(target)}")
    assert found == []
