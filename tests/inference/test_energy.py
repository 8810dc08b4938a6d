"""The energy's options against their formulas, and its invariants."""

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
import reference

import mupc


@pytest.fixture
def setting():
    network, x, y = reference.make(hidden_layers=5, activation="tanh", use_bias=True, parameterisation="ntp")
    return network, jr.normal(jr.key(5), (5, 3, 6)), x, y


def test_layer_energies_are_eq_1(setting):
    network, z, x, y = setting
    a = reference.multipliers("ntp", 5, 6, 5, 1)
    terms = reference.layer_terms(reference.parameters(network), x, z, y, a, jnp.tanh, 1, "mse", 1.0)
    np.testing.assert_allclose(mupc.layer_energies(network, z, x, y), jnp.stack(terms) / 3, rtol=1e-12)


@pytest.mark.parametrize("loss", ["mse", "cross-entropy"])
def test_layer_energies_sum_to_the_energy(setting, loss):
    network, z, x, y = setting
    y = y if loss == "mse" else jax.nn.softmax(y)
    options = mupc.Energy(loss, 0.5, 0.2, 0.1, 0.05)
    for free in (False, True):
        layers = mupc.layer_energies(network, z, x, y, energy=options, free_input=free)
        assert layers.shape == (6,)
        np.testing.assert_allclose(
            jnp.sum(layers), mupc.energy(network, z, x, y, energy=options, free_input=free), rtol=1e-12
        )


def test_activity_decay_adds_half_alpha_times_the_squares(setting):
    network, z, x, y = setting
    plain = mupc.layer_energies(network, z, x, y)
    for free in (False, True):
        options = mupc.Energy(activity_decay=0.8)
        extra = mupc.layer_energies(network, z, x, y, energy=options, free_input=free) - plain
        want = np.append(0.4 * np.sum(np.asarray(z) ** 2, axis=(1, 2)) / 3, 0.0)
        want[0] += 0.4 * np.sum(np.asarray(x) ** 2) / 3 if free else 0.0
        np.testing.assert_allclose(extra, want, rtol=1e-12, atol=1e-14)


def test_weight_decay_adds_half_w_times_the_squares_and_w_times_the_weights(setting):
    network, z, x, y = setting
    options = mupc.Energy(weight_decay=0.6, output_precision=0.1)
    plain = mupc.Energy(output_precision=0.1)
    matrices = [np.asarray(w) for w, _ in reference.parameters(network)]
    extra = mupc.layer_energies(network, z, x, y, energy=options) - mupc.layer_energies(network, z, x, y, energy=plain)
    np.testing.assert_allclose(extra, [0.3 * np.sum(w**2) for w in matrices], rtol=1e-11)
    check_penalty_gradient(network, x, y, plain, options, [0.6 * w for w in matrices])


def test_orthogonality_penalty(setting):
    network, z, x, y = setting
    options, rho = mupc.Energy(orthogonality=0.6), 0.6
    matrices = [np.asarray(w) for w, _ in reference.parameters(network)]

    def term(w):
        gram = w @ w.T if w.shape[0] < w.shape[1] else w.T @ w
        return rho / 2 * np.sum((gram - np.eye(len(gram))) ** 2)

    def slope(w):  # d/dW ½‖WWᵀ − I‖² = 2 (WWᵀ − I) W, and the transpose of it
        if w.shape[0] < w.shape[1]:
            return 2 * rho * (w @ w.T - np.eye(len(w))) @ w
        return 2 * rho * w @ (w.T @ w - np.eye(w.shape[1]))

    extra = mupc.layer_energies(network, z, x, y, energy=options) - mupc.layer_energies(network, z, x, y)
    np.testing.assert_allclose(extra, [term(w) for w in matrices], rtol=1e-11)
    check_penalty_gradient(network, x, y, mupc.Energy(), options, [slope(w) for w in matrices])


def test_orthogonal_weights_have_no_orthogonality_penalty():
    network, x, y = reference.make(parameterisation="orthogonal", activation="linear")
    z, _ = mupc.forward(network, x)
    extra = mupc.energy(network, z, x, y, energy=mupc.Energy(orthogonality=1.0)) - mupc.energy(network, z, x, y)
    assert abs(float(extra)) < 1e-24


