"""The runner that all commands share, on a command made for it, and the progress display."""

import dataclasses
import io
import json
import os
import signal
import sys
import types
from typing import Annotated, Literal

import pytest
import tyro
from rich.console import Console

from mupc.cli import runner
from mupc.cli.flags import ScreenFlags
from mupc.cli.runner import Command, CommandResult
from mupc.io import checks, progress
from mupc.io.progress import ProgressDisplay


@dataclasses.dataclass(frozen=True, kw_only=True)
class ToyFlags(ScreenFlags):
    """All flags."""

    file: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="FILE")] = "none"
    hidden_layers: int = 3
    colour: Literal["red", "green"] = "red"


@pytest.fixture
def toy(mupc, monkeypatch):
    """Runs `mupc toy`, which does what `act(flags, session)` does."""

    def run(act, *argv, **options):
        module = types.ModuleType("mupc.cli.toy")
        module.COMMAND = Command(flags=ToyFlags, description="A toy.", run=act, **options)
        monkeypatch.setitem(sys.modules, "mupc.cli.toy", module)
        monkeypatch.setitem(runner.COMMANDS, "toy", "a toy")
        return mupc("toy", *argv)

    return run


def fail(error):
    def act(flags, session):
        raise error

    return act


def test_how_a_command_ends(toy):
    def act(flags, session):
        session.say(f"{flags.hidden_layers} [layers]")
        return CommandResult({"layers": flags.hidden_layers}, "it failed.", 1)

    run = toy(act, "--hidden-layers", "4")
    assert (run.code, run.out, run.err) == (1, "4 [layers]\n", "mupc toy: it failed.\n")
    run = toy(act, "--json")
    assert (run.code, json.loads(run.out)) == (1, {"layers": 3})
    assert toy(act, "--quiet").out == ""


def test_defaults_from_a_file(toy):
    """Flags go over what the file has, in any order."""
    options = {
        "defaults": lambda flags, parse_over: ToyFlags(hidden_layers=7, colour="green") if flags.file == "old" else None
    }
    act = lambda flags, session: CommandResult({"found": [flags.hidden_layers, flags.colour]})  # noqa: E731
    for argv, found in (((), [3, "red"]), (("old",), [7, "green"]), (("--hidden-layers", "5", "old"), [5, "green"])):
        assert json.loads(toy(act, "--json", *argv, **options).out) == {"found": found}


def test_errors_name_flags(toy):
    wrong = checks.ArgumentError("steps", "has {no} place next to {hidden_layers}.", "Use {ErrorSpace}.")
    text = "mupc toy: --inference-steps has --no place next to --hidden-layers. Use --solver error-space.\n"
    assert toy(fail(wrong)).err == text
    assert toy(fail(wrong), spelling={"steps": "--steps"}).err.startswith("mupc toy: --steps has")
    assert toy(fail(OSError(28, "No space left on device", "x"))).err.startswith("mupc toy: cannot use x (No space")
    assert toy(fail(MemoryError())).err.startswith("mupc toy: out of memory: lower")


def test_parse_errors(toy):
    for argv, text in (
        (["--hiden-layers", "4"], "unrecognised options: --hiden-layers, 4; did you mean --hidden-layers?"),
        (["--colour", "gren"], "--colour 'gren' is not known. Did you mean 'green'? Choose one of: red, green."),
        (["--hidden-layers"], "missing value for --hidden-layers;"),
        (["--hidden-layers", "x"], "error parsing --hidden-layers: invalid literal for int() with base 10: 'x';"),
        (["--depth", "2"], "there is no --depth: did you mean --hidden-layers?"),
    ):
        run = toy(fail(AssertionError()), *argv)
        assert (run.code, run.err) == (2, f"mupc toy: {text} `mupc toy --help` lists all options.\n")


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_signals(toy, number, code):
    """At once, and inside `gracefully` at the next good moment or at the second signal."""
    handlers = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)

    def at_once(flags, session):
        os.kill(os.getpid(), number)
        raise AssertionError

    def in_time(flags, session):
        with session.interruption.gracefully() as stop:
            os.kill(os.getpid(), number)
            assert stop()
        return CommandResult({"interrupted": True, "message": "half is done."})

    def twice(flags, session):
        with session.interruption.gracefully():
            for _ in range(2):
                os.kill(os.getpid(), number)
        raise AssertionError

    run = toy(at_once)
    assert (run.code, run.err) == (code, "mupc toy: interrupted.\n")
    run = toy(in_time)
    assert (run.code, run.err) == (code, "mupc toy: half is done.\n")
    assert toy(twice).code == code
    assert (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)) == handlers


def shown(console, *updates, **options):
    with ProgressDisplay(console, "cell", **options) as display:
        for update in updates:
            display.update(*update)
    return console.file.getvalue()


def test_plain_lines_with_the_time_left(monkeypatch):
    seconds = iter([100.0, 110.0, 130.0])
    monkeypatch.setattr(progress.time, "monotonic", lambda: next(seconds))
    console = Console(file=io.StringIO(), width=40)
    lines = shown(console, (0, 4), (1, 4, ["best 0.1"]), (4, 4), waiting="compiling …").splitlines()
    assert lines == ["compiling …", "cell 0/4", "cell 1/4  best 0.1  0:30 left", "cell 4/4"]


def test_a_quiet_console_shows_nothing():
    for terminal in (False, True):
        console = Console(file=io.StringIO(), force_terminal=terminal, quiet=True)
        assert shown(console, (0, 4), (1, 4, ["best 0.1"]), waiting="compiling …") == ""
