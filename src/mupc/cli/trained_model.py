"""Trained networks of run folders and files, for commands that look at the network alone."""

import dataclasses
from typing import Any

from ..io import checks
from ..network import AbstractNetwork, read_network
from ..prediction import find_model, run_of
from .config import TrainFlags
from .config import load as load_flags


def open_checkpoint(name: str) -> tuple[AbstractNetwork, TrainFlags | None]:
    """Return the network of the run folder or file that `--checkpoint` names, and the flags of its run, if any."""
    file = find_model(name, "--checkpoint ")
    folder = run_of(file)
    return read_network(file), None if folder is None else load_flags(folder, "the configuration of --checkpoint ")


def refuse_other_flags(*groups: Any, keep: tuple[str, ...] = ()) -> None:
    """Refuse flags that differ from their defaults next to `--checkpoint`, all but those to `keep`."""
    fields = ((each, getattr(group, each.name)) for group in groups for each in dataclasses.fields(group))
    for field, value in fields:
        if field.name not in ("checkpoint", *keep) and value != field.default:
            flag = checks.flag_spelling(field.name)
            raise ValueError(f"{flag} has no effect with --checkpoint, which has a network of its own: leave it out.")
