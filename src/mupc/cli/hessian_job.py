"""Analyse activity Hessians, from flags to a run folder."""

import collections
import dataclasses
import functools
import itertools
import math
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.random as jr
import numpy as np

from .. import plots, theory
from ..data import Dataset
from ..diagnostics import hessian_extremes
from ..inference import Energy, as_energy
from ..io import checks
from ..io.progress import ProgressDisplay
from ..network import AbstractNetwork, Chain, Network, forward, models, resolve_precision
from .building import load_data, network_maker, train_config
from .config import TrainFlags
from .display import plain_table
from .hessian import EnergyFlags, HessianFlags, HessianNetworkFlags
from .parsing import flag
from .run_folder import RunFolder
from .runner import Session
from .trained_model import open_checkpoint, refuse_other_flags

Row = dict[str, Any]
Sample = tuple[np.ndarray, np.ndarray]

QUICK, DRAWN = 2048, 4096
"""Unknowns up to which `auto` is dense, and up to which every eigenvalue is drawn by default."""
MOST_SEEDS = 10_000
SIZES = ("width", "hidden_layers", "in_size", "out_size")
NUMBERS = ("largest", "smallest", "condition_number")


class HessianCase(NamedTuple):
    """A network to analyse.

    - `form`: the network without its arrays, which may be shapes.
    - `make`, `sample`: functions that return the network and the sample of a seed.
    - `ends`, `density`: how to find the ends of the spectrum (`dense` or `iterative`) and its density (`exact`,
      `lanczos` or None).
    """

    form: AbstractNetwork
    make: Callable[[int], AbstractNetwork]
    sample: Callable[[int], Sample]
    ends: str = "dense"
    density: str | None = None


class HessianEnds(NamedTuple):
    """The result for the network of one seed."""

    seed: int
    ends: theory.Condition
    spectrum: theory.Spectrum | None
    seconds: float


def analyse(flags: HessianFlags, session: Session) -> Row:
    """Analyse the networks that the flags ask for, write a run folder and return its summary."""
    seeds = checks.integer("seeds", flags.network.seeds, 1)
    if seeds > MOST_SEEDS:
        raise checks.ArgumentError("seeds", f"must be at most {MOST_SEEDS:,}, got {seeds}.")
    checks.seed(flags.network.seed + seeds - 1)
    cases, energy = _cases(flags)
    folder = RunFolder(flags.output.out, "hessian", format=flags.output.format)
    folder.write_config(_resolved(flags, cases, energy), precision="float64", seed=flags.network.seed)
    session.say(_title(cases, flags.network, energy))
    rows: list[Row] = []
    spectra: list[Row] = []
    begin = time.perf_counter()
    with folder.recording(), ProgressDisplay(session.console, "network") as progress:
        for case in cases:
            found: list[HessianEnds] = []
            for seed in range(flags.network.seed, flags.network.seed + seeds):
                found.append(find_ends(case, seed, energy, flags.energy.free_input))
                progress.update(len(rows) * seeds + len(found), len(cases) * seeds, plain="")
            rows.append(_row(case, found))
            spectra += _spectrum(case, found)
            folder.append(rows[-1])
            progress.update(len(rows) * seeds, len(cases) * seeds, plain=_line(rows[-1]) if len(cases) > 1 else "")
    interrupted = len(rows) < len(cases)
    message = f"interrupted; {len(rows)} of {len(cases)} networks are in {folder.path / 'summary.json'}."
    ended = message if interrupted else "all networks were analysed"
    summary = folder.write_summary({"networks": rows}, begin, ended, interrupted)
    if spectra:
        folder.write("spectra.json", spectra)
        plots.draw_eigenvalue_densities(spectra, folder.figure("spectrum"))
    if sum(np.isfinite(row["condition_number"]) for row in rows) > 1:
        plots.draw_condition_numbers(rows, folder.figure("condition-numbers"))
    _conclude(rows, session)
    session.say(f"run folder {folder.path}")
    return summary


