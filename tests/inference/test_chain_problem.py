"""A chain that is the residual MLP agrees with `mupc.Network`; chains of convolutions agree with dense references."""

import dataclasses
import warnings

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import optax
import pytest

import mupc
from mupc import nodes
from mupc.inference import extremes, pose
from mupc.inference._problem import Batch
from mupc.network import _backend, _parts
from mupc.network._precision import POLICIES

IN, OUT, WIDTH, HIDDEN, BATCH = 7, 3, 6, 5, 4
X, Y = jr.normal(jr.key(5), (BATCH, IN)), jax.nn.one_hot(jnp.arange(BATCH) % OUT, OUT)


def weights(network):
    """Return the weights of a network, or of the chain that is the same network, in one order."""
    if isinstance(network, mupc.Network):
        layers = network.input, network.hidden, network.readout
    else:
        first, stack, last = (part.node for part in network.parts)
        layers = first, stack.branch.parts[1], last.parts[1]
    return [array for layer in layers for array in (layer.weight, layer.bias)]


def as_chain(network):
    """Return the same network as a chain."""
    shared = {"depth": network.layer_count, "use_bias": True}

    def block(key):
        return nodes.Residual(["tanh", nodes.Linear(WIDTH, WIDTH, role="branch", **shared, key=key)])

    chain = mupc.Chain(
        [
            nodes.Linear(IN, WIDTH, role="input", **shared, key=jr.key(1)),
            mupc.Stack(block, network.hidden_layers - 1, key=jr.key(2)),
            nodes.Sequential(["tanh", nodes.Linear(WIDTH, OUT, role="readout", **shared, key=jr.key(3))]),
        ],
        input_shape=(IN,),
        names=("first", "block", "readout"),
    )
    return eqx.tree_at(weights, chain, weights(network))


def made(hidden_layers):
    network = mupc.Network(IN, OUT, WIDTH, hidden_layers, activation="tanh", use_bias=True, key=jr.key(0))
    network = jax.tree.map(lambda a: a.astype(float) + 0.1 * jr.normal(jr.key(3), a.shape), network)
    return network, as_chain(network)


@pytest.fixture(scope="module")
def pair():
    return made(HIDDEN)


def stacked(activities):
    return jnp.concatenate(jax.tree.leaves(activities))


SOLVERS = {
    "gradient descent": mupc.GradientDescent(lr=0.1, steps=7),
    "tuned gradient descent": mupc.GradientDescent(lr="auto", steps=7),
    "error space": mupc.ErrorSpace(),
    "error space to the end": mupc.ErrorSpace(steps=5, cg_steps=None),
    "optax": mupc.Optax(optax.adam(0.1), steps=5),
    "ode": mupc.ODE(),
}
ENERGIES = {
    "plain": mupc.Energy(),
    "decay": mupc.Energy(output_precision=0.1, activity_decay=0.3, weight_decay=0.1),
    "cross-entropy": mupc.Energy(loss="cross-entropy"),
}
QUICK = {("gradient descent", "decay", True), ("error space", "cross-entropy", False)}


@pytest.mark.parametrize(
    "solver, energy, free",
    [
        pytest.param(*case, marks=() if case in QUICK else pytest.mark.slow)
        for case in ((s, e, f) for s in SOLVERS for e in ENERGIES for f in (False, True))
        if not (case[0].startswith("tuned") and case[2] and case[1] != "decay")  # refused: the Hessian is singular
    ],
)
def test_the_mlp_as_a_chain_is_the_mlp(pair, solver, energy, free):
    given = {"energy": ENERGIES[energy], **({"input": X} if free else {})}
    found = [mupc.infer(network, None if free else X, Y, SOLVERS[solver], **given) for network in pair]
    tolerance = 1e-9 if solver == "ode" else 1e-10
    for name in ("activities", "errors"):
        np.testing.assert_allclose(*(stacked(getattr(s, name)) for s in found), atol=tolerance)
    for name in ("output_error", "output", "prediction", "energy", "gradient_norm", *(["input"] if free else [])):
        np.testing.assert_allclose(*(getattr(s, name) for s in found), atol=tolerance)
    gradients = [weights(mupc.weight_gradients(n, s, X)) for n, s in zip(pair, found, strict=True)]
    for own, other in zip(*gradients, strict=True):
        np.testing.assert_allclose(own, other, atol=tolerance)


