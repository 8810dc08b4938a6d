"""Limiting spectra against closed-form moments and random matrices; equilibrium propagation against autodiff."""

import re
import textwrap

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
from reference import parameters, relative

import mupc
from mupc import theory

NUDGES = [0.0, 0.7]


def grid(law, points=20001):
    """Midpoints of a grid that is fine at both edges, and the probability in each of its cells."""
    low, high = law.edges
    angle = (np.arange(points) + 0.5) * np.pi / points
    at = (low + high) / 2 - (high - low) / 2 * np.cos(angle)
    return at, law.density(at) * (high - low) / 2 * np.sin(angle) * np.pi / points


def distance(law, eigenvalues):
    """The Kolmogorov–Smirnov distance between a law and a sample."""
    at, mass = grid(law)
    cumulative = np.cumsum(mass) - mass / 2 + np.where(at > law.origin, law.atom, 0.0)
    ordered = np.sort(eigenvalues)
    expected = np.interp(ordered, at, cumulative)
    rank = np.arange(len(ordered) + 1) / len(ordered)
    return max(np.max(np.abs(expected - rank[1:])), np.max(np.abs(expected - rank[:-1])))


@pytest.mark.parametrize("ratio", [0.1, 0.5, 1.0, 3.0])
@pytest.mark.parametrize("scale, shift", [(1.0, 0.0), (1.0, 1.0), (0.3, -2.0)])
def test_marchenko_pastur_moments(ratio, scale, shift):
    law = theory.marchenko_pastur(ratio, scale=scale, shift=shift)
    at, mass = grid(law)
    assert law.atom == pytest.approx(max(0.0, 1 - 1 / ratio))
    assert mass.sum() + law.atom == pytest.approx(1, rel=1e-6)
    moments = [np.sum(((at - shift) / scale) ** power * mass) for power in (1, 2, 3)]
    assert moments == pytest.approx([1, 1 + ratio, 1 + 3 * ratio + ratio**2], rel=1e-6)


@pytest.mark.parametrize("radius", [0.5, 2.0, 2 * 2**0.5])
def test_semicircle_moments(radius):
    law = theory.semicircle(radius)
    at, mass = grid(law)
    assert law.edges == (-radius, radius)
    moments = [np.sum(at**power * mass) for power in range(5)]
    assert moments == pytest.approx([1, 0, radius**2 / 4, 0, radius**4 / 8], rel=1e-6, abs=1e-9)


def test_edges_and_shapes():
    law = theory.marchenko_pastur(1.0, shift=1.0)
    assert law.edges == (1.0, 5.0)
    got = law.density(np.array([[-1.0, 1.0, 3.0], [5.0, 6.0, np.inf]]))
    assert got == pytest.approx(np.array([[0, 0, 1 / (2 * np.pi)], [0, 0, 0]]))
    assert theory.semicircle().density(0.0) == pytest.approx(1 / np.pi)
    assert theory.semicircle().density(jnp.zeros(3, jnp.float32)).dtype == np.float64


def test_random_matrices_follow_the_laws():
    rng = np.random.default_rng(0)
    square = rng.standard_normal((400, 400)) / 20
    gram = np.linalg.eigvalsh(square.T @ square)
    assert distance(theory.marchenko_pastur(1.0), gram) < 0.05
    assert distance(theory.marchenko_pastur(1.0, shift=1.0), 1 + gram) < 0.05
    assert distance(theory.marchenko_pastur(1.0, scale=1.5), gram) > 0.1, "the distance can tell laws apart"
    wide = rng.standard_normal((100, 200)) / 10
    found = np.linalg.eigvalsh(wide.T @ wide)
    law = theory.marchenko_pastur(2.0)
    assert np.mean(found < 1e-9) == law.atom == 0.5
    positive = found[found > 1e-9]
    at, mass = grid(law)
    assert np.max(np.abs(np.interp(positive, at, np.cumsum(mass) / 0.5) - np.arange(1, 101) / 100)) < 0.05
    corner = square[:200, :200]
    assert distance(theory.semicircle(2**0.5), np.linalg.eigvalsh((corner + corner.T) / 2**0.5)) < 0.05


def test_block_diagonal_of_a_network():
    network = mupc.Network(
        128, 128, 128, 1, activation="linear", parameterisation="sp", init="gaussian", skip=0, key=jr.key(0)
    )
    found = np.linalg.eigvalsh(theory.hessian_blocks(network).diagonal)
    assert distance(theory.marchenko_pastur(1.0, shift=1.0), found.ravel()) < 0.05


