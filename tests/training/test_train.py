"""Training against a plain loop over an independent network, and what users rely on around it."""

import dataclasses
import pickle
import re

import jax
import jax.numpy as jnp
import jax.random as jr
import jaxtyping
import numpy as np
import optax
import pytest
import reference
from compiled import compilations

import mupc
from mupc.data import Dataset, Schema, Split
from mupc.training import _augment
from mupc.training._evaluation import RECORDED


def dataset(samples=50, features=5, classes=3, test=23, seed=0):
    """Three noisy clusters."""
    rng = np.random.default_rng(seed)
    centres = 2 * rng.normal(size=(classes, features))

    def split(count):
        labels = rng.integers(0, classes, count).astype(np.int32)
        return Split((centres[labels] + 0.5 * rng.normal(size=(count, features))).astype(np.float32), labels)

    return Dataset(
        "clusters", split(samples), split(test), None, Schema(labels=tuple(range(classes))), False, "made here"
    )


def network(**options):
    return mupc.Network(5, 3, 6, 4, activation="tanh", key=jr.key(0), **options)


SOLVER = mupc.GradientDescent(lr=0.2, steps=4)


def plain_training(net, data, batch_size, steps, rate, gradients_of):
    """Adam on gradients from `gradients_of`, batches in the order that the library draws them."""
    params = reference.parameters(net)
    optimiser = optax.adam(rate)
    state = optimiser.init(params)
    per_epoch = len(data.train) // batch_size
    for step in range(steps):
        epoch, index = divmod(step, per_epoch)
        order = np.asarray(jr.permutation(jr.fold_in(jr.key(0), epoch), len(data.train)))
        batch = order[index * batch_size : (index + 1) * batch_size]
        x, y = jnp.asarray(data.x_train[batch], float), jnp.asarray(data.y_train[batch], float)
        updates, state = optimiser.update(gradients_of(params, x, y), state)
        params = optax.apply_updates(params, updates)
    return params


@pytest.mark.slow
@pytest.mark.parametrize("evaluate_every", [None, 4])
def test_fit_equals_a_plain_loop(evaluate_every):
    data, net = dataset(), network()
    a = reference.multipliers("mupc", 5, 6, 4, 1)

    def gradients_of(params, x, y):
        zs, _ = reference.feedforward(params, x, a, jnp.tanh, 1)
        options = {"activation": "tanh", "skip": 1, "loss": "mse", "free": False, "steps": 4}
        slopes = reference.descend(params, x, zs, y, a, 1.0, 0.0, 0.2, **options)[3]
        return [(w, jnp.zeros_like(b)) for w, b in slopes]

    want = plain_training(net, data, 8, 12, 0.05, gradients_of)  # six batches an epoch: two epochs
    options = {"epochs": 2, "weight_lr": 0.05, "batch_size": 8, "rate_scaling": "none", "schedule": "constant"}
    result = mupc.fit(net, data, SOLVER, **options, evaluate_every=evaluate_every)
    assert result.steps == 12
    assert not result.diverged
    for (got, _), (w, _) in zip(reference.parameters(result.network), want, strict=True):
        np.testing.assert_allclose(got, w, rtol=0, atol=1e-9)
    assert [record["step"] for record in result.history] == ([0, 6, 12] if evaluate_every is None else [0, 4, 8, 12])
    assert result.losses.shape == (12,)


@pytest.mark.parametrize(
    ("algorithm", "rate", "output_precision"),
    [(None, 0.05, 0.01), (mupc.ErrorSpace(), 0.05, 0.01), (SOLVER, 0.2, 1.0), (mupc.BP(), 0.05, 1.0)],
)
def test_the_learning_rate_and_output_precision_follow_the_algorithm(algorithm, rate, output_precision):
    data, net, options = dataset(), network(), {"epochs": 0.5, "batch_size": 8}
    result = mupc.fit(net, data, algorithm, **options)
    explicit = mupc.PC(mupc.ErrorSpace()) if algorithm is None else algorithm
    energy = mupc.Energy(output_precision=output_precision)
    want = mupc.fit(net, data, explicit, weight_lr=rate, energy=energy, **options)
    (many,) = mupc.fit_many([mupc.Run(net, algorithm)], data, **options)
    assert_same_weights(result.network, want.network)
    for got, other in zip(jax.tree.leaves(many.network), jax.tree.leaves(want.network), strict=True):
        np.testing.assert_allclose(got, other, rtol=1e-10, atol=1e-12)


