"""Every solver on every kind of network, against plain numpy: the same steps, or the same equilibrium."""

import itertools

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import optax
import pytest
from oracle import Oracle

import mupc

KINDS = list(itertools.product(["linear", "tanh", "relu"], ["sp", "mupc"], [0, 1]))
DEPTHS = (1, 2, 8, 64)


def _momentum(gradient, state, nesterov=False):
    state["v"] = 0.8 * state.get("v", 0) + gradient
    return -0.1 * (gradient + 0.8 * state["v"] if nesterov else state["v"])


def _adam(gradient, state):
    state["t"] = t = state.get("t", 0) + 1
    state["m"] = 0.9 * state.get("m", 0) + 0.1 * gradient
    state["s"] = 0.999 * state.get("s", 0) + 0.001 * gradient**2
    return -0.01 * (state["m"] / (1 - 0.9**t)) / (np.sqrt(state["s"] / (1 - 0.999**t)) + 1e-2)


def _decayed(z_decay):
    def update(gradient, state):
        state["z"] = state.get("z", z_decay["start"])
        step = -0.1 * (gradient + 0.5 * state["z"])
        state["z"] = state["z"] + step
        return step

    return update


STEPPING = {
    "gd": (lambda n: mupc.GradientDescent(0.1, n), lambda g, s: -0.1 * g),
    "momentum": (lambda n: mupc.GradientDescent(0.1, n, momentum=0.8), _momentum),
    "nesterov": (
        lambda n: mupc.GradientDescent(0.1, n, momentum=0.8, nesterov=True),
        lambda g, s: _momentum(g, s, True),
    ),
    "cold-langevin": (lambda n: mupc.MonteCarlo(0.1, n, temperature=0.0), lambda g, s: -0.1 * g),
    "optax-sgd": (lambda n: mupc.Optax(optax.sgd(0.1), n), lambda g, s: -0.1 * g),
    # a large ε, for the oracle's sake: its rounding errors, not zero as the library's, would be blown up by Adam
    "optax-factor": (lambda n: mupc.Optax(optax.sgd(0.5), n, lr=0.2), lambda g, s: -0.1 * g),
    "optax-adam": (lambda n: mupc.Optax(optax.adam(0.01, eps=1e-2), n), _adam),
}
CONVERGING = {
    "exact-linear": lambda: mupc.ExactLinear(steps=2),
    "error-space": lambda: mupc.ErrorSpace(steps=100, cg_steps=None, tol=1e-9, energy_tol=0.0),
    "auto": lambda: mupc.GradientDescent("auto", tol=1e-8),
    "ode": lambda: mupc.ODE(t1=1e5, tol=1e-5, steps=6000),
}


