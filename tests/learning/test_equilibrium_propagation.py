"""Equilibrium propagation: its phases against closed forms, its gradients against those of the loss at the free fixed
point, and training."""

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

import mupc
from mupc import nodes
from mupc.inference import Batch
from mupc.learning import LearningContext
from mupc.network import POLICIES

DEPTH, WIDTH, IN, OUT, ROWS = 3, 5, 4, 2, 3
X, Y = jr.normal(jr.key(1), (ROWS, IN)), jr.normal(jr.key(2), (ROWS, OUT))
EXACT = POLICIES["float64"]
BETAS = (0.08, 0.04, 0.02, 0.01)
PHI = {"linear": lambda z: z, "tanh": jnp.tanh}


def make(activation, **options):
    """A network whose energy has one minimum: its matrices are small."""
    network = mupc.Network(IN, OUT, WIDTH, DEPTH, activation=activation, skip=0, use_bias=True, parameterisation="sp",
                           multipliers=(1.0, 0.5, 0.6), key=jr.key(0), **options)  # fmt: skip
    biases = [0.3 * jr.normal(jr.key(9 + i), layer.bias.shape) for i, (layer, _) in enumerate(network.weight_stacks)]
    return eqx.tree_at(lambda n: (n.input.bias, n.hidden.bias, n.readout.bias), network, biases)


def converged(**options):
    return mupc.EquilibriumPropagation(**{"lr": 0.4, "steps": 800, "nudge_steps": 800} | options)


def context(**options):
    settings = {"energy": mupc.Energy(), "weight_lr": jnp.asarray(0.1), "optimiser": "sgd", "schedule": "constant"}
    return LearningContext(**settings | options, total_steps=jnp.asarray(9), precision="float64")


@eqx.filter_jit
def found(algorithm, network):
    free = algorithm.relaxation.settle(network, X, EXACT)
    return free, algorithm.gradients(network, Batch(X, Y), free, context())


@eqx.filter_jit
def phases(algorithm, network, nudge):
    free = algorithm.relaxation.settle(network, X, EXACT)
    return free, algorithm.nudged(network, Batch(X, Y), free, nudge, context())


def layers_of(network):
    """(a, W, b) of every layer."""
    first, inner, last = network.multipliers
    hidden = [(inner, w, b) for w, b in zip(network.hidden.weight, network.hidden.bias, strict=True)]
    return [(first, network.input.weight, network.input.bias), *hidden, (last, network.readout.weight,
            network.readout.bias)]  # fmt: skip


def own_energy(network, flat, x, activation):
    """One sample's free energy, written out layer by layer; `flat` has the states of all layers in a row."""
    total, below = 0.0, x
    for number, (a, w, b) in enumerate(layers_of(network)):
        z, flat = flat[: len(w)], flat[len(w) :]
        total += z @ z / 2 - z @ (a * w @ (PHI[activation](below) if number else below) + b)
        below = z
    return total


def flattened(states):
    return jnp.concatenate([*states.hidden, states.output], axis=1)


@eqx.filter_jit
def loss_gradient(network, rows, activation):
    """The gradient of the loss at these fixed points, by the implicit function theorem. It is not a number at points
    that are not fixed."""
    size = rows.shape[1]

    def one(z, x, y):
        slope = lambda n, at: jax.grad(own_energy, 1)(n, at, x, activation)  # noqa: E731
        fixed = jnp.max(jnp.abs(slope(network, z))) < 1e-12
        pull = jnp.zeros(size).at[-OUT:].set(jnp.where(fixed, z[-OUT:] - y, jnp.nan))
        adjoint = jnp.linalg.solve(jax.jacobian(slope, 1)(network, z), pull)
        return jax.vjp(lambda n: slope(n, z), network)[1](-adjoint)[0]

    return jax.tree.map(lambda g: jnp.mean(g, axis=0), jax.vmap(one)(rows, X, Y))


def distance(one, other):
    difference, size = (
        np.sqrt(sum(float(jnp.sum(leaf**2)) for leaf in jax.tree.leaves(tree)))
        for tree in (jax.tree.map(jnp.subtract, one, other), other)
    )
    return difference / size


def test_phases_end_at_the_closed_form():
    network = make("linear")
    assert np.linalg.eigvalsh(mupc.theory.ep_hessian(network))[0] > 0.1
    for states, nudge in zip(phases(converged(), network, 0.3), (0.0, 0.3), strict=True):
        for got, wanted in zip(states, mupc.theory.ep_solution(network, X, Y, nudge=nudge), strict=True):
            np.testing.assert_allclose(got, wanted, atol=1e-12)