def _cases(flags: HessianFlags) -> tuple[list[HessianCase], Energy]:
    """Return the networks, and their energy: flags override that of the run that trained them."""
    trained = TrainFlags()
    if flags.network.checkpoint is not None:
        refuse_other_flags(flags.network, flags.model, keep=("seed",))
        network, found = open_checkpoint(flags.network.checkpoint)
        cases = [HessianCase(network, lambda seed: network, functools.partial(_random_sample, network))]
        if found is not None:
            first = _first_sample(load_data(found))
            trained, cases = found, [cases[0]._replace(sample=lambda seed: first)]
    elif flags.model.model == models.MLP:
        for field in dataclasses.fields(flags.model):
            if getattr(flags.model, field.name) != field.default:
                raise ValueError(f"{flag(field.name)} has no effect without a --model other than mlp: leave it out.")
        cases = list(_grid(flags.network))
    else:
        cases, trained = _models(flags)
    return [_with_method(case, flags) for case in cases], _energy(flags.energy, trained)


def _models(flags: HessianFlags) -> tuple[list[HessianCase], TrainFlags]:
    """Return networks of another architecture at initialisation, and the settings that a run of them would have."""
    network, model = flags.network, flags.model
    for name in ("hidden_layers", "in_size", "out_size"):
        if getattr(network, name) is not None:
            raise ValueError(f"{flag(name)} has no effect with --model {model.model}: leave it out.")
    form = {name: getattr(network, name) for name in ("parameterisation", "skip", "init", "seed")}
    form |= {} if network.activation is None else {"activation": network.activation}
    first = TrainFlags(**vars(model) | form | {"blocks": None})
    dataset = load_data(first)
    sample, cases = _first_sample(dataset), []
    sizes = (dict.fromkeys(given or (None,)) for given in (network.width, model.blocks))
    for width, blocks in itertools.product(*sizes):
        own = dataclasses.replace(first, width=width, blocks=None if blocks is None else (blocks,))

        def make(seed: int, own: TrainFlags = own) -> AbstractNetwork:
            with jax.enable_x64(False):
                return network_maker(dataclasses.replace(own, seed=seed), dataset)()

        cases.append(HessianCase(eqx.filter_eval_shape(make, network.seed), make, lambda seed: sample))
    loss: Any = train_config(first, dataset).objective.loss
    return cases, dataclasses.replace(first, loss=loss)


def _energy(flags: EnergyFlags, trained: TrainFlags) -> Energy:
    given = {name: getattr(flags, name) for name in ("loss", "output_precision", "activity_decay")}
    return as_energy(
        Energy(**{name: getattr(trained, name) if value is None else value for name, value in given.items()})
    )


def _grid(flags: HessianNetworkFlags) -> Iterator[HessianCase]:
    """Yield networks at initialisation, every width with every depth. None has arrays yet."""
    widths = (64,) if flags.width is None else flags.width
    depths = (16,) if flags.hidden_layers is None else flags.hidden_layers
    if not (widths and depths):
        raise ValueError("--width and --hidden-layers take one or more numbers, such as --hidden-layers 8 16 32.")
    for width in widths:  # before the sizes that follow from it
        checks.integer("width", width, 1)
    for width, depth in itertools.product(dict.fromkeys(widths), dict.fromkeys(depths)):
        make = functools.partial(_initial, flags, width, depth)
        form = eqx.filter_eval_shape(make, flags.seed)
        yield HessianCase(form, make, functools.partial(_random_sample, form))


def _initial(flags: HessianNetworkFlags, width: int, depth: int, seed: int) -> Network:
    with jax.enable_x64(False):  # the weights that `mupc train` starts from, in any mode
        in_size, out_size = (width if size is None else size for size in (flags.in_size, flags.out_size))
        form = {name: getattr(flags, name) for name in ("parameterisation", "skip", "init")}
        form["activation"] = flags.activation or "linear"
        return Network(in_size, out_size, width, depth, **form, key=jr.key(checks.seed(seed)))


