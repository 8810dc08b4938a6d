"""Losses of the user's own: against the built-in ones, against autodiff of the whole energy, and what is refused."""

import functools
import pickle

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
import reference
from compiled import compilations

import mupc
from mupc.inference import Batch, pose
from mupc.inference._dense_problem import Increments
from mupc.network._precision import POLICIES

DIGITS = mupc.data.load("digits")
SOLVERS = {
    "gd": mupc.GradientDescent(0.1, 6),
    "auto": mupc.GradientDescent("auto", 50),
    "adam": mupc.Optax(optax.adam(0.05), 6),
    "error-space": mupc.ErrorSpace(),
    "exact-cg": mupc.ErrorSpace(steps=4, cg_steps=None),
    "ode": mupc.ODE(t1=2.0),
}


def squared(output, target):
    return jnp.sum((output - target) ** 2) / 2


def cross_entropy(output, target):
    return jax.nn.logsumexp(output) * jnp.sum(target) - jnp.sum(target * output)


def huber(output, target):
    size = jnp.abs(output - target)
    return jnp.sum(jnp.where(size < 0.5, size**2 / 2, 0.5 * (size - 0.25)))


def bounded(output, target):
    """Not convex: far from the target it bends down."""
    return 1 - jnp.exp(-jnp.sum((output - target) ** 2))


OWN = {"mse": squared, "cross-entropy": cross_entropy}


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("name", OWN)
def test_an_own_loss_equals_the_built_in_one(name, solver):
    network, x, y = reference.make(activation="tanh", parameterisation="ntp", loss=name)
    found = []
    for loss in (name, OWN[name]):
        energy = mupc.Energy(loss, output_precision=0.5, activity_decay=0.1)
        solution = mupc.infer(network, x, y, SOLVERS[solver], energy=energy)
        gradients = mupc.weight_gradients(network, solution, x)
        found.append((solution.activities, solution.energy, solution.output_error, gradients))
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=0, atol=1e-12), *found)


@pytest.mark.slow
def test_inference_and_learning_equal_descent_by_autodiff():
    network, x, y = reference.make(activation="tanh", parameterisation="ntp", use_bias=True)
    energy = mupc.Energy(huber, output_precision=0.7)
    solution = mupc.infer(network, x, y, mupc.GradientDescent(0.2, 7), energy=energy)
    a, params = reference.multipliers("ntp", 5, 6, 4, 1), reference.parameters(network)
    zs, output = reference.feedforward(params, x, a, jnp.tanh, 1)
    assert 0 < np.sum(np.abs(output - y) < 0.5) < y.size  # both branches
    _, zs, value, wanted = reference.descend(
        params, x, zs, y, a, 0.7, 0.0, 0.2, activation="tanh", skip=1, loss=huber, free=False, steps=7
    )
    np.testing.assert_allclose(solution.activities, zs, rtol=0, atol=1e-12)
    np.testing.assert_allclose(solution.energy, value, rtol=1e-12)
    got = reference.parameters(mupc.weight_gradients(network, solution, x))
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=0, atol=1e-12), got, wanted)
    backprop = jax.grad(lambda p: sum(map(huber, reference.feedforward(p, x, a, jnp.tanh, 1)[1], y)) / len(y))(params)
    got = reference.parameters(mupc.backprop_gradients(network, x, y, energy=energy))
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=0, atol=1e-12), got, backprop)


@pytest.mark.slow
def test_a_loss_that_is_not_convex_is_lowered():
    """Where the Gauss–Newton matrix is indefinite, error space still goes downhill, to the same place as descent."""
    network, x, y = reference.make(activation="linear", parameterisation="ntp", skip=1)
    energy = mupc.Energy(bounded, output_precision=20.0)
    linear = pose(network, Batch(x, y), energy, POLICIES["float64"])
    linear = linear.linearise(linear.start())
    slope = jax.tree.map(jnp.negative, linear.downhill())
    _, bend = linear._curvature_along(slope)
    assert np.any(linear.problem.dot(slope, slope) + bend < 0)
    settled = mupc.infer(network, x, y, mupc.GradientDescent(0.01, 5000), energy=energy)
    for cg_steps in (2, None):
        solver = mupc.ErrorSpace(steps=60, cg_steps=cg_steps)
        solution = mupc.infer(network, x, y, solver, energy=energy, history=True)
        assert np.all(np.diff(solution.history.energies) <= 1e-12)
        assert solution.gradient_norm < 1e-6 * solution.history.gradient_norms[0]
        np.testing.assert_allclose(solution.energy, settled.energy, rtol=1e-5)