def test_an_open_output_precision_is_one_outside_training():
    data, net = dataset(), network()
    x, y = data.x_train[:4], data.y_train[:4]
    for solver in (SOLVER, mupc.ErrorSpace()):
        solution = mupc.infer(net, x, y, solver)
        assert solution.objective.output_precision == 1.0
        assert_same_weights(solution, mupc.infer(net, x, y, solver, energy=mupc.Energy(output_precision=1.0)))
    activities = mupc.forward(net, x)[0]
    want = mupc.energy(net, activities, x, y, energy=mupc.Energy(output_precision=1.0))
    assert mupc.energy(net, activities, x, y, energy=mupc.Energy()) == want


def assert_same_weights(one, two):
    for got, want in zip(jax.tree.leaves(one), jax.tree.leaves(two), strict=True):
        np.testing.assert_array_equal(got, want)


@pytest.mark.slow
def test_bp_equals_a_plain_loop():
    data, net = dataset(), network(use_bias=True)
    a = reference.multipliers("mupc", 5, 6, 4, 1)

    def loss(params, x, y):
        return jnp.sum((y - reference.feedforward(params, x, a, jnp.tanh, 1)[1]) ** 2) / (2 * len(y))

    want = plain_training(net, data, 8, 7, 0.02, jax.grad(loss))
    options = {"rate_scaling": "none", "schedule": "constant"}
    result = mupc.fit(net, data, mupc.BP(), epochs=7 / 6, weight_lr=0.02, batch_size=8, **options)
    for got, pair in zip(reference.parameters(result.network), want, strict=True):
        np.testing.assert_allclose(got[0], pair[0], rtol=0, atol=1e-10)
        np.testing.assert_allclose(got[1], pair[1], rtol=0, atol=1e-10)


def _adamw(m, v, g, t):
    m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g**2
    return m, v, m / (1 - 0.9**t) / (np.sqrt(v / (1 - 0.999**t)) + 1e-8)


def _lion(m, v, g, t):
    return 0.99 * m + 0.01 * g, v, np.sign(0.9 * m + 0.1 * g)


@pytest.mark.parametrize("decay", [0.0, 0.3])
@pytest.mark.parametrize(("optimiser", "move"), [("adamw", _adamw), ("lion", _lion)])
def test_weights_decay_beside_the_update_and_only_if_asked(optimiser, move, decay):
    data, net = dataset(samples=8), network(use_bias=True)
    a = reference.multipliers("mupc", 5, 6, 4, 1)
    x, y = jnp.asarray(data.x_train, float), jnp.asarray(data.y_train, float)

    def loss(params):
        return jnp.sum((y - reference.feedforward(params, x, a, jnp.tanh, 1)[1]) ** 2) / (2 * len(y))

    form = jax.tree.structure(reference.parameters(net))
    params = [np.asarray(leaf) for leaf in jax.tree.leaves(reference.parameters(net))]
    moments = [(0 * leaf, 0 * leaf) for leaf in params]
    for step in range(1, 4):
        slopes = jax.tree.leaves(jax.grad(loss)(jax.tree.unflatten(form, params)))
        for i, (leaf, (m, v), g) in enumerate(zip(params, moments, slopes, strict=True)):
            m, v, update = move(m, v, np.asarray(g), step)
            shrink = decay * leaf if leaf.ndim == 2 else 0  # biases do not decay
            params[i], moments[i] = leaf - 0.02 * (update + shrink), (m, v)
    options = {"epochs": 3, "weight_lr": 0.02, "batch_size": 8, "rate_scaling": "none", "schedule": "constant"}
    result = mupc.fit(net, data, mupc.BP(), optimiser=optimiser, energy=mupc.Energy(weight_decay=decay), **options)
    for got, want in zip(jax.tree.leaves(reference.parameters(result.network)), params, strict=True):
        np.testing.assert_allclose(got, want, rtol=0, atol=1e-10)


def test_predictive_coding_decays_as_backpropagation_does():
    """Without steps of inference the readout alone learns, and what is left of the others is their decay."""
    data, net = dataset(samples=8), network()
    options = {"optimiser": "adamw", "energy": mupc.Energy(weight_decay=0.3), "epochs": 2, "weight_lr": 0.02}
    result = mupc.fit(net, data, mupc.GradientDescent(0.1, 0), batch_size=8, **options)
    left = (1 - 0.3 * 0.02) * (1 - 0.3 * 0.01)  # the rate falls like a cosine: halfway, at the second step, to a half
    np.testing.assert_allclose(result.network.hidden.weight, net.hidden.weight * left, rtol=1e-12)


