"""An analysis of activity Hessians, from flags to a run folder."""

import collections
import dataclasses
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import jax
import numpy as np
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from .. import plots, theory
from ..inference import Energy
from ..io import checks, device, versions
from ..network import Network, forward
from .display import say
from .hessian import HessianFlags, HessianNetworkFlags
from .hessian_cases import Case, find
from .run_folder import RunFolder

Row = dict[str, Any]
Summary = dict[str, Any]

QUICK, DRAWN = 2048, 4096
"""Unknowns up to which `auto` is dense, and every eigenvalue is drawn unasked."""

MOST_SEEDS = 10_000


def analyse(flags: HessianFlags, console: Console) -> Summary:
    """Analyses the networks that the flags ask for, writes a run folder and returns its summary.

    **Arguments:** the flags of `mupc hessian`, and the console to show it on.
    """
    if checks.integer("--seeds", flags.network.seeds, 1) > MOST_SEEDS:
        raise ValueError(f"--seeds {flags.network.seeds} is more than {MOST_SEEDS:,}: medians need no more, use fewer.")
    checks.seed(flags.network.seed + flags.network.seeds - 1)
    cases, energy = find(flags.network, flags.energy)
    plan = [(case, _method(case.form, flags)) for case in cases]
    folder = RunFolder(flags.output.out, "hessian")
    about = {
        "config": _resolved(flags, cases, energy),
        "versions": versions(),
        "device": device(),
        "precision": "float64",
        "seed": flags.network.seed,
    }
    folder.write("config.json", about)
    console.quiet = flags.output.quiet or flags.output.json
    say(console, _title(cases, flags.network, energy))
    rows: list[Row] = []
    spectra: list[Row] = []
    begin = time.perf_counter()
    with folder.recording(), Progress(console=console, disable=not console.is_terminal, transient=True) as bar:
        task = bar.add_task("networks", total=len(cases) * flags.network.seeds)
        for row, spectrum in _analyse(plan, flags, energy, lambda: bar.advance(task)):
            rows.append(row)
            spectra += [] if spectrum is None else [spectrum]
            folder.append(row)
            if len(cases) > 1 and not console.is_terminal:
                console.print(_line(row), highlight=False, soft_wrap=True)
    interrupted = len(rows) < len(cases)
    message = f"interrupted; {len(rows)} of {len(cases)} networks are in {folder.path / 'summary.json'}."
    summary = {
        "networks": rows,
        "seconds": time.perf_counter() - begin,
        "interrupted": interrupted,
        "message": message if interrupted else "all networks were analysed",
        "device": about["device"],
        "out": str(folder.path),
    }
    folder.write("summary.json", summary)
    _draw(rows, spectra, folder)
    _conclude(summary, console)
    return summary


def _analyse(
    plan: "list[tuple[Case, Method]]", flags: HessianFlags, energy: Energy, advance: Callable[[], None]
) -> Iterator[tuple[Row, Row | None]]:
    """The row of each network and, of its first seed, the spectrum."""
    for case, method in plan:
        measured = []
        for seed in range(flags.network.seed, flags.network.seed + flags.network.seeds):
            measured.append(_measure(case, seed, energy, flags.energy.free_input, method))
            advance()
        yield _row(case, method, measured), _spectrum(case, measured)


def _unknowns(form: Network, free_input: bool) -> int:
    return form.width * form.hidden_layers + free_input * form.in_size


class Method(NamedTuple):
    """How to find the ends of a spectrum, `dense` or `iterative`, and its density: `exact`, `lanczos` or not at all."""

    ends: str
    density: str | None


def _method(form: Network, flags: HessianFlags) -> Method:
    """What the flags mean for a network of this size."""
    size, wanted = _unknowns(form, flags.energy.free_input), flags.method.method
    if wanted == "dense" and size > theory.DENSE_LIMIT:
        raise ValueError(
            f"--method dense is for up to {theory.DENSE_LIMIT:,} unknowns, and {form.hidden_layers} hidden layers of "
            f"{form.width} units have {size:,}: use --method iterative."
        )
    every = size <= DRAWN or wanted == "dense"
    density = ("exact" if every else "lanczos") if flags.method.spectrum else None
    if wanted == "auto":
        return Method("dense" if size <= QUICK or density == "exact" else "iterative", density)
    return Method(wanted, density)


class Measured(NamedTuple):
    """What was found for one network."""

    seed: int
    ends: theory.Condition
    spectrum: theory.Spectrum | None
    seconds: float


def _measure(case: Case, seed: int, energy: Energy, free_input: bool, method: Method) -> Measured:
    begin = time.perf_counter()
    network = case.make(seed)
    point: Any = (None, None, None)
    with jax.enable_x64(True):
        if not theory.is_quadratic(network, energy):
            x, y = case.sample(seed)
            point = (x, y, forward(network, x[None])[0])
        options: Any = {"energy": energy, "free_input": free_input}
        spectrum = None
        if method.density is not None:
            spectrum = theory.spectrum(network, *point, method=method.density, **options)
        if spectrum is not None and spectrum.exact and method.ends == "dense":
            ends = theory.Condition(spectrum.largest, spectrum.smallest, spectrum.size)
        else:
            ends = theory.condition_number(network, *point, method=method.ends, **options)
    return Measured(seed, ends, spectrum, time.perf_counter() - begin)


