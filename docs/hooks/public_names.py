"""The public names of the library, and which of them the reference leaves out."""

import inspect
import re
from pathlib import Path

REFERENCE = Path(__file__).parents[1] / "api"
ENTRY = re.compile(r"^::: (\S+)$", re.MULTILINE)
MODULES = ["data", "diagnostics", "estimators", "models", "nodes", "theory"]


def public_names():
    """Return the names that users may import, each by its shortest path, with what it is."""
    import mupc

    found = {f"mupc.{name}": getattr(mupc, name) for name in mupc.__all__}
    for module in (getattr(mupc, name) for name in MODULES):
        own = {name: getattr(module, name) for name in module.__all__}
        short = f"mupc.{module.__name__.rpartition('.')[2]}"
        found |= {f"{short}.{name}": thing for name, thing in own.items() if thing is not found.get(f"mupc.{name}")}
    return found


def entries():
    """Return all names in the reference, in the order of its pages."""
    return [name for page in sorted(REFERENCE.glob("*.md")) for name in ENTRY.findall(page.read_text(encoding="utf-8"))]


def undocumented():
    """Return what is missing: public names without an entry or without a docstring, and methods without one."""
    listed, missing = set(entries()), []
    for name, thing in public_names().items():
        if name not in listed:
            missing.append(f"{name} has no entry in docs/api")
        if not inspect.getdoc(thing):
            missing.append(f"{name} has no docstring")
        if inspect.isclass(thing):
            missing += [f"{name}.{member} has no docstring" for member in _silent_members(thing)]
    return missing


def _silent_members(kind):
    """Return the public methods and properties that a class of the library defines without a docstring."""
    own = [base for base in kind.__mro__ if base.__module__.startswith("mupc.")]
    members = {name for base in own for name, value in vars(base).items() if _is_member(value)}
    return sorted(name for name in members if not name.startswith("_") and not inspect.getdoc(getattr(kind, name)))


def _is_member(value):
    return inspect.isfunction(value) or isinstance(value, property | classmethod | staticmethod)
