"""Agreement with the reference implementation of the paper, in float64."""

import json
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
from reference import relative

import mupc

CASES = sorted((Path(__file__).parents[1] / "golden").glob("*.npz"))


@pytest.fixture(params=CASES, ids=lambda path: path.stem)
def case(request):
    arrays = dict(np.load(request.param))
    config = json.loads(str(arrays.pop("config")))
    names = ("in_size", "out_size", "width", "hidden_layers", "activation", "parameterisation", "skip")
    network = mupc.Network(**{name: config[name] for name in names}, key=jr.key(0))
    weights = [jnp.asarray(arrays[name]) for name in ("w_input", "w_hidden", "w_readout")]
    where = lambda n: [n.input.weight, n.hidden.weight, n.readout.weight]  # noqa: E731
    return eqx.tree_at(where, network, weights), config, arrays


def test_there_are_golden_cases():
    assert len(CASES) == 9


def test_forward(case):
    network, _, want = case
    activities, output = mupc.forward(network, want["x"])
    assert relative(activities, want["forward"]) < 1e-8
    assert relative(output, want["output"]) < 1e-8


def test_energies(case):
    network, _, want = case
    activities = jnp.asarray(want["perturbed"])
    assert relative(mupc.layer_energies(network, activities, want["x"], want["y"]), want["layer_energies"]) < 1e-8
    assert relative(mupc.energy(network, activities, want["x"], want["y"]), want["energy"]) < 1e-8


def test_inference_and_learning(case):
    network, config, want = case
    solver = mupc.GradientDescent(lr=config["lr"], steps=config["steps"])
    solution = mupc.infer(network, want["x"], want["y"], solver)
    assert relative(solution.activities, want["inferred"]) < 1e-8
    assert relative(solution.energy, want["inferred_energy"]) < 1e-8
    gradients = mupc.weight_gradients(network, solution, want["x"])
    scale = max(np.max(np.abs(want[name])) for name in ("g_input", "g_hidden", "g_readout"))
    for layer, name in (("input", "g_input"), ("hidden", "g_hidden"), ("readout", "g_readout")):
        got = getattr(gradients, layer).weight
        assert np.max(np.abs(got - want[name])) < 1e-8 * scale


def test_hessian_by_autodiff(case):
    network, _, want = case
    depth, _, width = want["forward"].shape
    x, y = want["x"][:1], want["y"][:1]

    def energy(flat):
        return mupc.energy(network, flat.reshape(depth, 1, width), x, y)

    hessian = jax.hessian(energy)(jnp.asarray(want["forward"][:, 0]).ravel())
    assert relative(hessian, want["hessian"]) < 1e-8


@pytest.mark.parametrize("case", [path for path in CASES if "linear" in path.stem], indirect=True, ids=lambda p: p.stem)
def test_linear_equilibrium(case):
    network, _, want = case
    start = jnp.asarray(want["solution"])
    solution = mupc.infer(network, want["x"], want["y"], mupc.GradientDescent(lr=0.05, steps=1), activities=start)
    assert relative(solution.activities, want["solution"]) < 1e-8, "the exact minimiser does not move"
    assert relative(solution.energy, want["equilibrium_energy"]) < 1e-8
    assert float(solution.gradient_norm) < 1e-12