def test_negative_curvature_ends_the_linear_solve_downhill():
    """Samples with and without negative curvature in one batch: those without are solved exactly."""
    network, x, _ = reference.make(activation="linear", parameterisation="ntp", batch=2)
    output = network(x)
    y = output + jnp.array([[0.05, 0.0, 0.0], [3.0, 0.0, 0.0]])  # the second is beyond where it bends down
    energy = mupc.Energy(bounded, output_precision=1e4)
    problem = pose(network, Batch(x, y), energy, POLICIES["float64"])
    linear = problem.linearise(problem.start())
    rhs = linear.downhill()
    found = linear.solve(rhs, None, tol=1e-12)
    assert np.all(problem.dot(found, rhs) > 0)
    force, _ = linear._curvature_along(found)
    image = jax.tree.map(jnp.add, found, linear.apply_inverse_transpose(force))
    np.testing.assert_allclose(image.hidden[..., 0], rhs.hidden[..., 0], atol=1e-8 * np.abs(rhs.hidden[..., 0]).max())
    assert isinstance(found, Increments)


def test_a_negative_output_precision_bends_down_where_the_output_follows_strongly():
    """As in negative nudging. With one output, J is a row: the matrix is I − |λ|·JᵀJ, and bends down along Jᵀ if
    |λ|·|J|² > 1. The solution along Jᵀ is Jᵀ/(1 − |λ|·|J|²), or else Jᵀ itself."""
    network, x, y = reference.make(activation="tanh", parameterisation="ntp", out_size=1)
    problem = pose(network, Batch(x, y), mupc.Energy(output_precision=1.0), POLICIES["float64"])
    at_start = problem.linearise(problem.start())
    pull, residual = at_start.downhill(), at_start.output_pull()
    sizes = problem.dot(pull, pull) / problem.output_dot(residual, residual)
    precision = -1 / (1.1 * np.median(sizes))
    strong = -precision * sizes > 1
    assert strong.any() and not strong.all()
    pushed = eqx.tree_at(lambda at: at.energy.output_precision, problem, precision)
    linear = pushed.linearise(pushed.start())
    rhs = linear.downhill()
    lengths = 1 / np.where(strong, 1, 1 + precision * sizes)
    for steps in (1, None):
        found = linear.solve(rhs, steps, tol=1e-12)
        np.testing.assert_allclose(found.hidden, lengths * rhs.hidden, rtol=1e-9, atol=1e-12)


def test_exact_solvers_and_closed_forms_refuse_it():
    network, x, y = reference.make(activation="linear")
    energy = mupc.Energy(huber)
    with pytest.raises(ValueError, match=r"ExactLinear needs the loss \"mse\", got 'huber'"):
        mupc.infer(network, x, y, mupc.ExactLinear(), energy=energy)
    with pytest.raises(ValueError, match=r"is for the loss \"mse\" only, got 'huber'"):
        mupc.theory.equilibrium_energy(network, x, y, energy=energy)


