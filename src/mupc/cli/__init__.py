"""The command line, `mupc`. Commands are imported when called, so that help comes at once."""

import difflib
import importlib
import os
import sys
from collections.abc import Sequence

COMMANDS = {
    "train": "train a network and write a run folder",
    "export": "write the trained network of a run to one file, with all that prediction needs",
    "predict": "classify new samples with a trained network",
    "sweep": "train over a grid of settings, or let a sampler choose, with any number of workers",
    "check": "check that sizes do not change with width and depth",
    "transfer": "tune on a small network, train a large one",
    "hessian": "eigenvalues and condition numbers of activity Hessians",
    "reproduce": "reproduce a figure of the paper",
    "report": "gather reproduced figures into one report",
    "bench": "measure speed, memory and compile time",
    "data": "list, fetch and check data sets",
}
"""Each command with its line of help; `mupc.cli.<command>.run(argv)` does the work and returns the exit code."""

USAGE_ERROR, FAILURE, INTERRUPTED = 2, 1, 130


def main(argv: Sequence[str] | None = None) -> int:
    """Runs `mupc` with these arguments (default: those of the process) and returns the exit code.

    0 is success, 1 a run that failed (it diverged, a file is damaged), 2 wrong usage, 130 an interruption.

    **Example:**

    ```python
    from mupc.cli import main

    main(["train", "--hidden-layers", "16", "--epochs", "5"])
    ```
    """
    words = list(sys.argv[1:] if argv is None else argv)
    if not words or words[0] in ("-h", "--help", "help"):
        print(_help())
        return 0 if words else USAGE_ERROR
    if words[0] in ("-V", "--version"):
        from .. import __version__

        print(f"mupc {__version__}")
        return 0
    command, rest = words[0], words[1:]
    if command not in COMMANDS:
        near = difflib.get_close_matches(command, COMMANDS, n=1)
        hint = f"did you mean `mupc {near[0]}`?" if near else f"choose one of {', '.join(COMMANDS)}."
        return _complain(f"mupc: no command {command!r}; {hint} `mupc --help` lists them.", USAGE_ERROR)
    return _guarded(command, rest)


def _help() -> str:
    commands = "\n".join(f"  {name:<11}{line}" for name, line in COMMANDS.items())
    return (
        "usage: mupc COMMAND [OPTIONS]\n\n"
        "Train and analyse deep predictive coding networks.\n\n"
        f"commands:\n{commands}\n\n"
        "options:\n"
        "  --help     this text; `mupc COMMAND --help` for the options of a command\n"
        "  --version  the version\n\n"
        "Start with `mupc train`: a 16-hidden-layer network on the built-in digits, in a few seconds."
    )


def _guarded(command: str, argv: list[str]) -> int:
    """Runs a command; mistakes end in one line, tracebacks are for --debug."""
    debug, name = "--debug" in argv, f"mupc {command}"
    _keep_compiled_programs()
    try:
        return int(importlib.import_module(f".{command}", __name__).run(argv))
    except SystemExit as stop:  # how the parser leaves after --help or a wrong flag
        return stop.code if isinstance(stop.code, int) else FAILURE if stop.code else 0
    except KeyboardInterrupt:
        return _complain(f"{name}: interrupted.", INTERRUPTED)
    except BrokenPipeError:  # the reader went away, as in `mupc train | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FAILURE
    except Exception as error:
        if debug:
            raise
        return _complain(f"{name}: {_explain(error)}", _code(error))


def _keep_compiled_programs() -> None:
    """Has JAX keep what it compiles beside the data sets, so that a second run starts at once. JAX reads this when it
    is imported; settings of the user's own come first."""
    from ..io import cache_folder

    os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(cache_folder() / "compiled"))
    os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0.2")


def _code(error: Exception) -> int:
    return USAGE_ERROR if isinstance(error, ValueError | OSError) else FAILURE


def _explain(error: Exception) -> str:
    """An error as one line that names the cure."""
    text = " ".join(str(error).split())
    if isinstance(error, OSError) and error.strerror:
        where = f" {error.filename}" if error.filename else ""
        return f"cannot use{where} ({error.strerror}): choose another place, or change its permissions."
    if isinstance(error, ValueError | OSError):
        return text
    if isinstance(error, MemoryError) or "RESOURCE_EXHAUSTED" in text:
        return "out of memory: lower --width, --hidden-layers or --batch-size."
    return f"unexpected {type(error).__name__}: {text[:200]} (repeat with --debug for the traceback)"


def _complain(line: str, code: int) -> int:
    print(line, file=sys.stderr)
    return code
