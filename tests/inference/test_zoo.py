"""Every option against every other: inference and learning equal plain gradient descent on full activities, whose
gradients come from autodiff of an independent energy."""

import itertools

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
import reference

import mupc
from mupc.inference import Batch, pose
from mupc.inference._dense_problem import Increments
from mupc.network._precision import POLICIES

ACTIVATIONS = sorted(reference.PHI)
SKIPS = [0, 1, 2, 3]
OPTIONS = list(
    itertools.product(
        [False, True],  # bias
        ["mse", "cross-entropy"],
        [0.0, 0.3],  # activity decay
        [False, True],  # free input
        ["sp", "mupc", "ntp", "orthogonal"],
    )
)


def crossed():
    """Every activation with every skip: four pairs in the quick tests; in the slow ones every activation, and two of
    them with every skip."""
    quick = {("gelu", 0), ("tanh", 1), ("relu", 2), ("hard_tanh", 3)}
    for place, activation in enumerate(ACTIVATIONS):
        for skip in SKIPS:
            slow = activation in ("relu", "tanh") or (place + skip) % len(SKIPS) == 0
            rare = pytest.mark.slow if slow else pytest.mark.zoo
            yield pytest.param(activation, skip, marks=() if (activation, skip) in quick else rare)


CROSSED = list(crossed())