def _random_sample(form: AbstractNetwork, seed: int) -> Sample:
    """Draw a standard normal input and a random class."""
    if len(form.output_shape) > 1:
        raise ValueError("--checkpoint is a file of a network for texts, which has no sample: give its run folder.")
    rng = np.random.default_rng(seed % 2**64)  # numpy's seeds are not negative
    return rng.standard_normal(form.in_size), np.eye(form.out_size)[rng.integers(form.out_size)]


def _first_sample(dataset: Dataset) -> Sample:
    """Return the first training sample."""
    return dataset.normalisation(dataset.train.raw[:1])[0], dataset.encode(dataset.train.targets[:1])[0]


def _with_method(case: HessianCase, flags: HessianFlags) -> HessianCase:
    """Choose the method for a network of this size."""
    form, wanted = case.form, flags.method.method
    if not isinstance(form, Network):
        for given, written in ((wanted == "dense", "--method dense"), (flags.energy.free_input, "--free-input")):
            if given:
                raise ValueError(f"{written} is for an mlp, and other models have no matrix here: leave it out.")
        return case._replace(ends="iterative")
    size = form.width * form.hidden_layers + flags.energy.free_input * form.in_size
    if wanted == "dense" and size > theory.DENSE_LIMIT:
        raise ValueError(
            f"--method dense is for up to {theory.DENSE_LIMIT:,} unknowns, and {form.hidden_layers} hidden layers of "
            f"{form.width} units have {size:,}: use --method iterative."
        )
    every = size <= DRAWN or wanted == "dense"
    density = ("exact" if every else "lanczos") if flags.method.spectrum else None
    quick = "dense" if size <= QUICK or density == "exact" else "iterative"
    return case._replace(ends=quick if wanted == "auto" else wanted, density=density)


def find_ends(case: HessianCase, seed: int, energy: Energy, free_input: bool) -> HessianEnds:
    """Analyse the network of one seed."""
    begin = time.perf_counter()
    network = case.make(seed)
    point: Any = (None, None, None)
    with jax.enable_x64(True):
        if not isinstance(network, Network):
            ends = _matrix_free(network, case.sample(seed), energy)
            return HessianEnds(seed, ends, None, time.perf_counter() - begin)
        if not theory.is_quadratic(network, energy):
            x, y = case.sample(seed)
            point = (x, y, forward(network, x[None])[0])
        options: Any = {"energy": energy, "free_input": free_input}
        spectrum = theory.spectrum(network, *point, method=case.density, **options) if case.density else None
        if spectrum and spectrum.exact and case.ends == "dense":
            ends = spectrum.ends
        else:
            ends = theory.condition_number(network, *point, method=case.ends, **options)
    return HessianEnds(seed, ends, spectrum, time.perf_counter() - begin)


def _matrix_free(network: AbstractNetwork, sample: Sample, energy: Energy) -> theory.Condition:
    """Return the ends of the spectrum at the forward pass of a sample, in float64."""
    network = jax.tree.map(lambda weight: weight.astype(float), network)
    ends = hessian_extremes(network, *(part[None] for part in sample), energy=energy)
    return theory.Condition(float(ends.largest[0]), float(ends.smallest[0]), _unknowns(network))


def _unknowns(form: AbstractNetwork) -> int:
    sample = jax.ShapeDtypeStruct((1, form.in_size), float)
    latents, _ = eqx.filter_eval_shape(form.forward_pass, sample, resolve_precision(None, form))
    return sum(math.prod(leaf.shape) for leaf in jax.tree.leaves(latents))


def _row(case: HessianCase, found: list[HessianEnds]) -> Row:
    """Return one line of the table: medians over the seeds. An undefined condition number counts as infinite."""
    seeds: list[Row] = [{"seed": one.seed, **one.ends.record(), "seconds": one.seconds} for one in found]
    finite = {name: np.nan_to_num([one[name] for one in seeds], nan=np.inf, posinf=np.inf) for name in NUMBERS}
    return {
        **_sizes(case.form),
        "unknowns": found[0].ends.size,
        **{name: float(np.median(values)) for name, values in finite.items()},
        "definite": dict(collections.Counter(one["definite"] for one in seeds)),
        "method": case.ends,
        "spectrum": case.density,
        "seconds": sum(one.seconds for one in found),
        "seeds": seeds,
    }


