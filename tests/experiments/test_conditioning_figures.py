"""Claims about condition numbers, on tables made by hand; and cells against dense eigenvalues of autodiff."""

import itertools

import jax
import jax.random as jr
import numpy as np
import pytest

import mupc
from mupc import experiments
from mupc.experiments.conditioning import (
    KINDS,
    ConditionCell,
    ConditionConfig,
    ConditionTable,
    SliceCell,
    power_law,
    run_cell,
)

HOLDS, FAILS, NOT_RUN, REPORTED = experiments.VERDICTS
CONTEXT = experiments.RunContext()


def rows(slug, kappa, largest=6.0, definite=None):
    """A table of the paper preset in which κ is a function of the cell."""
    figure = experiments.find_figure(slug).load()
    config = figure.config("paper")
    found = []
    for cell in figure.cells(config, {}):
        if not isinstance(cell, ConditionCell):
            continue
        value = float(kappa(cell))
        kind = definite(cell) if definite else "positive definite"
        found.append(
            {
                **vars(cell),
                "largest": largest,
                "smallest": largest / value if kind == "positive definite" else -0.1,
                "condition_number": value if kind == "positive definite" else None,
                "definite": kind,
                "seconds": 1.0,
            }
        )
    return figure, config, found


def verdicts(slug, kappa, **options):
    figure, config, found = rows(slug, kappa, **options)
    return [claim.verdict for claim in figure.claims(config, found)]


def test_standard_networks():
    assert verdicts("fig2", lambda c: c.depth**2 * c.width**0.5) == [HOLDS] * 3 + [REPORTED]
    assert verdicts("fig2", lambda c: c.depth**0.5 * c.width**2)[:2] == [HOLDS, FAILS]
    assert verdicts("fig2", lambda c: c.width / c.depth + 1)[:3] == [FAILS, FAILS, FAILS]
    assert verdicts("fig2", lambda c: 100 - c.depth if c.width == 2 else c.depth)[0] == HOLDS, (
        "narrow ones do not count"
    )


def test_indefinite_networks_are_named_not_mangled():
    figure, config, found = rows(
        "fig2",
        lambda c: c.depth,
        definite=lambda c: (
            "indefinite"
            if (c.activation, c.target, c.width, c.depth) == ("tanh", "normal", 4, 2)
            else "positive definite"
        ),
    )
    told = figure.claims(config, found)[3]
    assert told.measured == "λmin < 0 in 1 of 49 sizes (least over seeds N=4 H=2: -0.1)"


def test_extremes():
    assert verdicts("max-min-eigens", lambda c: c.depth) == [HOLDS, HOLDS]
    assert verdicts("max-min-eigens", lambda c: 1 + 1 / c.depth) == [FAILS, HOLDS]
    figure, config, found = rows("max-min-eigens", lambda c: c.depth)
    wide = [row | {"largest": 1.0 * row["depth"]} for row in found]
    assert [claim.verdict for claim in figure.claims(config, wide)] == [HOLDS, FAILS]


def test_trade_off():
    assert verdicts("fig4", lambda c: c.depth**1.9) == [HOLDS] * 4 + [REPORTED] * 2
    slow = verdicts("fig4", lambda c: c.depth)
    assert slow == [FAILS] * 4 + [REPORTED] * 2, "orthogonal tanh and ReLU are only reported"


def test_residual_networks():
    worse = verdicts("resnets-cond-nums-init", lambda c: 1e6 if c.kind == "sp-skips" else 1e5)
    assert worse == [HOLDS] * 3
    assert verdicts("resnets-cond-nums-init", lambda c: 1e6 if c.kind == "sp-skips" else 2e5) == [FAILS] * 3
    beyond = verdicts(
        "resnets-cond-nums-init",
        lambda c: 1e5,
        definite=lambda c: "positive semidefinite" if c.kind == "sp-skips" else "positive definite",
    )
    assert beyond == [HOLDS] * 3, "κ beyond float64 is larger than any other"


def test_power_laws_are_found():
    figure, config, found = rows("condition-numbers", lambda c: 3 * c.depth**1.9 * c.width**0.1)
    claims = figure.claims(config, found)
    assert [claim.verdict for claim in claims] == [HOLDS] * 3
    assert all("N=512: H^1.90 (R² 1.000)" in claim.measured for claim in claims)
    assert power_law(ConditionTable(config, found), "sp", 64)[0] == pytest.approx(1.9)
    assert verdicts("condition-numbers", lambda c: 1 + (c.depth == 64))[0] == FAILS


