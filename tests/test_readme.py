"""Every snippet of the README, of `docs/` and of the docstrings runs in a process of its own, as users would run it."""

import ast
import doctest
import importlib
import inspect
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import mupc
from mupc.cli import building, main, parsing, runner
from mupc.cli.config import TrainFlags, TrainingGroups

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
FENCE = re.compile(r"```python(?: title=[^\n]*)?\n(.*?)```", re.DOTALL)


def python(code, **options):
    environment = {**os.environ, "JAX_PLATFORMS": "cpu"}
    environment.pop("JAX_ENABLE_X64", None)
    return subprocess.run(
        [sys.executable, "-W", "error::DeprecationWarning", "-c", code],
        capture_output=True, text=True, env=environment, check=False, **options,
    )  # fmt: skip


@pytest.mark.slow
def test_python_snippets_of_the_readme():
    snippets = FENCE.findall(README)
    assert snippets
    ended = python("\n".join(snippets))
    assert ended.returncode == 0, ended.stderr
    learning, accuracy = re.findall(r"^(\d+) of 17 layers learn .*\n([\d.]+) % on the test set", ended.stdout)[0]
    assert 5 <= int(learning) <= 17
    assert float(accuracy) > 93


OTHERS = [mupc.models, mupc.estimators, mupc.diagnostics]


@pytest.mark.slow
@pytest.mark.parametrize(
    "homes, least", [([mupc], 12), ([mupc.theory], 20), (OTHERS, 6)], ids=["mupc", "theory", "others"]
)
def test_docstring_examples(homes, least, tmp_path):
    named = [(home, name) for home in homes for name in home.__all__ if home is mupc or name not in mupc.__all__]
    documented = [inspect.getdoc(getattr(home, name)) or "" for home, name in named]
    examples = [code for text in documented for code in FENCE.findall(text)]
    assert len(examples) >= least
    ended = python("\n".join(examples), cwd=tmp_path)  # one process: importing JAX takes longer than most of them
    assert ended.returncode == 0, ended.stderr


NEED_MORE = {"draw_condition_numbers", "draw_credit_reach", "draw_learning_curve", "ProgressDisplay", "fetch"}
"""Internal functions whose examples need a run folder, a terminal or a network."""


def internal_examples():
    """Return the examples of everything in `src` that is not a public name."""
    public = {name for home in [mupc, mupc.theory, *OTHERS] for name in home.__all__}
    for path in sorted((ROOT / "src").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef | ast.ClassDef) and node.name not in public | NEED_MORE:
                yield from FENCE.findall(ast.get_docstring(node) or "")


@pytest.mark.slow
def test_docstring_examples_of_internals(tmp_path):
    examples = list(internal_examples())
    assert len(examples) >= 12
    ended = python("\n".join(examples), cwd=tmp_path)
    assert ended.returncode == 0, ended.stderr


@pytest.mark.slow
@pytest.mark.parametrize("name", ["bench", "experiments", "report", "theory"])
def test_docstring_examples_of_packages(name):
    result = doctest.testmod(importlib.import_module(f"mupc.{name}"))
    assert result.attempted
    assert not result.failed


OWN_DATA = (ROOT / "docs" / "your-own-data.md").read_text(encoding="utf-8")


@pytest.mark.slow
def test_your_own_data(tmp_path, monkeypatch, capsys):
    """The page works from its first line to its last: the snippets, then the commands on the table that they wrote."""
    ended = python("\n".join(FENCE.findall(OWN_DATA)), cwd=tmp_path)
    assert ended.returncode == 0, ended.stderr
    counts = np.array(re.findall(r"\d+", ended.stdout.partition("]]")[0]), int).reshape(3, 3)
    assert counts.sum() == 36
    assert np.trace(counts) >= 33
    r2, search = re.search(r"'test_r2': ([\d.]+)", ended.stdout), ended.stdout.splitlines()[-1]
    assert r2 is not None
    assert float(r2[1]) > 0.2
    assert float(search.split()[-1]) > 0.95
    monkeypatch.chdir(tmp_path)
    for arguments in commands(OWN_DATA):
        assert main(arguments) == 0, (arguments, capsys.readouterr().err)
    assert "accuracy" in capsys.readouterr().out


SMALLER_SNIPPETS = {"small=(64, 8)": "small=(4, 2)", "large=(256, 64)": "large=(8, 3)"}


