"""Error space does without conjugate gradients where a bound says that they would gain little."""

from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

import mupc
from mupc.inference import Batch, pose
from mupc.network import POLICIES

X = jr.normal(jr.key(1), (12, 6))


def small_network(outputs: int, activation: str = "tanh", scale: float = 1.0) -> mupc.Network:
    network = mupc.Network(6, outputs, 16, 5, activation=activation, key=jr.key(0))
    return jax.tree.map(lambda leaf: scale * leaf, network)


def decrease(network: mupc.Network, y: jax.Array, energy: mupc.Energy, **settings: object) -> float:
    start = mupc.infer(network, X, y, mupc.ErrorSpace(steps=0), energy=energy).energy
    return float(start - mupc.infer(network, X, y, mupc.ErrorSpace(**settings), energy=energy).energy)


def injected_loss(network: mupc.Network, errors: jax.Array, y: jax.Array) -> jax.Array:
    """The loss of a pass up in which every layer has an error of its own, layer by layer."""
    first, hidden, last = network.multipliers
    z = first * X @ network.input.weight.T + errors[0]
    for weight, own in zip(network.hidden.weight, errors[1:], strict=True):
        z = z + hidden * jnp.tanh(z) @ weight.T + own
    return jnp.sum((last * jnp.tanh(z) @ network.readout.weight.T - y) ** 2) / 2


def test_a_small_output_precision_needs_one_gradient() -> None:
    network, y = small_network(3), jr.normal(jr.key(2), (12, 3))
    solution = mupc.infer(network, X, y, mupc.ErrorSpace(), energy=mupc.Energy(output_precision=1e-4))
    expected = -1e-4 * jax.grad(lambda e: injected_loss(network, e, y))(jnp.zeros_like(solution.errors))
    np.testing.assert_allclose(solution.errors, expected, rtol=1e-9, atol=1e-16)


@pytest.mark.parametrize("output_precision", [0.01, 1.0])
def test_rounding_costs_no_more_accuracy_than_in_backpropagation(output_precision: float) -> None:
    network, y = small_network(3, "relu"), jr.normal(jr.key(2), (12, 3))
    energy = mupc.Energy(output_precision=output_precision)

    def gradient(precision: str) -> jax.Array:
        solution = mupc.infer(network, X, y, mupc.ErrorSpace(), energy=energy, precision=precision)
        return mupc.weight_gradients(network, solution, X).hidden.weight

    def backprop(precision: str) -> jax.Array:
        return mupc.backprop_gradients(network, X, y, precision=precision).hidden.weight

    def loss(find: Callable[[str], jax.Array]) -> float:
        exact = find("float64")
        return float(jnp.linalg.norm(find("bf16") - exact) / jnp.linalg.norm(exact))

    assert 1e-4 < loss(gradient) < 1.5 * loss(backprop) < 0.1


@pytest.mark.parametrize("loss", ["mse", pytest.param("cross-entropy", marks=pytest.mark.slow)])
@pytest.mark.parametrize("precision", [0.01, 0.3, 1.0])
def test_the_energy_falls_by_99_percent_of_what_conjugate_gradients_reach(loss: str, precision: float) -> None:
    network, y = small_network(3, "relu", 4.0), jax.nn.one_hot(jr.randint(jr.key(2), (12,), 0, 3), 3)
    energy = mupc.Energy(loss=loss, output_precision=precision)
    assert decrease(network, y, energy) >= 0.99 * decrease(network, y, energy, cg_tol=None) > 0


@pytest.mark.parametrize("outputs", [1, 3])
def test_the_bound_holds_on_a_linear_network(outputs: int) -> None:
    """Compare it with the exact minimum of the same quadratic. With one output, |J|² is known exactly."""
    network, y = small_network(outputs, "linear"), jr.normal(jr.key(2), (12, outputs))
    energy = mupc.Energy(output_precision=0.1)
    problem = pose(network, Batch(X, y), energy, POLICIES["float64"])
    start = problem.start()
    linear = problem.linearise(start)
    downhill = linear.downhill()
    whole = problem.follow(downhill)
    found = linear.descent(downhill, whole.errors.output - start.errors.output)
    best = problem.follow(problem.move(jax.tree.map(jnp.zeros_like, downhill), found.best, downhill))
    least = mupc.infer(network, X, y, mupc.ExactLinear(), energy=energy).energy
    before = problem.value(start)
    for point, bound in ((whole, found.left_at_one), (best, found.left_at_best)):
        left = (problem.value(point) - least) / (before - problem.value(point))
        assert left <= bound + 1e-9
        assert bound < 0.01  # it says something
    if outputs == 1:  # one direction: the best length is the minimum
        assert abs(found.left_at_best) < 1e-9


def test_samples_that_the_trial_would_harm_are_not_taken_from_it() -> None:
    """A step of steepest descent is far too long here, so conjugate gradients decide."""
    network, y = small_network(3, "relu", 30.0), jr.normal(jr.key(2), (12, 3))
    energy = mupc.Energy(output_precision=10.0)
    found, plain = (mupc.infer(network, X, y, mupc.ErrorSpace(cg_tol=tol), energy=energy) for tol in (0.005, None))
    np.testing.assert_allclose(found.errors, plain.errors, rtol=1e-8, atol=1e-12)


