"""Import the names of a package when they are first used."""

import importlib
from collections.abc import Callable, Mapping


def lazy_names(package: str, names: Mapping[str, str]) -> Callable[[str], object]:
    """Return the `__getattr__` of a package, given its lazy names by module, each list as one text."""
    homes = {name: module for module, listed in names.items() for name in listed.split()}

    def get(name: str) -> object:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        module = importlib.import_module(f".{homes[name]}", package)
        return module if homes[name] == name else getattr(module, name)

    return get
