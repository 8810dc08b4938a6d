"""Parse flags with tyro, spell the library's arguments as flags, and describe a mistake in one line."""

import dataclasses
import difflib
import re
import typing
from collections.abc import Iterator
from typing import Any, TypeVar

import tyro
from tyro import _errors  # the only structured account of a parse error; what it does not know, tyro prints itself

from ..io import checks

Flags = TypeVar("Flags")

SPELLINGS = {
    "lr": "--activity-lr",
    "steps": "--inference-steps",
    "tol": "--inference-tol",
    "t1": "--end-time",
    "use_bias": "--bias",
    "beta": "--nudge",
    "final_beta": "--final-nudge",
    "sign": "--nudge-sign",
    "GradientDescent": "--solver gd",
    "Optax": "--solver adam",
    "ErrorSpace": "--solver error-space",
    "ExactLinear": "--solver exact-linear",
    "ODE": "--solver ode",
    "MonteCarlo": "--solver monte-carlo",
    "PC": "--method pc",
    "BP": "--method bp",
    "Network": "--model mlp",
}
"""Arguments and classes of the library whose flags have other names."""
SYNONYMS = {"depth": ("hidden_layers",), "beta": ("activity_lr", "nudge"), "lr": ("weight_lr", "activity_lr")}
"""Names that other programs give to settings."""


_NO_MATCH = re.compile(r"no type matching .* could be instantiated from \[(.*)\]\. Got errors")
"""What tyro says of several values, before it lists an error for each of their types."""


def flag(name: str) -> str:
    """Return the flag for an argument or a solver of the library, such as `--hidden-layers` for `hidden_layers`."""
    return SPELLINGS.get(name) or checks.flag_spelling(name)


def parse(flags: type[Flags], argv: list[str], program: str, description: str, default: Flags | None = None) -> Flags:
    """Return the flags in `argv` as an object of the class `flags`, over those of `default`."""

    def refuse(event: _errors.ParseErrorEvent) -> None:
        if (line := _describe(event, flags)) is not None:
            raise ValueError(f"{line} `{program} --help` lists all options.")

    options: dict[str, Any] = {} if default is None else {"default": default}
    with _errors.on_parse_error(refuse):
        return tyro.cli(
            flags, args=argv, prog=program, description=description, config=(tyro.conf.DisallowNone,), **options
        )


def _describe(event: _errors.ParseErrorEvent, flags: type[Any]) -> str | None:
    """Return one sentence on a parse error, or None for a kind that is not known here."""
    match event:
        case _errors.UnrecognizedArgs(tokens=tokens):
            return _unrecognised(tokens, list(_flag_names(flags)))
        case _errors.InvalidChoice(argument=argument, value=value, choices=choices):
            order = str(argument.lowered.metavar).find  # the choices of an optional flag come in any order
            known = sorted((choice for choice in choices if choice != "None"), key=order)
            return str(checks.unknown(argument.display_name(), value, known))
        case _errors.InstantiationFailure(argument=argument, message=message):
            about = "" if argument is None else f" {_name(argument)}"
            reason = " ".join(message.split()).rstrip(".")
            if found := _NO_MATCH.match(reason):
                return f"{about.strip()} takes {argument and argument.lowered.metavar}, got {found[1]};"
            return f"error parsing{about}: {reason};"
        case _errors.MissingArgs(missing_arguments=missing):
            return f"missing: {', '.join(_name(each.arg) for each in missing)};"
        case _errors.BadValue(argument=argument):
            return f"missing value for {_name(argument)};"
    return None


def _name(argument: Any) -> str:
    return str(argument.lowered.metavar) if argument.is_positional() else str(argument.display_name())


def _unrecognised(tokens: list[str], known: list[str]) -> str:
    names = [token.partition("=")[0] for token in tokens if token.startswith("--")]
    for name in names:
        if meant := SYNONYMS.get(name.removeprefix("--")):
            return f"there is no {name}: did you mean {' or '.join(map(flag, meant))}?"
    near = [match for name in names for match in difflib.get_close_matches(name, known, n=1)]
    hint = f" did you mean {' or '.join(dict.fromkeys(near))}?" if near else ""
    return f"unrecognised options: {', '.join(tokens)};{hint}"


def _flag_names(flags: type[Any]) -> Iterator[str]:
    """Yield all flags of a dataclass, and of the dataclasses inside it."""
    for name, kind in typing.get_type_hints(flags).items():
        if dataclasses.is_dataclass(kind) and isinstance(kind, type):
            yield from _flag_names(kind)
        else:
            yield checks.flag_spelling(name)
