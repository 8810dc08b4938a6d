"""`mupc export`: one file with the trained network of a run and everything that prediction needs."""

import dataclasses
from typing import Annotated, Any

import tyro

from .flags import ScreenFlags, hint
from .run_folder import new_file
from .runner import Command, CommandResult, Session


@dataclasses.dataclass(frozen=True, kw_only=True)
class ExportFlags(ScreenFlags):
    """Write the trained network of a run to one safetensors file: weights bit for bit, architecture, and what
    prediction needs as well (normalisation, image shape, classes). `mupc predict` and mupc.load read it."""

    run: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="RUN")]
    """A run folder of `mupc train`, or a file of mupc.save."""
    target: Annotated[tyro.conf.Positional[str], hint("(required)", "FILE.safetensors")]
    """The file to write."""
    force: tyro.conf.FlagCreatePairsOff[bool] = False
    """Replace the file if it is there."""


def run(flags: ExportFlags, session: Session) -> CommandResult:
    """Write the network of a run to one file, whole or not at all."""
    path = new_file(flags.target, [".safetensors"], flags.force)
    import jax

    from ..prediction import load, save

    model = load(flags.run)
    save(path, model)
    unknown = f"{flags.run} does not describe its data: `mupc predict` takes inputs as they are"
    schema = model.schema
    summary: dict[str, Any] = {
        "out": str(path),
        "bytes": path.stat().st_size,
        "weights": sum(leaf.size for leaf in jax.tree.leaves(model.network)),
        "data": model.data,
        "image_shape": schema.image_shape,
        "classes": schema.labels and len(schema.labels),
        "loss": model.loss,
        "warnings": [] if model.describes_samples else [unknown],
    }
    about = "" if model.data is None else f" trained on {model.data}"
    session.say(f"{path}: {summary['weights']:,} weights{about}, {summary['bytes']:,} bytes")
    session.warn(summary["warnings"])
    return CommandResult(summary)


COMMAND = Command(flags=ExportFlags, run=run)
