"""The relatives of predictive coding against plain numpy loops over layers and steps, and against backpropagation."""

import dataclasses
import re

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import optax
import pytest
import reference
from chains import chain_of
from oracle import Oracle

import mupc
from mupc.data import Dataset, Schema, Split
from mupc.inference import Batch
from mupc.learning import LearningContext

IN, OUT, WIDTH, HIDDEN, BATCH = 5, 3, 6, 4, 7
X, Y = (
    np.random.default_rng(0).normal(size=(BATCH, IN)).astype(np.float32).astype(float),
    np.eye(OUT)[np.arange(BATCH) % OUT],
)
GD = mupc.GradientDescent(0.2, 3)
EVERY = {
    "nudged": mupc.Nudged(GD, 0.3, "centred", 0.6),
    "ipc": mupc.IPC(mupc.GradientDescent(0.2, 3, momentum=0.5)),
    "alm": mupc.ALM("auto"),
    "zil": mupc.ZIL(),
    "amortised": mupc.Amortised(GD),
    "samples": mupc.Nudged(mupc.MonteCarlo(0.2, 3), 0.3),
}


def network(**options):
    sizes = {"width": WIDTH, "hidden_layers": HIDDEN, "activation": "tanh", "key": jr.key(0)}
    return mupc.Network(IN, OUT, **sizes | options)


def weights(found):
    """The weights or gradients of all layers, in one list."""
    return [np.asarray(w) for w, _ in reference.parameters(found)]


def assert_close(got, want, rtol=1e-10):
    for one, two in zip(got, want, strict=True):
        np.testing.assert_allclose(one, two, rtol=0, atol=rtol * np.max(np.abs(two)))


def distance(got, want):
    """How far gradients are from others, relative to those."""
    pairs = list(zip(weights(got), weights(want), strict=True))
    return np.sqrt(sum(np.sum((a - b) ** 2) for a, b in pairs) / sum(np.sum(b**2) for _, b in pairs))


# Z-IL


@pytest.mark.parametrize("skip", [0, 1])
@pytest.mark.parametrize("precision", [1.0, 0.1])
def test_zil_is_a_loop_over_layers_and_steps_and_backpropagation(skip, precision):
    """Every layer moves at every step, and learns at the step at which its error arrives."""
    net = network(skip=skip)
    found = mupc.algorithm_gradients(net, mupc.ZIL(), X, Y, energy=mupc.Energy(output_precision=precision))
    oracle = Oracle.of(net, X, Y, precision=precision)
    z, naive = oracle.forward(), []
    for step in range(HIDDEN + 1):
        naive.append(oracle.weight_gradients(z, *oracle.errors(z))[HIDDEN - step])
        z = z - oracle.gradient(z)
    assert_close(weights(found), naive[::-1])
    assert_close(weights(found), weights(mupc.backprop_gradients(net, X, Y)))


@pytest.mark.slow
def test_zil_of_a_chain_is_backpropagation():
    chain = mupc.models.resnet((1, 4, 4), 3, width=2, blocks=(1, 1), convolutions=2, key=jr.key(0))
    chain = jax.tree.map(lambda leaf: leaf.astype(float), chain)
    x, energy = np.random.default_rng(1).normal(size=(2, 16)), mupc.Energy("cross-entropy")
    found = mupc.algorithm_gradients(chain, mupc.ZIL(), x, [0, 2], energy=energy)
    wanted = mupc.backprop_gradients(chain, x, np.eye(3)[[0, 2]], energy=energy)
    assert_close(jax.tree.leaves(found), jax.tree.leaves(wanted))


# Nudging


@pytest.mark.parametrize("loss", ["mse", "cross-entropy"])
@pytest.mark.parametrize(("sign", "order"), [("positive", 1), ("negative", 1), ("centred", 2)])
def test_nudged_gradients_tend_to_backpropagation(loss, sign, order):
    net, energy = network(), mupc.Energy(loss, output_precision=1.0)
    solver, betas = mupc.ErrorSpace(steps=20, cg_steps=None, tol=1e-13), (0.04, 0.02, 0.01)
    exact = mupc.backprop_gradients(net, X, Y, energy=energy)
    off = [
        distance(mupc.algorithm_gradients(net, mupc.Nudged(solver, beta, sign), X, Y, energy=energy), exact)
        for beta in betas
    ]
    slope = np.polyfit(np.log(betas), np.log(off), 1)[0]
    assert abs(slope - order) < 0.1 * order


