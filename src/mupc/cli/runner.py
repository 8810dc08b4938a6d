"""Run the commands of `mupc`: find one, parse its flags, hear signals, and end with one line and an exit code.

A command is a module `mupc.cli.NAME` with a `COMMAND` or, where a second word chooses one, with `COMMANDS`. It is
imported when it is called, and it imports what is heavy (JAX, plots) inside its `run`, so that help comes at once.
"""

import dataclasses
import difflib
import functools
import importlib
import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

from rich.console import Console

from ..io import Interruption, checks, json_text, keep_compiled
from ..io.progress import say

if TYPE_CHECKING:
    from .flags import ScreenFlags

PROGRAM = "mupc"
COMMANDS = {
    "train": "train a network and write a run folder",
    "export": "write the trained network of a run to one file, with everything that prediction needs",
    "predict": "predict new samples with a trained network, or continue a text",
    "sweep": "train over a grid of settings, or let a sampler choose, with any number of workers",
    "check": "check that sizes do not change with width and depth",
    "transfer": "tune on a small network, train a large one",
    "hessian": "eigenvalues and condition numbers of activity Hessians",
    "reproduce": "reproduce a figure of the paper",
    "report": "write one HTML page on runs, or on the reproduced figures",
    "bench": "measure speed, memory and compile time",
    "data": "list, fetch and check data sets",
}
"""Each command with its line of help."""

FAILURE, USAGE_ERROR, INTERRUPTED = 1, 2, 130
LOST = ("Gloo", "NCCL", "coordination service", "CoordinationService")
"""Words of errors that mean that another process has gone."""
Flags = TypeVar("Flags")


class CommandResult(NamedTuple):
    """How a command ended: the summary that `--json` prints, a line for stderr if something went wrong, the exit code.

    A summary with `interrupted` set ends with its own `message` and with the exit code of the signal.
    """

    summary: Mapping[str, Any]
    problem: str = ""
    code: int = 0


@dataclasses.dataclass(frozen=True)
class Session:
    """One call of a command: its name, the console for people (quiet with `--quiet` and `--json`), and the signals that
    it hears."""

    name: str
    console: Console
    interruption: Interruption

    def say(self, line: str) -> None:
        """Show a line as it is."""
        say(self.console, line)

    def warn(self, warnings: Sequence[str]) -> None:
        """Show warnings, a line each."""
        for line in warnings:
            self.say(f"warning: {line}")


@dataclasses.dataclass(frozen=True)
class Command(Generic[Flags]):
    """What the runner needs to know about a command.

    **Arguments:** the dataclass of its `flags`, and what it does, `run(flags, session)`. Help begins with the
    `description`, by default the docstring of `flags`.
    `defaults(flags, parse_over)` may return the defaults that a file named by the flags holds; the command's arguments
    are then parsed again over those, as `parse_over(defaults)` does.
    `spelling` has the flags for arguments of the library that this command names differently from the others.
    """

    flags: type[Flags]
    run: Callable[[Flags, Session], CommandResult]
    defaults: Callable[[Flags, Callable[[Flags], Flags]], Flags | None] | None = None
    spelling: Mapping[str, str] = dataclasses.field(default_factory=dict)
    description: str = ""

    @property
    def about(self) -> str:
        """The first lines of its help."""
        return self.description or " ".join(str(self.flags.__doc__).split())


def main(argv: Sequence[str] | None = None) -> int:
    """Run `mupc` with these arguments (default: those of the process) and return the exit code.

    0 is success, 1 a run that failed (it diverged, a file is damaged), 2 wrong usage, 130 or 143 an interruption.

    **Example:**

    ```python
    from mupc.cli import main

    main(["train", "--hidden-layers", "16", "--epochs", "5"])
    ```
    """
    words = list(sys.argv[1:] if argv is None else argv)
    if words[:1] in (["-V"], ["--version"]):
        from .. import __version__

        print(f"{PROGRAM} {__version__}")
        return 0
    if not words or words[0] in ("-h", "--help", "help"):
        print(_help())
        return 0 if words else USAGE_ERROR
    if words[0] not in COMMANDS:
        return complain(PROGRAM, _no_command(PROGRAM, words[0], COMMANDS), USAGE_ERROR)
    keep_compiled()
    return _guarded(words[0], words[1:])


