"""scikit-learn estimators: what they learn, what they keep, bad input, and scikit-learn's own checks."""

import pickle
import re
import textwrap
import warnings

import jax
import numpy as np
import pandas as pd
import pytest
from compiled import compilations
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_iris
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import check_estimator

import mupc
from mupc import estimators
from mupc.cli.flags import ACTIVITY_LR
from mupc.estimators import PCClassifier, PCRegressor

SMALL = {"hidden_layers": 2, "width": 16, "epochs": 8, "batch_size": 16, "weight_lr": 0.05, "random_state": 0}
FEATURES, SAMPLES = 4, 60
NAMES = np.array(["ant", "bee", "cat"])


@pytest.fixture(scope="module")
def blobs():
    """Three groups of samples far from each other, with the names of their groups."""
    rng = np.random.default_rng(0)
    groups = rng.integers(0, 3, SAMPLES)
    centres = np.array([[0, 0, 0, 0], [50, 0, 0.1, 0], [0, 50, 0, 0.1]])
    return centres[groups] + rng.normal(size=(SAMPLES, FEATURES)) * [5, 5, 0.01, 0.01], NAMES[groups]


@pytest.fixture(scope="module")
def values():
    """Samples, and one value each, which is far from zero and has a small spread."""
    rng = np.random.default_rng(1)
    X = rng.normal(size=(SAMPLES, FEATURES))
    return X, 1000 + 3 * X[:, 0] - 2 * X[:, 1]


@pytest.fixture(scope="module")
def classifier(blobs):
    return PCClassifier(**SMALL).fit(*blobs)


def by_hand(network, x):
    """Return the outputs of a network, in numpy: equation 1 with biases."""
    first, hidden, last = network.multipliers
    weights = jax.tree.map(np.asarray, (network.input, network.hidden, network.readout))
    z = first * x @ weights[0].weight.T + weights[0].bias
    for weight, bias in zip(weights[1].weight, weights[1].bias, strict=True):
        z = z + hidden * np.maximum(z, 0) @ weight.T + bias
    return last * np.maximum(z, 0) @ weights[2].weight.T + weights[2].bias


def test_classifier_learns_names(blobs, classifier):
    X, y = blobs
    assert list(classifier.classes_) == list(NAMES)
    assert classifier.score(X, y) > 0.95
    assert set(classifier.predict(X)) == set(NAMES)


def test_probabilities_are_the_softmax_of_the_standardised_network(blobs, classifier):
    X, _ = blobs
    outputs = by_hand(classifier.model_.network, (X - X.mean(0)) / X.std(0))
    powers = np.exp(outputs)
    np.testing.assert_allclose(classifier.predict_proba(X), powers / powers.sum(1, keepdims=True), atol=1e-5)


def test_classifier_minimises_cross_entropy(blobs, classifier):
    X, y = blobs
    right = classifier.predict_proba(X)[np.arange(SAMPLES), np.searchsorted(NAMES, y)]
    assert classifier.model_.evaluate(X, y)["loss"] == pytest.approx(-np.log(right).mean(), rel=1e-4)
    assert classifier.loss_curve_[0] == pytest.approx(np.log(3), rel=0.5)
    assert classifier.loss_curve_[-1] < classifier.loss_curve_[0] / 2


def test_regressor_predicts_in_units_of_the_targets(values):
    X, y = values
    model = PCRegressor(**SMALL | {"epochs": 30}).fit(X, y)
    assert model.predict(X).shape == (SAMPLES,)
    assert np.abs(model.predict(X) - y).mean() < 0.2 * y.std()
    by_network = by_hand(model.model_.network, (X - X.mean(0)) / X.std(0))[:, 0] * y.std() + y.mean()
    np.testing.assert_allclose(model.predict(X), by_network, rtol=1e-5)


