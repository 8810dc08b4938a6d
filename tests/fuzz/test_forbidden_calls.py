"""What docs/security.md promises about the source, looked for in the source."""

import ast
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2] / "src" / "mupc"
MODULES = {
    "cloudpickle", "ctypes", "dill", "joblib", "jsonpickle", "marshal", "pickle", "shelve", "subprocess", "torch",
    "yaml",
}  # fmt: skip
ALLOWED = {("io/_allocator.py", "ctypes")}  # sets two constants of the C library
BUILTINS = {"__import__", "compile", "eval", "exec"}
METHODS = {
    "execv", "extractall", "from_pickle", "fromfile", "loadtxt", "memmap", "popen", "read_pickle", "spawnv",
    "startfile", "system", "to_pickle", "unpack_archive",
}  # fmt: skip


def forbidden(text):
    """What a source does that it must not do, as (line, what)."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import | ast.ImportFrom):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else [node.module or ""]
            inner = isinstance(node, ast.ImportFrom) and node.level > 0
            yield from ((node.lineno, name) for name in names if name.split(".")[0] in MODULES and not inner)
        if isinstance(node, ast.Call):
            options = {word.arg: ast.unparse(word.value) for word in node.keywords}
            name = ast.unparse(node.func)
            last = name.rpartition(".")[2]
            if name in BUILTINS or ("." in name and last in METHODS):
                yield node.lineno, name
            if options.get("allow_pickle") == "True" or options.get("shell") == "True":
                yield node.lineno, name
            if name in ("np.load", "numpy.load", "jnp.load") and options.get("allow_pickle") != "False":
                yield node.lineno, f"{name} without allow_pickle=False"
            if last == "extract" and options.get("filter") != "'data'":
                yield node.lineno, f"{name} without filter='data'"
            if name == "Image.open" and "formats" not in options:
                yield node.lineno, f"{name} without formats"


@pytest.mark.parametrize(
    "text",
    [
        "import pickle",
        "from pickle import loads",
        "import yaml.reader",
        "eval('1')",
        "exec(text)",
        "os.system('ls')",
        "np.load(path)",
        "np.load(path, allow_pickle=True)",
        "read(path, allow_pickle=True)",
        "tar.extract(member, folder)",
        "tar.extractall(folder)",
        "Image.open(path)",
    ],
)
def test_the_scan_finds(text):
    assert list(forbidden(text))


def test_the_scan_passes_over_what_is_harmless():
    assert not list(forbidden("import json\nre.compile('a')\nnp.load(p, allow_pickle=False)\njson.loads('1')"))


def test_no_forbidden_calls():
    files = sorted(SOURCE.rglob("*.py"))
    assert len(files) > 100
    found = [
        (str(path.relative_to(SOURCE)), *what) for path in files for what in forbidden(path.read_text(encoding="utf-8"))
    ]
    assert {(file, what) for file, _, what in found} == ALLOWED
