"""`Model`: its predictions against numpy and scikit-learn, on inputs as users have them, and what it refuses."""

import pickle

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
from compiled import compilations
from sklearn import metrics

import mupc
from mupc.data import Normalisation, Schema

RNG = np.random.default_rng(0)
MEAN, STD = RNG.normal(size=5), RNG.uniform(1, 3, 5)
X = (RNG.normal(size=(40, 5)) * STD + MEAN).astype(np.float32)
LABELS = ("ash", "oak", "yew")


def make(out_size=3, dtype="float32", width=4):
    network = mupc.Network(5, out_size, width, hidden_layers=3, key=jr.key(1))
    return jax.tree.map(lambda leaf: (3 * leaf).astype(dtype), network)


def classifier(loss="cross-entropy", network=None, **options):
    schema = Schema(Normalisation(mean=MEAN, std=STD), labels=LABELS, **options)
    return mupc.Model(make() if network is None else network, schema, loss)


def regressor(target_scale=None, out_size=2):
    return mupc.Model(make(out_size), Schema(Normalisation(mean=MEAN, std=STD), target_scale=target_scale))


def expected(network, x):
    """Layer by layer in float64 numpy: another path than the library's."""
    first, hidden, last = network.multipliers
    z = first * ((np.asarray(x, np.float64) - MEAN) / STD) @ np.asarray(network.input.weight, np.float64).T
    for weight in np.asarray(network.hidden.weight, np.float64):
        z = z + hidden * np.maximum(z, 0) @ weight.T
    return last * np.maximum(z, 0) @ np.asarray(network.readout.weight, np.float64).T


def test_classes_and_probabilities():
    model = classifier()
    outputs = expected(model.network, X)
    assert model.predict(X).tolist() == [LABELS[index] for index in outputs.argmax(axis=1)]
    assert len(set(model.predict(X))) > 1
    powers = np.exp(outputs)
    np.testing.assert_allclose(model.predict_proba(X), powers / powers.sum(axis=1, keepdims=True), rtol=1e-4)


@pytest.mark.parametrize("loss", ["mse", "cross-entropy"])
def test_evaluation_of_a_classifier(loss):
    model, truth = classifier(loss), RNG.integers(0, 3, 40)
    outputs = expected(model.network, X)
    squares = np.sum((outputs - np.eye(3)[truth]) ** 2, axis=1).mean() / 2
    powers = np.exp(outputs)
    entropy = metrics.log_loss(truth, powers / powers.sum(axis=1, keepdims=True))
    found = model.evaluate(X, [LABELS[index] for index in truth])
    assert found == {
        "accuracy": metrics.accuracy_score(truth, outputs.argmax(axis=1)),
        "loss": pytest.approx({"mse": squares, "cross-entropy": entropy}[loss], rel=1e-4),
    }


@pytest.mark.parametrize("scale", [None, Normalisation(mean=np.array([500.0, -3.0]), std=np.array([20.0, 0.1]))])
def test_a_regression_is_in_the_users_units(scale):
    model = regressor(scale)
    mean, std = (0, 1) if scale is None else (scale.mean, scale.std)
    outputs = expected(model.network, X) * std + mean
    np.testing.assert_allclose(model.predict(X), outputs, rtol=1e-4, atol=1e-5)
    truth = outputs + RNG.normal(size=outputs.shape) * std
    found = model.evaluate(X, truth)
    assert found == pytest.approx(
        {
            "r2": metrics.r2_score(truth, outputs),
            "mae": metrics.mean_absolute_error(truth, outputs),
            "rmse": metrics.mean_squared_error(truth, outputs) ** 0.5,
            "loss": np.sum(((truth - outputs) / std) ** 2, axis=1).mean() / 2,
        },
        rel=1e-3,
    )


def test_one_value_a_sample_comes_back_as_one():
    model = regressor(Normalisation(mean=10.0, std=2.0), out_size=1)
    found = model.predict(X)
    np.testing.assert_allclose(found, expected(model.network, X)[:, 0] * 2 + 10, rtol=1e-4)
    assert found.shape == (40,) and model.evaluate(X, found)["r2"] == pytest.approx(1)


def test_constant_targets_have_no_r2():
    found = regressor(out_size=1).evaluate(X, np.ones(40))
    assert np.isnan(found.pop("r2")) and np.isfinite(list(found.values())).all()


def test_any_number_of_rows_gives_the_same_numbers_from_two_programs():
    model, many = classifier(network=make(width=7)), np.tile(X, (15, 1))  # no other test has this width
    with compilations("_predicted") as programs:
        whole = model.outputs(many)
        for count in (1, 2, 15, 16, 17, 255, 256, 257, 600):
            np.testing.assert_array_equal(model.outputs(many[:count]), whole[:count])
        mupc.Model(jax.tree.map(jnp.negative, model.network), Schema()).outputs(X)
    assert len(programs) == 2
    np.testing.assert_allclose(whole, expected(model.network, many), rtol=1e-4, atol=1e-5)


