"""Every figure of the paper under its slug, and the studies beyond it."""

from __future__ import annotations

import dataclasses
import functools
import importlib.resources
import re
from collections.abc import Iterable

from ..io import checks
from ._figure import Figure, UnknownFigureError


@dataclasses.dataclass(frozen=True)
class CatalogueEntry:
    """A figure of the paper or a study; `module` regenerates it."""

    slug: str
    title: str
    module: str
    alias: str | None = None

    def load(self) -> Figure:
        """Return the figure."""
        figures: dict[str, Figure] = importlib.import_module(f"{__package__}.{self.module}").FIGURES
        return dataclasses.replace(figures[self.slug], title=self.title, caption=_captions()[self.slug])


@functools.cache
def _captions() -> dict[str, str]:
    """Return the captions of `captions.md` by slug."""
    page = importlib.resources.files(__package__).joinpath("captions.md").read_text(encoding="utf-8")
    sections = re.findall(r"^## (.*?)\n\n(.*?)(?:\n\n|\Z)", page, re.MULTILINE | re.DOTALL)
    return {slug: " ".join(text.split()) for slugs, text in sections for slug in slugs.split(", ")}


_OVER_TRAINING = "training_conditioning"
_PAPER = (
    ("mupc-vs-pc-mnist-accs", "Test accuracy over depth on MNIST: μPC, SP and BP", "training"),
    ("sp-cond-nums-init", "Conditioning of SP's inference at initialisation", "conditioning"),
    ("sp-train-cond-nums-gd-mnist", "Conditioning of SP's inference over training, MNIST", _OVER_TRAINING),
    ("des-trade-off", "Stable forward pass against well-conditioned inference", "conditioning"),
    ("mupc-transfer-tanh", "Transfer of both learning rates, tanh", "transfer_grids"),
    ("mupc-loss-energy-ratios", "Loss over equilibrated energy, μPC", "loss_energy_ratios"),
    ("d-eigens-n", "Spectrum of the Hessian's block diagonal over depth", "spectra"),
    ("d-eigens-h", "Spectrum of the Hessian's block diagonal over width", "spectra"),
    ("o-eigens-n", "Spectrum of the Hessian's off-diagonal part over depth", "spectra"),
    ("o-eigens-h", "Spectrum of the Hessian's off-diagonal part over width", "spectra"),
    ("h-eigens-n", "Spectrum of the activity Hessian over depth", "spectra"),
    ("h-eigens-h", "Spectrum of the activity Hessian over width", "spectra"),
    ("max-min-eigens", "Extreme eigenvalues over width and depth", "conditioning"),
    ("sp-train-cond-nums-adam-mnist", "Conditioning over training with Adam inference, MNIST", _OVER_TRAINING),
    ("sp-train-cond-nums-skips-mnist", "Conditioning over training with skips, MNIST", _OVER_TRAINING),
    ("sp-activity-inits", "Inference in a scalar chain from two starts, SP", "inference_dynamics"),
    ("mupc-activity-inits", "Inference in a scalar chain from two starts, μPC", "inference_dynamics"),
    ("mupc-vs-pc-ffwd-lrs", "Activity norms over inference, linear", "inference_dynamics"),
    ("mupc-vs-pc-ffwd-relu-lrs", "Activity norms over inference, ReLU", "inference_dynamics"),
    ("activity-decay", "What activity decay costs and what it conditions", "activity_decay"),
    ("orthog-init-mnist", "Orthogonal initialisation, MNIST", _OVER_TRAINING),
    ("orthog-init-fashion", "Orthogonal initialisation, Fashion-MNIST", _OVER_TRAINING),
    ("mupc-one-step-mnist", "One inference step, MNIST", _OVER_TRAINING),
    ("mupc-one-step-fashion", "One inference step, Fashion-MNIST", _OVER_TRAINING),
    ("pc-analytic-infer", "SP trained with exact inference", "exact_inference"),
    ("mupc-vs-pc-all-activations", "Test accuracy over depth for three activations", "training"),
    ("mupc-mnist-5-epochs", "128 layers, five epochs of MNIST", "training"),
    ("mupc-fashion-15-epochs", "128 layers, fifteen epochs of Fashion-MNIST", "training"),
    ("cifar-20-epochs", "128 layers, twenty epochs of CIFAR-10", "training"),
    ("wider-is-better-mnist", "Test accuracy over width on MNIST", "training"),
    ("toy-ill-cond", "An ill-conditioned inference landscape in two dimensions", "toy_landscape"),
    ("resnets-cond-nums-init", "Conditioning of residual networks at initialisation", "conditioning"),
    ("sp-train-cond-nums-gd-fashion", "Conditioning of SP's inference over training, Fashion-MNIST", _OVER_TRAINING),
    (
        "sp-train-cond-nums-adam-fashion",
        "Conditioning over training with Adam inference, Fashion-MNIST",
        _OVER_TRAINING,
    ),
    ("sp-train-cond-nums-skips-fashion", "Conditioning over training with skips, Fashion-MNIST", _OVER_TRAINING),
    ("mupc-train-cond-nums-mnist", "Conditioning of μPC over training, MNIST", _OVER_TRAINING),
    ("mupc-train-cond-nums-fashion", "Conditioning of μPC over training, Fashion-MNIST", _OVER_TRAINING),
    ("fwd-pass-stability", "Size of the forward pass over depth", "forward_pass"),
    ("mupc-transfer-linear", "Transfer of both learning rates, linear", "transfer_grids"),
    ("mupc-transfer-relu", "Transfer of both learning rates, ReLU", "transfer_grids"),
    ("sp-loss-energy-ratios", "Loss over equilibrated energy, SP", "loss_energy_ratios"),
    ("example-loss-energy-ratios", "Loss over energy through training, SP and μPC", "loss_energy_ratios"),
)
_STUDIES = (
    ("protocol-choices", "What the paper leaves open, and how much it moves", "protocol_choices"),
    ("sp-smaller-rates", "Standard PC below the paper's grid of learning rates", "training"),
    ("automatic-steps", "Inference steps over depth: automatic settings and plain descent", "automatic_steps"),
    ("condition-numbers", "Conditioning of inference up to 512 layers of 512 units", "conditioning"),
    ("theorems", "The theorems in numbers", "theorems"),
    ("solvers-fashion-deep", "Inference solvers on Fashion-MNIST, 128 layers of 512 units", "solver_study"),
    ("solvers-fashion-small", "Inference solvers on Fashion-MNIST, 32 layers of 128 units", "solver_study"),
)

_ALIASES = {row[0]: f"fig{number}" for number, row in enumerate(_PAPER[:6], 1)}
CATALOGUE = {row[0]: CatalogueEntry(*row, _ALIASES.get(row[0])) for row in _PAPER}
BEYOND = {row[0]: CatalogueEntry(*row) for row in _STUDIES}
"""Studies that go beyond the paper, on the same rails."""
_NAMES = CATALOGUE | BEYOND | {alias: CATALOGUE[slug] for slug, alias in _ALIASES.items()}


def find_figures(names: Iterable[str]) -> list[CatalogueEntry]:
    """Return the entries with these slugs or aliases, each once; `all` stands for every figure of the paper."""
    wanted = list(names)
    return [*CATALOGUE.values()] if "all" in wanted else [*dict.fromkeys(map(find_figure, wanted))]


def find_figure(name: str) -> CatalogueEntry:
    """Return the entry with this slug or alias."""
    if name in _NAMES:
        return _NAMES[name]
    hint = checks.suggestion(name, _NAMES)
    raise UnknownFigureError(f"there is no figure {name!r}.{hint} `mupc reproduce --list` shows all of them.")