def _spectrum(case: HessianCase, found: list[HessianEnds]) -> list[Row]:
    """Return the eigenvalues to draw, those of the first seed. The label names it if there are others."""
    one = found[0]
    if one.spectrum is None:
        return []
    label = _name(_sizes(case.form)) + (f", seed {one.seed}" if len(found) > 1 else "")
    density = {name: getattr(one.spectrum, name) for name in ("values", "weights", "exact")}
    return [{"label": label, "seed": one.seed, "smallest": one.ends.smallest, "largest": one.ends.largest, **density}]


def _resolved(flags: HessianFlags, cases: list[HessianCase], energy: Energy) -> Row:
    """Return all settings as used."""
    return {
        **dataclasses.asdict(flags.network),
        **dataclasses.asdict(flags.model),
        "networks": [_sizes(case.form) for case in cases],
        **_description(cases[0].form),
        "loss": energy.loss,
        "output_precision": energy.output_precision,
        "activity_decay": energy.activity_decay,
        "free_input": flags.energy.free_input,
        **dataclasses.asdict(flags.method),
    }


def _description(form: AbstractNetwork) -> Row:
    """Return what all networks have in common."""
    if isinstance(form, Network):
        return {"activation": form.activation.name, "parameterisation": form.parameterisation, "skip": form.skip}
    recipe = _recipe(form)
    return {"model": recipe["model"], **{name: recipe[name] for name in ("activation", "parameterisation")}}


def _recipe(form: AbstractNetwork) -> Row:
    assert isinstance(form, Chain) and form.recipe is not None  # files hold no others
    return {"model": form.recipe.model, **dict(form.recipe.arguments)}


def _sizes(form: AbstractNetwork) -> dict[str, int]:
    if isinstance(form, Network):
        return {name: getattr(form, name) for name in SIZES}
    size = {"width": _recipe(form)["width"], "hidden_layers": form.layer_count - 1}
    return size | {"in_size": form.in_size, "out_size": form.out_size}


def _name(sizes: Row) -> str:
    return f"{sizes['hidden_layers']} hidden layers of {sizes['width']}"


def _number(value: float) -> str:
    return f"{value:.4g}" if np.isfinite(value) else "–"


def _definite(row: Row) -> str:
    return ", ".join(f"{kind} {count}/{len(row['seeds'])}" for kind, count in row["definite"].items())


def _line(row: Row) -> str:
    return f"{_name(row)}: κ {_number(row['condition_number'])}, {_definite(row)}, {row['seconds']:.1f} s"


def _title(cases: list[HessianCase], flags: HessianNetworkFlags, energy: Energy) -> str:
    form = cases[0].form
    described = (f"skip {value}" if name == "skip" else value for name, value in _description(form).items())
    parts = [f"activity Hessian of {flags.checkpoint or 'initial networks'}", *described]
    quadratic = isinstance(form, Network) and theory.is_quadratic(form, energy)
    parts += [] if quadratic else ["at the forward pass of a sample"]
    parts += [f"medians of {flags.seeds} seeds"] if flags.seeds > 1 else []
    return ", ".join(parts)


def _conclude(rows: list[Row], session: Session) -> None:
    """Show the table, and explain it."""
    table = plain_table("width", "hidden\nlayers", "λ max", "λ min", "κ", "definite", "seconds", left=["definite"])
    for row in rows:
        numbers = (_number(row[name]) for name in NUMBERS)
        table.add_row(str(row["width"]), str(row["hidden_layers"]), *numbers, _definite(row), f"{row['seconds']:.1f}")
    session.console.print(table)
    seeds = max((len(row["seeds"]) for row in rows), default=1)
    if seeds > 1:
        session.say(f"medians over {seeds} seeds, column by column")
    if not all(np.isfinite(row["condition_number"]) for row in rows):
        session.say("– stands for no condition number: not every eigenvalue is positive, as far as float64 can tell")