def test_a_positive_nudge_is_predictive_coding_with_a_smaller_precision():
    net, energies = network(), [mupc.Energy(output_precision=precision) for precision in (0.5, 0.15)]
    one = mupc.algorithm_gradients(net, mupc.Nudged(GD, 0.3, "positive"), X, Y, energy=energies[0])
    assert_close(weights(one), weights(mupc.algorithm_gradients(net, mupc.PC(GD), X, Y, energy=energies[1])))


def test_a_negative_nudge_has_a_minimum_while_the_output_can_only_follow_weakly():
    """As the docstring says: while βs < 1, with λ = 1."""
    net = network(activation="linear")
    s = np.linalg.eigvalsh(mupc.theory.rescaling(net) - np.eye(OUT))[-1]
    lowest = [np.linalg.eigvalsh(Oracle.of(net, X, Y, precision=-share / s).hessian())[0] for share in (0.99, 1.01)]
    assert lowest[0] > 0 > lowest[1]


@pytest.mark.slow
def test_nudges_move_in_a_straight_line_over_the_run():
    """With all samples in a batch, the second of four steps is a quarter of the run on its way."""
    moving, settings = mupc.Nudged(GD, 0.2, "positive", 1.0), {"batch_size": BATCH, "optimiser": optax.sgd(0.1)}
    net = network()
    for beta in (0.2, 0.4, 0.6, 0.8):
        net = mupc.fit(net, samples(), mupc.Nudged(GD, beta, "positive"), epochs=1, **settings).network
    whole = mupc.fit(network(), samples(), moving, epochs=4, **settings)
    assert_close(weights(whole.network), weights(net))


# iPC


@pytest.mark.parametrize("solver", [mupc.GradientDescent(0.2, 1), mupc.ErrorSpace()], ids=["gd", "error space"])
@pytest.mark.parametrize("precision", ["float64", "bf16"])
def test_ipc_with_one_step_is_predictive_coding(solver, precision):
    energy = mupc.Energy(output_precision=0.1)
    data, settings = samples(), {"epochs": 3, "weight_lr": 0.05, "precision": precision, "energy": energy}
    one, two = (mupc.fit(network(), data, algorithm(solver), **settings) for algorithm in (mupc.IPC, mupc.PC))
    assert_close(weights(one.network), weights(two.network))


def test_ipc_is_a_loop_of_activity_and_weight_steps():
    """Plain gradient descent of both, in numpy."""
    net, rate, lr, steps = network(), 0.3, 0.2, 5
    state = mupc.fit(
        net, samples(), mupc.IPC(mupc.GradientDescent(lr, steps)), optimiser=optax.sgd(rate), batch_size=BATCH
    )
    oracle = Oracle.of(net, X, Y)
    z = oracle.forward()
    for _ in range(steps):
        z = z - lr * oracle.gradient(z)
        changes = zip(oracle.weights, oracle.weight_gradients(z, *oracle.errors(z)), strict=True)
        oracle = dataclasses.replace(oracle, weights=[w - rate * g for w, g in changes])
    assert_close(weights(state.network), oracle.weights)


def test_ipc_leaves_layers_alone_that_no_signal_has_reached():
    """Errors there are exactly zero, in single precision, too: Adam would make full steps of rounding errors."""
    net = jax.tree.map(lambda leaf: leaf.astype(jnp.float32), network(hidden_layers=12))
    data = samples(np.float32)
    found = mupc.fit(net, data, mupc.IPC(mupc.GradientDescent(0.2, 3)), batch_size=BATCH, epochs=1)
    moved = [bool(np.any(a != b)) for a, b in zip(weights(found.network), weights(net), strict=True)]
    assert moved == [False] * 9 + [True] * 4


# PC-ALM


def test_alm_is_a_loop_of_activity_and_multiplier_steps():
    net, lr, penalty, dual, steps = network(), 0.1, 0.7, 0.4, 9
    found = mupc.algorithm_gradients(net, mupc.ALM(lr, steps, penalty, dual), X, Y)
    oracle = Oracle.of(net, X, Y)
    z, multipliers = oracle.forward(), 0.0
    for _ in range(steps):
        e, r = oracle.errors(z)
        z = z - lr * oracle.carried(z, penalty * e + multipliers, r)
        multipliers = multipliers + dual * oracle.errors(z)[0]
    e, r = oracle.errors(z)
    assert_close(weights(found), oracle.weight_gradients(z, penalty * e + multipliers, r))


def test_converged_multipliers_are_signals_of_backpropagation():
    net = network(activation="linear")
    found = mupc.algorithm_gradients(net, mupc.ALM("auto", 20_000), X, Y)
    assert_close(weights(found), weights(mupc.backprop_gradients(net, X, Y)), rtol=1e-8)


