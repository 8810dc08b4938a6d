"""The run-time type checker of the test suite: beartype, except where the library itself checks what users pass in.

Public functions, constructors of public classes, and the functions that coerce or check arguments have honest types and
raise their own errors, which tests look at. Beartype would raise first.
"""

from beartype import beartype

import mupc

MODULES = ("mupc.io.checks", "mupc.data._schema", "mupc.data._from_arrays", "mupc.data._load", "mupc.data._stream")
CHECKS_ITSELF = ("as_", "check", "_check", "resolve_", "of", "job", "adam", "__init__")


def check(function):
    """Decorate what is private."""
    owner, _, name = function.__qualname__.rpartition(".")
    public = not owner and name in getattr(mupc, "__all__", ())  # not there yet while `io` is imported
    checks_itself = name.startswith(CHECKS_ITSELF) or function.__module__ in MODULES
    return function if public or checks_itself else beartype(function)
