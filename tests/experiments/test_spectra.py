"""Claims about spectra, on quantiles made by hand; and cells against dense eigenvalues."""

import jax.random as jr
import numpy as np
import pytest

import mupc
from mupc import experiments
from mupc.experiments.spectra import LEVELS, SpectrumCell, distance, run_cell

HOLDS, FAILS, NOT_RUN = experiments.HOLDS, experiments.FAILS, experiments.NOT_RUN
EVEN = np.linspace(0, 1, LEVELS)


def judge(slug, spectrum, keep=lambda cell: True):
    """Verdicts of the paper preset, with quantiles as a function of the cell."""
    figure = experiments.find_figure(slug).load()
    config = figure.config("paper")
    cells = [cell for cell in figure.cells(config, {}) if keep(cell)]
    made = [(cell, spectrum(cell)) for cell in cells]
    table = [
        {**vars(cell), "quantiles": values.tolist(), "asymmetry": float(np.max(np.abs(values + values[::-1])))}
        for cell, values in made
    ]
    return [claim.verdict for claim in figure.claims(config, table)]


@pytest.mark.parametrize("held", "nh")
def test_diagonal(held):
    others = [HOLDS] if held == "n" else []  # whether depth matters is for the figure over depth
    assert judge(f"d-eigens-{held}", lambda c: 1 + 4 * EVEN) == [HOLDS, *others]
    assert judge(f"d-eigens-{held}", lambda c: 1 + 5 * EVEN) == [FAILS, *others]
    assert judge(f"d-eigens-{held}", lambda c: 1 + (4 if c.width >= 64 else 9) * EVEN) == [HOLDS, *others]


def test_diagonal_over_depth():
    assert judge("d-eigens-n", lambda c: 1 + 4 * EVEN ** (1 if c.depth < 100 else 1.3)) == [HOLDS, FAILS]
    assert judge("d-eigens-n", lambda c: 1 + 4 * EVEN, lambda c: c.depth > 2) == [NOT_RUN, NOT_RUN]


@pytest.mark.parametrize("held", "nh")
def test_off_diagonal(held):
    assert judge(f"o-eigens-{held}", lambda c: 5.6 * EVEN - 2.8) == [HOLDS, HOLDS]
    assert judge(f"o-eigens-{held}", lambda c: 4 * EVEN - 2) == [HOLDS, FAILS]
    assert judge(f"o-eigens-{held}", lambda c: 5.6 * EVEN - 2.7) == [FAILS, HOLDS]


@pytest.mark.parametrize("held", "nh")
def test_whole(held):
    assert judge(f"h-eigens-{held}", lambda c: 1e-5 + 7 * EVEN) == [HOLDS, HOLDS]
    assert judge(f"h-eigens-{held}", lambda c: 7.5 * EVEN) == [FAILS, FAILS]


def test_distance():
    assert distance(list(EVEN), list(EVEN)) == 0
    assert distance(list(EVEN), list(EVEN + 2)) == 1
    assert distance(list(EVEN), list(EVEN + 0.25)) == pytest.approx(0.25, abs=2e-3)


@pytest.mark.parametrize("part", "doh")
@pytest.mark.parametrize("place, normalisation, parameterisation", [(0, "weights", "sp"), (1, "multipliers", "ntp")])
def test_cells_are_dense_eigenvalues(part, place, normalisation, parameterisation):
    found = run_cell(SpectrumCell(part, normalisation, 4, 3, 5), experiments.RunContext())
    key = jr.fold_in(jr.key(5), place)
    network = mupc.Network(4, 4, 4, 3, activation="linear", parameterisation=parameterisation, skip=0, key=key)
    weights = [*np.asarray(network.hidden.weight), np.asarray(network.readout.weight)]
    scaled = [weight * (0.5 if parameterisation == "ntp" else 1.0) for weight in weights]
    diagonal = np.zeros((12, 12))
    off = np.zeros((12, 12))
    for layer, weight in enumerate(scaled):
        at = slice(4 * layer, 4 * layer + 4)
        diagonal[at, at] = np.eye(4) + weight.T @ weight
        if layer < 2:
            off[4 * layer + 4 : 4 * layer + 8, at] = -weight
    off = off + off.T
    values = np.linalg.eigvalsh({"d": diagonal, "o": off, "h": diagonal + off}[part])
    assert (found["quantiles"][0], found["quantiles"][-1]) == pytest.approx((values[0], values[-1]))
    assert np.mean(found["quantiles"]) == pytest.approx(np.mean(values), abs=0.05)
    assert found["asymmetry"] == pytest.approx(np.max(np.abs(values + values[::-1])), abs=1e-12)
    assert found["size"] == 12
