"""Properties of inference: the window, the step size, convergence, the tolerance, the history."""

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
import reference
from compiled import compilations
from hypothesis import given, settings
from hypothesis import strategies as st

import mupc
from mupc.inference import _dense_problem


def test_errors_are_exactly_zero_at_the_forward_pass():
    network, x, y = reference.make(hidden_layers=6, activation="gelu", use_bias=True)
    solution = mupc.infer(network, x, y, mupc.GradientDescent(0.1, 0))
    assert not np.any(solution.errors)
    np.testing.assert_array_equal(solution.activities, mupc.forward(network, x)[0])
    np.testing.assert_allclose(solution.output_error, y - network(x), rtol=1e-14)
    assert int(solution.steps) == 0


@given(depth=st.integers(1, 40), reach=st.integers(1, 4), steps=st.integers(1, 60))
def test_windows_take_every_step_on_enough_layers(depth, reach, steps):
    plan = _dense_problem.window_sizes(depth, reach, steps)
    assert sum(count for _, count in plan) == steps
    assert len(plan) <= _dense_problem.WINDOWS
    taken = 0
    for layers, count in plan:
        taken += count
        assert min(depth, reach * taken) <= layers <= depth


@pytest.mark.parametrize("skip", [1, 2, *(pytest.param(skip, marks=pytest.mark.slow) for skip in (0, 3))])
@pytest.mark.parametrize("steps", [5, pytest.param(40, marks=pytest.mark.slow)])
def test_the_window_changes_nothing(skip, steps):
    network, x, y = reference.make(hidden_layers=23, skip=skip, activation="tanh", parameterisation="ntp")
    solver = mupc.GradientDescent(0.1, steps)
    windowed = mupc.infer(network, x, y, solver)
    start, _ = mupc.forward(network, x)
    full = mupc.infer(network, x, y, solver, activities=start)  # a given start switches the window off
    np.testing.assert_allclose(windowed.activities, full.activities, rtol=0, atol=1e-14)
    np.testing.assert_allclose(windowed.errors, full.errors, rtol=0, atol=1e-14)
    np.testing.assert_allclose(windowed.gradient_norm, full.gradient_norm, rtol=1e-9)
    untouched = max(0, 23 - max(1, skip) * steps)
    assert not np.any(windowed.errors[:untouched])


@pytest.mark.parametrize("free", [False, True])
def test_results_do_not_depend_on_the_batch_size(free):
    network, x, y = reference.make(activation="tanh")
    solver = mupc.GradientDescent(0.3, 4)
    x = None if free else x
    whole = mupc.infer(network, x, y, solver)
    part = mupc.infer(network, None if free else x[:1], y[:1], solver)
    np.testing.assert_allclose(part.activities, whole.activities[:, :1], rtol=0, atol=1e-14)


@pytest.mark.slow
@settings(max_examples=6)
@given(
    seed=st.integers(0, 999),
    skip=st.integers(0, 2),
    parameterisation=st.sampled_from(["sp", "mupc", "ntp", "orthogonal"]),
    fraction=st.floats(0.05, 0.99),
)
def test_one_more_step_never_raises_the_energy_below_the_stability_limit(seed, skip, parameterisation, fraction):
    network, x, y = reference.make(
        hidden_layers=3, seed=seed, skip=skip, parameterisation=parameterisation, activation="linear"
    )
    hessian = jax.hessian(lambda flat: mupc.energy(network, flat.reshape(3, 1, 6), x[:1], y[:1]))(jnp.zeros(18))
    largest = float(jnp.linalg.eigvalsh(hessian)[-1])
    solver = mupc.GradientDescent(fraction / largest, 25)
    energies = np.asarray(mupc.infer(network, x, y, solver, history=True).history.energies)
    assert np.all(np.diff(energies) <= 1e-14 * energies[0])


def test_history_holds_the_energy_and_gradient_norm_of_every_step():
    network, x, y = reference.make(hidden_layers=9, activation="tanh", parameterisation="ntp")
    trace = mupc.infer(network, x, y, mupc.GradientDescent(0.1, 6), history=True).history
    for steps in (0, 1, 6):
        solution = mupc.infer(network, x, y, mupc.GradientDescent(0.1, steps))
        np.testing.assert_allclose(trace.energies[steps], solution.energy, rtol=1e-12)
        np.testing.assert_allclose(trace.gradient_norms[steps], solution.gradient_norm, rtol=1e-12)


def test_gradient_norm_is_that_of_autodiff():
    network, x, y = reference.make(activation="tanh")
    solution = mupc.infer(network, x, y, mupc.GradientDescent(0.1, 4))
    gradient = 3 * jax.grad(lambda z: mupc.energy(network, z, x, y))(solution.activities)
    want = jnp.sqrt(jnp.mean(jnp.sum(gradient**2, axis=(0, 2))))
    np.testing.assert_allclose(solution.gradient_norm, want, rtol=1e-10)