def test_the_gradient_of_a_linear_network_is_that_of_its_closed_form():
    """By autodiff through a dense solve for the free fixed point; so is the reference for other networks."""
    network = make("linear")

    def loss(network):
        def one(x, y):
            zero = jnp.zeros(DEPTH * WIDTH + OUT)
            slope, hessian = (d(lambda z: own_energy(network, z, x, "linear"))(zero) for d in (jax.grad, jax.hessian))
            return jnp.sum((y + jnp.linalg.solve(hessian, slope)[-OUT:]) ** 2) / 2

        return jnp.mean(jax.vmap(one)(X, Y))

    wanted = jax.jit(jax.grad(loss))(network)
    free, gradients = found(converged(beta=1e-3), network)
    assert distance(gradients, wanted) < 1e-5
    assert distance(loss_gradient(network, flattened(free), "linear"), wanted) < 1e-10


@pytest.mark.parametrize("activation", ["linear", "tanh"])
@pytest.mark.parametrize(("sign", "order", "margin"), [("positive", 1, 0.1), ("negative", 1, 0.1), ("centred", 2, 0.2)])
def test_the_error_falls_with_the_nudge(activation, sign, order, margin):
    network = make(activation)
    found_at = [found(converged(beta=jnp.asarray(beta), sign=sign), network) for beta in BETAS]
    wanted = loss_gradient(network, flattened(found_at[0][0]), activation)
    errors = [distance(gradients, wanted) for _, gradients in found_at]
    slope = np.polyfit(np.log(BETAS), np.log(errors), 1)[0]
    assert abs(slope - order) < margin and errors[-1] < (0.01 if order == 2 else 0.1)


def test_weights_learn_from_the_states_on_their_two_sides():
    """In plain numpy, and with weight decay, which the optimiser's step includes."""
    network, algorithm = make("tanh"), mupc.EquilibriumPropagation(steps=20, nudge_steps=5, beta=0.2, sign="positive")
    free, nudged = phases(algorithm, network, 0.2)
    decayed = context(energy=mupc.Energy(weight_decay=0.01))
    update = eqx.filter_jit(algorithm.update)
    state, report = update(algorithm.init(network, decayed), Batch(X, Y), jr.key(0), decayed)
    for number, (a, old, _) in enumerate(layers_of(network)):
        products = []
        for states in (nudged, free):
            z = [np.asarray(X), *np.tanh(np.asarray(states.hidden))]
            own = [*np.asarray(states.hidden), np.asarray(states.output)]
            products.append(-a * own[number].T @ z[number] / ROWS)
        wanted = old - 0.1 * ((products[0] - products[1]) / 0.2 + 0.01 * old)
        np.testing.assert_allclose(layers_of(state.network)[number][1], wanted, atol=1e-12)
    np.testing.assert_allclose(report.loss, np.mean(np.sum((Y - free.output) ** 2, 1)) / 2)
    energies = [own_energy(network, z, x, "tanh") for z, x in zip(flattened(free), X, strict=True)]
    np.testing.assert_allclose(report.energy, np.mean(energies))
    assert int(state.step) == 1


def test_a_chain_learns_as_the_network_does():
    network = make("tanh")
    options = {"parameterisation": "sp", "use_bias": True, "key": jr.key(0)}
    first, inner, last = network.multipliers
    scaled = lambda a, into, out: [_Scaled(a, nodes.Linear(into, out, role="hidden", **options))]  # noqa: E731
    chain = mupc.Chain(
        [
            nodes.Sequential(scaled(first, IN, WIDTH)),
            mupc.Stack(lambda key: nodes.Sequential(["tanh", *scaled(inner, WIDTH, WIDTH)]), DEPTH - 1, key=jr.key(0)),
            nodes.Sequential(["tanh", *scaled(last, WIDTH, OUT)]),
        ],
        input_shape=(IN,),
    )
    chain = jax.tree.unflatten(jax.tree.structure(chain), jax.tree.leaves(network))
    algorithm = mupc.EquilibriumPropagation(beta=0.2)
    free, wanted = found(algorithm, network)
    states, gradients = found(algorithm, chain)
    np.testing.assert_allclose(jnp.concatenate(states.hidden), free.hidden, atol=1e-12)
    for got, want in zip(jax.tree.leaves(gradients), jax.tree.leaves(wanted), strict=True):
        np.testing.assert_allclose(got, want, atol=1e-11)


class _Scaled(eqx.Module):
    """A linear node whose matrix has a multiplier, as in the MLP."""

    factor: float = eqx.field(static=True)
    node: eqx.Module

    def __call__(self, z):
        return self.factor * self.node.weight @ z + self.node.bias


@pytest.fixture(scope="module")
def digits():
    return mupc.data.load("digits")


@pytest.fixture(scope="module")
def small():
    return mupc.Network(64, 10, width=8, hidden_layers=2, activation="tanh", skip=0, key=jr.key(0))


ALGORITHM = mupc.EquilibriumPropagation(steps=10, nudge_steps=4)
OPTIONS = {"epochs": 0.5, "evaluate_every": 5}


@pytest.fixture(scope="module")
def whole(small, digits):
    return mupc.fit(small, digits, ALGORITHM, **OPTIONS)