@pytest.fixture
def apart(monkeypatch):
    """A function after which stacks of up to eight nodes are computed node by node, as on a GPU."""

    def change():
        found = dataclasses.replace(_backend.backend(), largest_unrolled=8)
        monkeypatch.setattr(_parts, "backend", lambda: found)
        jax.clear_caches()  # programs of stacks that are still whole

    yield change
    monkeypatch.undo()
    jax.clear_caches()


TAKEN_APART = {
    "gradient descent": (SOLVERS["gradient descent"], 0.1),
    "several steps": (mupc.ErrorSpace(steps=2), 0.1),
    "a look": (mupc.ErrorSpace(), 1e-3),
    "a line search": (mupc.ErrorSpace(), 30.0),
    "conjugate gradients": (mupc.ErrorSpace(cg_tol=0.0), 1.0),
    "no halvings": (mupc.ErrorSpace(halvings=0), 30.0),
    "a rule with norms": (mupc.Optax(optax.lamb(0.1), steps=4), 1.0),
}


@pytest.mark.parametrize("name", TAKEN_APART)
def test_solvers_on_stacks_that_are_taken_apart(name, apart):
    _, chain = made(hidden_layers=4)
    solver, precision = TAKEN_APART[name]
    energy = mupc.Energy(output_precision=precision)
    whole = mupc.infer(chain, X, Y, solver, energy=energy)
    apart()
    pieces = mupc.infer(chain, X, Y, solver, energy=energy)
    for own, other in zip(jax.tree.leaves(whole.errors), jax.tree.leaves(pieces.errors), strict=True):
        np.testing.assert_allclose(other, own, atol=1e-12)
    assert float(whole.energy) == pytest.approx(float(pieces.energy), rel=1e-12)


@pytest.mark.parametrize("precision", ["float32", "bf16"])
@pytest.mark.parametrize("is_apart", [False, True], ids=["whole", "apart"])
def test_nodes_without_an_exact_difference_stay_at_rest(precision, is_apart, apart):
    """Layers that no step has reached have no errors, however programs round. The others' are the same."""

    def block(key):
        return nodes.Residual([eqx.nn.LayerNorm(16), nodes.Linear(16, 16, role="branch", depth=9, key=key), "relu"])

    readout = nodes.Sequential(["relu", nodes.Linear(16, 3, role="readout", key=jr.key(2))])
    parts = [nodes.Linear(5, 16, role="input", key=jr.key(0)), mupc.Stack(block, 8, key=jr.key(1)), readout]
    chain = mupc.Chain(parts, input_shape=(5,))
    x, y, solver = jr.normal(jr.key(3), (8, 5)), jnp.arange(8) % 3, mupc.GradientDescent(0.05, 3)
    exact = stacked(mupc.infer(chain, x, y, solver).errors)
    if is_apart:
        apart()
    for given in (None, chain.forward_pass(x, POLICIES[precision].full)[0]):
        with warnings.catch_warnings(action="ignore"):  # about small moves
            found = stacked(mupc.infer(chain, x, y, solver, precision=precision, activities=given).errors)
        assert given is not None or not found[:6].any()
        np.testing.assert_allclose(found[:6], 0, atol=1e-6)
        for own, other in zip(found[6:], exact[6:], strict=True):
            assert jnp.linalg.norm(own - other) < 0.05 * jnp.linalg.norm(other)


def test_small_stacks_may_be_taken_apart(apart):
    network, chain = made(hidden_layers=4)

    def noise():
        problem = pose(chain, Batch(X, Y), mupc.Energy(), POLICIES["float64"])
        return problem.fold(problem.noise(jr.key(7))).hidden

    drawn = noise()
    apart()
    for own, other in zip(drawn, noise(), strict=True):
        np.testing.assert_array_equal(own, other)
    assert [part.depth for part in chain.for_computing(POLICIES["float64"]).parts] == [1, 1, 1, 1, 1]
    start = jr.normal(jr.key(8), (4, BATCH, WIDTH))
    starts = start, (start[:1], start[1:])
    for solver in (SOLVERS["gradient descent"], mupc.ErrorSpace(steps=2)):
        both = zip((network, chain), starts, strict=True)
        found = [mupc.infer(n, X, Y, solver, energy=ENERGIES["decay"], activities=z) for n, z in both]
        np.testing.assert_allclose(*(stacked(solution.activities) for solution in found), atol=1e-10)
        np.testing.assert_allclose(*(stacked(solution.errors) for solution in found), atol=1e-10)
        assert [len(stack) for stack in found[1].activities] == [1, 3]
        learnt = [weights(mupc.weight_gradients(n, s, X)) for n, s in zip((network, chain), found, strict=True)]
        for own, other in zip(*learnt, strict=True):
            np.testing.assert_allclose(own, other, atol=1e-10)
    for own, other in zip(*(weights(mupc.backprop_gradients(n, X, Y)) for n in (network, chain)), strict=True):
        np.testing.assert_allclose(own, other, atol=1e-12)