@pytest.mark.parametrize("activation, skip", CROSSED)
def test_energy_and_gradient_of_every_combination(activation, skip, request):
    """What every solver works with, at random increments from the forward pass and from elsewhere.

    Activation, skip, bias, loss and decay are all crossed; parameterisation, free input and start take turns so that
    each meets every other option. `make zoo` crosses those too.
    """
    lam, policy = 0.7, POLICIES["float64"]
    moved, elsewhere = 0.5 * jr.normal(jr.key(1), (4, 3, 6)), jr.normal(jr.key(3), (4, 3, 6))
    cases = list(itertools.product(OPTIONS, [None, elsewhere]))
    if not request.config.getoption("zoo"):
        offset = ACTIVATIONS.index(activation) + skip
        # one in sixteen: start (2), parameterisation (4) and free input (2) are the fastest-running axes of the product
        cases = [cases[16 * i + (3 * offset + 5 * i) % 16] for i in range(len(cases) // 16)]
    for (bias, loss, decay, free, parameterisation), start in cases:
        case = f"{parameterisation} bias={bias} {loss} decay={decay} free={free} forward={start is None}"
        network, x, y = reference.make(
            activation=activation, skip=skip, use_bias=bias, parameterisation=parameterisation, loss=loss
        )
        moved_input = 0.5 * x[::-1]
        options = mupc.Energy(loss=loss, output_precision=lam, activity_decay=decay)
        with jax.disable_jit():  # compiling each case would take most of the time
            posed = pose(network, Batch(x, y, start, free_input=free), options, policy)
            delta = Increments(moved.mT, moved_input.T if free else None)
            point = posed.at(delta)
            gradient, value = posed.gradient(point), posed.value(point)
        want_input, want_hidden, want = reference.energy_and_gradient(
            reference.parameters(network), x + (moved_input if free else 0), posed.base.mT + moved, y,
            reference.multipliers(parameterisation, 5, 6, 4, skip), lam, decay,
            activation=activation, skip=skip, loss=loss, free=free,
        )  # fmt: skip
        np.testing.assert_allclose(value, want / len(x), rtol=1e-11, err_msg=case)
        np.testing.assert_allclose(gradient.hidden.mT, want_hidden, rtol=0, atol=1e-10, err_msg=case)
        if free:
            np.testing.assert_allclose(gradient.input.T, want_input, rtol=0, atol=1e-10, err_msg=case)


@pytest.mark.parametrize("activation, skip", CROSSED)
def test_inference_and_learning_equal_plain_descent(activation, skip):
    depth, steps, lr, lam = 4, 3, 0.1, 0.7
    shift = ACTIVATIONS.index(activation) + 5 * skip
    for bias, loss, decay, free, parameterisation in OPTIONS[shift % 21 :: 21]:
        network, x, y = reference.make(
            activation=activation, skip=skip, use_bias=bias, parameterisation=parameterisation, loss=loss
        )
        options = mupc.Energy(loss=loss, output_precision=lam, activity_decay=decay)
        solver = mupc.GradientDescent(lr=lr, steps=steps)
        with jax.disable_jit():
            solution = mupc.infer(network, None if free else x, y, solver, energy=options, input=x if free else None)
            gradients = mupc.weight_gradients(network, solution, x)

        a = reference.multipliers(parameterisation, 5, 6, depth, skip)
        params = reference.parameters(network)
        zs, _ = reference.feedforward(params, x, a, reference.PHI[activation], skip)
        z0, zs, value, wanted = reference.descend(
            params,
            x,
            zs,
            y,
            a,
            lam,
            decay,
            lr,
            activation=activation,
            skip=skip,
            loss=loss,
            free=free,
            steps=steps,
        )
        case = str((bias, loss, decay, free, parameterisation))
        np.testing.assert_allclose(solution.activities, zs, rtol=0, atol=1e-10, err_msg=case)
        np.testing.assert_allclose(solution.energy, value, rtol=1e-10, err_msg=case)
        if free:
            np.testing.assert_allclose(solution.input, z0, rtol=0, atol=1e-10, err_msg=case)
        for (got_w, got_b), (want_w, want_b) in zip(reference.parameters(gradients), wanted, strict=True):
            np.testing.assert_allclose(got_w, want_w, rtol=0, atol=1e-10, err_msg=case)
            if bias:
                np.testing.assert_allclose(got_b, want_b, rtol=0, atol=1e-10, err_msg=case)


SHALLOW = [(1, 0), (1, 1), (2, 0), (2, 1), (3, 0), (3, 1), (3, 2)]
QUICK = [(1, 0), (3, 1)]


@pytest.mark.parametrize(
    "depth, skip", [pytest.param(*case, marks=() if case in QUICK else pytest.mark.slow) for case in SHALLOW]
)
@pytest.mark.parametrize("steps", [0, 1, 2, 7])
def test_shallow_networks_and_any_number_of_steps(depth, skip, steps):
    network, x, y = reference.make(hidden_layers=depth, skip=skip, activation="tanh", parameterisation="ntp")
    solution = mupc.infer(network, x, y, mupc.GradientDescent(lr=0.2, steps=steps))
    a = reference.multipliers("ntp", 5, 6, depth, skip)
    params = reference.parameters(network)
    zs, output = reference.feedforward(params, x, a, jnp.tanh, skip)
    _, zs, value, _ = reference.descend(
        params, x, zs, y, a, 1.0, 0.0, 0.2, activation="tanh", skip=skip, loss="mse", free=False, steps=steps
    )
    np.testing.assert_allclose(solution.activities, zs, rtol=0, atol=1e-12)
    np.testing.assert_allclose(solution.energy, value, rtol=1e-12)
    np.testing.assert_allclose(network(x), output, rtol=1e-12)
    assert int(solution.steps) == steps


@pytest.mark.parametrize(
    "function, loss, free",
    [
        (lambda z: z * jnp.exp(-(z**2)), "mse", True),
        (lambda z: jnp.abs(z), "cross-entropy", False),
        (jnp.sin, "mse", False),
    ],
)
def test_any_elementwise_callable(function, loss, free):
    network, x, y = reference.make(activation=function, parameterisation="sp", loss=loss)
    options = mupc.Energy(loss=loss)
    solver = mupc.GradientDescent(lr=0.1, steps=9)
    solution = mupc.infer(network, None if free else x, y, solver, energy=options, input=x if free else None)
    a, params = (1.0, 1.0, 1.0), reference.parameters(network)
    zs, _ = reference.feedforward(params, x, a, function, 1)
    _, zs, value, _ = reference.descend(
        params, x, zs, y, a, 1.0, 0.0, 0.1, activation=function, skip=1, loss=loss, free=free, steps=9
    )
    np.testing.assert_allclose(solution.activities, zs, rtol=0, atol=1e-10)
    np.testing.assert_allclose(solution.energy, value, rtol=1e-10)


@pytest.mark.parametrize("skip", SKIPS)
@pytest.mark.parametrize("loss", ["mse", "cross-entropy"])
def test_backprop_equals_autodiff_of_the_loss(skip, loss):
    network, x, y = reference.make(
        hidden_layers=7, skip=skip, activation="gelu", use_bias=True, parameterisation="ntp", loss=loss
    )
    a = reference.multipliers("ntp", 5, 6, 7, skip)

    def mean_loss(params):
        _, output = reference.feedforward(params, x, a, reference.PHI["gelu"], skip)
        if loss == "mse":
            return jnp.sum((y - output) ** 2) / (2 * len(y))
        return -jnp.sum(y * jax.nn.log_softmax(output)) / len(y)

    wanted = jax.grad(mean_loss)(reference.parameters(network))
    got = mupc.backprop_gradients(network, x, y, energy=mupc.Energy(loss=loss, output_precision=0.1))
    for pair, want in zip(reference.parameters(got), wanted, strict=True):
        np.testing.assert_allclose(pair[0], want[0], rtol=0, atol=1e-12)
        np.testing.assert_allclose(pair[1], want[1], rtol=0, atol=1e-12)


@pytest.mark.parametrize("skip", SKIPS)
def test_a_start_elsewhere_than_the_forward_pass(skip):
    network, x, y = reference.make(hidden_layers=6, skip=skip, activation="silu", use_bias=True)
    start = jax.random.normal(jax.random.key(9), (6, 3, 6))
    solution = mupc.infer(network, x, y, mupc.GradientDescent(lr=0.05, steps=5), activities=start)
    a = reference.multipliers("mupc", 5, 6, 6, skip)
    _, zs, value, _ = reference.descend(
        reference.parameters(network), x, start, y, a, 1.0, 0.0, 0.05,
        activation="silu", skip=skip, loss="mse", free=False, steps=5,
    )  # fmt: skip
    np.testing.assert_allclose(solution.activities, zs, rtol=0, atol=1e-12)
    np.testing.assert_allclose(solution.energy, value, rtol=1e-12)
