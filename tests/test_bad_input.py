"""What users get wrong: each mistake gets one line with the value and the cure."""

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

import mupc

NETWORK = mupc.Network(4, 3, 5, 2, key=jr.key(0))
X, Y = jnp.ones((2, 4)), jnp.zeros((2, 3))
SOLVER = mupc.GradientDescent(0.1, 1)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"in_size": 0}, ValueError, "in_size must be at least 1, got 0"),
        ({"width": -3}, ValueError, "width must be at least 1, got -3"),
        ({"hidden_layers": 0}, ValueError, "hidden_layers must be at least 1"),
        ({"skip": -1}, ValueError, "skip must be at least 0"),
        ({"skip": 3, "hidden_layers": 3}, ValueError, "skip=3 needs more than 3 hidden_layers, got 3"),
        ({"activation": "rleu"}, ValueError, "activation 'rleu' is not known. Did you mean 'relu'"),
        ({"activation": jnp.sum}, ValueError, "not elementwise"),
        ({"activation": jax.nn.softmax}, ValueError, "not elementwise: its value at one entry changes with the others"),
        ({"activation": lambda z: jnp.cumsum(z, axis=0)}, ValueError, "not elementwise"),
        ({"activation": mupc.Activation("own", jax.nn.softmax)}, ValueError, "not elementwise"),
        ({"activation": lambda z: z.nonsense}, ValueError, "cannot be applied to an array"),
        ({"parameterisation": "mupcc"}, ValueError, "Did you mean 'mupc'"),
        ({"multipliers": (1.0, 2.0)}, ValueError, "three numbers"),
        ({"multipliers": (1.0, 2.0, float("nan"))}, ValueError, "readout multiplier must be finite"),
    ],
)
def test_network(options, error, message):
    with pytest.raises(error, match=message):
        mupc.Network(**{"in_size": 4, "out_size": 3, "width": 5, "hidden_layers": 4, "key": jr.key(0)} | options)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"loss": "mes"}, ValueError, "loss 'mes' is not known. Did you mean 'mse'"),
        ({"output_precision": 0}, ValueError, "output_precision must be greater than 0, got 0"),
        ({"output_precision": 1e-20}, ValueError, "must be at least 1e-15, got 1e-20. Squares of errors would vanish"),
        ({"output_precision": float("inf")}, ValueError, "output_precision must be finite"),
        ({"activity_decay": -1.0}, ValueError, "activity_decay must be at least 0, got -1"),
        ({"weight_decay": float("nan")}, ValueError, "weight_decay must be finite"),
        ({"orthogonality": -0.1}, ValueError, "orthogonality must be at least 0"),
    ],
)
def test_energy(options, error, message):
    with pytest.raises(error, match=message):
        mupc.Energy(**options)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"lr": 0.0}, "lr must be greater than 0, got 0"),
        ({"lr": -1.0}, "lr must be greater than 0, got -1"),
        ({"lr": float("nan")}, "lr must be finite"),
        ({"steps": -1}, "steps must be at least 0, got -1"),
        ({"tol": 0.0}, "tol must be greater than 0"),
        ({"tol": 2.0}, "tol must be below 1, got 2"),
    ],
)
def test_solver(options, message):
    with pytest.raises(ValueError, match=message):
        mupc.GradientDescent(**{"lr": 0.1, "steps": 1} | options)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((NETWORK, X[:, :3], Y), r"x must have shape \(batch, 4\), got \(2, 3\)"),
        ((NETWORK, X[0], Y), r"x must have shape \(batch, 4\), got \(4,\)"),
        ((NETWORK, X, Y[:, :2]), r"y must have shape \(2, 3\), got \(2, 2\)"),
        ((NETWORK, X, Y[:1]), r"y must have shape \(2, 3\), got \(1, 3\)"),
        ((NETWORK, X, np.array([0, 3])), r"must hold class labels 0 … 2 .* got 0 … 3"),
        ((NETWORK, X, np.array([-1, 0])), "must hold class labels"),
        ((NETWORK, X, [0, 3]), "must hold class labels"),
        ((NETWORK, X[:0], Y[:0]), r"y has no rows, its shape is \(0, 3\): pass at least one sample"),
        ((NETWORK, X[:0], np.array([], int)), "y has no rows"),
        ((NETWORK, X, np.array([0.0, 1.0])), "holds float64: convert class labels to whole numbers"),
    ],
)
def test_infer_and_backprop_arrays(arguments, message):
    with pytest.raises(ValueError, match=message):
        mupc.infer(*arguments, SOLVER)
    with pytest.raises(ValueError, match=message):
        mupc.backprop_gradients(*arguments)