def test_the_rate_from_the_spectrum_is_stable_where_the_published_one_is_not():
    large = jax.tree.map(lambda leaf: 3 * leaf, network(activation="linear", parameterisation="sp", skip=0))
    published, own = (mupc.algorithm_gradients(large, mupc.ALM(lr, 400), X, Y) for lr in (0.25, "auto"))
    exact = mupc.backprop_gradients(large, X, Y)
    assert not distance(published, exact) < 1e3
    assert distance(own, exact) < 1


def test_published_steps_are_twice_the_layers():
    net = network()
    assert_close(
        weights(mupc.algorithm_gradients(net, mupc.ALM(), X, Y)),
        weights(mupc.algorithm_gradients(net, mupc.ALM(0.25, 2 * (HIDDEN + 1)), X, Y)),
    )


# Amortised start


def updated(algorithm, count):
    """Take steps on one batch with weights held still. Return the energies that are left, and the state."""
    context = LearningContext(
        energy=mupc.Energy(output_precision=1.0), weight_lr=jnp.zeros(()), optimiser="adam", schedule="constant",
        total_steps=jnp.asarray(count), precision="float64",
    )  # fmt: skip
    state, batch = algorithm.init(network(hidden_layers=8), context), Batch(jnp.asarray(X), jnp.asarray(Y))
    step = eqx.filter_jit(algorithm.update)
    energies = []
    for _ in range(count):
        state, report = step(state, batch, jr.key(0), context)
        energies.append(float(report.energy))
    return energies, state


@pytest.mark.slow
def test_an_amortised_start_saves_steps():
    """The first guess is the forward pass. Once it has learnt, two steps lower the energy further than sixty do."""
    amortised, _ = updated(mupc.Amortised(mupc.GradientDescent(0.1, 2), start_lr=0.01), 300)
    plain = [updated(mupc.PC(mupc.GradientDescent(0.1, steps)), 1)[0][0] for steps in (2, 60)]
    assert amortised[0] == pytest.approx(plain[0], rel=1e-12)
    assert amortised[-1] < plain[1] < plain[0]


def test_the_second_network_learns_from_the_errors_that_inference_ends_with():
    """Its first step of Adam has the sign of each product of an error and what came in from above, as it predicts zero
    for the last hidden layer at first."""
    algorithm, rate = mupc.Amortised(mupc.GradientDescent(0.2, 3), start_lr=0.01), 0.01
    second = updated(algorithm, 1)[1].memory.network
    net = network(hidden_layers=8)
    error, signal = np.asarray(mupc.infer(net, X, Y, algorithm.solver).errors)[-1], Y - np.asarray(net(X))
    np.testing.assert_allclose(second.input.weight, rate * np.sign(error.T @ signal), rtol=1e-6)


def test_the_gradient_of_a_trained_algorithm_is_its_next_step():
    """With what it has learnt itself; a fresh second network gives another gradient."""
    algorithm, rate = mupc.Amortised(mupc.GradientDescent(0.2, 1), start_lr=0.1), 0.5
    settings = {"batch_size": BATCH, "optimiser": optax.sgd(rate)}
    three, four = (mupc.fit(network(), samples(), algorithm, epochs=epochs, **settings) for epochs in (3, 4))
    taken = mupc.algorithm_gradients(three.network, algorithm, X, Y, memory=three.memory)
    moved = [a - rate * g for a, g in zip(weights(three.network), weights(taken), strict=True)]
    assert_close(moved, weights(four.network))
    fresh = mupc.algorithm_gradients(three.network, algorithm, X, Y)
    assert distance(fresh, taken) > 0.1
    reach = mupc.algorithm_reach(three.network, algorithm, X, Y, memory=three.memory)
    np.testing.assert_allclose(reach.gradient_norms, [np.linalg.norm(g) for g in weights(taken)])


# All of them


def samples(dtype=np.float64):
    """One batch of samples."""
    split = Split(X.astype(dtype), (np.arange(BATCH) % OUT).astype(np.int32))
    return Dataset("points", split, split, None, Schema(labels=(0, 1, 2)), False, "made here")


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in EVERY if name not in ("amortised", "samples")])
def test_chains_learn_as_networks_do(name):
    net = network()
    chain = chain_of(net)
    one, two = (mupc.algorithm_gradients(each, EVERY[name], X, Y) for each in (net, chain))
    for a, b in zip(jax.tree.leaves(one), jax.tree.leaves(two), strict=True):
        np.testing.assert_allclose(a, b, rtol=0, atol=1e-9 * float(jnp.max(jnp.abs(a))))


