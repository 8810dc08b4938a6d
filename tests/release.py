"""Build the release and try it as a stranger would: `make test-release`, some minutes, and packages from the index.

    python tests/release.py [PYTHON ...]

It builds the wheel and the source archive, and checks both with twine. Then it installs the wheel into empty
environments: one with the oldest Python and the lowest versions that `pyproject.toml` allows, one with the newest
Python and versions. In each it runs the first pages of the site, away from the repository, and checks that a plain
install is light and that the extra `sweep` adds what it says.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]
QUICK_START = ["README.md", "docs/install.md", "docs/first-network.md"]
COMMANDS = "docs/first-network.md"
FENCE = re.compile(r"```python\n(.*?)```", re.DOTALL)
INDENTED = re.compile(r"^    mupc (.*)$", re.MULTILINE)
FURTHER = ["report runs/first", "data list"]
SWEEP = "sweep --grid weight_lr=0.05,0.02 --hidden-layers 2 --width 16 --epochs 1 --out runs/sweep"
HEAVY = {"optuna", "sqlalchemy", "pandas", "selenium", "mkdocs", "pytest", "beartype", "twine"}
"""Packages of extras: a plain install does not have them."""
SHOWN = {"jax", "numpy", "scipy", "equinox", "diffrax", "optax", "orbax-checkpoint", "scikit-learn", "optuna"}
MINORS = range(11, 15)


def main(pythons):
    known = pythons or [found for minor in MINORS if (found := find_python(minor))]
    if not known:
        sys.exit(f"No Python from 3.{MINORS[0]} on was found: name one, as in PYTHONS=python3.11.")
    with tempfile.TemporaryDirectory() as name:
        scratch = Path(name)
        wheel = build(scratch / "dist")
        lowest = scratch / "lowest.txt"
        lowest.write_text("\n".join(lowest_versions()))
        try_out(wheel, known[0], scratch / "oldest", ["--constraint", str(lowest)])
        try_out(wheel, known[-1], scratch / "newest", ["--upgrade"])
    return 0


def find_python(minor):
    """Return an interpreter of this version, from the path or from pyenv, or None. A shim of pyenv may not work."""
    name = f"python3.{minor}"
    root = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    paths = [shutil.which(name), *sorted(root.glob(f"versions/3.{minor}.*/bin/{name}"))]
    return next((str(path) for path in paths if path and _works(path)), None)


def _works(path):
    return subprocess.run([path, "--version"], capture_output=True, check=False).returncode == 0


def build(folder):
    """Return the wheel, after both archives were built and checked."""
    run([sys.executable, "-m", "build", "--no-isolation", "--outdir", folder, ROOT])
    archives = sorted(folder.iterdir())
    run([sys.executable, "-m", "twine", "check", "--strict", *archives])
    (wheel,) = folder.glob("*.whl")
    print(*(f"{path.name} {path.stat().st_size / 1e3:.0f} kB" for path in archives), sep="\n", flush=True)
    return wheel


def lowest_versions():
    """Return a pin for every package that users need, at the lowest version that is allowed."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    needed = [*project["dependencies"], *project["optional-dependencies"]["sweep"]]
    bounds = (re.match(r"([\w-]+)>=([\d.]+)", line) for line in needed)
    return [f"{bound[1]}=={bound[2]}" for bound in bounds if bound]


def try_out(wheel, python, folder, options):
    """Install the wheel into an empty environment, and run the quick start there."""
    begin = time.perf_counter()
    run([python, "-m", "venv", folder])
    inside, mupc = folder / "bin" / "python", folder / "bin" / "mupc"
    install = [inside, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *options]
    run([*install, wheel])
    found = packages(inside)
    if HEAVY & found.keys():
        sys.exit(f"A plain install has {', '.join(sorted(HEAVY & found.keys()))}: move them to an extra.")
    away = folder / "away"
    away.mkdir()
    pages = [(ROOT / page).read_text(encoding="utf-8") for page in QUICK_START]
    run([inside, "-c", "\n".join(code for page in pages for code in FENCE.findall(page))], cwd=away)
    for words in [*INDENTED.findall((ROOT / COMMANDS).read_text(encoding="utf-8")), *FURTHER]:
        run([mupc, *words.split()], cwd=away)
    said = run([mupc, *SWEEP.split()], code=2, cwd=away).stderr
    if said.count("\n") != 1 or "pip install 'mupc[sweep]'" not in said:
        sys.exit(f"mupc sweep without its extra should say in one line what to install, and says:\n{said}")
    run([*install, f"{wheel}[sweep]"])
    run([mupc, *SWEEP.split()], cwd=away)
    print(*(f"  {name} {version}" for name, version in packages(inside).items() if name in SHOWN), sep="\n")
    version = subprocess.check_output([inside, "--version"], text=True).strip()
    took = time.perf_counter() - begin
    print(f"{version}, {len(found)} packages: the quick start works ({took:.0f} s)", flush=True)


def packages(python):
    """Return the version of every package of an environment, by its name in small letters."""
    lines = run([python, "-m", "pip", "list", "--format", "freeze", "--disable-pip-version-check"]).stdout.split()
    return {name.lower(): version for name, version in (line.split("==") for line in lines)}


def run(command, code=0, **options):
    """Run a command, and stop with its output if its exit status is not `code`."""
    words = [str(word) for word in command]
    ended = subprocess.run(words, capture_output=True, text=True, check=False, **options)
    if ended.returncode != code:
        sys.exit(f"{' '.join(words)[:200]} … ended with {ended.returncode}:\n{ended.stdout}{ended.stderr}")
    return ended


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