NUMBERS = ("largest", "smallest", "condition_number")


def _row(case: Case, method: Method, measured: list[Measured]) -> Row:
    """One line of the table: medians over the seeds. A condition number that is not defined counts as infinite."""
    ends = [(found.ends.largest, found.ends.smallest, found.ends.kappa) for found in measured]
    each = [dict(zip(NUMBERS, numbers, strict=True)) for numbers in ends]
    medians = {name: _median([one[name] for one in each]) for name in NUMBERS}
    kinds = [found.ends.definite for found in measured]
    return {
        **_sizes(case.form),
        "unknowns": measured[0].ends.size,
        **medians,
        "definite": dict(collections.Counter(kinds)),
        "method": method.ends,
        "spectrum": method.density,
        "seconds": sum(found.seconds for found in measured),
        "seeds": [
            {"seed": found.seed, **one, "definite": kind, "seconds": found.seconds}
            for found, one, kind in zip(measured, each, kinds, strict=True)
        ],
    }


def _median(values: list[float]) -> float:
    return float(np.median(np.nan_to_num(values, nan=np.inf, posinf=np.inf)))


def _sizes(form: Network) -> dict[str, int]:
    return {name: getattr(form, name) for name in ("width", "hidden_layers", "in_size", "out_size")}


def _name(sizes: Row) -> str:
    return f"{sizes['hidden_layers']} hidden layers of {sizes['width']}"


def _spectrum(case: Case, measured: list[Measured]) -> Row | None:
    """What is drawn: the eigenvalues of the first seed, which the label names if there are others."""
    found = measured[0]
    if found.spectrum is None:
        return None
    ends = {name: getattr(found.ends, name) for name in ("smallest", "largest")}
    density = {name: getattr(found.spectrum, name) for name in ("values", "weights", "exact")}
    which = f", seed {found.seed}" if len(measured) > 1 else ""
    return {"label": _name(_sizes(case.form)) + which, "seed": found.seed, **ends, **density}


def _resolved(flags: HessianFlags, cases: list[Case], energy: Energy) -> Row:
    """The flags with what they stand for in place of what was left to default."""
    first = cases[0].form
    return {
        **dataclasses.asdict(flags.network),
        "networks": [_sizes(case.form) for case in cases],
        "activation": first.activation.name,
        "parameterisation": first.parameterisation,
        "skip": first.skip,
        "loss": energy.loss,
        "output_precision": energy.output_precision,
        "activity_decay": energy.activity_decay,
        "free_input": flags.energy.free_input,
        **dataclasses.asdict(flags.method),
    }


def _draw(rows: list[Row], spectra: list[Row], folder: RunFolder) -> None:
    figures = folder.path / "figures"
    if spectra:
        folder.write("spectra.json", spectra)
        plots.draw_eigenvalue_densities(spectra, figures / "spectrum.png")
    if sum(np.isfinite(row["condition_number"]) for row in rows) > 1:
        plots.draw_condition_numbers(rows, figures / "condition-numbers.png")


def _number(value: float) -> str:
    return f"{value:.4g}" if np.isfinite(value) else "–"


def _definite(row: Row) -> str:
    return ", ".join(f"{kind} {count}/{len(row['seeds'])}" for kind, count in row["definite"].items())


def _line(row: Row) -> str:
    return f"{_name(row)}: κ {_number(row['condition_number'])}, {_definite(row)}, {row['seconds']:.1f} s"


def _title(cases: list[Case], flags: HessianNetworkFlags, energy: Energy) -> str:
    """What is to come."""
    form = cases[0].form
    parts = [f"activity Hessian of {flags.checkpoint or 'initial networks'}", form.activation.name]
    parts += [form.parameterisation, f"skip {form.skip}"]
    if not theory.is_quadratic(form, energy):
        parts.append("at the forward pass of a sample")
    if flags.seeds > 1:
        parts.append(f"medians of {flags.seeds} seeds")
    return ", ".join(parts)


def _conclude(summary: Summary, console: Console) -> None:
    table = Table(box=None, header_style="bold", pad_edge=False, padding=(0, 1))
    for name in ("width", "hidden\nlayers", "λ max", "λ min", "κ"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("definite", no_wrap=True)
    table.add_column("seconds", justify="right", no_wrap=True)
    for row in summary["networks"]:
        numbers = (_number(row[name]) for name in NUMBERS)
        table.add_row(str(row["width"]), str(row["hidden_layers"]), *numbers, _definite(row), f"{row['seconds']:.1f}")
    console.print(table)
    seeds = max((len(row["seeds"]) for row in summary["networks"]), default=1)
    if seeds > 1:
        say(console, f"medians over {seeds} seeds, column by column")
    if not all(np.isfinite(row["condition_number"]) for row in summary["networks"]):
        console.print(
            "– stands for no condition number: not every eigenvalue is positive, as far as float64 can tell",
            highlight=False,
        )
    say(console, f"run folder {summary['out']}")
