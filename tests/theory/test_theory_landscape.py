"""Energy landscapes against the quadratic they are in linear networks, and paths against numpy and `mupc.infer`."""

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
from oracle import Oracle
from reference import make, relative

import mupc
from mupc import theory
from mupc.theory import _landscape


def small(**options):
    return make(in_size=3, out_size=2, width=4, hidden_layers=5, batch=1, **options)


def toy():
    """f(x) = w₃w₂w₁x of the paper's illustration, with w₃ = 10 and the others one."""
    network = mupc.Network(
        1, 1, width=1, hidden_layers=2, activation="linear", parameterisation="sp", skip=0, key=jr.key(0)
    )
    weights = [jnp.ones((1, 1)), jnp.ones((1, 1, 1)), jnp.full((1, 1), 10.0)]
    return eqx.tree_at(lambda n: [n.input.weight, n.hidden.weight, n.readout.weight], network, weights)


@pytest.mark.parametrize("skip, bias, weight, decay", [(0, False, 1.0, 0.0), (1, True, 0.3, 0.2)])
def test_linear_landscape_is_its_quadratic(skip, bias, weight, decay):
    network, x, y = small(activation="linear", parameterisation="sp", skip=skip, use_bias=bias)
    energy = mupc.Energy(output_precision=weight, activity_decay=decay, weight_decay=0.1)
    found = theory.landscape(network, x[0], y[0], points=7, energy=energy)
    values, vectors = np.linalg.eigh(theory.activity_hessian(network, energy=energy))
    assert found.curvatures == pytest.approx(values[[0, -1]], rel=1e-9)
    d = found.directions.reshape(2, -1)
    assert np.abs(np.sum(d * vectors.T[[0, -1]], axis=1)) == pytest.approx([1, 1], rel=1e-9)
    assert np.linalg.norm(d, axis=1) == pytest.approx([1, 1], rel=1e-12)
    centre = theory.equilibrium(network, x, y, energy=energy)
    assert relative(found.centre, centre[:, 0]) < 1e-12
    assert np.array_equal(found.axis, np.linspace(-2, 2, 7))
    alpha, beta = np.meshgrid(found.axis, found.axis)
    least = float(mupc.energy(network, centre, x, y, energy=energy))
    want = least + (alpha**2 * values[0] + beta**2 * values[-1]) / 2
    assert relative(found.energies, want) < 1e-9


def test_landscape_of_a_large_network_has_the_same_directions(monkeypatch):
    """Beyond `DENSE` unknowns eigenvectors come from Lanczos."""
    network, x, y = make(activation="linear", width=16, hidden_layers=8, batch=1)
    dense = theory.landscape(network, x, y, points=2)
    monkeypatch.setattr(_landscape, "DENSE", 1)
    found = theory.landscape(network, x, y, points=2)
    assert relative(found.directions, dense.directions) < 1e-6
    assert found.curvatures == pytest.approx(dense.curvatures, rel=1e-8)
    assert relative(found.energies, dense.energies) < 1e-8


def test_nonlinear_landscape_along_given_directions():
    network, x, y = small(activation="tanh", parameterisation="sp")
    oracle = Oracle.of(network, x, y)
    centre = np.asarray(mupc.forward(network, x)[0])
    directions = np.asarray(jr.normal(jr.key(1), (2, 5, 4)))
    found = theory.landscape(network, x, y, centre, directions=directions, span=0.5, points=3)
    want = [
        [oracle.energies(centre + alpha * directions[0][:, None] + beta * directions[1][:, None])[0] for alpha in axis]
        for axis in [np.linspace(-0.5, 0.5, 3)]
        for beta in axis
    ]
    assert relative(found.energies, want) < 1e-12
    assert np.array_equal(found.directions, directions)
    hessian = theory.activity_hessian(network, x, y, centre)
    assert found.curvatures == pytest.approx([d @ hessian @ d for d in directions.reshape(2, -1)], rel=1e-12)