def test_regressor_of_several_values(values):
    X, y = values
    both = np.stack([y, -1e-3 * y], axis=1)
    predicted = PCRegressor(**SMALL | {"epochs": 30}).fit(X, both).predict(X)
    assert predicted.shape == both.shape
    assert (np.abs(predicted - both).mean(0) < 0.3 * both.std(0)).all()
    assert PCRegressor(**SMALL).fit(X, y[:, None]).predict(X).shape == (SAMPLES, 1)


def test_rates_are_scaled_by_default(blobs, classifier):
    as_given, scaled = (
        PCClassifier(**SMALL, rate_scaling=choice).fit(*blobs).predict_proba(blobs[0]) for choice in ("none", "mup")
    )
    assert (scaled == classifier.predict_proba(blobs[0])).all()
    assert np.abs(as_given - scaled).max() > 1e-3  # hidden weights are 1.7 times as fast as given


def test_the_default_rate_is_for_small_tables(blobs):
    default, given = (PCClassifier(**SMALL | {"weight_lr": rate}).fit(*blobs).loss_curve_ for rate in (None, 0.01))
    assert default == given


def test_units_of_the_inputs_do_not_matter(blobs, classifier):
    X, y = blobs
    scaled = PCClassifier(**SMALL).fit(X * 1000 - 7, y).predict_proba(X * 1000 - 7)
    np.testing.assert_allclose(scaled, classifier.predict_proba(X), atol=1e-3)
    piped = make_pipeline(StandardScaler(), PCClassifier(**SMALL)).fit(X, y)
    np.testing.assert_allclose(piped.predict_proba(X), classifier.predict_proba(X), atol=1e-3)


def test_lists_and_float32_are_as_good(blobs, classifier):
    X, y = blobs
    again = PCClassifier(**SMALL).fit(X.tolist(), y.tolist())
    assert (again.predict_proba(X.astype(np.float32)) == classifier.predict_proba(X)).all()
    whole = np.round(X).astype(np.uint8)  # numbers as any other, no pixels
    same = [PCClassifier(**SMALL).fit(samples, y).predict_proba(samples) for samples in (whole, whole.astype(float))]
    assert (same[0] == same[1]).all()


def test_data_frames(blobs, classifier):
    X, y = blobs
    frame = pd.DataFrame(X, columns=list("abcd"))
    pipeline = make_pipeline(StandardScaler(), PCClassifier(**SMALL)).set_output(transform="pandas")
    model = pipeline.fit(frame, pd.Series(y).astype("category"))[-1]
    assert list(model.feature_names_in_) == list("abcd")
    assert (pipeline.predict(frame) == classifier.predict(X)).all()
    with pytest.raises(ValueError, match="Feature names must be in the same order"):
        model.predict(frame[list("dcba")])


@pytest.mark.parametrize("method", ["fit", "partial_fit"])
def test_the_model_of_a_data_frame_finds_its_columns_by_name(blobs, method):
    X, y = blobs
    frame = pd.DataFrame(X, columns=list("abcd"))
    classifier = PCClassifier(**SMALL)
    getattr(classifier, method)(frame, y, **({"classes": NAMES} if method == "partial_fit" else {}))
    regressor = getattr(PCRegressor(**SMALL), method)(frame, X[:, 0])
    for estimator in (classifier, regressor):
        expected = estimator.predict(frame)
        turned = frame[list("dcba")].assign(e=0)
        assert (estimator.model_.predict(turned) == expected).all()
        assert (estimator.model_.predict(X) == expected).all()
        with pytest.raises(ValueError, match="the table has no column 'b'"):
            estimator.model_.predict(frame.drop(columns="b"))


def test_random_state(blobs, classifier):
    X, y = blobs
    same = PCClassifier(**SMALL).fit(X, y)
    assert (same.predict_proba(X) == classifier.predict_proba(X)).all()
    state = np.random.RandomState(0)
    first, second, unseeded = (
        PCClassifier(**SMALL | {"random_state": chosen}).fit(X, y).predict_proba(X) for chosen in (state, state, None)
    )
    assert (first == classifier.predict_proba(X)).all()
    assert (first != second).any()
    assert (first != unseeded).any()