def test_tolerance_stops_early_at_the_minimum():
    network, x, y = reference.make(hidden_layers=3, activation="linear", parameterisation="sp", skip=0)
    solution = mupc.infer(network, x, y, mupc.GradientDescent(0.2, 5000, tol=1e-10), history=True)
    assert mupc.RESULTS[solution.result] == "the relative gradient norm fell below the tolerance"
    assert 0 < int(solution.steps) < 5000
    norms = np.asarray(solution.history.gradient_norms)
    taken = int(solution.steps)
    assert norms[taken] <= 1e-10 * norms[0] < norms[taken - 1]
    assert np.all(np.isnan(norms[taken + 1 :]))
    energy = lambda f: mupc.energy(network, f.reshape(3, 3, 6), x, y)  # noqa: E731
    dense = -jnp.linalg.solve(jax.hessian(energy)(jnp.zeros(54)), jax.grad(energy)(jnp.zeros(54)))
    np.testing.assert_allclose(solution.activities, dense.reshape(3, 3, 6), rtol=0, atol=1e-8)


def test_tolerance_out_of_reach_is_said():
    network, x, y = reference.make(activation="tanh")
    solution = mupc.infer(network, x, y, mupc.GradientDescent(0.01, 3, tol=1e-6))
    assert mupc.RESULTS[solution.result] == "the step limit came before the tolerance was reached"
    assert int(solution.steps) == 3


@pytest.mark.parametrize("tol", [None, 1e-3])
def test_divergence_is_said(tol):
    network, x, y = reference.make(activation="linear", parameterisation="sp")
    solution = mupc.infer(network, x, y, mupc.GradientDescent(1e3, 400, tol=tol))
    assert "not finite" in mupc.RESULTS[solution.result]
    assert int(solution.steps) == 400 if tol is None else int(solution.steps) < 400


@pytest.mark.slow
def test_infer_and_learn_inside_jit_vmap_and_grad():
    network, x, y = reference.make(activation="tanh")

    def loss_after(lr):
        solution = mupc.infer(network, x, y, mupc.GradientDescent(lr, 4))
        return mupc.energy(network, solution.activities, x, y)

    rates = jnp.array([0.05, 0.1, 0.2])
    many = jax.vmap(jax.jit(loss_after))(rates)
    one_by_one = [loss_after(float(rate)) for rate in rates]
    np.testing.assert_allclose(many, one_by_one, rtol=1e-12)
    slope = jax.grad(loss_after)(0.1)
    finite = (loss_after(0.1 + 1e-6) - loss_after(0.1 - 1e-6)) / 2e-6
    np.testing.assert_allclose(slope, finite, rtol=1e-6)


def test_a_new_step_size_does_not_compile_again():
    network, x, y = reference.make(hidden_layers=2, width=7)  # a shape that no other test has
    with compilations("infer") as first:
        mupc.infer(network, x, y, mupc.GradientDescent(0.1, 2))
    with compilations("infer") as second:
        mupc.infer(network, x, y, mupc.GradientDescent(0.2, 2))
    assert (len(first), second) == (1, [])


def test_labels_equal_one_hot_rows():
    network, x, _ = reference.make(activation="tanh")
    labels = jnp.array([2, 0, 1])
    solver = mupc.GradientDescent(0.1, 4)
    a, b = (mupc.infer(network, x, y, solver) for y in (labels, jnp.eye(3)[labels]))
    assert eqx.tree_equal(a, b)


def test_unsupervised_start_is_drawn_from_the_key():
    network, _, y = reference.make(activation="tanh")
    solver = mupc.GradientDescent(0.1, 0)
    first, again, other = (mupc.infer(network, None, y, solver, key=jr.key(k)) for k in (1, 1, 2))
    np.testing.assert_array_equal(first.input, again.input)
    assert not np.array_equal(first.input, other.input)
    np.testing.assert_array_equal(first.activities, mupc.forward(network, first.input)[0])
    gradients = mupc.weight_gradients(network, first)
    assert gradients.input.weight.shape == network.input.weight.shape


def test_lists_are_batches_like_arrays():
    network, x, _ = reference.make(activation="tanh")
    labels = [0, 2, 1]
    solver = mupc.GradientDescent(0.1, 4)
    want = mupc.infer(network, x, jnp.eye(network.out_size)[jnp.array(labels)], solver)
    for targets in (labels, tuple(labels), np.eye(network.out_size)[labels].tolist()):
        found = mupc.infer(network, np.asarray(x).tolist(), targets, solver)
        np.testing.assert_array_equal(found.activities, want.activities)
    np.testing.assert_array_equal(network(np.asarray(x).tolist()), network(x))
