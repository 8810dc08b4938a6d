"""Conditioning over training, against numpy's eigenvalues of the dense Hessian at the same activities."""

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
from chains import chain_of

import mupc
from mupc.network import POLICIES

NAMES = {"largest", "smallest", "condition_number", "definite"}
RNG = np.random.default_rng(0)
X, Y = RNG.standard_normal(6), RNG.standard_normal(3)
DECAYED = mupc.Energy(activity_decay=0.1, output_precision=0.5)
SOLVER = mupc.GradientDescent(lr=0.2, steps=5)


def make(activation="tanh"):
    return mupc.Network(6, 3, 5, 4, activation=activation, key=jr.key(0))


def stepped(network):
    """After one step of learning from a batch."""
    x, y = jnp.asarray(np.tile(X, (2, 1))), jnp.asarray(np.tile(Y, (2, 1)))
    gradients = mupc.weight_gradients(network, mupc.infer(network, x, y, SOLVER), x)
    return jax.tree.map(lambda weight, slope: weight - 5 * slope, network, gradients)


def eigenvalues(network, activities, energy=None):
    return np.linalg.eigvalsh(mupc.theory.activity_hessian(network, X, Y, activities, energy=energy))


@pytest.mark.parametrize("solver", [None, SOLVER])
@pytest.mark.parametrize("energy", [None, DECAYED])
@pytest.mark.parametrize("options", [{"method": "dense"}, {}, {"spectrum": True}])
def test_values_before_and_after_a_step(solver, energy, options):
    recorder = mupc.Conditioning(X, Y, energy=energy, solver=solver, **options)
    seen = []
    for network in (make(), stepped(make())):
        x, y = jnp.asarray(X[None]), jnp.asarray(Y[None])
        there = mupc.forward(network, x)[0]
        if solver is not None:
            there = mupc.infer(network, x, y, solver, energy=energy).activities
        values = eigenvalues(network, there, energy)
        found = recorder(network)
        assert found["largest"] == pytest.approx(values[-1], rel=1e-6)
        assert found["smallest"] == pytest.approx(values[0], rel=1e-6)
        assert found["condition_number"] == pytest.approx(values[-1] / values[0], rel=1e-6)
        assert found["definite"] == "positive definite"
        if "spectrum" in options:
            assert isinstance(found["eigenvalues"], list)
            np.testing.assert_allclose(found["eigenvalues"], values, rtol=1e-9)
        assert set(found) == NAMES | ({"eigenvalues"} if "spectrum" in options else set())
        seen.append(found["condition_number"])
    assert abs(seen[0] / seen[1] - 1) > 1e-3  # the step is not without effect


def test_an_indefinite_hessian():
    """A large target bends tanh the other way round; κ is then undefined."""
    far = np.array([1e3, -1e3, 1e3])
    found = mupc.Conditioning(X, far)(make())
    there = mupc.forward(make(), X[None])[0]
    values = np.linalg.eigvalsh(mupc.theory.activity_hessian(make(), X, far, there))
    assert values[0] < 0 < values[-1]
    assert found["smallest"] == pytest.approx(values[0], rel=1e-6)
    assert found["definite"] == "indefinite" and np.isnan(found["condition_number"])


def test_linear_networks_need_no_particular_sample():
    network = make("linear")
    found = mupc.Conditioning(X, Y)(network)
    assert found == mupc.Conditioning(-X, 0 * Y, solver=SOLVER)(network)
    assert found["largest"] == pytest.approx(eigenvalues(network, None)[-1], rel=1e-9)


def test_targets_as_labels_and_whole_numbers():
    one_hot = mupc.Conditioning(X, np.array([0, 0, 1]))(make())
    assert mupc.Conditioning(X, 2)(make()) == one_hot
    assert mupc.Conditioning(X, np.array([0.0, 0.0, 1.0]))(make()) == one_hot


@pytest.mark.slow
def test_history_of_fit():
    digits = mupc.data.load("digits")
    network = mupc.Network(digits.in_size, digits.out_size, width=5, hidden_layers=2, key=jr.key(0))
    recorder = mupc.Conditioning(digits.x_train[0], digits.y_train[0], spectrum=True)
    options = {"epochs": 0.5, "evaluate_every": 5, "batch_size": 64, "weight_lr": 0.1}
    result = mupc.fit(network, digits, SOLVER, **options, metrics={"conditioning": recorder})
    taken = [record["conditioning"] for record in result.history]
    assert [record["step"] for record in result.history] == [0, 5, 10, 11]
    assert taken[0] == recorder(network) and taken[-1] == recorder(result.network)
    there = mupc.forward(result.network, digits.x_train[:1])[0]
    hessian = mupc.theory.activity_hessian(result.network, digits.x_train[0], digits.y_train[0], there)
    np.testing.assert_allclose(taken[-1]["eigenvalues"], np.linalg.eigvalsh(hessian), rtol=1e-6)