def test_last_batches_are_filled(values, monkeypatch):
    """60 samples are three batches of 16 and one of 12; five are less than a batch."""
    X, y = values
    results = []
    monkeypatch.setattr(
        estimators, "fit", lambda *args, **settings: results.append(mupc.fit(*args, **settings)) or results[-1]
    )
    models = [PCRegressor(**SMALL).fit(X[:count], y[:count]) for count in (SAMPLES, 5)]
    assert [result.steps for result in results] == [8 * 4, 8]
    assert [(model.n_iter_, len(model.loss_curve_)) for model in models] == [(8, 8)] * 2
    assert models[0].loss_curve_[-1] == pytest.approx(results[0].losses[-4:].mean())
    assert PCRegressor(**SMALL | {"batch_size": 10**12}).fit(X, y).n_iter_ == 8  # it does not fill the memory


def test_early_stopping_keeps_the_best(blobs, monkeypatch):
    X, y = blobs
    guesses = np.random.default_rng(2).permutation(y)  # nothing to learn, so it does not get better for long
    datasets = []
    monkeypatch.setattr(
        estimators,
        "fit",
        lambda network, data, *rest, **given: datasets.append(data) or mupc.fit(network, data, *rest, **given),
    )
    model = PCClassifier(**SMALL | {"epochs": 100}, early_stopping=True, validation_fraction=0.25, patience=3).fit(
        X, guesses
    )
    scores = model.validation_scores_
    assert model.n_iter_ == len(model.loss_curve_) == len(scores) < 100
    held_out = datasets[0].validation
    assert len(held_out) == SAMPLES / 4
    assert model.score(held_out.raw, NAMES[held_out.targets]) == pytest.approx(max(scores))


def test_interrupted_training_keeps_what_was_learnt(blobs, monkeypatch):
    X, y = blobs
    seen = []
    settings = {"callbacks": [seen.append], "stop": lambda: len(seen) > 5}
    monkeypatch.setattr(estimators, "fit", lambda *args, **given: mupc.fit(*args, **given, **settings))
    with pytest.warns(UserWarning, match="stopped after 20 of 32 steps: the estimator keeps what it has learnt so far"):
        model = PCClassifier(**SMALL).fit(X, y)
    assert model.n_iter_ == 5
    assert model.score(X, y) > 0.5


def test_verbose_shows_progress(values, capfd):
    PCRegressor(**SMALL, verbose=True).fit(*values)
    shown = capfd.readouterr()
    assert shown.err.count("loss") >= 8
    assert shown.out == ""


def test_partial_fit_goes_on(blobs):
    X, y = blobs
    model = PCClassifier(**SMALL)
    only_ants = y == "ant"
    model.partial_fit(X[only_ants], y[only_ants], classes=NAMES)
    scale = model.model_.schema.normalisation.mean
    for _ in range(20):
        model.partial_fit(X, y)
    assert model.score(X, y) > 0.95
    assert model.n_iter_ == 21
    assert (model.model_.schema.normalisation.mean == scale).all()
    assert (model.fit(X, y).model_.schema.normalisation.mean != scale).all()  # from scratch


def test_partial_fit_of_values(values):
    X, y = values
    model = PCRegressor(**SMALL).partial_fit(X, y)
    first = model.score(X, y)
    for _ in range(20):
        model.partial_fit(X, y)
    assert model.score(X, y) > max(first, 0.9)


def test_methods_by_name_and_by_object(blobs, classifier):
    X, y = blobs
    same = PCClassifier(**SMALL, solver=mupc.ErrorSpace(), output_precision=0.01).fit(X, y)
    assert (same.predict_proba(X) == classifier.predict_proba(X)).all()
    descent = mupc.GradientDescent(lr=ACTIVITY_LR["gd"], steps=SMALL["hidden_layers"])  # as on the command line
    for name, method in (("bp", mupc.BP()), ("gd", descent)):
        named, given = (PCClassifier(**SMALL, solver=solver).fit(X, y).predict_proba(X) for solver in (name, method))
        assert (named == given).all()
        assert (named != classifier.predict_proba(X)).any()