def test_float64_weights_need_no_switch():
    model = classifier(network=make(dtype="float64"))
    with jax.enable_x64(False):
        found = model.predict_proba(X)
        model.evaluate(X, ["oak"] * 40)
    assert found.dtype == np.float64
    powers = np.exp(expected(model.network, X))
    np.testing.assert_allclose(found, powers / powers.sum(axis=1, keepdims=True), rtol=1e-5)  # inputs are float32


def test_inputs_as_people_have_them():
    pandas = pytest.importorskip("pandas")
    model = classifier()
    answers = model.predict(X).tolist()
    assert model.predict(X.tolist()).tolist() == answers
    assert model.predict(jnp.asarray(X)).tolist() == answers
    assert model.predict(pandas.DataFrame(X)).tolist() == answers
    assert model.evaluate(X, pandas.Series(answers))["accuracy"] == 1


@pytest.mark.parametrize(
    ("act", "message"),
    [
        (lambda model: model.predict(X[:, :4]), "samples of 4 .* 5"),
        (lambda model: model.predict(np.where(X > 0, np.nan, X)), "not finite"),
        (lambda model: model.predict([["a", "b", "c", "d", "e"]]), "x "),
        (lambda model: model.predict(X[0]), "x "),
        (lambda model: model.evaluate(X, ["elm"] * 40), "'elm'"),
        (lambda model: model.evaluate(X, ["oak"] * 39), r"targets of shape \(39, 3\), .* one target per sample"),
        (lambda model: classifier("mse").predict_proba(X), "loss is 'mse', .* Train with .*cross-entropy"),
        (lambda model: regressor().predict_proba(X), "loss is 'mse'"),
        (lambda model: regressor().evaluate(X, np.ones((40, 3))), r"targets of shape \(40, 3\)"),
        (lambda model: mupc.Model(make(2), model.schema), "3 outputs"),
        (lambda model: mupc.Model(make(), Schema(Normalisation(mean=np.zeros(6)))), "6 inputs"),
        (lambda model: mupc.Model(make(), Schema(target_scale=Normalisation(mean=np.zeros(2)))), "2 outputs"),
        (lambda model: mupc.Model(make(), model.schema, "mae"), "'mae' is not known"),
        (lambda model: mupc.Model("network"), "network"),
    ],
)
def test_what_is_refused(act, message):
    with pytest.raises((ValueError, TypeError), match=message) as caught:
        act(classifier())
    assert "\n" not in str(caught.value)


def test_models_are_trees_and_pickle():
    model = classifier()
    double = jax.tree.map(lambda leaf: 2 * leaf, model)
    assert double.schema is model.schema
    back = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(back.predict_proba(X), model.predict_proba(X))
    assert back.predict(X).tolist() == model.predict(X).tolist()
    solution = mupc.infer(model.network, X, np.eye(3)[RNG.integers(0, 3, 40)], mupc.ErrorSpace())
    again = pickle.loads(pickle.dumps(solution))
    assert jax.tree.all(jax.tree.map(np.array_equal, again, solution)) and again.result == solution.result


def test_the_model_of_a_training_run():
    x = np.concatenate([X + 30, X])  # without normalisation all rows look alike
    y = np.repeat([7, 3], 40)
    data = mupc.data.from_arrays(x, y, test=0.25)
    network = mupc.Network(5, 2, width=4, hidden_layers=3, key=jr.key(0))
    result = mupc.fit(network, data, mupc.BP(), epochs=20, batch_size=10)
    model = pickle.loads(pickle.dumps(result)).model
    assert set(model.predict(x)) == {3, 7} and model.evaluate(x, y)["accuracy"] > 0.9
    held_out = model.evaluate(data.test.raw, np.array(data.schema.labels)[data.test.targets])
    assert held_out["accuracy"] == pytest.approx(result.last["test_accuracy"])
    assert held_out["loss"] == pytest.approx(result.last["test_loss"], rel=1e-5)


def test_an_unsupervised_run_predicts_nothing():
    data = mupc.data.from_arrays(X, np.repeat([7, 3], 20))
    network = mupc.Network(2, 5, width=4, hidden_layers=3, key=jr.key(0))
    result = mupc.fit(network, data, mupc.ErrorSpace(), batch_size=10, unsupervised=True)
    with pytest.raises(ValueError, match="generates samples .* predicts nothing"):
        result.model.predict(X)
