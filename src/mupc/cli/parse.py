"""Reading the command line: tyro does it, and what is wrong becomes one line."""

import contextlib
import difflib
import functools
import io
import re
from collections.abc import Callable, Mapping
from typing import Any

import tyro


def parse(flags: Any, argv: list[str], prog: str, description: str, **options: Any) -> Any:
    """The flags in `argv`, as an object of this class."""
    return _read(tyro.cli, flags, argv, prog, description, **options)


def call(command: Callable[..., Any], argv: list[str], prog: str, description: str) -> Any:
    """Calls a function with the flags in `argv` and returns what it does."""
    return parse(_later(command), argv, prog, description)()


def call_one(commands: Mapping[str, Callable[..., Any]], argv: list[str], prog: str, description: str) -> Any:
    """Calls the function that the first word names."""
    later = {name: _later(command) for name, command in commands.items()}
    return _read(tyro.extras.subcommand_cli_from_dict, later, argv, prog, description)()


def _later(command: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(command)
    def bound(*args: Any, **kwargs: Any) -> Any:
        return functools.partial(command, *args, **kwargs)

    return bound


def _read(reader: Callable[..., Any], what: Any, argv: list[str], prog: str, description: str, **options: Any) -> Any:
    with contextlib.redirect_stderr(io.StringIO()) as complaint:
        try:
            config = (tyro.conf.DisallowNone,)
            return reader(what, prog=prog, description=description, args=argv, config=config, **options)
        except SystemExit as stop:
            if stop.code:
                raise ValueError(_one_line(complaint.getvalue(), prog)) from None
            raise


def _one_line(complaint: str, prog: str) -> str:
    """What is wrong, and the flags that may have been meant, from a complaint of tyro's: a title, then sections between
    rules, all in a frame where the terminal has the characters for one."""
    sections: list[list[str]] = [[]]
    for line in complaint.splitlines()[1:]:
        words = line.strip(" │╰╯─-")
        sections[-1].append(line.strip("│").strip()) if words else sections.append([])
    wrong, *others = [section for section in sections if section]
    near = [line.split()[0] for section in others if section[0] == "Perhaps you meant:" for line in section[1:]]
    said = " ".join(wrong).rstrip(".")
    likely = [word.rstrip(",") for word in near if word.startswith("--")] or _near_choice(said)
    meant = f"did you mean {' or '.join(likely)}? " if likely else ""
    return f"{said[:1].lower()}{said[1:]}; {meant}`{prog} --help` lists what there is."


def _near_choice(said: str) -> list[str]:
    """The word that may have been meant by a wrong one, where all that fit are listed."""
    found = re.search(r"invalid choice '(.*?)' .*one of \((.*)\)", said)
    return difflib.get_close_matches(found[1], re.findall(r"'(.*?)'", found[2]), n=1) if found else []
