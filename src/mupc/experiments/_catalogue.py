"""Every figure of the paper under its slug, built or not."""

from __future__ import annotations

import dataclasses
import difflib
import functools
import importlib.resources
import re
from collections.abc import Iterable

from ._figure import Figure, UnknownFigureError


@dataclasses.dataclass(frozen=True)
class CatalogueEntry:
    """A figure of the paper; `module` regenerates it (None: no module does yet)."""

    slug: str
    title: str
    module: str | None = None
    alias: str | None = None

    def load(self) -> Figure:
        """The figure, or an `UnknownFigureError` if it is not built yet."""
        if self.module is None:
            raise UnknownFigureError(
                f"{self.slug} is not built yet, it comes with a later version. `mupc reproduce --list` shows which are."
            )
        figures: dict[str, Figure] = importlib.import_module(f"{__package__}.{self.module}").FIGURES
        return dataclasses.replace(figures[self.slug], title=self.title, caption=_captions()[self.slug])


@functools.cache
def _captions() -> dict[str, str]:
    """Return the captions of `captions.md` by slug."""
    page = importlib.resources.files(__package__).joinpath("captions.md").read_text(encoding="utf-8")
    sections = re.findall(r"^## (.*?)\n\n(.*?)(?:\n\n|\Z)", page, re.MULTILINE | re.DOTALL)
    return {slug: " ".join(text.split()) for slugs, text in sections for slug in slugs.split(", ")}


_OVER_TRAINING = "training_conditioning"
_ENTRIES = (
    CatalogueEntry("mupc-vs-pc-mnist-accs", "Test accuracy over depth on MNIST: μPC, SP and BP", "training", "fig1"),
    CatalogueEntry("sp-cond-nums-init", "Conditioning of SP's inference at initialisation", "conditioning", "fig2"),
    CatalogueEntry(
        "sp-train-cond-nums-gd-mnist", "Conditioning of SP's inference over training, MNIST", _OVER_TRAINING, "fig3"
    ),
    CatalogueEntry("des-trade-off", "Stable forward pass against well-conditioned inference", "conditioning", "fig4"),
    CatalogueEntry("mupc-transfer-tanh", "Transfer of both learning rates, tanh", "transfer_grids", "fig5"),
    CatalogueEntry("mupc-loss-energy-ratios", "Loss over equilibrated energy, μPC", "loss_energy_ratios", "fig6"),
    CatalogueEntry("d-eigens-n", "Spectrum of the Hessian's block diagonal over depth", "spectra"),
    CatalogueEntry("d-eigens-h", "Spectrum of the Hessian's block diagonal over width", "spectra"),
    CatalogueEntry("o-eigens-n", "Spectrum of the Hessian's off-diagonal part over depth", "spectra"),
    CatalogueEntry("o-eigens-h", "Spectrum of the Hessian's off-diagonal part over width", "spectra"),
    CatalogueEntry("h-eigens-n", "Spectrum of the activity Hessian over depth", "spectra"),
    CatalogueEntry("h-eigens-h", "Spectrum of the activity Hessian over width", "spectra"),
    CatalogueEntry("max-min-eigens", "Extreme eigenvalues over width and depth", "conditioning"),
    CatalogueEntry(
        "sp-train-cond-nums-adam-mnist", "Conditioning over training with Adam inference, MNIST", _OVER_TRAINING
    ),
    CatalogueEntry("sp-train-cond-nums-skips-mnist", "Conditioning over training with skips, MNIST", _OVER_TRAINING),
    CatalogueEntry("sp-activity-inits", "Inference in a scalar chain from two starts, SP", "inference_dynamics"),
    CatalogueEntry("mupc-activity-inits", "Inference in a scalar chain from two starts, μPC", "inference_dynamics"),
    CatalogueEntry("mupc-vs-pc-ffwd-lrs", "Activity norms over inference, linear", "inference_dynamics"),
    CatalogueEntry("mupc-vs-pc-ffwd-relu-lrs", "Activity norms over inference, ReLU", "inference_dynamics"),
    CatalogueEntry("activity-decay", "What activity decay costs and what it conditions", "activity_decay"),
    CatalogueEntry("orthog-init-mnist", "Orthogonal initialisation, MNIST", _OVER_TRAINING),
    CatalogueEntry("orthog-init-fashion", "Orthogonal initialisation, Fashion-MNIST", _OVER_TRAINING),
    CatalogueEntry("mupc-one-step-mnist", "One inference step, MNIST", _OVER_TRAINING),
    CatalogueEntry("mupc-one-step-fashion", "One inference step, Fashion-MNIST", _OVER_TRAINING),
    CatalogueEntry("pc-analytic-infer", "SP trained with exact inference", "exact_inference"),
    CatalogueEntry("mupc-vs-pc-all-activations", "Test accuracy over depth for three activations", "training"),
    CatalogueEntry("mupc-mnist-5-epochs", "128 layers, five epochs of MNIST", "training"),
    CatalogueEntry("mupc-fashion-15-epochs", "128 layers, fifteen epochs of Fashion-MNIST", "training"),
    CatalogueEntry("cifar-20-epochs", "128 layers, twenty epochs of CIFAR-10", "training"),
    CatalogueEntry("wider-is-better-mnist", "Test accuracy over width on MNIST", "training"),
    CatalogueEntry("toy-ill-cond", "An ill-conditioned inference landscape in two dimensions", "toy_landscape"),
    CatalogueEntry("resnets-cond-nums-init", "Conditioning of residual networks at initialisation", "conditioning"),
    CatalogueEntry(
        "sp-train-cond-nums-gd-fashion", "Conditioning of SP's inference over training, Fashion-MNIST", _OVER_TRAINING
    ),
    CatalogueEntry(
        "sp-train-cond-nums-adam-fashion",
        "Conditioning over training with Adam inference, Fashion-MNIST",
        _OVER_TRAINING,
    ),
    CatalogueEntry(
        "sp-train-cond-nums-skips-fashion", "Conditioning over training with skips, Fashion-MNIST", _OVER_TRAINING
    ),
    CatalogueEntry("mupc-train-cond-nums-mnist", "Conditioning of μPC over training, MNIST", _OVER_TRAINING),
    CatalogueEntry("mupc-train-cond-nums-fashion", "Conditioning of μPC over training, Fashion-MNIST", _OVER_TRAINING),
    CatalogueEntry("fwd-pass-stability", "Size of the forward pass over depth", "forward_pass"),
    CatalogueEntry("mupc-transfer-linear", "Transfer of both learning rates, linear", "transfer_grids"),
    CatalogueEntry("mupc-transfer-relu", "Transfer of both learning rates, ReLU", "transfer_grids"),
    CatalogueEntry("sp-loss-energy-ratios", "Loss over equilibrated energy, SP", "loss_energy_ratios"),
    CatalogueEntry("example-loss-energy-ratios", "Loss over energy through training, SP and μPC", "loss_energy_ratios"),
)