def test_projection():
    """Coordinates in a plane whose directions are neither unit nor orthogonal, of points on it and off it."""
    network, x, y = small(activation="linear")
    directions = np.asarray(jr.normal(jr.key(1), (2, 5, 4)))
    found = theory.landscape(network, x, y, directions=directions, points=2)
    coordinates = np.array([[[0.0, 0.0], [1.0, 2.0]], [[-1.0, 0.5], [3.0, -1.0]]])
    points = found.centre + np.tensordot(coordinates, directions, 1)
    assert found.project(points) == pytest.approx(coordinates, abs=1e-12)
    off = np.asarray(jr.normal(jr.key(2), (5, 4)))
    basis = directions.reshape(2, -1).T
    off = off - (basis @ np.linalg.lstsq(basis, off.ravel(), rcond=None)[0]).reshape(5, 4)
    assert found.project(points[0, 1] + off) == pytest.approx(coordinates[0, 1], abs=1e-12)
    assert found.project(found.centre).shape == (2,)


def test_toy_network_zigzags():
    """The paper's illustration: κ is 50.8, and gradient descent from the forward pass goes 3.9 times the way."""
    network, x, y = toy(), jnp.ones(1), jnp.full(1, -1.0)
    hessian = theory.activity_hessian(network)
    assert np.array_equal(hessian, [[2, -1], [-1, 101]])
    found = theory.landscape(network, x, y, points=2)
    assert found.curvatures == pytest.approx(np.linalg.eigvalsh(hessian), rel=1e-12)
    assert found.curvatures[1] / found.curvatures[0] > 50
    # at the minimum 2z₁ − z₂ = w₁x and −z₁ + 101z₂ = w₃y
    solution = np.linalg.solve(hessian, [1, -10])
    assert found.centre[:, 0] == pytest.approx(solution, rel=1e-12)
    start, _ = mupc.forward(network, x[None])
    path = theory.descent_path(network, x, y, start, lr=1.6 / found.curvatures[1], steps=1000)[..., 0]
    z = np.array([1.0, 1.0])
    for taken in path[:20]:
        assert taken == pytest.approx(z, rel=1e-12)
        z = z - 1.6 / found.curvatures[1] * (hessian @ z - [1, -10])
    assert path[-1] == pytest.approx(solution, abs=1e-12)
    length = np.sum(np.linalg.norm(np.diff(path, axis=0), axis=1))
    assert length / np.linalg.norm(path[0] - solution) == pytest.approx(3.9, abs=0.05)
    steep = found.project(path[..., None])[:10, 1]
    assert np.all(steep[1:] * steep[:-1] < 0), "from one side of the valley to the other"


@pytest.mark.parametrize("activation, loss, skip", [("relu", "cross-entropy", 1), ("linear", "mse", 2)])
def test_path_ends_where_inference_does(activation, loss, skip):
    network, x, y = small(activation=activation, loss=loss, skip=skip, use_bias=True)
    energy = mupc.Energy(loss, output_precision=0.7, activity_decay=0.1)
    start = jr.normal(jr.key(3), (5, 1, 4))
    path = theory.descent_path(network, x, y, start, lr=0.1, steps=9, energy=energy)
    want = mupc.infer(network, x, y, mupc.GradientDescent(0.1, 9), energy=energy, activities=start)
    assert path.shape == (10, 5, 4)
    assert np.array_equal(path[0], start[:, 0])
    assert relative(path[-1], want.activities[:, 0]) < 1e-12
    label = int(np.argmax(y))
    if loss == "cross-entropy":
        flat = theory.descent_path(network, x[0], label, start[:, 0], lr=0.1, steps=9, energy=energy)
        assert np.array_equal(flat, path)