def test_evaluation_covers_the_whole_split(monkeypatch):
    monkeypatch.setattr("mupc.training._evaluation.EVALUATION_CHUNK", 10)  # 23 test samples: a last chunk of three
    data = dataset().with_validation(7, seed=0)
    net = network()
    result = mupc.fit(net, data, SOLVER, epochs=1, batch_size=8)
    for name, split in (("test", data.test), ("validation", data.validation)):
        x, y = jnp.asarray(data.normalisation(split.raw), float), data.encode(split.targets)
        for record, trained in ((result.history[0], net), (result.last, result.network)):
            output = np.asarray(trained(x))
            accuracy = np.mean(np.argmax(output, axis=1) == split.targets)
            np.testing.assert_allclose(record[f"{name}_accuracy"], accuracy, rtol=1e-6)
            np.testing.assert_allclose(record[f"{name}_loss"], np.mean(np.sum((y - output) ** 2, 1)) / 2, rtol=1e-5)


def test_training_learns_the_clusters_and_is_repeatable():
    data = dataset(samples=300)
    runs = [mupc.fit(network(), data, SOLVER, epochs=4, weight_lr=0.05, batch_size=16, seed=s) for s in (1, 1, 2)]
    assert runs[0].last["test_accuracy"] > 0.9
    assert runs[0].last["train_loss"] < runs[0].history[1]["train_loss"]
    np.testing.assert_array_equal(runs[0].losses, runs[1].losses)
    assert not np.array_equal(runs[0].losses, runs[2].losses)


def test_records_callbacks_and_metrics():
    seen = []
    result = mupc.fit(
        network(), dataset(), SOLVER, epochs=2, batch_size=8, callbacks=[seen.append],
        metrics={"norm": lambda n: float(jnp.linalg.norm(n.readout.weight))},
    )  # fmt: skip
    assert [status.record for status in seen] == result.history == seen[-1].history
    assert all(np.isfinite(record["norm"]) for record in result.history)
    assert seen[-1].network is result.network and seen[-1].run == 0
    wanted = {"step", "epoch", "train_loss", "energy", "test_loss", "test_accuracy", "learning_layers", "layers"}
    assert wanted <= set(result.last)
    assert set(result.last) - {"norm"} <= set(RECORDED)
    assert result.last["layers"] == 5
    assert result.last["epoch"] == 2.0


def test_divergence_keeps_the_last_good_network():
    data = dataset()
    net = mupc.Network(5, 3, 6, 4, activation="linear", parameterisation="sp", key=jr.key(0))
    solver = mupc.GradientDescent(lr=1e6, steps=80)
    with pytest.warns(RuntimeWarning, match="diverged between step 0 and step 2"):
        result = mupc.fit(net, data, solver, epochs=50, batch_size=8, evaluate_every=2)
    assert result.diverged
    assert "diverged between step 0 and step 2" in result.message
    assert result.steps == 2
    np.testing.assert_array_equal(result.network.hidden.weight, net.hidden.weight)
    assert result.last["step"] == 0


@pytest.mark.parametrize(
    "schedule",
    [None, *(pytest.param(name, marks=pytest.mark.slow) for name in ("cosine", "linear")), "warmup-cosine"],
)
def test_schedules_multiply_the_rate(schedule):
    data, net = dataset(), network()
    options = {"epochs": 2, "batch_size": 8, "rate_scaling": "none"}
    result = mupc.fit(net, data, SOLVER, weight_lr=0.05, schedule=schedule, optimiser="sgd", **options)
    shapes = {
        None: optax.cosine_decay_schedule(0.05, 12),
        "cosine": optax.cosine_decay_schedule(0.05, 12),
        "linear": optax.linear_schedule(0.05, 0.0, 12),
        "warmup-cosine": optax.warmup_cosine_decay_schedule(0.0, 0.05, 1, 12),
    }
    want = mupc.fit(net, data, SOLVER, optimiser=optax.sgd(shapes[schedule]), **options)
    np.testing.assert_allclose(result.network.hidden.weight, want.network.hidden.weight, rtol=0, atol=1e-9)


