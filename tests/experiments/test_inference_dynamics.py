"""Inference from two starts against gradient descent written out in numpy, and claims judged on made-up numbers."""

import dataclasses

import jax.random as jr
import numpy as np
import pytest

import mupc
from mupc import data, experiments
from mupc.experiments.inference_dynamics import ChainCell, WideCell, checkpoints, run_chain, run_wide, shown_layers

HOLDS, FAILS, NOT_RUN = experiments.HOLDS, experiments.FAILS, experiments.NOT_RUN
CHAINS = ("sp-activity-inits", "mupc-activity-inits")
WIDE = ("mupc-vs-pc-ffwd-lrs", "mupc-vs-pc-ffwd-relu-lrs")
DEPTH = 6


def weights(network):
    """Effective matrices of all layers, multipliers included."""
    first, hidden, last = network.multipliers
    inner = [hidden * np.asarray(w) for w in network.hidden.weight]
    return [first * np.asarray(network.input.weight), *inner, last * np.asarray(network.readout.weight)]


def forward(ws, x, phi):
    zs = [x @ ws[0].T]
    for w in ws[1:-1]:
        zs.append(zs[-1] + phi(zs[-1]) @ w.T)
    return np.array(zs)


def gradient(ws, zs, x, y, phi, slope):
    """Of every sample's energy, by the chain rule: e_ℓ − e_{ℓ+1} − φ'(z_ℓ) W_{ℓ+1}ᵀ e_{ℓ+1}."""
    errors = [zs[0] - x @ ws[0].T]
    for layer in range(1, len(zs)):
        errors.append(zs[layer] - zs[layer - 1] - phi(zs[layer - 1]) @ ws[layer].T)
    out = y - phi(zs[-1]) @ ws[-1].T
    found = []
    for layer, error in enumerate(errors):
        if layer == len(errors) - 1:
            found.append(error - slope(zs[layer]) * (out @ ws[-1]))
        else:
            above = errors[layer + 1]
            found.append(error - above - slope(zs[layer]) * (above @ ws[layer + 1]))
    return np.array(found)


def descend(ws, zs, x, y, lr, steps, phi=lambda z: z, slope=np.ones_like):
    path = [zs]
    for _ in range(steps):
        path.append(path[-1] - lr * gradient(ws, path[-1], x, y, phi, slope))
    return np.array(path)


def quadratic(ws, x, y):
    """The energy of a linear network and one sample as ½‖M z − c‖²."""
    depth, width, outputs = len(ws) - 1, ws[0].shape[0], ws[-1].shape[0]
    m, c = np.zeros((depth * width + outputs, depth * width)), np.zeros(depth * width + outputs)
    for layer in range(depth):
        rows = slice(layer * width, (layer + 1) * width)
        m[rows, rows] = np.eye(width)
        if layer:
            m[rows, (layer - 1) * width : layer * width] = -np.eye(width) - ws[layer]
    c[:width] = ws[0] @ x
    m[depth * width :, -width:], c[depth * width :] = ws[-1], y
    return m, c