def _guarded(name: str, argv: list[str]) -> int:
    """Run a command. Whatever goes wrong ends in one line; tracebacks are for --debug."""
    program = f"{PROGRAM} {name}"
    debug, spelling = False, None
    with Interruption(program, at_once=True) as interruption:
        try:
            module = importlib.import_module(f".{name}", __package__)
            command, path, rest = _choose(module, program, argv)
            spelling = command.spelling
            flags = _parse(command, path, rest)
            screen: ScreenFlags = getattr(flags, "output", flags)
            debug = screen.debug
            if (machines := getattr(flags, "machines", None)) is not None:
                from .machines import connect

                connect(machines)
            _choose_device(getattr(screen, "device", None))
            console = Console(quiet=screen.quiet or screen.json, highlight=False)
            summary, problem, code = command.run(flags, Session(program, console, interruption))
            if screen.json:
                print(json_text(summary, indent=2))
            if summary.get("interrupted"):
                problem, code = summary["message"], interruption.code
            return complain(program, problem, code) if problem else code
        except SystemExit as stop:  # how tyro leaves after --help
            return stop.code if isinstance(stop.code, int) else FAILURE if stop.code else 0
        except KeyboardInterrupt:
            return complain(program, "interrupted.", interruption.code)
        except BrokenPipeError:  # the reader went away, as in `mupc train | head`
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return FAILURE
        except Exception as error:
            if debug:
                raise
            code = USAGE_ERROR if isinstance(error, ValueError | OSError) else FAILURE
            complain(program, explain(error, spelling), code)
            return _leave(code)


def _leave(code: int) -> int:
    """Return the exit code. One of several processes exits at once instead, so that the others notice: by the rules of
    JAX it would wait for them, and they for it."""
    if (jax := sys.modules.get("jax")) is not None and jax.distributed.is_initialized():
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
    return code


def _choose(module: Any, program: str, argv: list[str]) -> tuple[Command[Any], str, list[str]]:
    """Return the command of a module, the words that call it, and the arguments after those."""
    commands: Mapping[str, Command[Any]] = getattr(module, "COMMANDS", None) or {"": module.COMMAND}
    word = argv[0] if argv else ""
    if word and word in commands:
        return commands[word], f"{program} {word}", argv[1:]
    if "" in commands:
        return commands[""], program, argv
    if word in ("-h", "--help"):
        lines = (f"  {name:<11}{command.about}" for name, command in commands.items())
        print(f"usage: {program} COMMAND [OPTIONS]\n\n{module.__doc__}\n\ncommands:\n" + "\n".join(lines))
        raise SystemExit(0)
    if not word:
        raise ValueError(f"expected one of {{{', '.join(commands)}}}; `{program} --help` lists all options.")
    raise ValueError(_no_command(program, word, commands))


def _parse(command: Command[Flags], program: str, argv: list[str]) -> Flags:
    from .parsing import parse

    parse_over = functools.partial(parse, command.flags, argv, program, command.about)
    flags = parse_over()
    defaults = None if command.defaults is None else command.defaults(flags, parse_over)
    return flags if defaults is None else parse_over(defaults)


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


def _no_command(program: str, word: str, known: Iterable[str]) -> str:
    names = list(known)
    near = difflib.get_close_matches(word, names, n=1)
    hint = f"did you mean `{program} {near[0]}`?" if near else f"choose one of {', '.join(names)}."
    return f"no command {word!r}; {hint} `{program} --help` lists all options."


def _choose_device(name: str | None) -> None:
    """Have JAX compute on this kind of device, and refuse one that is not there. JAX takes its choice only before it
    computes anything."""
    asked = os.environ.get("JAX_PLATFORMS")
    if name is None and not asked:
        return
    import jax

    if name is not None:
        jax.config.update("jax_platforms", "cpu" if name == "cpu" else "")  # a GPU comes first where there is one
    try:
        found = jax.default_backend()
    except (RuntimeError, AssertionError):
        raise ValueError(
            f"JAX_PLATFORMS={asked} names a device that is not there: unset it, or use --device cpu."
        ) from None
    if name not in (None, found):
        raise ValueError(
            f"--device {name} is not there, JAX finds the {found.upper()}: leave it out, or install JAX for your GPU."
        )


def explain(error: Exception, spelling: Mapping[str, str] | None = None) -> str:
    """Return one line that says what went wrong and what to do, with arguments spelled as flags."""
    text = str(error)
    if isinstance(error, checks.ArgumentError):
        from .parsing import flag

        text = error.spelled(lambda name: (spelling or {}).get(name) or flag(name))
    text = " ".join(text.split())
    if isinstance(error, OSError) and error.strerror:
        where = f" {error.filename}" if error.filename else ""
        return f"cannot use{where} ({error.strerror}): choose another place, or change its permissions."
    if isinstance(error, ValueError | OSError):
        return text
    if isinstance(error, MemoryError) or "RESOURCE_EXHAUSTED" in text:
        return "out of memory: lower --width, --hidden-layers or --batch-size."
    if any(word in text for word in LOST):
        return "another process of this run ended or cannot be reached: see what it said, then --resume the run."
    return f"unexpected {type(error).__name__}: {text[:200]} (repeat with --debug for the traceback)"


def complain(name: str, line: str, code: int) -> int:
    """Print a line about a problem and return the exit code."""
    print(f"{name}: {line}", file=sys.stderr)
    return code
