"""Build the release and try it as a stranger would: `make test-release`, some minutes, and packages from the index.

    python tests/release.py [PYTHON ...]

It builds the wheel and the source archive, and checks both with twine. Then it installs the wheel into empty
environments: one with the oldest Python and the lowest versions that `pyproject.toml` allows, one with the newest
Python and versions. In each it runs the first pages of the site and trains from the command line, away from the
repository.
"""

import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]
QUICK_START = ["README.md", "docs/install.md", "docs/first-network.md"]
FENCE = re.compile(r"```python\n(.*?)```", re.DOTALL)
COMMANDS = [
    ["train", "--hidden-layers", "8", "--epochs", "2", "--out", "run"],
    ["export", "run", "run.safetensors"],
    ["data", "list"],
]
MINORS = range(11, 15)


def main(pythons):
    known = pythons or [found for minor in MINORS if (found := _python(f"python3.{minor}"))]
    with tempfile.TemporaryDirectory() as name:
        scratch = Path(name)
        wheel = build(scratch / "dist")
        lowest = scratch / "lowest.txt"
        lowest.write_text("\n".join(lowest_versions()))
        try_out(wheel, known[0], scratch / "oldest", ["--constraint", str(lowest)])
        try_out(wheel, known[-1], scratch / "newest", ["--upgrade"])
    return 0


def build(folder):
    """Return the wheel, after both archives were built and checked."""
    run([sys.executable, "-m", "build", "--no-isolation", "--outdir", folder, ROOT])
    archives = sorted(folder.iterdir())
    run([sys.executable, "-m", "twine", "check", "--strict", *archives])
    (wheel,) = folder.glob("*.whl")
    return wheel


def lowest_versions():
    """Return a pin for every dependency, at the lowest version that is allowed."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    bounds = (re.match(r"([\w-]+)>=([\d.]+)", line) for line in project["dependencies"])
    return [f"{bound[1]}=={bound[2]}" for bound in bounds if bound]


def try_out(wheel, python, folder, options):
    """Install the wheel into an empty environment, and run the quick start there."""
    run([python, "-m", "venv", folder])
    inside = folder / "bin" / "python"
    run([inside, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *options, wheel])
    run([inside, "-m", "pip", "freeze"], show=r"^(?:jax|numpy|equinox|optax|orbax-checkpoint|scikit-learn)==.*")
    away = folder / "away"
    away.mkdir()
    pages = [(ROOT / page).read_text(encoding="utf-8") for page in QUICK_START]
    run([inside, "-c", "\n".join(code for page in pages for code in FENCE.findall(page))], cwd=away)
    for words in COMMANDS:
        run([folder / "bin" / "mupc", *words], cwd=away)
    print(f"{subprocess.check_output([inside, '--version'], text=True).strip()}: the quick start works", flush=True)


def run(command, show="", **options):
    """Run a command, and stop with its output if it fails."""
    ended = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False, **options)
    if ended.returncode:
        sys.exit(f"{' '.join(map(str, command[:4]))} … failed:\n{ended.stdout}{ended.stderr}")
    for line in re.findall(show, ended.stdout, re.MULTILINE) if show else []:
        print(line)


def _python(name):
    """Return an interpreter that works, or None."""
    path = shutil.which(name)
    works = path and subprocess.run([path, "--version"], capture_output=True, check=False).returncode == 0
    return path if works else None


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
