"""The wheel builds and holds what users need."""

import subprocess
import sys
import zipfile
from pathlib import Path

import mupc

ROOT = Path(__file__).parent.parent


def test_wheel(tmp_path):
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(tmp_path), str(ROOT)]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    (wheel,) = tmp_path.glob("mupc-*.whl")
    names = set(zipfile.ZipFile(wheel).namelist())
    files = [path for kind in ("*.py", "*.j2", "*.css", "*.js", "*.md") for path in (ROOT / "src/mupc").rglob(kind)]
    sources = {str(path.relative_to(ROOT / "src")) for path in files}
    assert {"mupc/report/page.html.j2", "mupc/report/page.css", "mupc/report/chart.js"} <= sources
    assert sources <= names
    assert "mupc/py.typed" in names
    assert mupc.__version__ in wheel.name
    metadata = next(name for name in names if name.endswith("METADATA"))
    assert "License-Expression: MIT" in zipfile.ZipFile(wheel).read(metadata).decode()


def test_the_citation_has_the_version():
    assert f"version: {mupc.__version__}" in (ROOT / "CITATION.cff").read_text(encoding="utf-8").splitlines()


def test_constraints_hold_versions_only():
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    pins = [line for line in lines if line and not line.startswith("#")]
    assert pins
    assert all(line.count("==") == 1 and "/" not in line and "@" not in line for line in pins)