@pytest.mark.slow
@pytest.mark.parametrize("start", ["forward", "random"])
def test_chains_follow_gradient_descent_towards_the_dense_solution(start):
    cell = ChainCell("sp", start, 1.0, DEPTH, seeds=2, beyond=8, precision="float64")
    found = run_chain(cell, experiments.RunContext())
    assert found["steps"] == [0, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48]
    curves = []
    for seed in range(2):
        keys = jr.split(jr.key(seed), 4)
        network = mupc.Network(1, 1, 1, DEPTH, activation="linear", parameterisation="sp", skip=1, key=keys[0])
        x = 1 + np.asarray(jr.normal(keys[1], (1, 1)))
        y = -x + 0.5 * np.asarray(jr.normal(keys[2], (1, 1)))
        ws = weights(network)
        m, c = quadratic(ws, x[0], y[0])
        solution = np.linalg.solve(m.T @ m, m.T @ c)
        largest = np.linalg.eigvalsh(m.T @ m)[-1]
        np.testing.assert_allclose(found["largest_eigenvalues"][seed], largest, rtol=1e-5)
        at_start = forward(ws, x, lambda z: z) if start == "forward" else np.asarray(jr.normal(keys[3], (DEPTH, 1, 1)))
        path = descend(ws, at_start, x, y, 1 / largest, 48)[:, :, 0, 0]
        distance = np.linalg.norm(path - solution, axis=1)
        curves.append(distance / distance[0])
        np.testing.assert_allclose(found["ratios"][seed], curves[-1][DEPTH], rtol=1e-5)
        if seed == 0:
            np.testing.assert_allclose(found["example"]["solution"], solution, rtol=1e-5, atol=1e-9)
            np.testing.assert_allclose(found["example"]["end"], path[DEPTH], rtol=1e-5, atol=1e-9)
    np.testing.assert_allclose(found["median"], np.median(curves, axis=0)[found["steps"]], rtol=1e-5)
    np.testing.assert_allclose(found["high"], np.quantile(curves, 0.75, axis=0)[found["steps"]], rtol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize(("method", "activation"), [("mupc", "linear"), ("sp", "relu")])
def test_wide_networks_follow_gradient_descent(method, activation):
    cell = WideCell(method, activation, "digits", 5, 4, (1.0, 10.0), 1, 2, True, "float64")
    found = run_wide(cell, experiments.RunContext())
    init = {"sp": "kaiming-uniform", "mupc": None}[method]
    network = mupc.Network(64, 10, 5, 4, activation=activation, parameterisation=method, init=init, key=jr.key(1))
    digits = data.load("digits")
    batch = np.random.default_rng(1).permutation(len(digits.x_train))[:64]
    x, y, ws = digits.x_train[batch].astype(float), digits.y_train[batch].astype(float), weights(network)
    phi, slope = {
        "linear": (lambda z: z, np.ones_like),
        "relu": (lambda z: np.maximum(z, 0), lambda z: 1.0 * (z > 0)),
    }[activation]
    assert found["steps"] == [0, 1, 2, 3, 4, 6, 8]
    for place, beta in enumerate(cell.betas):
        path = descend(ws, forward(ws, x, phi), x, y, beta / 64, 8, phi, slope)[found["steps"]]
        moved = [np.linalg.norm(z - path[0]) / np.linalg.norm(path[0]) for z in path]
        np.testing.assert_allclose(found["movement"][place], moved, rtol=1e-5)
        norms = np.sqrt((path[:, [0, 1, 2, 3]] ** 2).sum(axis=-1)).mean(axis=-1)  # all four layers are shown
        np.testing.assert_allclose(found["norms"][place], norms, rtol=1e-5)
        if activation == "linear":
            systems = [quadratic(ws, a, b) for a, b in zip(x, y, strict=True)]
            exact = np.array([np.linalg.lstsq(m, c)[0].reshape(4, 5) for m, c in systems]).swapaxes(0, 1)
            far = [np.linalg.norm(z - exact) / np.linalg.norm(exact) for z in path]
            np.testing.assert_allclose(found["distance"][place], far, rtol=1e-5)
    assert ("distance" in found) == (activation == "linear")


def test_checkpoints_hold_the_steps_that_are_judged():
    assert checkpoints(1, 1) == [0, 1]
    assert checkpoints(5, 2) == [0, 1, 2, 3, 4, 5, 6, 8, 10]
    for depth, beyond in ((64, 16), (16, 4), (7, 3)):
        steps = checkpoints(depth, beyond)
        assert {0, depth, depth * beyond} <= set(steps) and len(steps) <= 60


def test_layers_shown_are_ends_and_quarters():
    assert shown_layers(16) == [1, 4, 8, 12, 16]
    assert shown_layers(1) == [1]


def numbers(cell, far=0.9, near=1.0, moved=1.0):
    """Made-up results of a cell: every chain this far, μPC's start this near and this little moved."""
    steps = checkpoints(cell.hidden_layers, cell.beyond)
    if isinstance(cell, ChainCell):
        curve = [far ** (step / cell.hidden_layers) for step in steps]
        example = {name: [0.1 * layer for layer in range(cell.hidden_layers)] for name in ("start", "end", "solution")}
        shared = {"low": curve, "median": curve, "high": curve, "example": example}
        return {"steps": steps, "ratios": [far] * cell.seeds, **shared}
    first, rate = (near, moved) if cell.method == "mupc" else (6.0, 6.0)
    layers = len(shown_layers(cell.hidden_layers))
    return {
        "steps": steps,
        "norms": [[[1.0 + layer for layer in range(layers)] for _ in steps] for _ in cell.betas],
        "movement": [[rate * step for step in steps] for _ in cell.betas],
        "distance": [[first for _ in steps] for _ in cell.betas],
        "solution_norms": [1.0 for _ in range(layers)],
    }


def results(slug, keep=lambda cell: True, made=numbers):
    figure = experiments.find_figure(slug).load()
    config = figure.config("paper")
    finished = {cell: made(cell) for cell in figure.cells(config, {}) if keep(cell)}
    return figure, config, finished


def verdicts(slug, **how):
    figure, config, finished = results(slug, **how)
    return [claim.verdict for claim in figure.claims(config, figure.table(config, finished))]


@pytest.mark.parametrize("slug", CHAINS)
def test_chains_hold_only_where_most_seeds_stay_far(slug):
    assert verdicts(slug) == [HOLDS] * 4
    half = verdicts(slug, made=lambda cell: numbers(cell, far=0.5 if cell.rate == 1 else 0.51))
    assert half == [HOLDS, HOLDS, FAILS, HOLDS]

    def mixed(cell):
        found = numbers(cell)
        return {**found, "ratios": [0.1] * 11 + [1.0] * 9} if cell.rate == 0.2 else found

    assert verdicts(slug, made=mixed) == [HOLDS, FAILS, HOLDS, HOLDS]


@pytest.mark.parametrize("slug", CHAINS)
def test_random_starts_are_reported_and_never_judged(slug):
    missing = verdicts(slug, keep=lambda cell: cell.rate != 1.9 or cell.start == "random")
    assert missing == [HOLDS, HOLDS, HOLDS, NOT_RUN]
    assert verdicts(slug, keep=lambda cell: cell.start == "forward") == [HOLDS] * 4
    figure, config, finished = results(slug, made=lambda cell: numbers(cell, 0.9 if cell.start == "forward" else 0.2))
    claims = figure.claims(config, figure.table(config, finished))
    assert all(claim.verdict == HOLDS and "start: 20.0%" in claim.measured for claim in claims)


def test_the_linear_start_must_be_a_third_as_far():
    slug = "mupc-vs-pc-ffwd-lrs"
    assert verdicts(slug) == [HOLDS]
    assert verdicts(slug, made=lambda cell: numbers(cell, near=2.0)) == [HOLDS]
    assert verdicts(slug, made=lambda cell: numbers(cell, near=2.01)) == [FAILS]
    assert verdicts(slug, keep=lambda cell: (cell.method, cell.seed) != ("sp", 2)) == [NOT_RUN]


def test_relu_networks_must_move_less():
    slug = "mupc-vs-pc-ffwd-relu-lrs"
    assert verdicts(slug) == [HOLDS] * 3
    assert verdicts(slug, made=lambda cell: numbers(cell, moved=6.0)) == [FAILS] * 3
    assert verdicts(slug, keep=lambda cell: (cell.method, cell.seed) != ("mupc", 0)) == [NOT_RUN] * 3

    def diverged(cell):  # at the largest step size, in both
        found = numbers(cell)
        return {**found, "movement": [*found["movement"][:2], [None] * len(found["steps"])]}

    assert verdicts(slug, made=diverged) == [HOLDS, HOLDS, FAILS]


@pytest.mark.slow
@pytest.mark.parametrize("slug", [CHAINS[0], *WIDE])
def test_figures_show_the_rows_there_are(slug, drawings):
    assert len(drawings(*results(slug), (1, None))) == 2


@pytest.mark.parametrize("slug", CHAINS + WIDE)
def test_presets_say_what_was_decided(slug):
    figure = experiments.find_figure(slug).load()
    for preset in experiments.PRESETS:
        config = figure.config(preset)
        assert config.precision == "float64" and config.protocol
        assert all(cell.precision == "float64" for cell in figure.cells(config, {}))
        assert hash(config) == hash(dataclasses.replace(config))