_BEYOND = (
    CatalogueEntry("protocol-choices", "What the paper leaves open, and how much it moves", "protocol_choices"),
    CatalogueEntry("sp-smaller-rates", "Standard PC below the paper's grid of learning rates", "training"),
    CatalogueEntry(
        "automatic-steps", "Inference steps over depth: automatic settings and plain descent", "automatic_steps"
    ),
    CatalogueEntry("condition-numbers", "Conditioning of inference up to 512 layers of 512 units", "conditioning"),
    CatalogueEntry("theorems", "The theorems in numbers", "theorems"),
    CatalogueEntry(
        "solvers-fashion-deep", "Inference solvers on Fashion-MNIST, 128 layers of 512 units", "solver_study"
    ),
    CatalogueEntry(
        "solvers-fashion-small", "Inference solvers on Fashion-MNIST, 32 layers of 128 units", "solver_study"
    ),
)

CATALOGUE = {entry.slug: entry for entry in _ENTRIES}
BEYOND = {entry.slug: entry for entry in _BEYOND}
"""Studies that go beyond the paper, on the same rails."""
_NAMES = CATALOGUE | BEYOND | {entry.alias: entry for entry in _ENTRIES if entry.alias}


def find_figures(names: Iterable[str]) -> list[CatalogueEntry]:
    """Return the entries with these slugs or aliases, each once; `all` stands for every figure that is built."""
    wanted = list(names)
    if "all" in wanted:
        return [entry for entry in CATALOGUE.values() if entry.module]
    return [*dict.fromkeys(map(find_figure, wanted))]


def find_figure(name: str) -> CatalogueEntry:
    """Return the entry with this slug or alias."""
    if name in _NAMES:
        return _NAMES[name]
    near = difflib.get_close_matches(name, list(_NAMES), n=1)
    hint = f" Did you mean {near[0]!r}?" if near else ""
    raise UnknownFigureError(f"there is no figure {name!r}.{hint} `mupc reproduce --list` shows all of them.")