def test_energies_and_backpropagation_of_the_mlp_as_a_chain(pair):
    network, chain = pair
    activities = jr.normal(jr.key(8), (HIDDEN, BATCH, WIDTH))
    split = activities[:1], activities[1:]
    energy = ENERGIES["decay"]
    np.testing.assert_allclose(
        mupc.layer_energies(network, activities, X, Y, energy=energy),
        mupc.layer_energies(chain, split, X, Y, energy=energy),
        rtol=1e-12,
    )
    for own, other in zip(*(weights(mupc.backprop_gradients(n, X, Y)) for n in pair), strict=True):
        np.testing.assert_allclose(own, other, atol=1e-14)
    base = mupc.network.BaseSize()
    for own, other in zip(network.rate_scales(base), chain.rate_scales(base), strict=True):
        np.testing.assert_allclose(own, other)


@pytest.mark.slow
def test_extreme_eigenvalues_of_the_mlp_as_a_chain(pair):
    problems = [pose(network, Batch(X, Y), mupc.Energy(output_precision=1.0), POLICIES["float64"]) for network in pair]
    np.testing.assert_allclose(*map(extremes, problems), rtol=1e-6)


def convolutional(key, activation="tanh"):
    """A chain with every kind of node whose difference is exact."""
    keys = jr.split(key, 4)

    def block(key):
        branch = [activation, nodes.Conv2d(3, 3, role="branch", depth=5, use_bias=True, key=key)]
        return nodes.Residual(branch)

    pooled = [activation, nodes.Conv2d(3, 4, stride=1, role="hidden", key=keys[2]), nodes.MaxPool(), nodes.MeanPool()]
    readout = [activation, nodes.Flatten(), nodes.Linear(4, 2, role="readout", key=keys[3])]
    chain = mupc.Chain(
        [
            nodes.Conv2d(2, 3, stride=2, role="input", key=keys[0]),
            mupc.Stack(block, 2, key=keys[1]),
            nodes.Sequential(pooled),
            nodes.Sequential(readout),
        ],
        input_shape=(2, 8, 8),
    )
    return jax.tree.map(lambda leaf: leaf.astype(float), chain)


def plain_energy(chain, activities, x, y, lam):
    """The energy written out with loops and `jax.lax.conv`, apart from the library."""
    first, stack, pooled, readout = (part.node for part in chain.parts)
    conv = stack.branch.parts[1]

    def convolve(u, w, stride):
        return jax.lax.conv_general_dilated(u, w, (stride, stride), [(1, 1), (1, 1)], precision="highest")

    z = [activities[0][0], activities[1][0], activities[1][1], activities[2][0]]
    predicted = [convolve(x, first.weight, 2) / np.sqrt(2 * 9)]
    for k in range(2):
        branch = convolve(jnp.tanh(z[k]), conv.weight[k], 1) / np.sqrt(3 * 9 * 5) + conv.bias[k][:, None, None]
        predicted.append(z[k] + branch)
    middle = convolve(jnp.tanh(z[2]), pooled.parts[1].weight, 1) / np.sqrt(3 * 9)
    largest = jax.lax.reduce_window(middle, -jnp.inf, jax.lax.max, (1, 1, 2, 2), (1, 1, 2, 2), "VALID")
    predicted.append(largest.reshape(len(x), 4, 1, 2, 1, 2).mean(axis=(3, 5)))
    output = jnp.tanh(z[3]).reshape(len(x), -1) @ readout.parts[2].weight.T / 4
    squares = sum(jnp.sum((a - b) ** 2) for a, b in zip(z, predicted, strict=True))
    return (squares + lam * jnp.sum((y - output) ** 2)) / (2 * len(x))