@pytest.mark.slow
def test_the_activity_hessian_of_an_own_loss():
    """One sample at the forward pass, against the built-in loss."""
    network, x, y = reference.make(activation="tanh", loss="cross-entropy")
    at = mupc.forward(network, x[:1])[0]
    own, named = (
        mupc.theory.activity_hessian(network, x[0], y[0], at, energy=mupc.Energy(loss))
        for loss in (cross_entropy, "cross-entropy")
    )
    np.testing.assert_allclose(own, named, atol=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("algorithm", [mupc.PC(mupc.GradientDescent(0.1, 4)), mupc.PC(mupc.ErrorSpace()), mupc.BP()])
def test_training_with_an_own_loss(algorithm):
    """One run and many side by side, with labels as targets: an accuracy is measured as with the built-in loss."""
    network = mupc.Network(64, 10, 8, 3, key=jax.random.key(0))
    settings = {"epochs": 0.1, "batch_size": 32, "weight_lr": 0.01}
    own, named = (
        mupc.fit(network, DIGITS, algorithm, energy=mupc.Energy(loss, 1.0), **settings) for loss in (squared, "mse")
    )
    np.testing.assert_allclose(own.losses, named.losses, rtol=1e-5)
    assert own.last["test_accuracy"] == pytest.approx(named.last["test_accuracy"], abs=0.01)
    runs = [mupc.Run(network, algorithm, 0.01, 0, mupc.Energy(squared, λ)) for λ in (1.0, 0.5)]
    first, _ = mupc.fit_many(runs, DIGITS, epochs=0.1, batch_size=32)
    np.testing.assert_allclose(first.losses, own.losses, rtol=1e-5)


@pytest.mark.slow
def test_credit_reach_knows_the_loss():
    network, x, y = reference.make(activation="tanh")
    solution = mupc.infer(network, x, y, mupc.ErrorSpace(), energy=mupc.Energy(huber, output_precision=1e-3))
    found = mupc.credit_reach(network, solution, x, y)
    assert found.regime == "backprop-like" and found.evidence.smallest_cosine > 0.999


def test_the_same_function_compiles_once():
    network, x, y = reference.make(activation="tanh")
    solver = mupc.GradientDescent(0.1, 3)
    mupc.infer(network, x, y, solver, energy=mupc.Energy(huber))
    with compilations("infer") as programs:
        mupc.infer(network, x + 1, y, solver, energy=mupc.Energy(huber))
    assert not programs


def test_an_energy_pickles():
    again = pickle.loads(pickle.dumps(mupc.Energy(huber, output_precision=0.1)))
    assert again.loss is huber and again.output_precision == 0.1 and again.loss_name == "huber"


@pytest.mark.parametrize("loss", [huber, jax.jit(huber), functools.partial(huber)])
def test_anything_callable_and_hashable_is_a_loss(loss):
    network, x, y = reference.make()
    at = mupc.forward(network, x)[0]
    want = mupc.energy(network, at, x, y, energy=mupc.Energy(huber))
    np.testing.assert_allclose(mupc.energy(network, at, x, y, energy=mupc.Energy(loss)), want)


def whole(output, target):
    return jnp.argmax(output)


def unreduced(output, target):
    return (output - target) ** 2


def of_a_batch(output, target):
    return jnp.mean(jnp.sum((output - target) ** 2, axis=1))


def in_numpy(output, target):
    return np.square(np.asarray(output) - target).sum()


def nothing(output, target):
    pass


@pytest.mark.parametrize(
    ("loss", "message"),
    [
        (whole, r"loss whole returns a number of type int\d\d, which has no gradient\. Return a floating one\."),
        (unreduced, r"loss unreduced returns an array of shape .* .*take the sum or the mean over the outputs\.$"),
        (of_a_batch, r"of_a_batch fails on one sample's output .* shape \(\d+,\): 'axis 1 .*for one sample\.$"),
        (in_numpy, r"in_numpy fails .*Write it with jax\.numpy, for one sample\.$"),
        (nothing, r"nothing returns None for one sample's output and target"),
        (jnp.sin, r"loss sin fails .*"),
    ],
)
def test_functions_that_are_not_losses(loss, message):
    network, x, y = reference.make()
    for solver in (mupc.GradientDescent(0.1, 1), mupc.ErrorSpace()):
        with pytest.raises(ValueError, match=message) as caught:
            mupc.infer(network, x, y, solver, energy=mupc.Energy(loss))
        assert "\n" not in str(caught.value)
    with pytest.raises(ValueError, match=message):
        mupc.backprop_gradients(network, x, y, energy=mupc.Energy(loss))
    with pytest.raises(ValueError, match=message):
        mupc.fit(mupc.Network(64, 10, 8, 3, key=jax.random.key(0)), DIGITS, mupc.BP(), energy=mupc.Energy(loss))


@pytest.mark.parametrize("loss", [3, ["mse"]])
def test_what_cannot_be_called(loss):
    with pytest.raises(TypeError, match="loss must be a name such as 'mse', or a function of one sample's output"):
        mupc.Energy(loss)


def test_what_cannot_be_hashed():
    class Weighted:
        __hash__ = None

        def __call__(self, output, target):
            return huber(output, target)

    with pytest.raises(
        TypeError, match=r"loss is an object of type Weighted that has no hash.*Pass a plain function\."
    ):
        mupc.Energy(Weighted())