def test_the_rest_of_infer():
    with pytest.raises(ValueError, match=r"activities must have shape \(2, 2, 5\), got \(2, 2, 4\)"):
        mupc.infer(NETWORK, X, Y, SOLVER, activities=jnp.zeros((2, 2, 4)))
    with pytest.raises(ValueError, match="leave them out, or pass x=None"):
        mupc.infer(NETWORK, X, Y, SOLVER, key=jr.key(0))
    with pytest.raises(ValueError, match="input has 1 rows and y has 2"):
        mupc.infer(NETWORK, None, Y, SOLVER, input=X[:1])
    with pytest.raises(ValueError, match="precision 'fp32' is not known. Did you mean 'tf32'"):
        mupc.infer(NETWORK, X, Y, SOLVER, precision="fp32")
    with pytest.raises(ValueError, match="backpropagation does not have free activities"):
        mupc.backprop_gradients(NETWORK, X, Y, energy=mupc.Energy(activity_decay=0.1))


def test_weight_gradients():
    solution = mupc.infer(NETWORK, X, Y, SOLVER)
    with pytest.raises(ValueError, match="x is missing"):
        mupc.weight_gradients(NETWORK, solution)
    with pytest.raises(ValueError, match="x has 1 rows, the solution 2"):
        mupc.weight_gradients(NETWORK, solution, X[:1])
    with pytest.raises(ValueError, match="epsilon must be at least 0, got -1"):
        mupc.credit_reach(NETWORK, solution, X, Y, epsilon=-1)


def test_solution_of_another_network():
    solution = mupc.infer(NETWORK, X, Y, SOLVER)
    for width, depth in ((5, 4), (6, 2)):
        other = mupc.Network(4, 3, width, depth, key=jr.key(0))
        for use in (mupc.weight_gradients, lambda n, s, x: mupc.credit_reach(n, s, x, Y)):
            with pytest.raises(ValueError, match=r"solution has activities of shape \(2, 2, 5\), the network"):
                use(other, solution, X)


def test_swapped_or_missing_arguments():
    with pytest.raises(TypeError, match=r"must be a network such as mupc\.Network, got"):
        mupc.infer(X, X, Y, SOLVER)
    with pytest.raises(TypeError, match="solver must be a solver such as"):
        mupc.infer(NETWORK, X, Y, 0.1)
    with pytest.raises(ValueError, match="y is missing"):
        mupc.infer(NETWORK, X, None, SOLVER)
    with pytest.raises(TypeError, match=r"pass solution\.activities"):
        mupc.energy(NETWORK, mupc.infer(NETWORK, X, Y, SOLVER), X, Y)
    with pytest.raises(TypeError, match=r"such as jax\.random\.key\(0\), got 0"):
        mupc.Network(4, 3, 5, 2, key=0)
    with pytest.raises(TypeError, match="dataset must be a mupc"):
        mupc.fit(NETWORK, "digits", SOLVER)


@pytest.mark.usefixtures("as_users_see_it")
@pytest.mark.parametrize("energy", ["mse", mupc.Energy])
def test_wrong_energies(energy):
    solution, data = mupc.infer(NETWORK, X, Y, SOLVER), mupc.data.load("digits")
    digits = mupc.Network(64, 10, 4, 2, key=jr.key(0))
    for use in (
        lambda: mupc.infer(NETWORK, X, Y, SOLVER, energy=energy),
        lambda: mupc.energy(NETWORK, solution.activities, X, Y, energy=energy),
        lambda: mupc.backprop_gradients(NETWORK, X, Y, energy=energy),
        lambda: mupc.coordinate_sizes(digits, data, energy=energy),
        lambda: mupc.fit(digits, data, SOLVER, energy=energy),
        lambda: mupc.fit_many([mupc.Run(digits, SOLVER, energy=energy)], data),
    ):
        with pytest.raises(TypeError, match=r'energy must be a mupc\.Energy such as mupc\.Energy\(loss="mse"\), got'):
            use()