def test_regression():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(200, 5)).astype(np.float32)
    y = (x[:, :3] - x[:, 2:]).astype(np.float32)
    data = Dataset("plane", Split(x[:160], y[:160]), Split(x[160:], y[160:]), None, Schema(), False, "")
    net = mupc.Network(5, 3, 6, 2, activation="linear", key=jr.key(0))
    with pytest.raises(ValueError, match="cross-entropy needs classes as targets, and they are numbers in plane. Use"):
        mupc.fit(net, data, SOLVER, batch_size=16, energy=mupc.Energy(loss="cross-entropy"))
    result = mupc.fit(net, data, mupc.GradientDescent(0.3, 2), epochs=20, weight_lr=0.05, batch_size=16)
    assert result.last["test_loss"] < 0.05 * result.history[0]["test_loss"]
    assert "test_accuracy" not in result.last


@pytest.mark.slow
def test_unsupervised_training_learns_to_generate_the_inputs():
    data = dataset(samples=200)
    net = mupc.Network(2, 5, 12, 2, activation="tanh", parameterisation="ntp", key=jr.key(0))
    options = mupc.Energy(activity_decay=0.01)
    with pytest.raises(ValueError, match="cross-entropy needs classes as targets, and they are the inputs"):
        mupc.fit(net, data, SOLVER, batch_size=20, unsupervised=True, energy=mupc.Energy(loss="cross-entropy"))
    result = mupc.fit(
        net, data, mupc.GradientDescent(0.2, 20), epochs=30, weight_lr=0.01, batch_size=20, unsupervised=True,
        energy=options,
    )  # fmt: skip
    assert result.last["test_loss"] < 0.2 * result.history[0]["test_loss"]
    assert "test_accuracy" not in result.last


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"algorithm": mupc.BP(), "unsupervised": True}, "unsupervised training needs inference"),
        ({"epochs": 0}, "epochs must be greater than 0, got 0"),
        ({"epochs": 1e30}, "epochs=1e\\+30 of"),
        ({"batch_size": 51}, "batch_size=51 is more than the 50 training samples"),
        ({"weight_lr": 0.0}, "weight_lr must be greater than 0"),
        ({"optimiser": "adma"}, "optimiser 'adma' is not known. Did you mean 'adam'"),
        ({"schedule": "cosin"}, "schedule 'cosin' is not known. Did you mean 'cosine'"),
        ({"augment": True}, "augment needs images or a text"),
        ({"evaluate_every": 0}, "evaluate_every must be at least 1"),
        ({"rotation": -1}, "rotation must be at least 0, got -1"),
        ({"cutout": -1}, "cutout must be at least 0, got -1"),
        ({"cutout": 3}, "cutout is a part of augmentation: set augment, or leave it out."),
        ({"cutout": 1.5}, "cutout must be a whole number, got 1.5"),
        ({"unsupervised": True}, "out_size of the network is 3, but clusters needs 5"),
        ({"precision": "half"}, "precision 'half' is not known"),
        (
            {"algorithm": mupc.BP(), "energy": mupc.Energy(activity_decay=0.5)},
            "activity_decay=0.5, but backpropagation does not have free activities to decay",
        ),
        ({"optimiser": optax.adam(1e-3), "weight_lr": 0.1}, "weight_lr=0.1 would have no effect, because an optax"),
        ({"patience": 0}, "patience must be at least 1, got 0"),
        ({"last_batch": "keep"}, "last_batch 'keep' is not known. Choose one of: drop, fill"),
        ({"optimiser": optax.adam(1e-3), "schedule": "cosine"}, "schedule='cosine' does not have a rate to act on"),
        (
            {"metrics": {"test_accuracy": len}},
            "metrics has 'test_accuracy', which is the name of what fit",
        ),
    ],
)
def test_bad_arguments(options, message):
    with pytest.raises(ValueError, match=message):
        mupc.fit(network(), dataset(), **{"algorithm": SOLVER, "batch_size": 8} | options)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"optimiser": optax.adam}, r"optimiser is the function adam itself: call it, such as optax\.adam"),
        ({"callbacks": 3}, r"callbacks must be a list of functions such as \[print\], got 3"),
        ({"callbacks": print}, "callbacks must be a list of functions"),
        ({"callbacks": [3]}, "each of the callbacks must be a function, got 3"),
        ({"metrics": {"m": 3}}, "the metric 'm' must be a function, got 3 of type int"),
        ({"metrics": [len]}, "metrics must be a dictionary"),
        ({"stop": True}, "stop must be a function, got True"),
        ({"augment": "no"}, "augment must be True or False, got 'no'"),
        ({"restore_best": "no"}, "restore_best must be True or False, got 'no'"),
        ({"patience": 1.5}, "patience must be a whole number, got 1.5"),
    ],
)
def test_wrong_types(options, message):
    jaxtyping.config.update("jaxtyping_disable", True)  # as users see it
    try:
        with pytest.raises(TypeError, match=message):
            mupc.fit(network(), dataset(), SOLVER, batch_size=8, **options)
    finally:
        jaxtyping.config.update("jaxtyping_disable", False)