def test_what_is_kept_as_it_was_given():
    model = PCClassifier(width="wide", epochs=-1)
    assert clone(model).get_params() == model.get_params()
    assert model.set_params(width=32).width == 32
    assert "width=32" in repr(model)


def test_pickle(blobs, classifier):
    X, _ = blobs
    again = pickle.loads(pickle.dumps(classifier))
    assert (again.predict_proba(X) == classifier.predict_proba(X)).all()


def test_models_of_estimators_are_saved_as_any(blobs, classifier, tmp_path):
    X, _ = blobs
    mupc.save(tmp_path / "ants.mupc", classifier.model_)
    assert (mupc.load(tmp_path / "ants.mupc").predict(X) == classifier.predict(X)).all()


def test_numbers_may_be_those_of_numpy(as_users_see_it, blobs, classifier):
    """A random search gives them."""
    X, y = blobs
    numbers = {name: np.asarray(value)[()] for name, value in SMALL.items()}
    assert (PCClassifier(**numbers).fit(X, y).predict_proba(X) == classifier.predict_proba(X)).all()


def test_searches_do_not_compile_again(blobs):
    X, y = blobs
    search = GridSearchCV(
        PCClassifier(**SMALL),
        {"weight_lr": [0.01, 0.02], "output_precision": [0.01, 0.1], "epochs": [2, 3]},
        cv=3,
        error_score="raise",
    )
    for count in (40, 59):  # a program for the folds, of 39 and 40 samples, and one for the last fit, with all
        PCClassifier(**SMALL).fit(X[:count], y[:count]).predict(X[:20])
    with compilations("advance") as programs:
        search.fit(X[:59], y[:59])
    assert programs == []
    assert search.best_score_ > 0.5
    assert search.best_estimator_.n_iter_ == search.best_params_["epochs"]


WRONG = [
    ({"hidden_layers": 0}, "hidden_layers must be at least 1, got 0"),
    ({"width": 1.5}, "width must be a whole number, got 1.5"),
    ({"activation": "relo"}, "activation 'relo' is not known. Did you mean 'relu'?"),
    ({"parameterisation": "mup"}, "parameterisation 'mup' is not known"),
    ({"solver": "newton"}, "solver 'newton' is not known. Choose one of: error-space, gd, bp."),
    ({"solver": 3}, "solver"),
    ({"output_precision": 0}, "output_precision must be greater than 0, got 0"),
    ({"epochs": 0}, "epochs must be"),
    ({"epochs": "many"}, "epochs must be a"),
    ({"batch_size": 0}, "batch_size must be at least 1, got 0"),
    ({"weight_lr": -0.1}, "weight_lr must be greater than 0, got -0.1"),
    ({"rate_scaling": "mu"}, "rate_scaling 'mu' is not known"),
    ({"rate_scaling": "mup", "parameterisation": "sp"}, 'rate_scaling="mup" has no rule for'),
    ({"optimiser": "adom"}, "optimiser 'adom' is not known. Did you mean 'adam'?"),
    ({"schedule": "stairs"}, "schedule 'stairs' is not known"),
    ({"early_stopping": "no"}, "early_stopping must be True or False, got 'no'"),
    ({"early_stopping": True, "validation_fraction": 1.0}, "validation_fraction must be below 1, got 1"),
    ({"early_stopping": True, "patience": 0}, "patience must be at least 1, got 0"),
    ({"random_state": "today"}, "'today' cannot be used to seed"),
    ({"verbose": 3}, "verbose must be True or False, got 3"),
]


