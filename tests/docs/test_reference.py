"""The reference has every public name once, and the build would notice if it did not."""

import importlib.util
import re
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"


@pytest.fixture
def reference():
    spec = importlib.util.spec_from_file_location("public_names", DOCS / "hooks" / "public_names.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_public_name_is_documented(reference):
    assert reference.undocumented() == []
    entries = reference.entries()
    assert sorted(entries) == sorted(reference.public_names())


def test_what_is_missing_is_named(reference, tmp_path, monkeypatch):
    (tmp_path / "page.md").write_text("::: mupc.fit\n")
    monkeypatch.setattr(reference, "REFERENCE", tmp_path)
    missing = reference.undocumented()
    assert "mupc.infer has no entry in docs/api" in missing
    assert "mupc.fit has no entry in docs/api" not in missing


def test_methods_without_a_docstring_are_found(reference):
    class Silent:
        def speak(self): ...

        def _hide(self): ...

    Silent.__module__ = "mupc.example"
    assert reference._silent_members(Silent) == ["speak"]


def test_the_front_page_answers_questions():
    """Each answer is one click away. The build checks the sections that links name."""
    rows = re.findall(r"^\| (.*\?) \| \[.*?\]\(([^)#]+)", (DOCS / "index.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert len(rows) == 12
    assert all((DOCS / page).is_file() for _, page in rows)


FENCES = re.compile(r"^ *```([^\n`]+)$", re.MULTILINE)
NOT_OURS = re.compile(r'py title="(JPC|pcx), in outline \(not run here\)"')


def test_python_on_a_page_is_run():
    """`test_readme.py` runs what is fenced as python. Only outlines of other libraries are fenced in another way."""
    opened = [fence for page in DOCS.glob("*.md") for fence in FENCES.findall(page.read_text(encoding="utf-8"))]
    others = [fence for fence in opened if fence.partition(" title=")[0] not in ("python", "bash")]
    assert len(opened) > 30
    assert len(others) == 2
    assert all(NOT_OURS.fullmatch(fence) for fence in others)


def test_the_build_counts_warnings():
    """`--quiet` would drop them before `--strict` sees them, and a broken link would pass."""
    (line,) = re.findall(r"mkdocs build (.*)", (DOCS.parent / "Makefile").read_text(encoding="utf-8"))
    flags = line.partition("#")[0].split()
    assert flags == ["--strict"]