@pytest.mark.parametrize(
    "call, message",
    [
        (lambda: theory.marchenko_pastur(0.0), "ratio must be greater than 0"),
        (lambda: theory.marchenko_pastur(1.0, scale=-1.0), "scale must be greater than 0"),
        (lambda: theory.marchenko_pastur(1.0, shift=float("nan")), "shift must be finite"),
        (lambda: theory.semicircle(0.0), "radius must be greater than 0"),
    ],
)
def test_bad_laws(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def linear(hidden_layers=4, **options):
    """A network with random weights and biases, activities and a batch, from numpy: JAX would compile each draw. They
    are of the size of the examples in the docstrings, to share what it does compile."""
    rng = np.random.default_rng(hidden_layers)
    network = mupc.Network(8, 3, 16, hidden_layers, activation="linear", skip=0, key=jr.key(0), **options)
    network = jax.tree.map(lambda p: jnp.asarray(0.3 * rng.standard_normal(p.shape)), network)
    shapes = (hidden_layers, 5, 16), (5, 3), (5, 8), (5, 3)
    hidden, output, x, y = (rng.standard_normal(shape) for shape in shapes)
    return network, (hidden, output), x, y


def written_out(network, activities, x, y, nudge):
    """The energy of §A.2.5, summed over the batch, layer by layer."""
    first, hidden, last = network.multipliers
    states = [x, *activities[0], activities[1]]
    scales = [first, *[hidden] * (len(states) - 3), last]
    total = nudge / 2 * jnp.sum((y - states[-1]) ** 2)
    for (w, b), a, before, after in zip(parameters(network), scales, states, states[1:], strict=False):
        total = total + jnp.sum(after**2) / 2 - jnp.sum(after * (a * before @ w.T + b))
    return total


def flat(hidden, output):
    return np.concatenate([*hidden, output], axis=1)


@pytest.mark.parametrize("depth, parameterisation", [(1, "sp"), (4, "ntp")])
def test_equilibrium_propagation_is_autodiffs(depth, parameterisation):
    network, z, x, y = linear(hidden_layers=depth, parameterisation=parameterisation, use_bias=True)
    size = depth * network.width

    def one(vector, nudge):
        parts = vector[:size].reshape(depth, 1, -1), vector[None, size:]
        return written_out(network, parts, x[:1], y[:1], nudge)

    @jax.jit
    def autodiff(z, nudge):
        value, gradient = jax.value_and_grad(lambda z: written_out(network, z, x, y, nudge))(z)
        return value, gradient, jax.hessian(one)(np.ones(size + network.out_size), nudge)

    for nudge in NUDGES:
        want, gradient, curvature = autodiff(z, nudge)
        got = theory.ep_energy(network, z, x, y, nudge=nudge)
        assert isinstance(got, float)
        assert got == pytest.approx(float(want) / len(x), rel=1e-10)
        found = theory.ep_gradient(network, z, x, y, nudge=nudge)
        for part, other in zip(found, gradient, strict=True):
            assert relative(part, other) < 1e-10
            assert part.dtype == np.float64
        hessian = theory.ep_hessian(network, nudge=nudge)
        assert relative(hessian, curvature) < 1e-10
        solution = theory.ep_solution(network, x, y, nudge=nudge)
        assert np.max(np.abs(flat(*theory.ep_gradient(network, solution, x, y, nudge=nudge)))) < 1e-9
        assert relative(flat(*found), (flat(*z) - flat(*solution)) @ hessian) < 1e-9


def test_energy_can_be_differentiated():
    network, z, x, y = linear()
    own = jax.grad(lambda z: theory.ep_energy(network, z, x, y, nudge=0.7))(z)
    for part, other in zip(own, theory.ep_gradient(network, z, x, y, nudge=0.7), strict=True):
        assert relative(len(x) * part, other) < 1e-10


def test_free_phase_needs_no_targets():
    network, z, x, y = linear()
    assert theory.ep_energy(network, z, x) == theory.ep_energy(network, z, x, y)
    for without, given in zip(theory.ep_solution(network, x), theory.ep_solution(network, x, y), strict=True):
        assert np.array_equal(without, given)
    labels = np.array([0, 2, 1, 1, 0])
    got, want = (theory.ep_solution(network, x, given, nudge=0.5)[1] for given in (labels, np.eye(3)[labels]))
    assert relative(got, want) < 1e-12


def test_float32_network_without_x64():
    network, _, x, y = linear(use_bias=True)
    single = jax.tree.map(lambda p: jnp.asarray(np.asarray(p, np.float32)), network)
    rounded = jax.tree.map(lambda p: jnp.asarray(np.asarray(p, np.float64)), single)
    want = theory.ep_solution(rounded, x, y, nudge=0.5)
    with jax.enable_x64(False):
        got = theory.ep_solution(single, x, y, nudge=0.5)
    assert relative(flat(*got), flat(*want)) < 1e-12


@pytest.mark.parametrize("sign", [-1, 1])
@pytest.mark.parametrize("nudge", NUDGES)
def test_scalar_network_turns_indefinite(nudge, sign):
    network = mupc.Network(1, 1, 1, 1, activation="linear", parameterisation="sp", skip=0, key=jr.key(0))
    threshold = (1 + nudge) ** 0.5
    for factor in (0.0, 0.9, 0.999, 1.001, 1.5):
        changed = eqx.tree_at(lambda n: n.readout.weight, network, jnp.array([[sign * factor * threshold]]))
        values = np.linalg.eigvalsh(theory.ep_hessian(changed, nudge=nudge))
        assert values[1] > 0
        assert (values[0] < 0) == (factor > 1)


def test_singular_hessian():
    network = mupc.Network(1, 1, 1, 1, activation="linear", parameterisation="sp", skip=0, key=jr.key(0))
    network = eqx.tree_at(lambda n: n.readout.weight, network, jnp.array([[1.0]]))
    with pytest.raises(ValueError, match="singular at nudge=0"):
        theory.ep_solution(network, np.ones((2, 1)))
    assert theory.ep_solution(network, np.ones((2, 1)), np.ones((2, 1)), nudge=0.5)[1].shape == (2, 1)


@pytest.mark.parametrize(
    "options, message",
    [
        ({"activation": "tanh", "skip": 0}, "linear networks only, got activation 'tanh'"),
        ({"activation": "linear", "skip": 1}, "without skips, got skip=1"),
    ],
)
def test_bad_networks(options, message):
    _, z, x, y = linear()
    network = mupc.Network(8, 3, 16, 4, key=jr.key(0), **options)
    calls = [
        lambda: theory.ep_energy(network, z, x, y),
        lambda: theory.ep_gradient(network, z, x, y),
        lambda: theory.ep_hessian(network),
        lambda: theory.ep_solution(network, x, y),
    ]
    for call in calls:
        with pytest.raises(ValueError, match=message):
            call()


@pytest.mark.usefixtures("as_users_see_it")
def test_bad_samples():
    network, (hidden, output), x, y = linear()
    for function in (theory.ep_energy, theory.ep_gradient):
        with pytest.raises(ValueError, match=re.escape("activities must have shape (4, 5, 16), got (3, 5, 16)")):
            function(network, (hidden[1:], output), x, y)
        with pytest.raises(ValueError, match=re.escape("the output in activities must have shape (5, 3), got (5, 2)")):
            function(network, (hidden, output[:, 1:]), x, y)
        with pytest.raises(TypeError, match="must be a pair"):
            function(network, hidden, x, y)
    with pytest.raises(ValueError, match="x must have shape"):
        theory.ep_solution(network, x[:, 1:], y)
    with pytest.raises(ValueError, match="y must have shape"):
        theory.ep_solution(network, x, y[1:], nudge=0.5)
    with pytest.raises(ValueError, match="y is missing"):
        theory.ep_solution(network, x, nudge=0.5)
    with pytest.raises(ValueError, match="nudge must be at least 0, got -1"):
        theory.ep_hessian(network, nudge=-1.0)


NEW = ["marchenko_pastur", "semicircle", "ep_energy", "ep_gradient", "ep_hessian", "ep_solution"]


@pytest.mark.parametrize("name", NEW)
def test_examples_run(name):
    code = textwrap.dedent(getattr(theory, name).__doc__.split("```python")[1].split("```")[0])
    names = {}
    for line in filter(None, code.splitlines()):
        exec(line, names)
        statement, _, comment = line.partition("#")
        assert not comment.strip().startswith("True") or eval(statement, names)