@pytest.mark.parametrize(("wrong", "message"), WRONG, ids=lambda value: str(value)[:40])
def test_wrong_arguments(as_users_see_it, blobs, wrong, message):
    with pytest.raises(ValueError, match=re.escape(message)) as caught:
        PCClassifier(**SMALL | wrong).fit(*blobs)
    assert "\n" not in str(caught.value)


def test_wrong_data(as_users_see_it, blobs, values, classifier):
    X, y = blobs
    hole = X.copy()
    hole[3, 1] = np.nan
    for samples, labels, message in (
        (X[:0], y[:0], "0 sample(s)"),
        (X, y[:-1], "inconsistent numbers of samples"),
        (hole, y, "Input X contains NaN"),
        (X, np.full(SAMPLES, "ant"), "y has one class, 'ant': give samples of two classes or more"),
        (X, values[1], "Unknown label type: continuous"),
        (
            X,
            np.where(y == "ant", None, y.astype(object)),
            "y has labels of types that do not mix, or gaps: use one type.",
        ),
        (X * 1e300, y, "not finite in float32"),
        (X[0], y[0], "2D array"),
    ):
        with pytest.raises(ValueError, match=re.escape(message)):
            PCClassifier(**SMALL).fit(samples, labels)
    with pytest.raises(ValueError, match="not finite"):
        PCRegressor(**SMALL).fit(X, values[1] * 1e300)
    with pytest.raises(ValueError, match="expecting 4 features"):
        classifier.predict(X[:, :2])
    with pytest.raises(NotFittedError):
        PCClassifier().predict(X)


def test_wrong_partial_fits(as_users_see_it, blobs):
    X, y = blobs
    with pytest.raises(ValueError, match="classes are missing: pass all labels in the first call"):
        PCClassifier(**SMALL).partial_fit(X, y)
    with pytest.raises(ValueError, match="early_stopping needs all samples"):
        PCClassifier(**SMALL, early_stopping=True).partial_fit(X, y, classes=NAMES)
    model = PCClassifier(**SMALL).partial_fit(X, y, classes=NAMES)
    with pytest.raises(ValueError, match="'dog'"):
        model.partial_fit(X[:1], ["dog"])
    with pytest.raises(ValueError, match="classes differ from those of the first call"):
        model.partial_fit(X, y, classes=["ant", "bee"])


@pytest.mark.slow
@pytest.mark.parametrize("estimator", [PCClassifier, PCRegressor])
def test_scikit_learns_own_checks(as_users_see_it, estimator):
    """None fails, and none is expected to. One is skipped unless SCIPY_ARRAY_API is set before scipy is imported."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        results = check_estimator(estimator(), on_skip=None)
    skipped = {result["check_name"] for result in results if result["status"] != "passed"}
    print(f"{estimator.__name__}: {len(results) - len(skipped)} checks passed, skipped: {sorted(skipped)}")
    assert len(results) > 40
    assert skipped <= {"check_array_api_input"}


@pytest.mark.slow
def test_search_in_two_processes():
    X, y = load_breast_cancer(return_X_y=True)
    pipeline = make_pipeline(StandardScaler(), PCClassifier(random_state=0, epochs=5))
    grid = {"pcclassifier__weight_lr": [0.003, 0.01]}
    one, two = (GridSearchCV(pipeline, grid, cv=3, n_jobs=jobs).fit(X, y) for jobs in (None, 2))
    assert one.best_score_ > 0.9
    np.testing.assert_allclose(one.cv_results_["mean_test_score"], two.cv_results_["mean_test_score"], atol=0.01)


@pytest.mark.slow
def test_defaults_serve_small_tables():
    X, y = load_iris(return_X_y=True)
    assert cross_val_score(PCClassifier(random_state=0), X, y, cv=3).mean() > 0.93


@pytest.mark.slow
@pytest.mark.parametrize("estimator", [PCClassifier, PCRegressor])
def test_examples_run(estimator):
    code = textwrap.dedent(estimator.__doc__.split("```python")[1].split("```")[0])
    exec(code, {})