@pytest.mark.slow
def test_python_snippets_of_the_docs(tmp_path):
    others = [page for page in sorted((ROOT / "docs").glob("*.md")) if page.name != "your-own-data.md"]
    pages = [page.read_text(encoding="utf-8") for page in others]
    code = "\n".join(snippet for page in pages for snippet in FENCE.findall(page))
    for full, smaller in SMALLER_SNIPPETS.items():
        assert full in code
        code = code.replace(full, smaller)
    ended = python(code, cwd=tmp_path)
    assert ended.returncode == 0, ended.stderr


def commands(page):
    """The `mupc …` lines of a page, without their comments."""
    lines = re.findall(r"^    (mupc .*)$", page, re.MULTILINE)
    return [line.partition("#")[0].split()[1:] for line in lines]


SMALLER = {
    "train": ["--epochs", "0.2", "--width", "16"],
    "sweep": ["--width", "8", "--hidden-layers", "3"],
    "bench": ["--repeats", "2"],
}


@pytest.mark.slow
def test_commands_of_the_readme(tmp_path, monkeypatch, capsys):
    found = commands(README)
    assert len(found) >= 6
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MUPC_CACHE", str(tmp_path / "cache"))
    for arguments in found:
        smaller = [] if "--resume" in arguments else SMALLER.get(arguments[0], [])
        ended = main([*arguments, *smaller])
        printed = capsys.readouterr()
        assert ended == 0, (arguments, printed.err)
        assert printed.out.strip(), arguments


RUNNING = {
    "first-network": {},
    "report": {},
    "sweeps": {"sweep": ["--width", "8", "--hidden-layers", "3", "--epochs", "0.3"], "train": ["--out", "runs/best"]},
    "theory": {"hessian": ["--width", "8", "--hidden-layers", "4"]},
}
"""Pages whose commands all run on a small machine without a network, and flags that make them small."""


@pytest.mark.slow
@pytest.mark.parametrize("page", RUNNING)
def test_commands_of_the_docs_run(page, tmp_path, monkeypatch, capsys):
    found = commands((ROOT / "docs" / f"{page}.md").read_text(encoding="utf-8").replace(" && mupc", "\n    mupc"))
    assert found
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MUPC_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("BROWSER", "true")  # --open of a report
    for arguments in found:
        smaller = RUNNING[page].get(arguments[0]) or SMALLER.get(arguments[0], [])
        if {"--resume", "--checkpoint", "--model"} & set(arguments):
            smaller = []
        ended = main([*arguments, *smaller])
        assert ended == 0, (arguments, capsys.readouterr().err)


SHOWN = re.compile(r"^    (mupc [^#\n]*)|`(mupc (?:train|sweep|transfer|check|hessian|bench) [^`\n]*)`", re.MULTILINE)
SHELL = re.compile(r"^```bash\n(.*?)^```", re.DOTALL | re.MULTILINE)
PAGES = [page for page in sorted((ROOT / "docs").glob("*.md")) if page.name != "reproduction.md"]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_commands_of_the_docs_are_known(page):
    """Every command on a page has flags that exist and that fit the solver it uses."""
    text = page.read_text(encoding="utf-8")
    shown = ["".join(found) for found in SHOWN.findall(text)]
    lines = "\n".join(SHELL.findall(text)).replace("\\\n", " ").splitlines()
    shown += [line.partition("#")[0] for line in lines if line.startswith("mupc ")]
    for line in (part for command in shown for part in command.split("&&") if "--resume" not in part):
        _, name, *words = line.split()
        module = importlib.import_module(f"mupc.cli.{name}")
        command, program, rest = runner._choose(module, f"mupc {name}", words)
        flags = parsing.parse(command.flags, rest, program, command.about)
        if isinstance(flags, TrainingGroups):
            building.make_algorithm(TrainFlags.gather(flags))


def test_the_program_is_a_process():
    ended = subprocess.run(
        [sys.executable, "-m", "mupc.cli", "data", "list"], capture_output=True, text=True, check=False
    )
    assert (ended.returncode, ended.stderr) == (0, "")
    assert "digits" in ended.stdout


@pytest.mark.parametrize("name", re.findall(r"\]\(([^)#:]+)\)", README))
def test_links_of_the_readme(name):
    assert (ROOT / name).exists()


def test_top_level_namespace():
    assert len(mupc.__all__) <= 52
    assert all(getattr(mupc, name) is not None for name in mupc.__all__)