def test_missing_cells_are_not_judged():
    figure, config, found = rows("fig4", lambda c: c.depth**2)
    part = [row for row in found if row["depth"] < 128]
    assert {claim.verdict for claim in figure.claims(config, part)} == {NOT_RUN}


def autodiff(network, x, y, z, decay=0.0):
    energy = mupc.Energy(activity_decay=decay)

    def value(flat):
        return mupc.energy(network, flat.reshape(z.shape), x, y, energy=energy)

    return np.linalg.eigvalsh(jax.hessian(value)(z.ravel()))


@pytest.mark.parametrize("kind, activation, target", [("mupc", "tanh", "normal"), ("sp", "tanh", "prediction")])
def test_a_cell_is_what_autodiff_says(kind, activation, target):
    cell = ConditionCell(kind, activation, 4, 3, 0.0, target, 1)
    found = run_cell(cell, CONTEXT)
    keys = jr.split(jr.key(1), 3)
    network = mupc.Network(4, 4, 4, 3, activation=activation, parameterisation=kind, skip=KINDS[kind].skip, key=keys[0])
    x, y = (jr.normal(key, (1, 4)) for key in keys[1:])
    z, output = mupc.forward(network, x)
    values = autodiff(network, x, output if target == "prediction" else y, z)
    assert found["largest"] == pytest.approx(values[-1], rel=1e-8)
    assert found["smallest"] == pytest.approx(values[0], rel=1e-6)


def test_activity_decay_shifts_the_spectrum():
    with_decay, without = (
        run_cell(ConditionCell("sp", "linear", 4, 3, a, "prediction", 0), CONTEXT) for a in (1.0, 0.0)
    )
    assert with_decay["smallest"] == pytest.approx(without["smallest"] + 1)
    assert with_decay["largest"] == pytest.approx(without["largest"] + 1)


def test_a_slice_of_a_linear_network_is_the_quadratic_of_its_extreme_eigenvalues():
    cell = SliceCell("sp", "linear", 4, 3, points=5)
    found = run_cell(cell, CONTEXT)
    ends = run_cell(ConditionCell("sp", "linear", 4, 3, 0.0, "prediction", 0), CONTEXT)
    low, high = found["curvatures"]
    assert (low, high) == pytest.approx((ends["smallest"], ends["largest"]))
    energies = np.array(found["energies"])
    axis = np.linspace(-2, 2, 5)
    want = energies[2, 2] + (low * axis[None, :] ** 2 + high * axis[:, None] ** 2) / 2
    assert energies == pytest.approx(want)


def test_cells_of_figures_are_shared():
    def cells(slug):
        figure = experiments.find_figure(slug).load()
        return set(figure.cells(figure.config("paper"), {}))

    assert cells("max-min-eigens") < cells("fig2")
    assert len(cells("resnets-cond-nums-init") & cells("fig2")) == 12, "three seeds, tanh with two targets"


def test_activity_decay_claims():
    figure = experiments.find_figure("activity-decay").load()
    config = figure.config("paper")
    found = []
    for cell in figure.cells(config, {}):
        if isinstance(cell, ConditionCell):
            found.append({**vars(cell), "definite": "positive definite", "condition_number": 8.0, "smallest": 1.0})
        else:
            accuracy = 0.8 if cell.method == "sp-decay-0" else 0.7
            found.append({**vars(cell), "history": {"test_accuracy": [0.1, accuracy, 0.2]}})
    assert [claim.verdict for claim in figure.claims(config, found)] == [HOLDS] * 3
    better = [
        row | {"history": {"test_accuracy": [0.9]}} if row.get("method") == "sp-decay-1" else row for row in found
    ]
    assert figure.claims(config, better)[2].verdict == FAILS
    worse = [row | {"condition_number": 10.0} if row.get("kind") and row["width"] == 16 else row for row in found]
    assert [claim.verdict for claim in figure.claims(config, worse)] == [FAILS, FAILS, HOLDS]
    narrow = [row | {"condition_number": 10.0} if row.get("kind") and row["width"] < 16 else row for row in found]
    assert [claim.verdict for claim in figure.claims(config, narrow)] == [HOLDS] * 3


def test_exponents_of_a_plane():
    config = ConditionConfig(widths=(8, 16, 32), depths=(2, 4, 8), seeds=1, activations=("linear",))
    table = [
        {"kind": "sp", "activation": "linear", "width": n, "depth": h, "target": "prediction"}
        | {"definite": "positive definite", "condition_number": 5 * h**1.5 * n**0.25}
        for n, h in itertools.product(config.widths, config.depths)
    ]
    assert ConditionTable(config, table).exponents("sp", "linear", config.widths) == pytest.approx((1.5, 0.25))