def test_float32_network_without_x64():
    network, x, y = small(activation="linear")
    single = jax.tree.map(lambda leaf: leaf.astype(jnp.float32), network)
    want = theory.landscape(jax.tree.map(lambda leaf: leaf.astype(jnp.float64), single), x, y, points=3)
    x, y = np.asarray(x), np.asarray(y)
    with jax.enable_x64(False):
        found = theory.landscape(single, x, y, points=3)
        path = theory.descent_path(single, x, y, found.centre, lr=0.1, steps=2)
    for name in ("energies", "centre", "directions", "curvatures"):
        got = getattr(found, name)
        assert got.dtype == np.float64
        assert relative(got, getattr(want, name)) < 1e-6
    assert path.dtype == np.float64
    assert relative(path[-1], found.centre) < 1e-6, "at rest at the equilibrium"


@pytest.mark.usefixtures("as_users_see_it")
def test_bad_input():
    network, x, y = small(activation="linear")
    curved = small(activation="tanh")[0]
    z = np.zeros((5, 4))
    for options, match in [
        ({"points": 1}, "points must be at least 2, got 1"),
        ({"span": 0.0}, "span must be greater than 0, got 0"),
        ({"span": float("nan")}, "span must be finite"),
        ({"directions": np.zeros((2, 4, 5))}, r"directions must have shape \(2, 5, 4\), got \(2, 4, 5\)"),
        ({"directions": np.ones((2, 5, 4))}, "directions must be finite and span a plane"),
        ({"directions": np.full((2, 5, 4), np.nan)}, "directions must be finite and span a plane"),
        ({"activities": z[1:]}, r"activities must have shape \(5, 1, 4\), got \(4, 1, 4\)"),
    ]:
        with pytest.raises(ValueError, match=match):
            theory.landscape(network, x, y, **options)
    with pytest.raises(ValueError, match="activities missing: activation 'tanh' with loss 'mse' has no equilibrium"):
        theory.landscape(curved, x, y)
    with pytest.raises(ValueError, match="activities missing: .*'cross-entropy' .* Pass mupc.forward"):
        theory.landscape(network, x, 0, energy=mupc.Energy("cross-entropy"))
    for options, match in [
        ({"lr": 0.1, "steps": 0}, "steps must be at least 1, got 0"),
        ({"lr": -0.1, "steps": 2}, "lr must be greater than 0, got -0.1"),
    ]:
        with pytest.raises(ValueError, match=match):
            theory.descent_path(network, x, y, z, **options)
    with pytest.raises(ValueError, match=r"activities must have shape \(5, 1, 4\)"):
        theory.descent_path(network, x, y, z[1:], lr=0.1, steps=2)
    broken = eqx.tree_at(lambda n: n.hidden.weight, network, network.hidden.weight.at[0, 0, 0].set(jnp.nan))

    def path(network, x, y):
        return theory.descent_path(network, x, y, z, lr=0.1, steps=2)

    for function in (theory.landscape, path):
        with pytest.raises(ValueError, match="NaN or infinite weights"):
            function(broken, x, y)
        with pytest.raises(TypeError, match="must be a network such as mupc.Network"):
            function(network.hidden, x, y)
        with pytest.raises(ValueError, match="x must be one sample, got 2"):
            function(network, np.ones((2, 3)), y)
        with pytest.raises(ValueError, match=r"x must have shape \(batch, 3\), got \(1, 2\)"):
            function(network, x[0, 1:], y)
        with pytest.raises(ValueError, match=r"y must have shape \(1, 2\), got \(1, 1\)"):
            function(network, x, y[:, 1:])
    with pytest.raises(ValueError, match=r"activities must have shape \(…, 5, 4\), got \(5, 1, 4\)"):
        theory.landscape(network, x, y, points=3).project(z[:, None])
    single = mupc.Network(3, 2, 1, 1, activation="linear", key=jr.key(0))
    with pytest.raises(ValueError, match="needs two unknowns or more"):
        theory.landscape(single, x, y)