@pytest.mark.parametrize("solver", [None, SOLVER])
def test_a_network_that_is_not_finite(solver):
    broken = eqx.tree_at(lambda n: n.readout.weight, make(), jnp.full((3, 5), jnp.nan))
    assert mupc.Conditioning(X, Y, solver=solver)(broken) == dict.fromkeys(NAMES)
    assert mupc.Conditioning(X, Y, solver=solver, spectrum=True)(broken) == dict.fromkeys(NAMES | {"eigenvalues"})


def test_inference_that_diverges():
    wild = mupc.GradientDescent(lr=1e300, steps=5)
    assert mupc.Conditioning(X, Y, solver=wild)(make()) == dict.fromkeys(NAMES)


@pytest.mark.parametrize(
    ("arguments", "options", "message"),
    [
        ((X[None], Y), {}, r"x must have shape \(in_size,\), got \(1, 6\). Pass one sample"),
        ((X, Y[None]), {}, r"y must have shape \(3,\), got \(1, 3\). Pass the target of one sample"),
        ((X, Y), {"method": "dens"}, "Did you mean 'dense'"),
    ],
)
def test_bad_input(arguments, options, message):
    with pytest.raises(ValueError, match=message):
        mupc.Conditioning(*arguments, **options)(make())


def test_a_sample_of_another_network():
    with pytest.raises(ValueError, match=r"x must have shape \(batch, 6\), got \(1, 7\)"):
        mupc.Conditioning(np.ones(7), Y)(make())


@pytest.mark.parametrize("solver", [None, SOLVER])
def test_a_chain(solver):
    """Against the dense Gauss–Newton Hessian, from a Jacobian of all errors and the output."""
    network = make()
    chain = chain_of(network)
    x, y = jnp.asarray(X[None]), jnp.asarray(Y[None])
    there = mupc.forward(network, x)[0]
    if solver is not None:
        there = mupc.infer(network, x, y, solver, energy=DECAYED).activities

    def errors(z):
        e, output = network.prediction_errors(z.reshape(4, 1, 5), x, POLICIES["float64"])
        return jnp.concatenate([e.ravel(), output.ravel() * DECAYED.output_precision**0.5])

    jacobian = np.asarray(jax.jacobian(errors)(there.ravel()))
    values = np.linalg.eigvalsh(jacobian.T @ jacobian) + DECAYED.activity_decay
    found = mupc.Conditioning(X, Y, energy=DECAYED, solver=solver)(chain)
    assert found["largest"] == pytest.approx(values[-1], rel=1e-4)
    assert found["smallest"] == pytest.approx(values[0], rel=1e-4)
    assert found["condition_number"] == pytest.approx(values[-1] / values[0], rel=1e-4)
    assert found["definite"] == "positive definite"
    broken = jax.tree.map(lambda weight: weight * jnp.nan, chain)
    assert mupc.Conditioning(X, Y)(broken) == dict.fromkeys(NAMES)


@pytest.mark.parametrize("options", [{"method": "dense"}, {"spectrum": True}])
def test_a_chain_has_no_matrix(options):
    with pytest.raises(ValueError, match=r"needs mupc.Network, and got a Chain\. Leave it out"):
        mupc.Conditioning(X, Y, **options)(chain_of(make()))


def test_images_and_texts():
    image = mupc.models.resnet((1, 4, 4), out_size=3, width=2, blocks=(1,), key=jr.key(0))
    x = RNG.standard_normal((1, 4, 4))
    assert mupc.Conditioning(x, 1)(image) == mupc.Conditioning(x.ravel(), np.eye(3)[1])(image)
    text = mupc.models.transformer(5, context=3, width=4, blocks=1, heads=2, key=jr.key(0))
    tokens, following = np.array([0, 4, 1]), np.array([4, 1, 2])
    assert mupc.Conditioning(tokens, following)(text) == mupc.Conditioning(tokens, np.eye(5)[following])(text)