@pytest.mark.parametrize(("name", "value"), [("method", "bp"), ("solver", SOLVER)])
def test_the_algorithm_is_the_third_argument(name, value):
    with pytest.raises(
        TypeError, match=rf"(?s){name}=.* is not a keyword: pass an algorithm .* mupc.BP\(\) or mupc.PC"
    ):
        mupc.fit(network(), dataset(), batch_size=8, **{name: value})


def test_a_setting_that_does_not_exist():
    with pytest.raises(TypeError, match="epoch is not a setting of training. Did you mean 'epochs'?"):
        mupc.fit(network(), dataset(), SOLVER, epoch=3)


def test_a_callback_ends_the_run():
    result = mupc.fit(
        network(), dataset(), SOLVER, epochs=3, batch_size=8, callbacks=[lambda status: status.record["epoch"] >= 1]
    )
    assert result.stopped and result.history[-1]["epoch"] == 1


@pytest.mark.parametrize("solver", ["bp", mupc.ErrorSpace])
def test_wrong_solvers(solver):
    cure = r"algorithm must be an algorithm such as mupc.PC\(solver\) or mupc.BP\(\), or a solver, got"
    with pytest.raises(TypeError, match=cure):
        mupc.fit(network(), dataset(), solver, batch_size=8)


def test_a_network_of_the_wrong_size():
    with pytest.raises(ValueError, match="in_size of the network is 4, but clusters needs 5"):
        mupc.fit(mupc.Network(4, 3, 6, 2, key=jr.key(0)), dataset(), SOLVER, batch_size=8)


def test_images_must_have_the_shape_of_the_network():
    digits = mupc.data.load("digits")
    for shape in ((8, 8, 1), (1, 4, 16)):
        network = mupc.models.resnet(shape, 10, width=2, blocks=(1,), key=jr.key(0))
        wrong = f"input_shape of the network is {shape}, but samples of digits have the shape (1, 8, 8). Create"
        with pytest.raises(ValueError, match=re.escape(wrong)):
            mupc.fit(network, digits, epochs=1)
    network = mupc.models.resnet((3, 8, 8), 10, width=2, blocks=(1,), key=jr.key(0))
    with pytest.raises(ValueError, match=r"in_size of the network is 192 \(shape \(3, 8, 8\)\), but digits needs 64"):
        mupc.fit(network, digits, epochs=1)


def test_a_new_rate_or_seed_does_not_compile_again():
    data, net = dataset(), mupc.Network(5, 3, 7, 2, key=jr.key(0))  # a shape that no other test has
    with compilations("") as first:
        mupc.fit(net, data, SOLVER, batch_size=8)
    with compilations("") as second:
        mupc.fit(net, data, dataclasses.replace(SOLVER, lr=0.1), batch_size=8, weight_lr=0.01, seed=5)
    assert len(first) > 2
    assert second == []