@pytest.mark.slow
@pytest.mark.parametrize("name", EVERY)
def test_runs_side_by_side_and_resumed_runs_are_the_same(name, tmp_path):
    settings = {"epochs": 4, "batch_size": 3, "checkpoints": tmp_path / "kept"}
    whole = mupc.fit(network(), samples(), EVERY[name], **settings | {"checkpoints": None}, weight_lr=0.03)
    runs = [mupc.Run(network(), EVERY[name], rate) for rate in (0.1, 0.03)]
    many = mupc.fit_many(runs, samples(), **settings | {"checkpoints": None})
    np.testing.assert_allclose(many[1].losses, whole.losses, rtol=1e-9)

    steps = iter(range(100))
    mupc.fit(network(), samples(), EVERY[name], **settings, weight_lr=0.03, stop=lambda: next(steps) >= 2)
    resumed = mupc.fit(network(), samples(), EVERY[name], **settings, weight_lr=0.03)
    assert resumed.losses.tolist() == whole.losses.tolist()


def test_gradients_of_predictive_coding_and_backpropagation_are_those_of_their_functions():
    net, energy = network(), mupc.Energy(weight_decay=0.1, output_precision=0.5)
    solution = mupc.infer(net, X, Y, GD, energy=energy)
    taken = mupc.algorithm_gradients(net, mupc.PC(GD), X, Y, energy=energy)
    assert_close(weights(taken), weights(mupc.weight_gradients(net, solution, X)))
    taken = mupc.algorithm_gradients(net, mupc.BP(), X, Y, energy=energy)
    assert_close(weights(taken), weights(mupc.backprop_gradients(net, X, Y, energy=energy)))


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: mupc.Nudged(GD, 0.0), "beta must be greater than 0, got 0"),
        (lambda: mupc.Nudged(GD, None), "beta must be a number, got None"),
        (lambda: mupc.IPC(mupc.GradientDescent(0.1, 0)), "takes no steps, and iPC learns at its steps. Give steps of"),
        (
            lambda: mupc.Nudged(GD, 0.1, final_beta=-1.0),
            "final_beta must be greater than 0, got -1. Nudge away from the target with sign negative.",
        ),
        (lambda: mupc.Nudged(GD, 0.1, "both"), "sign 'both' is not known"),
        (lambda: mupc.Nudged("gd", 0.1), "must be a solver such as"),
        (lambda: mupc.IPC(mupc.ExactLinear()), "is ExactLinear, which does not take steps"),
        (
            lambda: mupc.IPC(mupc.GradientDescent("auto")),
            'stops at a tolerance, as with lr "auto", and iPC takes every step',
        ),
        (lambda: mupc.ALM("fast"), "lr must be a number or \"auto\", got 'fast'"),
        (lambda: mupc.ALM(penalty=0.0), "penalty must be greater than 0"),
        (lambda: mupc.ALM(steps=0), "steps must be"),
        (lambda: mupc.fit(network(), samples(), mupc.ZIL(), unsupervised=True), "which Z-IL does not do"),
        (lambda: mupc.fit(network(skip=2), samples(), mupc.ZIL()), "skip=2 lets errors reach a layer at several"),
        (
            lambda: mupc.fit(network(), samples(), mupc.ZIL(), energy=mupc.Energy(activity_decay=0.1)),
            "does not have free activities to decay",
        ),
        (lambda: mupc.fit(network(), samples(), EVERY["nudged"], unsupervised=True), "which nudging does not do"),
        (lambda: mupc.Amortised(GD, start_lr=0.0), "start_lr must be greater than 0"),
        (lambda: mupc.fit(chain_of(network()), samples(), EVERY["amortised"]), "is a Chain, and an amortised start"),
        (
            lambda: mupc.fit_many(
                [mupc.Run(network(), mupc.Nudged(GD, 0.1, s)) for s in ("positive", "negative")], samples()
            ),
            "differ in algorithm.sign (positive and negative)",
        ),
        (lambda: mupc.algorithm_gradients(network(), GD, X, Y), "Write mupc.PC(solver) for a solver"),
        (
            lambda: mupc.algorithm_gradients(network(), mupc.ZIL(), X, Y, memory=jnp.zeros(3)),
            "memory is of another algorithm, or of a network of another size. Pass that of the run",
        ),
    ],
)
def test_what_cannot_work_says_so(make, says, as_users_see_it):
    with pytest.raises((ValueError, TypeError), match=re.escape(says)):
        make()
