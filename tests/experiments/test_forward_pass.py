"""Claims about the size of the forward pass, on sizes made by hand, and one network against its own mean."""

import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

import mupc
from mupc import experiments
from mupc.experiments._claims import MissingCellsError
from mupc.experiments.forward_pass import KINDS, ForwardCell, ForwardConfig, profile, run_cell

HOLDS, FAILS, NOT_RUN = experiments.HOLDS, experiments.FAILS, experiments.NOT_RUN
LAYERS = ForwardConfig().layers
GOOD = {
    ("sp", "linear"): lambda n: 2 ** (n / 2),
    ("sp", "relu"): lambda n: 1.5 ** (n / 2),
    ("sp", "tanh"): lambda n: n**0.5,
    ("orthogonal", "linear"): lambda n: 1.0,
    ("orthogonal", "tanh"): lambda n: 0.5,
    ("orthogonal", "relu"): lambda n: 0.7**n,
    ("mupc", "linear"): lambda n: 1 + n / 256,
    ("mupc", "tanh"): lambda n: 1.0,
    ("mupc", "relu"): lambda n: 1.0,
}
ORDER = [
    ("sp", "linear"),
    ("sp", "relu"),
    ("sp", "tanh"),
    ("mupc", "linear"),
    ("mupc", "tanh"),
    ("mupc", "relu"),
    ("orthogonal", "linear"),
    ("orthogonal", "tanh"),
    ("orthogonal", "relu"),
]


def table(**changed):
    found = []
    for (kind, activation), size in GOOD.items():
        size = changed.get(f"{kind}_{activation}", size)
        depths = LAYERS if KINDS[kind].depends_on_depth else LAYERS[-1:]
        for layers in depths if size else ():
            profile = [float(size(n)) for n in range(1, layers)]
            found.append({"kind": kind, "activation": activation, "layers": layers, "sizes": profile})
    return found


def verdicts(rows):
    figure = experiments.find_figure("fwd-pass-stability").load()
    claims = figure.claims(figure.config("paper"), rows)
    return {pair: claim.verdict for pair, claim in zip(ORDER, claims, strict=True)}


def test_the_behaviour_the_paper_reports_holds():
    assert set(verdicts(table()).values()) == {HOLDS}


@pytest.mark.parametrize(
    ("kind", "activation", "size"),
    [
        ("sp", "linear", lambda n: 1.0),  # no growth
        ("sp", "linear", lambda n: n**3.0),  # growth, but not exponential
        ("sp", "relu", lambda n: 1.01**n),  # too slow to count
        ("sp", "tanh", lambda n: 1 - 0.5**n),  # bounded
        ("mupc", "linear", lambda n: 1 + n / 50),
        ("mupc", "tanh", lambda n: 0.99**n),
        ("mupc", "relu", lambda n: float("inf") if n > 100 else 1.0),
        ("orthogonal", "linear", lambda n: 0.99**n),
        ("orthogonal", "tanh", lambda n: 1.005**n),
        ("orthogonal", "relu", lambda n: 0.99**n),
    ],
)
def test_other_behaviour_fails(kind, activation, size):
    found = verdicts(table(**{f"{kind}_{activation}": size}))
    assert found.pop((kind, activation)) == FAILS
    assert set(found.values()) == {HOLDS}


@pytest.mark.parametrize(("kind", "activation"), ORDER)
def test_missing_networks_were_not_run(kind, activation):
    found = verdicts(table(**{f"{kind}_{activation}": None}))
    assert found.pop((kind, activation)) == NOT_RUN
    assert set(found.values()) == {HOLDS}


def test_numbers_that_overflowed_are_not_stable():
    rows = table()
    rows[-1]["sizes"][-1] = None
    assert verdicts(rows)[("mupc", "relu")] == FAILS


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("activation", ["linear", "tanh", "relu"])
def test_sizes_are_means_over_the_forward_pass(kind, activation):
    cell = ForwardCell(kind, activation, layers=5, width=8, batch=4, seed=0, precision="float32")
    found = run_cell(cell, experiments.RunContext())["sizes"]
    network_key, input_key = jr.split(jr.key(0))
    skip = {"sp": 1, "orthogonal": 0, "mupc": 1}[kind]
    network = mupc.Network(8, 1, 8, 4, activation=activation, parameterisation=kind, skip=skip, key=network_key)
    activities, _ = mupc.forward(network, jr.normal(input_key, (4, 8)).astype(jnp.float32), precision="float32")
    np.testing.assert_allclose(found, np.mean(np.abs(activities), axis=(1, 2)), rtol=1e-4)


def test_a_shallower_network_is_the_first_layers_of_the_deepest_unless_multipliers_depend_on_depth():
    rows = [
        {"kind": k, "activation": "linear", "layers": 6, "sizes": [1.0, 2.0, 3.0, 4.0, 5.0]} for k in ("sp", "mupc")
    ]
    assert profile(rows, "sp", "linear", 6) == [1, 2, 3, 4, 5]
    assert profile(rows, "sp", "linear", 4) == [1, 2, 3]
    with pytest.raises(MissingCellsError):
        profile(rows, "mupc", "linear", 4)