@pytest.mark.parametrize("shape, flips", [((3, 32, 32), (0.4, 0.6)), ((28, 28), (0, 0))])
def test_every_augmented_image_is_one_move_one_turn_and_in_colour_perhaps_a_flip(shape, flips):
    size, channels, count = shape[-1], 3 if len(shape) == 3 else 1, 100
    # Pixels say where they came from: channel by channel, or as one number.
    row, column = np.indices((size, size))
    planes = [row + 1, column + 1, np.full((size, size), 9)] if channels == 3 else [1 + row * size + column]
    rows = jnp.asarray(np.repeat(np.stack(planes).reshape(1, -1).astype(np.float32), count, axis=0))
    out = np.asarray(_augment.augment(jr.key(1), rows, shape)).reshape(count, channels, size, size)
    found = []
    for image in out:
        inside = image[0] > 0
        here = np.argwhere(inside) - (size - 1) / 2
        there = image[:2, inside].T - 1 if channels == 3 else np.stack(np.divmod(image[0, inside] - 1, size), axis=1)
        if channels == 3:
            assert set(image[2, inside]) == {9.0}, "all channels move alike"
            assert not image[:, ~inside].any(), "black comes in"
        fit, *_ = np.linalg.lstsq(np.c_[here, np.ones(len(here))], there - (size - 1) / 2, rcond=None)
        found.append((np.linalg.det(fit[:2]), np.degrees(np.arcsin(np.clip(fit[0, 1], -1, 1))), *fit[2]))
    determinants, degrees, *moves = np.array(found).T
    np.testing.assert_allclose(np.abs(determinants), 1, atol=0.03)
    assert flips[0] <= np.mean(determinants < 0) <= flips[1]
    assert 5 < np.abs(degrees).max() < 10.5 and degrees.min() < 0 < degrees.max()
    for move in moves:
        assert 3.5 < np.abs(move).max() < 4.5 and move.min() < 0 < move.max()


def test_without_rotation_images_are_moved_and_flipped_only():
    image = np.arange(1, 3 * 36 + 1, dtype=np.float32).reshape(3, 6, 6)
    black = np.pad(image, ((0, 0), (4, 4), (4, 4)))
    windows = [black[:, i : i + 6, j : j + 6] for i in range(9) for j in range(9)]
    possible = {found.tobytes() for window in windows for found in (window, window[:, :, ::-1].copy())}
    found = np.asarray(_augment.augment(jr.key(1), jnp.asarray(image.reshape(1, -1)).repeat(100, 0), (3, 6, 6), 0.0))
    assert {row.tobytes() for row in found} <= possible
    assert len({row.tobytes() for row in found}) > 30


def test_cutout_hides_a_square_of_each_image_and_changes_nothing_else():
    image = np.arange(1, 3 * 64 + 1, dtype=np.float32).reshape(3, 8, 8)
    rows = jnp.asarray(image.reshape(1, -1)).repeat(300, 0)
    plain, cut = (
        np.asarray(_augment.augment(jr.key(1), rows, (3, 8, 8), 5.0, side)).reshape(-1, 3, 8, 8) for side in (0, 3)
    )
    corners = set()
    for before, after in zip(plain, cut, strict=True):
        mean = before.mean(axis=(1, 2), keepdims=True)
        hidden = np.isclose(after, mean) & ~np.isclose(before, mean)
        np.testing.assert_array_equal(np.where(hidden, before, after), before)
        places = np.argwhere((np.isclose(after, mean)).all(axis=0))
        assert len(places) in (4, 6, 9), "two pixels of its side are left at a border"
        np.testing.assert_array_equal(np.ptp(places, axis=0) + 1, [len(set(axis)) for axis in places.T])
        corners.add(tuple(places.min(axis=0)))
    assert corners == {(i, j) for i in range(7) for j in range(7)}


def test_callbacks_see_the_network_and_the_result_pickles():
    seen = []
    data, options = dataset(), {"epochs": 2, "batch_size": 8}
    result = mupc.fit(network(), data, SOLVER, callbacks=[seen.append], **options)
    assert_same_weights(seen[0].network, network())
    assert_same_weights(seen[-1].network, result.network)
    assert [status.record for status in seen] == seen[-1].history == result.history
    again = pickle.loads(pickle.dumps(result))
    assert_same_weights(again.network, result.network)
    assert (again.history, again.message, again.compute_path) == (result.history, result.message, result.compute_path)
    np.testing.assert_array_equal(again.losses, result.losses)
    np.testing.assert_array_equal(again.model.predict(data.test.raw), result.model.predict(data.test.raw))


def test_targets_that_are_not_scaled_give_a_warning():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(60, 5)).astype(np.float32)
    y = 1e4 + 1e3 * x[:, :3]
    options = {"batch_size": 8, "epochs": 0.5}
    split = Split(x, y.astype(np.float32))
    raw = Dataset("prices", split, split, None, Schema(), False, "made here")
    with pytest.warns(RuntimeWarning, match="targets are not scaled and of size 1e.04 .*: divide them by it"):
        mupc.fit(network(), raw, SOLVER, **options)
    result = mupc.fit(network(), (x, y), SOLVER, **options)  # scaled: warnings are errors here
    assert result.last["test_rmse"] > 1