@pytest.mark.usefixtures("as_users_see_it")
def test_wrong_types():
    solution = mupc.infer(NETWORK, X, Y, SOLVER)
    for error, message, use in (
        (
            TypeError,
            r"solution must be a mupc\.Solution",
            lambda: mupc.weight_gradients(NETWORK, solution.activities, X),
        ),
        (TypeError, r"solution must be a mupc\.Solution", lambda: mupc.credit_reach(NETWORK, X, solution, Y)),
        (
            TypeError,
            r"must be a mupc\.Solution, .* got an object of type Network",
            lambda: mupc.credit_reach(solution, NETWORK, X, Y),
        ),
        (
            TypeError,
            r"must be a network such as mupc\.Network, got NoneType",
            lambda: mupc.fit(None, mupc.data.load("digits"), SOLVER),
        ),
        (TypeError, "key must be a JAX random key .* got 3", lambda: mupc.infer(NETWORK, None, Y, SOLVER, key=3)),
        (TypeError, "use_bias must be True or False, got 'no'", lambda: network(use_bias="no")),
        (TypeError, "nesterov must be True", lambda: mupc.GradientDescent(0.1, 1, nesterov="no")),
        (ValueError, "multipliers must be three numbers .* got 3.0", lambda: network(multipliers=3.0)),
    ):
        with pytest.raises(error, match=message):
            use()


def network(**options):
    return mupc.Network(4, 3, 5, 2, key=jr.key(0), **options)


def test_complex_numbers():
    for use in (
        lambda: NETWORK(X * 1j),
        lambda: mupc.infer(NETWORK, X, Y * 1j, SOLVER),
        lambda: mupc.infer(NETWORK, X, Y, SOLVER, activities=jnp.zeros((2, 2, 5)) * 1j),
    ):
        with pytest.raises(TypeError, match="must hold real numbers, got complex"):
            use()


def test_cross_entropy_needs_probabilities():
    energy = mupc.Energy(loss="cross-entropy")
    for use in (lambda y: mupc.infer(NETWORK, X, y, SOLVER, energy=energy).energy,
                lambda y: mupc.energy(NETWORK, jnp.ones((2, 2, 5)), X, y, energy=energy),
                lambda y: jnp.sum(mupc.backprop_gradients(NETWORK, X, y, energy=energy).input.weight)):  # fmt: skip
        with pytest.raises(ValueError, match="y has -0.5 in it, and cross-entropy needs class labels or probabilities"):
            use(Y.at[1, 2].set(-0.5))
        labels = np.array([0, 2])
        soft = jnp.eye(3)[labels]
        np.testing.assert_allclose(jax.jit(use)(soft), use(labels), rtol=1e-6)  # traced values are taken on trust


def test_energy_functions():
    with pytest.raises(ValueError, match=r"activities must have shape \(2, 2, 5\)"):
        mupc.energy(NETWORK, jnp.zeros((3, 2, 5)), X, Y)


def test_float64_without_64_bit_mode():
    jax.config.update("jax_enable_x64", False)
    try:
        with pytest.raises(ValueError, match="needs JAX's 64-bit mode"):
            mupc.infer(NETWORK, X, Y, SOLVER, precision="float64")
    finally:
        jax.config.update("jax_enable_x64", True)


def test_unknown_names():
    with pytest.raises(AttributeError, match="no attribute 'Netwrok'"):
        mupc.Netwrok  # noqa: B018


@pytest.mark.parametrize("sizes", [{"width": 2**31}, {"hidden_layers": 2**63}, {"width": 10**30}, {"in_size": 10**40}])
def test_sizes_that_no_machine_holds(sizes):
    with pytest.raises(ValueError, match="Use a smaller network"):
        mupc.Network(**({"in_size": 4, "out_size": 2, "width": 8, "hidden_layers": 3} | sizes), key=jr.key(0))