@pytest.mark.slow
def test_a_convolutional_chain_has_the_energy_and_the_gradients_of_plain_loops():
    chain, lam = convolutional(jr.key(0)), 0.4
    x, y = jr.normal(jr.key(1), (3, 2, 8, 8)), jr.normal(jr.key(2), (3, 2))
    shapes = chain.activity_shapes(3)
    assert shapes == ((1, 3, 3, 4, 4), (2, 3, 3, 4, 4), (1, 3, 4, 1, 1))
    start = tuple(jr.normal(key, shape) for key, shape in zip(jr.split(jr.key(4), 3), shapes, strict=True))
    energy = mupc.Energy(output_precision=lam)
    value, (slopes, inner) = jax.value_and_grad(plain_energy, argnums=(1, 0))(chain, start, x, y, lam)
    np.testing.assert_allclose(mupc.energy(chain, start, x, y, energy=energy), value, rtol=1e-12)
    step = 1e-2
    moved = mupc.infer(chain, x, y, mupc.GradientDescent(lr=step, steps=1), activities=start, energy=energy)
    for own, before, slope in zip(moved.activities, start, slopes, strict=True):
        np.testing.assert_allclose(own, before - step * len(x) * slope, atol=1e-12)
    still = mupc.infer(chain, x, y, mupc.GradientDescent(lr=step, steps=0), activities=start, energy=energy)
    learnt = mupc.weight_gradients(chain, still, x)
    for own, slope in zip(jax.tree.leaves(learnt), jax.tree.leaves(inner), strict=True):
        np.testing.assert_allclose(own, slope / lam, atol=1e-10)


@pytest.mark.slow
def test_error_space_finds_the_equilibrium_of_a_convolutional_chain():
    """Both minimise one energy. Max pools have kinks, on which gradient descent is slow."""
    chain = convolutional(jr.key(0))
    x, y = jr.normal(jr.key(1), (3, 2, 8, 8)), jr.normal(jr.key(2), (3, 2))
    there = mupc.infer(chain, x, y, mupc.ErrorSpace(steps=30, cg_steps=None, tol=1e-10))
    descended = mupc.infer(chain, x, y, mupc.GradientDescent(lr=0.2, steps=5_000))
    assert there.energy <= descended.energy * (1 + 1e-12)
    np.testing.assert_allclose(there.energy, descended.energy, rtol=1e-4)


def test_increments_keep_signals_far_below_rounding():
    """Gradient descent in float32 reaches the first node of a deep chain with the values of float64."""
    depth = 24

    def block(key):
        return nodes.Residual(["relu", nodes.Conv2d(2, 2, role="branch", depth=depth + 2, key=key)])

    keys = jr.split(jr.key(0), 3)
    readout = ["relu", nodes.GlobalMean(), nodes.Linear(2, 2, role="readout", key=keys[2])]
    parts = [nodes.Conv2d(1, 2, role="input", key=keys[0]), mupc.Stack(block, depth, key=keys[1])]
    chain = mupc.Chain([*parts, nodes.Sequential(readout)], input_shape=(1, 4, 4))
    x, y = jr.normal(jr.key(1), (2, 16)), jnp.array([0, 1])
    solver = mupc.GradientDescent(lr=0.05, steps=depth + 1)
    exact, rounded = (
        mupc.infer(mupc.network._precision.POLICIES[name].cast(chain), x, y, solver, precision=name)
        for name in ("float64", "float32")
    )
    first = np.asarray(exact.errors[0])
    assert 0 < np.abs(first).max() < 1e-20
    np.testing.assert_allclose(rounded.errors[0], first, rtol=1e-3, atol=1e-4 * np.abs(first).max())


class Squash(eqx.Module):
    """A node of a user's own, without an accurate difference."""

    weight: jax.Array

    def __call__(self, z):
        return jnp.tanh(self.weight @ z)


@pytest.mark.slow
def test_plain_differences_are_right_and_warn_where_they_round_away():
    chain = mupc.Chain([Squash(jr.normal(k, (4, 4)) / 2) for k in jr.split(jr.key(0), 12)], input_shape=(4,))
    x, y = jr.normal(jr.key(1), (3, 4)), jr.normal(jr.key(2), (3, 4))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        close = mupc.infer(chain, x, y, mupc.ErrorSpace(steps=20, cg_steps=None, tol=1e-9))
        far = mupc.infer(chain, x, y, mupc.GradientDescent(lr=0.2, steps=2_000))
    np.testing.assert_allclose(close.energy, far.energy, rtol=1e-6)
    with pytest.warns(UserWarning, match="1 Squash.*less than rounding"):
        mupc.infer(chain, x, y, mupc.GradientDescent(lr=1e-3, steps=12))
    data = mupc.data.from_arrays(np.tile(x, (4, 1)), np.tile(y, (4, 1)))
    for solver, count in ((mupc.GradientDescent(lr=1e-3, steps=12), 1), (mupc.ErrorSpace(), 0)):
        run = mupc.Run(chain, solver)
        for train in (lambda run=run: mupc.fit(chain, data, run.algorithm), lambda run=run: mupc.fit_many([run], data)):
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                train()
            assert sum("less than rounding" in str(warning.message) for warning in caught) == count