def check_penalty_gradient(network, x, y, plain, options, wanted):
    """Penalties reach the weight gradients of PC and of BP alike, and leave the activities alone."""
    solver = mupc.GradientDescent(lr=0.1, steps=4)
    before = mupc.infer(network, x, y, solver, energy=plain)
    after = mupc.infer(network, x, y, solver, energy=options)
    np.testing.assert_array_equal(before.activities, after.activities)
    pc = [mupc.weight_gradients(network, s, x) for s in (before, after)]
    bp = [mupc.backprop_gradients(network, x, y, energy=o) for o in (plain, options)]
    for without, with_penalty in (pc, bp):
        pairs = zip(reference.parameters(without), reference.parameters(with_penalty), wanted, strict=True)
        for (w0, b0), (w1, b1), want in pairs:
            np.testing.assert_allclose(w1 - w0, want, rtol=0, atol=1e-12 * (1 + np.abs(want).max()))
            np.testing.assert_array_equal(b0, b1)


def test_solution_energy_is_the_energy_there(setting):
    network, _, x, y = setting
    options = mupc.Energy("mse", 0.5, 0.2, 0.1, 0.05)
    for free in (False, True):
        solution = mupc.infer(
            network, None if free else x, y, mupc.GradientDescent(lr=0.1, steps=6), energy=options,
            input=x if free else None,
        )  # fmt: skip
        want = mupc.energy(
            network, solution.activities, solution.input if free else x, y, energy=options, free_input=free
        )
        np.testing.assert_allclose(solution.energy, want, rtol=1e-12)


@pytest.mark.parametrize("dtype", [jnp.float32, jnp.float64])
@pytest.mark.parametrize("logit", [200.0, 1e4, 1e8])
def test_cross_entropy_is_stable_at_any_logit(logit, dtype):
    network = mupc.Network(2, 2, 2, 1, activation="linear", parameterisation="sp", key=jr.key(0))
    eye = jnp.eye(2)
    network = jax.tree.map(lambda w: w.astype(dtype), network)
    network = eqx.tree_at(lambda n: (n.input.weight, n.readout.weight), network, (eye.astype(dtype),) * 2)
    x = jnp.array([[logit, 0.0], [0.0, 0.0]], dtype)
    options = mupc.Energy("cross-entropy")
    z, _ = mupc.forward(network, x)
    right = mupc.energy(network, z, x, jnp.array([0, 1]), energy=options)
    wrong = mupc.energy(network, z, x, jnp.array([1, 1]), energy=options)
    np.testing.assert_allclose(right, np.log(2) / 2, rtol=1e-6)
    np.testing.assert_allclose(wrong, (logit + np.log(2)) / 2, rtol=1e-6)
    solution = mupc.infer(network, x, jnp.array([1, 0]), mupc.GradientDescent(0.1, 1), energy=options)
    np.testing.assert_allclose(
        mupc.infer(network, x, jnp.array([1, 0]), mupc.GradientDescent(0.1, 0), energy=options).output_error,
        [[-1, 1], [0.5, -0.5]],
        atol=1e-6,
    )
    assert np.all(np.isfinite(solution.activities))


def test_output_precision_goes_to_backprop():
    """As λ → 0 the equilibrium's gradients, divided by λ, become those of backpropagation."""
    network, x, y = reference.make(hidden_layers=3, activation="tanh", parameterisation="sp", skip=0)
    bp = mupc.backprop_gradients(network, x, y)
    gaps = []
    for lam in (1e-2, 1e-4):
        options = mupc.Energy(output_precision=lam)
        solution = mupc.infer(network, x, y, mupc.GradientDescent(0.2, 1500), energy=options)
        pc = mupc.weight_gradients(network, solution, x)
        gaps.append(max(reference.relative(getattr(pc, n).weight, getattr(bp, n).weight)
                        for n in ("input", "hidden", "readout")))  # fmt: skip
    assert gaps[1] < 1e-3
    assert gaps[1] < gaps[0] / 20


@pytest.mark.parametrize("solver", [mupc.GradientDescent(0.2, 5), mupc.ErrorSpace()])
@pytest.mark.slow
def test_weight_gradients_know_the_precision_of_their_solution(setting, solver):
    """They are those of the energy that was minimised, over its λ: no other λ can be given."""
    network, _, x, y = setting
    for lam in (None, 0.01, 3.0):
        options = mupc.Energy(output_precision=lam)
        solution = mupc.infer(network, x, y, solver, energy=options)
        assert solution.objective.output_precision == (lam or 1.0)
        slopes = eqx.filter_grad(lambda n, z=solution.activities, o=options: mupc.energy(n, z, x, y, energy=o))(network)
        got = mupc.weight_gradients(network, solution, x)
        jax.tree.map(
            lambda a, b, scale=lam or 1.0: np.testing.assert_allclose(a, b / scale, rtol=0, atol=1e-12), got, slopes
        )
    with pytest.raises(TypeError, match="energy"):
        mupc.weight_gradients(network, solution, x, energy=mupc.Energy())