def test_models_predict_as_training_evaluated(whole, digits, tmp_path):
    mupc.save(tmp_path / "model.safetensors", whole.model)
    for model in (whole.model, mupc.load(tmp_path / "model.safetensors")):
        scores = model.evaluate(digits.test.raw, digits.test.targets)
        assert scores["accuracy"] == pytest.approx(whole.last["test_accuracy"])
        assert scores["loss"] == pytest.approx(whole.last["test_loss"], rel=1e-5)
    forward = dataclasses.replace(whole.model, relaxation=None).evaluate(digits.test.raw, digits.test.targets)
    assert abs(forward["loss"] - whole.last["test_loss"]) > 1e-3 * whole.last["test_loss"]


def test_a_run_goes_on_where_it_was(small, digits, whole, tmp_path):
    options = {**OPTIONS, "checkpoints": tmp_path / "checkpoints"}
    assert mupc.fit(small, digits, ALGORITHM, callbacks=[lambda s: s.record["step"] == 5], **options).stopped
    again = mupc.fit(small, digits, ALGORITHM, **options)
    for one, other in zip(jax.tree.leaves(again.network), jax.tree.leaves(whole.network), strict=True):
        np.testing.assert_array_equal(one, other)


def test_many_runs_at_once(small, digits, whole):
    other = dataclasses.replace(ALGORITHM, lr=0.1, beta=0.2)
    results = mupc.fit_many([mupc.Run(small, algorithm) for algorithm in (ALGORITHM, other)], digits, **OPTIONS)
    for one, two in zip(jax.tree.leaves(results[0].network), jax.tree.leaves(whole.network), strict=True):
        np.testing.assert_allclose(one, two, rtol=1e-4, atol=1e-6)
    assert [result.model.relaxation.lr for result in results] == pytest.approx([0.2, 0.1])
    scores = results[1].model.evaluate(digits.test.raw, digits.test.targets)
    assert scores["loss"] == pytest.approx(results[1].last["test_loss"], rel=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("hidden_layers", [1, 2])
def test_the_defaults_learn_digits(digits, hidden_layers):
    network = mupc.Network(64, 10, width=64, hidden_layers=hidden_layers, activation="tanh", skip=0, key=jr.key(0))
    result = mupc.fit(network, digits, mupc.EquilibriumPropagation(), epochs=5)
    assert result.last["test_accuracy"] > 0.93


SKIPS = "and with skip connections the energy of equilibrium propagation has no minimum."


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda n, d: mupc.EquilibriumPropagation(beta=0.0), "beta must be greater than 0, got 0."),
        (lambda n, d: mupc.EquilibriumPropagation(beta=1.5), "beta must be below 1, got 1.5."),
        (
            lambda n, d: mupc.EquilibriumPropagation(sign="centered"),
            "sign 'centered' is not known. Did you mean 'centred'? Choose one of: centred, positive, negative.",
        ),
        (lambda n, d: mupc.EquilibriumPropagation(lr=0.0), "lr must be greater than 0, got 0."),
        (lambda n, d: mupc.EquilibriumPropagation(steps=-1), "steps must be at least 0, got -1."),
        (lambda n, d: mupc.EquilibriumPropagation(nudge_steps=0), "nudge_steps must be at least 1, got 0."),
        (
            lambda n, d: mupc.fit(n, d, ALGORITHM, unsupervised=True),
            "unsupervised training needs inference of inputs, which equilibrium propagation does not do. Use mupc.PC "
            "with a solver.",
        ),
        (
            lambda n, d: mupc.fit(n, d, ALGORITHM, energy=mupc.Energy(activity_decay=0.1)),
            "activity_decay=0.1, but equilibrium propagation has an energy of its own. Set it to 0.",
        ),
        (
            lambda n, d: mupc.fit(n, d, ALGORITHM, energy=mupc.Energy(output_precision=0.1)),
            "output_precision=0.1, but equilibrium propagation has an energy of its own, where beta weighs the loss. "
            "Leave it out.",
        ),
        (lambda n, d: mupc.fit(mupc.Network(64, 10, 8, 2, key=jr.key(0)), d, ALGORITHM), f"skip=1, {SKIPS} Use 0."),
        (
            lambda n, d: mupc.fit(
                mupc.models.resnet((1, 8, 8), 10, width=4, blocks=(1, 1), key=jr.key(0)), d, ALGORITHM
            ),
            f"the network has residual nodes, {SKIPS} Use a chain without them.",
        ),
    ],
)
def test_mistakes(call, message, small, digits, as_users_see_it):
    with pytest.raises(ValueError) as caught:
        call(small, digits)
    assert str(caught.value) == message


def test_a_positive_nudge_may_be_large_and_one_hidden_layer_has_no_skip(digits):
    mupc.EquilibriumPropagation(beta=1.5, sign="positive")
    network = mupc.Network(64, 10, 8, 1, key=jr.key(0))
    assert network.skip == 1
    ALGORITHM.init(network, context())