def pytest_generate_tests(metafunc):
    """Every solver meets every activation, and skips, parameterisations and depths in turn. `make zoo` crosses all."""
    everything = metafunc.config.getoption("zoo")
    for name, solvers in {"stepping": STEPPING, "converging": CONVERGING}.items():
        if name not in metafunc.fixturenames:
            continue
        chosen = [
            (solver, *kind, depth)
            for (i, solver), (j, kind), (k, depth) in itertools.product(*map(enumerate, (solvers, KINDS, DEPTHS)))
            if everything or ((i + j + j // 4) % 4 == k and (i + j + j // 2) % 2 == 0)
        ]
        if name == "converging":  # a stiff flow takes minutes there, and a dense solve sees nothing of it
            chosen = [c for c in chosen if not (c[0] == "exact-linear" and c[1] != "linear")]
            chosen = [c for c in chosen if not (c[4] == 64 and c[0] in ("ode", "auto") and not everything)]
        ids = [f"{c[0]}-{c[1]}-{c[2]}-skip{c[3]}-H{c[4]}" for c in chosen]
        cases = [pytest.param(*c, marks=pytest.mark.slow if c[4] in (1, 64) else ()) for c in chosen]
        metafunc.parametrize(f"{name},activation,parameterisation,skip,depth", cases, ids=ids)


def make(activation, parameterisation, skip, depth, *, width=6, seed=2, **options):
    network = mupc.Network(
        5, 3, width, depth, activation=activation, parameterisation=parameterisation, skip=skip, key=jr.key(seed),
        **options,
    )  # fmt: skip
    return network, jr.normal(jr.key(1), (3, 5)), jr.normal(jr.key(3), (3, 3))


def close(got, want, rtol):
    """In the norm, relative to what is wanted."""
    assert np.linalg.norm(np.asarray(got) - want) <= rtol * np.linalg.norm(want)


def test_the_oracle_agrees_with_autodiff():
    network, x, y = make("tanh", "sp", 1, 4)
    oracle, z = Oracle.of(network, x, y, decay=0.3, precision=0.7), jr.normal(jr.key(4), (4, 3, 6))
    options = mupc.Energy(output_precision=0.7, activity_decay=0.3)
    value, slope = jax.value_and_grad(lambda z: 3 * mupc.energy(network, z, x, y, energy=options))(z)
    np.testing.assert_allclose(np.sum(oracle.energies(z)), value, rtol=1e-12)
    np.testing.assert_allclose(oracle.gradient(np.asarray(z)), slope, atol=1e-12)
    e = oracle.errors(np.asarray(z))[0]
    np.testing.assert_allclose(oracle.follow(e), z, atol=1e-12)
    away = 1e-6 * np.asarray(jr.normal(jr.key(5), e.shape))
    ahead, behind = (np.sum(oracle.energies(oracle.follow(e + sign * away))) for sign in (1, -1))
    np.testing.assert_allclose(
        np.sum(away * oracle.error_gradient(e, oracle.follow(e))), (ahead - behind) / 2, rtol=1e-6
    )


def test_stepping_solvers_equal_plain_steps(stepping, activation, parameterisation, skip, depth):
    network, x, y = make(activation, parameterisation, skip, depth)
    build, update = STEPPING[stepping]
    solution = mupc.infer(network, x, y, build(6))
    wanted = Oracle.of(network, x, y).descend(6, update)
    close(solution.activities, wanted, 1e-10)
    assert int(solution.steps) == 6
    assert mupc.RESULTS[solution.result] == "all the steps asked for were taken"


def test_converging_solvers_find_the_equilibrium(converging, activation, parameterisation, skip, depth):
    """Linear networks: a dense solve, as far as its condition number lets it be trusted. Others: no more energy than
    long L-BFGS finds, and for tanh the same activities."""
    network, x, y = make(activation, parameterisation, skip, depth)
    oracle = Oracle.of(network, x, y)
    solution = mupc.infer(network, x, y, CONVERGING[converging]())
    z, words = np.asarray(solution.activities), mupc.RESULTS[solution.result]
    exploding = parameterisation == "sp" and skip and depth == 64  # condition number 1e18
    if "limit" in words or "end time" in words:  # it says that it did not arrive, which is allowed here
        assert (converging in ("ode", "auto") and (depth > 2 or activation == "relu")) or exploding
        assert exploding or np.all(oracle.energies(z) <= oracle.energies(oracle.forward()))
        return
    first, found = (oracle.energies(at).mean() for at in (oracle.forward(), z))
    if activation == "linear":
        condition = np.linalg.cond(oracle.hessian())
        wanted = oracle.equilibrium()
        best = oracle.energies(wanted).mean()
        assert found <= best + (1e-3 if converging == "ode" else 1e-7) * (first - best)
        if not exploding:
            close(z, wanted, max(1e-10, 1e-15 * condition, 0 if converging != "auto" else 1e-8 * condition,
                                 0 if converging != "ode" else 1e-5 * condition))  # fmt: skip
        return
    if exploding:  # a maze of kinks: no solver finds what another does
        assert found < first
        return
    wanted = oracle.minimum()
    best = oracle.energies(wanted).mean()
    if activation == "tanh":
        assert found <= best + 1e-6 * (first - best)
        close(z, wanted, 5e-3 if converging == "ode" else 1e-4)
    else:  # minima on kinks, many of them: of the decrease that L-BFGS finds, nearly all
        assert first - found >= 0.9 * (first - best)


OPTIONS = {
    "decay": {"energy": mupc.Energy(activity_decay=0.3)},
    "cross-entropy": {"energy": mupc.Energy(loss="cross-entropy", output_precision=0.7)},
    "start": {"activities": True},
    "free": {"x": None},
    "free and decay": {"x": None, "energy": mupc.Energy(activity_decay=0.3)},
    "bias and 2-skip": {"use_bias": True, "skip": 2},
}


@pytest.mark.parametrize(
    "solver", [name if name == "error-space" else pytest.param(name, marks=pytest.mark.slow) for name in CONVERGING]
)
@pytest.mark.parametrize("option", OPTIONS)
def test_every_option_of_the_energy(solver, option):
    """At the solution the gradient of an independent energy, by autodiff, is gone; or the solver says why it cannot."""
    given = dict(OPTIONS[option])
    activation = "linear" if solver == "exact-linear" else "tanh"
    network, x, y = make(activation, "mupc", given.pop("skip", 1), 5, use_bias=given.pop("use_bias", False))
    y = jax.nn.softmax(y) if option == "cross-entropy" else y
    free = "x" in given
    if given.pop("activities", False):
        given["activities"] = jr.normal(jr.key(8), (5, 3, 6))
    given.pop("x", None)
    refused = {("exact-linear", "cross-entropy"), ("exact-linear", "free"), ("auto", "free")}
    arguments = (network, None if free else x, y, CONVERGING[solver]())
    if (solver, option) in refused:
        with pytest.raises(ValueError, match="ErrorSpace"):
            mupc.infer(*arguments, **given)
        return
    solution = mupc.infer(*arguments, **given)

    if "limit" in mupc.RESULTS[solution.result]:  # a free z₀ has valleys with a flat bottom
        assert option == "free"
        assert float(solution.energy) <= float(mupc.infer(*arguments[:3], mupc.GradientDescent(0.1, 3000)).energy)
        return

    def total(z, z0):
        return 3 * mupc.energy(network, z, z0, y, energy=given.get("energy"), free_input=free)

    slopes = jax.grad(total, (0, 1))(solution.activities, solution.input if free else x)
    first = mupc.infer(*arguments[:3], mupc.GradientDescent(1.0, 0), **given)
    left = np.linalg.norm(slopes[0]) + (np.linalg.norm(slopes[1]) if free else 0)
    assert left <= 1e-4 * float(first.gradient_norm) * np.sqrt(3)


@pytest.mark.parametrize("width", [64, pytest.param(128, marks=pytest.mark.zoo)])
@pytest.mark.parametrize("depth", [32, pytest.param(512, marks=pytest.mark.slow)])
def test_error_space_solves_linear_networks_at_once(width, depth):
    network = mupc.Network(20, 10, width, depth, activation="linear", key=jr.key(0))
    x, y = jr.normal(jr.key(1), (3, 20)), jr.normal(jr.key(2), (3, 10))
    solution = mupc.infer(network, x, y, mupc.ErrorSpace(steps=1, cg_steps=None))
    oracle = Oracle.of(network, x, y)
    before, after = (np.linalg.norm(oracle.gradient(z)) for z in (oracle.forward(), np.asarray(solution.activities)))
    assert after <= 1e-10 * before


MINIMA = {
    (64, 8, "tanh"): 0.4344131016,
    (64, 8, "relu"): 0.4451254666,
    (128, 8, "tanh"): 0.5014949148,
    (128, 8, "relu"): 0.4775414554,
    (64, 32, "tanh"): 0.364656996,
    (64, 32, "relu"): 0.3569542859,
    (64, 128, "tanh"): 0.2653534508,
    (64, 128, "relu"): 0.244141806,
    (128, 128, "tanh"): 0.3453206232,
    (128, 128, "relu"): 0.3083679607,
    (64, 512, "tanh"): 0.164729973,
    (64, 512, "relu"): 0.1337501423,
    (128, 512, "tanh"): 0.2179908767,
    (128, 512, "relu"): 0.1793560745,
}
"""Mean energy of four samples where scipy's L-BFGS-B ends after 3000 iterations in the errors, float64."""


@pytest.mark.parametrize(
    "width,depth,activation",
    [
        pytest.param(*case, marks=pytest.mark.zoo if case[0] > 64 else pytest.mark.slow if case[1] > 8 else ())
        for case in MINIMA
    ],
)
def test_error_space_reaches_what_lbfgs_finds(width, depth, activation):
    """At least 97 % of the decrease in ten outer steps, at any depth."""
    network = mupc.Network(784, 10, width, depth, activation=activation, key=jr.key(0))
    x, y = jr.normal(jr.key(7), (4, 784)), jnp.eye(10)[:4]
    solution = mupc.infer(network, x, y, mupc.ErrorSpace(steps=10), history=True)
    energies = np.asarray(solution.history.energies)
    decrease = energies[0] - MINIMA[width, depth, activation]
    assert energies[0] - energies[-1] >= 0.97 * decrease


def test_the_recorded_minima_are_minima():
    network = mupc.Network(784, 10, 64, 8, activation="tanh", key=jr.key(0))
    oracle = Oracle.of(network, jr.normal(jr.key(7), (4, 784)), jnp.eye(10)[:4])
    np.testing.assert_allclose(oracle.energies(oracle.minimum()).mean(), MINIMA[64, 8, "tanh"], rtol=1e-6)


@pytest.mark.slow
def test_error_space_gives_every_layer_a_signal_of_the_same_order():
    network = mupc.Network(784, 10, 64, 128, key=jr.key(0))
    x, y = jr.normal(jr.key(1), (8, 784)), jnp.eye(10)[:8]
    solution = mupc.infer(network, x, y, mupc.ErrorSpace())
    reach = mupc.credit_reach(network, solution, x, y)
    hidden = reach.gradient_norms[1:-1]
    assert hidden.min() >= 0.05 * hidden.max()
    assert reach.learning_layers == 129


def test_gradients_do_not_depend_on_the_size_of_the_output_precision():
    """λ changes the equilibrium, but not the scale of the gradients that Adam's ε is compared with."""
    network, x, y = make("tanh", "mupc", 1, 16, width=16)

    def top(precision):
        energy = mupc.Energy(output_precision=precision)
        solution = mupc.infer(network, x, y, mupc.ErrorSpace(), energy=energy)
        return mupc.weight_gradients(network, solution, x).hidden.weight

    bp = mupc.backprop_gradients(network, x, y).hidden.weight
    close(top(1e-3), np.asarray(bp), 1e-2)
    close(top(1e-6), np.asarray(bp), 1e-4)


def test_error_space_never_forms_a_matrix_of_the_output_size():
    network = mupc.Network(4, 2000, 8, 3, key=jr.key(0))
    x, y = jr.normal(jr.key(1), (2, 4)), jr.normal(jr.key(2), (2, 2000))
    solver = mupc.ErrorSpace(steps=1, cg_steps=None)
    jaxpr = str(jax.make_jaxpr(lambda x, y: mupc.infer(network, x, y, solver).activities)(x, y))
    assert "2000,2000" not in jaxpr
    linear = mupc.Network(4, 2000, 8, 3, activation="linear", key=jr.key(0))
    solution = mupc.infer(linear, x, y, solver)
    close(solution.activities, Oracle.of(linear, x, y).equilibrium(), 1e-10)


@pytest.mark.slow
def test_error_space_stops_by_energy_on_the_kinks_of_relu():
    """Where the gradient cannot vanish, the decrease of the energy ends inference, and the result says so."""
    network = mupc.Network(20, 10, 32, 16, key=jr.key(0))
    x, y = jr.normal(jr.key(1), (4, 20)), jnp.eye(10)[:4]
    solution = mupc.infer(network, x, y, mupc.ErrorSpace(steps=50, cg_steps=None, tol=1e-6))
    assert "lowered the energy by less" in mupc.RESULTS[solution.result]
    assert int(solution.steps) < 50
    stopped = mupc.infer(network, x, y, mupc.ErrorSpace(steps=1, tol=1e-6))
    assert "step limit" in mupc.RESULTS[stopped.result]


@pytest.mark.slow
@pytest.mark.parametrize("activation", ["tanh", "relu"])
def test_error_space_converges_on_trained_networks(activation):
    digits = mupc.data.load("digits")
    network = mupc.Network(digits.in_size, digits.out_size, 16, 6, activation=activation, key=jr.key(0))
    energy = mupc.Energy(output_precision=0.1)
    trained = mupc.fit(network, digits, mupc.ErrorSpace(), energy=energy, epochs=1, weight_lr=0.03).network
    x, y = digits.x_train[:3], digits.y_train[:3]
    solution = mupc.infer(trained, x, y, mupc.ErrorSpace(steps=30, tol=1e-3), energy=energy)
    assert "limit" not in mupc.RESULTS[solution.result]
    oracle = Oracle.of(trained, x, y, precision=0.1)
    first, best = (oracle.energies(z).mean() for z in (oracle.forward(), oracle.minimum()))
    assert first - float(solution.energy) >= 0.98 * (first - best)


@pytest.mark.slow
@pytest.mark.parametrize("precision", ["float32", "bf16"])
def test_error_space_in_lower_precision(precision):
    network, x, y = make("tanh", "mupc", 1, 32, width=32)
    solver = mupc.ErrorSpace()
    energy = mupc.Energy(output_precision=0.1)

    def gradients(name):
        solution = mupc.infer(network, x, y, solver, energy=energy, precision=name)
        return mupc.weight_gradients(network, solution, x).hidden.weight

    close(gradients(precision), np.asarray(gradients("float64")), {"float32": 1e-5, "bf16": 3e-2}[precision])


@pytest.mark.slow
@pytest.mark.parametrize("precision", ["float32", "bf16"])
@pytest.mark.parametrize("solver", CONVERGING)
def test_every_solver_in_every_precision(solver, precision):
    """The same energy as in float64, to what the format can tell."""
    network, x, y = make("linear" if solver == "exact-linear" else "tanh", "mupc", 1, 4)
    loose = {"auto": mupc.GradientDescent("auto", tol=1e-2), "ode": mupc.ODE(tol=3e-2, t1=300.0)}
    chosen = loose.get(solver, CONVERGING[solver]() if solver == "exact-linear" else mupc.ErrorSpace(steps=4))
    solution = mupc.infer(network, x, y, chosen, precision=precision)
    exact = mupc.infer(network, x, y, CONVERGING[solver]())
    assert solution.precision == precision
    first = float(mupc.infer(network, x, y, mupc.GradientDescent(1.0, 0)).energy)
    assert abs(float(solution.energy) - float(exact.energy)) <= 2e-2 * (first - float(exact.energy))


@pytest.mark.parametrize("parameterisation,skip", [("sp", 0), ("mupc", 1), ("mupc", 2)])
def test_extreme_eigenvalues_of_linear_networks(parameterisation, skip):
    from mupc.inference import Batch, pose
    from mupc.inference.solvers import extremes
    from mupc.network._precision import POLICIES

    network, x, y = make("linear", parameterisation, skip, 8)
    options = mupc.Energy(activity_decay=0.2)
    posed = pose(network, Batch(x, y), options, POLICIES["float64"])
    largest, smallest = extremes(posed)
    wanted = np.linalg.eigvalsh(Oracle.of(network, x, y, decay=0.2).hessian())
    np.testing.assert_allclose(largest, wanted[-1], rtol=1e-3)
    np.testing.assert_allclose(smallest, wanted[0], rtol=1e-2)


def test_automatic_settings_take_fewer_steps_than_the_best_plain_descent():
    network, x, y = make("linear", "mupc", 1, 16)
    eigenvalues = np.linalg.eigvalsh(Oracle.of(network, x, y).hessian())
    best = 2 / (eigenvalues[0] + eigenvalues[-1])
    auto = mupc.infer(network, x, y, mupc.GradientDescent("auto"))
    plain = mupc.infer(network, x, y, mupc.GradientDescent(best, 20000, tol=1e-3))
    kappa = eigenvalues[-1] / eigenvalues[0]
    assert int(auto.steps) <= 8 * np.sqrt(kappa) < 0.2 * int(plain.steps)


def test_gradient_flow_follows_the_matrix_exponential():
    import scipy.linalg

    network, x, y = make("linear", "mupc", 1, 3, width=4)
    oracle = Oracle.of(network, x, y)
    solution = mupc.infer(network, x, y, mupc.ODE(t1=2.0, rtol=1e-8, atol=1e-8, tol=None))
    assert "end time" in mupc.RESULTS[solution.result]
    decay = scipy.linalg.expm(-2.0 * oracle.hessian())
    rest = oracle.equilibrium()
    offset = (oracle.forward() - rest).transpose(0, 2, 1).reshape(-1, 3)
    close(solution.activities, rest + (decay @ offset).reshape(3, 4, 3).transpose(0, 2, 1), 1e-6)


@pytest.mark.slow
def test_implicit_solvers_follow_the_same_flow_in_fewer_steps():
    import diffrax
    import optimistix

    network, x, y = make("linear", "mupc", 1, 3, width=4)
    fine = {"t1": 2.0, "rtol": 1e-7, "atol": 1e-7, "tol": None}
    want = mupc.infer(network, x, y, mupc.ODE(**fine))
    own = diffrax.VeryChord(rtol=1e-9, atol=1e-9, norm=optimistix.max_norm)
    for solver in (diffrax.Kvaerno5(), diffrax.Kvaerno5(root_finder=own)):
        close(mupc.infer(network, x, y, mupc.ODE(solver, **fine)).activities, want.activities, 1e-5)
    stiff = {"t1": 1e4, "tol": 1e-3}
    steps = [mupc.infer(network, x, y, mupc.ODE(s, **stiff)).steps for s in (diffrax.Tsit5(), diffrax.Kvaerno5())]
    assert steps[1] < steps[0]


def test_the_flow_ends_when_it_has_come_to_rest():
    """Long before its end time, with the default settings and with another diffrax solver."""
    import diffrax

    network, x, y = make("tanh", "mupc", 1, 4)
    for solver in (mupc.ODE(), mupc.ODE(diffrax.Dopri8(), t1=1e6, tol=1e-4)):
        solution = mupc.infer(network, x, y, solver)
        assert "relative gradient norm" in mupc.RESULTS[solution.result]
        assert float(solution.gradient_norm) > 0


def test_which_optax_rules_stay_within_the_active_window():
    local = [optax.sgd(0.1), optax.sgd(0.1, momentum=0.9, nesterov=True), optax.adam(0.1), optax.rmsprop(0.1)]
    others = [optax.adamw(0.1), optax.adagrad(0.1), optax.noisy_sgd(0.1, key=jr.key(0)), optax.lbfgs()]
    assert [mupc.Optax(rule, 3).local for rule in local] == [True] * 4
    assert [mupc.Optax(rule, 3).local for rule in others] == [False] * 4


def test_optax_rules_see_activities_and_can_search_along_lines():
    network, x, y = make("tanh", "mupc", 1, 5)
    oracle = Oracle.of(network, x, y)
    decays = optax.chain(optax.add_decayed_weights(0.5), optax.sgd(0.1))
    solution = mupc.infer(network, x, y, mupc.Optax(decays, 4))
    close(solution.activities, oracle.descend(4, _decayed({"start": oracle.forward()})), 1e-10)
    solution = mupc.infer(network, x, y, mupc.Optax(optax.lbfgs(), 60, tol=1e-6))
    close(solution.activities, oracle.minimum(), 1e-4)


def test_non_finite_energies_are_reported():
    network, x, y = make("linear", "sp", 1, 8)
    for solver in (mupc.GradientDescent(1e3, 500), mupc.GradientDescent(1e3, 500, tol=1e-3)):
        solution = mupc.infer(network, x, y, solver)
        assert "not finite" in mupc.RESULTS[solution.result]


@pytest.mark.slow
def test_training_estimates_automatic_settings_again():
    """Otherwise the step size of the start, too large for the weights of the end, would make inference diverge."""
    digits = mupc.data.load("digits")
    network = mupc.Network(digits.in_size, digits.out_size, 8, 4, activation="linear", key=jr.key(0))
    solver = mupc.GradientDescent("auto", refresh=4, tol=1e-2)
    settings = {"epochs": 1, "weight_lr": 0.05, "schedule": "constant"}
    result = mupc.fit(network, digits, solver, **settings)
    assert result.last["learning_layers"] == 5
    assert result.last["test_accuracy"] > 0.5
    assert not result.diverged
    whole = mupc.fit(network, digits, solver, **settings, evaluate_every=6)
    np.testing.assert_allclose(whole.last["test_loss"], result.last["test_loss"], rtol=0.2)


@pytest.mark.parametrize(
    "build,message",
    [
        (lambda: mupc.GradientDescent("atuo"), 'lr must be a number or "auto"'),
        (lambda: mupc.GradientDescent(0.1), "steps is missing"),
        (lambda: mupc.GradientDescent("auto", momentum=0.5), "momentum is chosen by lr"),
        (lambda: mupc.GradientDescent(0.1, 4, momentum=1.0), "momentum must be below 1"),
        (lambda: mupc.GradientDescent(0.1, 4, tol=0.0), "tol must be"),
        (lambda: mupc.GradientDescent("auto", refresh=0), "refresh"),
        (lambda: mupc.ErrorSpace(steps=-1), "steps"),
        (lambda: mupc.ErrorSpace(cg_steps=0), "cg_steps"),
        (lambda: mupc.ErrorSpace(energy_tol=-1.0), "energy_tol"),
        (lambda: mupc.ErrorSpace(halvings=-1), "halvings"),
        (lambda: mupc.ExactLinear(steps=-1), "steps"),
        (lambda: mupc.ODE(t1=0.0), "t1"),
        (lambda: mupc.ODE(rtol=-1.0), "rtol"),
        (lambda: mupc.Optax(optax.adam(0.1), -1), "steps"),
        (lambda: mupc.Optax.adam(0.0, 3), "lr"),
    ],
)
def test_bad_settings(build, message):
    with pytest.raises(ValueError, match=message):
        build()


def test_wrong_kinds_of_solvers():
    import diffrax

    with pytest.raises(TypeError, match="optax optimiser"):
        mupc.Optax(0.1, 4)
    with pytest.raises(TypeError, match="error estimate"):
        mupc.ODE(diffrax.Euler())
    with pytest.raises(TypeError, match=r"equations of one term, such as .* got KenCarp4\(\)"):
        mupc.ODE(diffrax.KenCarp4())
    network, x, y = make("tanh", "mupc", 1, 3)
    with pytest.raises(ValueError, match="ExactLinear needs a linear network, got activation 'tanh'. Use"):
        mupc.infer(network, x, y, mupc.ExactLinear())
    parts = [mupc.nodes.Linear(size, 2, key=jr.key(0)) for size in (x.shape[1], 2)]
    with pytest.raises(ValueError, match=r"ExactLinear is for a linear mupc\.Network, not for chains of nodes\. Use"):
        mupc.infer(mupc.Chain(parts, input_shape=x.shape[1:]), x, y[:, :2], mupc.ExactLinear())