def test_samples_learn_whose_loss_falls_by_less_than_rounding() -> None:
    """Next to outputs of size 30, float32 keeps no digits of a loss of 1e-6. Steps that it cannot judge count as
    good."""
    network = small_network(3)
    outputs = network(X)
    network = eqx.tree_at(
        lambda at: at.readout.weight, network, 30 / jnp.max(jnp.abs(outputs)) * network.readout.weight
    )
    y, energy = jnp.argmax(network(X), axis=1), mupc.Energy(loss="cross-entropy", output_precision=0.1)
    narrow = jax.tree.map(lambda leaf: leaf.astype(jnp.float32), network)
    exact, found = (
        np.sqrt(np.sum(np.asarray(mupc.infer(n, x, y, mupc.ErrorSpace(cg_steps=1), energy=energy).errors) ** 2, (0, 2)))
        for n, x in ((network, X), (narrow, X.astype(jnp.float32)))
    )
    assert exact.min() < 1e-6 < exact.max()
    np.testing.assert_allclose(found, exact, rtol=0.3, atol=1e-9)


def test_samples_that_a_negative_nudge_moves_by_less_than_rounding_learn_as_well() -> None:
    """The errors of a well-learnt sample are those of steepest descent, −λ·g: none is shortened for rounding's sake."""
    network = small_network(3)
    network = eqx.tree_at(lambda at: at.readout.weight, network, 100 * network.readout.weight)
    network = jax.tree.map(lambda leaf: leaf.astype(jnp.float32), network)
    x = X.astype(jnp.float32)
    y, energy = jnp.argmax(network(x), axis=1), mupc.Energy(loss="cross-entropy")
    losses = energy.output_loss(network(x), jnp.eye(3)[y])
    learnt = np.flatnonzero((losses > 1e-7) & (losses < 1e-2))
    assert len(learnt)
    for i in learnt:
        one, label = x[i : i + 1], y[i : i + 1]
        nudged = mupc.algorithm_gradients(
            network, mupc.Nudged(mupc.ErrorSpace(cg_steps=1), 1e-3, "negative"), one, label, energy=energy
        )
        exact = mupc.backprop_gradients(network, one, label, energy=energy)
        np.testing.assert_allclose(nudged.hidden.weight, exact.hidden.weight, rtol=0.05, atol=1e-12)


@pytest.mark.parametrize("settings", [{"steps": 2}, {"cg_steps": None}], ids=["steps", "cg_steps"])
def test_who_asks_for_the_equilibrium_gets_conjugate_gradients(settings: dict) -> None:
    network, y = small_network(3), jr.normal(jr.key(2), (12, 3))
    energy = mupc.Energy(output_precision=0.01)
    found, plain = (
        mupc.infer(network, X, y, mupc.ErrorSpace(**settings, **more), energy=energy) for more in ({}, {"cg_tol": None})
    )
    np.testing.assert_allclose(found.errors, plain.errors, rtol=1e-8, atol=1e-12)


def test_a_sensitive_output_lowers_the_energy_as_well() -> None:
    """F*/λ = loss − λ/2·|g|² + O(λ²), with g the gradient of the loss in errors that are put in by hand."""
    network, y = small_network(3), jr.normal(jr.key(2), (12, 3))
    loss, g = jax.value_and_grad(injected_loss, argnums=1)(network, jnp.zeros((5, 12, 16)), y)
    off = []
    for precision in (0.02, 0.01):
        energy = mupc.Energy(output_precision=precision)
        found = mupc.infer(network, X, y, mupc.ErrorSpace(steps=20, cg_steps=None), energy=energy).energy
        off.append(float(len(X) * found / precision - (loss - precision / 2 * jnp.sum(g**2))))
    assert abs(off[0]) < 1e-3 * float(loss)
    np.testing.assert_allclose(off[0] / off[1], 4, rtol=0.1)


def test_a_nudge_away_from_the_target_learns_to_be_less_sensitive_and_one_towards_it_more() -> None:
    """Of the gradients, that with β and that with −β are apart by β·∂|g|²/∂W + O(β³), g as above."""
    network, y, beta = small_network(3), jr.normal(jr.key(2), (12, 3)), 1e-3

    def squared_sensitivity(network: mupc.Network) -> jax.Array:
        return jnp.sum(jax.grad(injected_loss, argnums=1)(network, jnp.zeros((5, 12, 16)), y) ** 2) / len(X)

    solver = mupc.ErrorSpace(steps=20, cg_steps=None)
    away, towards = (
        mupc.algorithm_gradients(network, mupc.Nudged(solver, beta, sign), X, y) for sign in ("negative", "positive")
    )
    found = jax.tree.map(lambda a, b: (a - b) / beta, away, towards)
    exact = jax.grad(squared_sensitivity)(network)
    for part in ("input", "hidden", "readout"):
        wanted = getattr(exact, part).weight
        np.testing.assert_allclose(getattr(found, part).weight, wanted, rtol=0, atol=1e-3 * np.abs(wanted).max())


def test_a_negative_cg_tol_is_refused() -> None:
    with pytest.raises(ValueError, match="cg_tol"):
        mupc.ErrorSpace(cg_tol=-1)
