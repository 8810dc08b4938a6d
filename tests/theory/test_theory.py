"""Closed-form Hessians against autodiff and the reference implementation, condition numbers against dense eigenvalues,
and the equilibrated energy against the energy at the exact solution."""

import functools
import itertools
import json
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
from oracle import Oracle
from reference import layer_terms, make, parameters, relative, total_energy

import mupc
from mupc import theory

GOLDEN = sorted((Path(__file__).parents[1] / "golden").glob("*.npz"))
QUICK = {("tanh", 0), ("relu", 1), ("gelu", 2), ("tanh", 3)}
PARAMETERISATIONS = ["sp", "mupc", "ntp", "orthogonal"]


@functools.partial(jax.jit, static_argnames=("activation", "skip", "loss", "free"))
def _autodiff(params, x, z, y, a, lam, decay, *, free, **static):
    start = x.size if free else 0

    def value(flat):
        z0 = flat[None, :start] if free else x
        return total_energy(params, z0, flat[start:].reshape(z.shape), y, a, lam, decay, free=free, **static)

    return jax.hessian(value)(jnp.concatenate([x.ravel(), z.ravel()]) if free else z.ravel())


def autodiff(network, z, x, y, energy=None, free=False):
    """The Hessian of the independent energy of one sample, z₀ first where it is free. Numbers are traced, so that
    networks of the same form share one compiled function."""
    energy = mupc.Energy() if energy is None else energy
    form = {"activation": network.activation.name, "skip": network.skip, "loss": energy.output_function, "free": free}
    numbers = (np.array(network.multipliers), energy.output_weight, energy.activity_decay)
    return _autodiff(parameters(network), x, z, y, *(jnp.asarray(n) for n in numbers), **form)


def small(**options):
    network, x, y = make(in_size=3, out_size=2, width=4, hidden_layers=5, batch=1, **options)
    return network, jr.normal(jr.key(7), (5, 1, 4)), x, y


@pytest.mark.parametrize("skip", [0, 1, 2, 3])
@pytest.mark.parametrize("parameterisation", PARAMETERISATIONS)
def test_linear_hessian_is_autodiffs(parameterisation, skip):
    for bias in (False, True):
        network, z, x, y = small(
            activation="linear", parameterisation=parameterisation, skip=skip, use_bias=bias, seed=skip
        )
        for decay, free in itertools.product([0.0, 0.3], [False, True]):
            energy = mupc.Energy(activity_decay=decay, output_precision=0.7, weight_decay=0.1)
            want = autodiff(network, z, x, y, energy, free)
            got = theory.activity_hessian(network, energy=energy, free_input=free)
            assert relative(got, want) < 1e-9
            assert got.dtype == np.float64


@pytest.mark.parametrize("depth, skip", [(1, 0), (2, 1), (4, 3), (9, 4)])
def test_shallow_and_skipping_hessians(depth, skip):
    network, x, y = make(hidden_layers=depth, skip=skip, activation="linear", width=3, batch=1, parameterisation="sp")
    for free in (False, True):
        got = theory.hessian_blocks(network, free_input=free)
        dense = got.dense()
        assert relative(dense[got.in_size :, got.in_size :], Oracle.of(network, x, y).hessian()) < 1e-9
        assert np.array_equal(dense, dense.T)
        v = np.random.default_rng(0).standard_normal(got.size)
        assert relative(got.product(v), dense @ v) < 1e-12


@pytest.mark.parametrize("activation, skip, free", [("linear", 1, True), ("tanh", 2, False)])
def test_hessian_of_mupc_energy(activation, skip, free):
    network, z, x, y = small(activation=activation, skip=skip, use_bias=True)
    energy = mupc.Energy(activity_decay=0.2, output_precision=0.7, weight_decay=0.1)
    start = 3 if free else 0

    def value(flat):
        inputs = flat[None, :start] if free else x
        return mupc.energy(network, flat[start:].reshape(z.shape), inputs, y, energy=energy, free_input=free)

    flat = jnp.concatenate([x.ravel(), z.ravel()]) if free else z.ravel()
    got = theory.activity_hessian(network, x, y, z, energy=energy, free_input=free)
    assert relative(got, jax.jit(jax.hessian(value))(flat)) < 1e-9


@pytest.mark.parametrize("activation", ["tanh", "relu", "gelu"])
@pytest.mark.parametrize("skip", [0, 1, 2, 3])
def test_nonlinear_hessian_is_autodiffs(activation, skip, request):
    if (activation, skip) not in QUICK and not request.config.getoption("--zoo"):
        pytest.skip("only with --zoo")
    free, loss = skip in (1, 2), "cross-entropy" if skip in (0, 1) else "mse"
    network, z, x, y = small(activation=activation, skip=skip, parameterisation="sp", use_bias=True, loss=loss)
    assert np.min(np.abs(z)) > 1e-4, "off the kinks"
    energy = mupc.Energy(loss, output_precision=0.7, activity_decay=0.3)
    want = autodiff(network, z, x, y, energy, free)
    assert relative(theory.activity_hessian(network, x, y, z, energy=energy, free_input=free), want) < 1e-9
    flat = theory.activity_hessian(network, x[0], y[0], z[:, 0], energy=energy, free_input=free)
    assert relative(flat, want) < 1e-9


def test_linear_hessian_with_cross_entropy_depends_on_the_sample():
    network, z, x, _ = small(activation="linear")
    energy = mupc.Energy("cross-entropy")
    want = autodiff(network, z, x, jnp.eye(2)[:1], energy)
    assert relative(theory.activity_hessian(network, x, 0, z, energy=energy), want) < 1e-9
    with pytest.raises(ValueError, match="activities missing"):
        theory.activity_hessian(network, energy=energy)


def test_float32_network_without_x64():
    network, z, x, y = small(activation="tanh", parameterisation="sp")
    single = jax.tree.map(lambda p: p.astype(jnp.float32), network)
    want = theory.activity_hessian(jax.tree.map(lambda p: p.astype(jnp.float64), single), x, y, z)
    z, x, y = (np.asarray(a) for a in (z, x, y))
    with jax.enable_x64(False):
        got = theory.activity_hessian(single, x, y, z)
    assert got.dtype == np.float64
    assert relative(got, want) < 1e-6


@pytest.mark.parametrize("path", GOLDEN, ids=lambda path: path.stem)
def test_golden_hessian(path):
    want = dict(np.load(path))
    config = json.loads(str(want["config"]))
    names = ("in_size", "out_size", "width", "hidden_layers", "activation", "parameterisation", "skip")
    network = mupc.Network(**{name: config[name] for name in names}, key=jr.key(0))
    weights = [jnp.asarray(want[name]) for name in ("w_input", "w_hidden", "w_readout")]
    network = eqx.tree_at(lambda n: [n.input.weight, n.hidden.weight, n.readout.weight], network, weights)
    got = theory.activity_hessian(network, want["x"][:1], want["y"][:1], want["forward"][:, :1])
    assert relative(got, want["hessian"]) < 1e-8
    values = np.linalg.eigvalsh(want["hessian"])
    ends = theory.condition_number(network, want["x"][:1], want["y"][:1], want["forward"][:, :1], method="iterative")
    assert (ends.smallest, ends.largest) == pytest.approx((values[0], values[-1]), rel=1e-6)
    if config["activation"] == "linear":
        assert relative(theory.activity_hessian(network), want["hessian"]) < 1e-8
        assert theory.equilibrium_energy(network, want["x"], want["y"]) == pytest.approx(
            float(want["equilibrium_energy"]), rel=1e-8
        )
    if path.stem == "linear-mupc-skip":
        assert relative(theory.equilibrium(network, want["x"], want["y"]), want["solution"]) < 1e-8


def deep(width, depth, parameterisation, skip, **options):
    sizes = {"in_size": 5, "out_size": 3, "width": width, "hidden_layers": depth}
    return mupc.Network(
        **sizes, activation="linear", parameterisation=parameterisation, skip=skip, key=jr.key(depth), **options
    )


def agree(network, **options):
    """Both methods, compared as far as float64 allows."""
    dense = theory.condition_number(network, **options)
    found = theory.condition_number(network, method="iterative", **options)
    assert found.definite == dense.definite
    assert found.largest == pytest.approx(dense.largest, rel=1e-6)
    kappa = dense.kappa
    if kappa == float("inf"):
        assert found.kappa == kappa
    else:
        assert found.kappa == pytest.approx(kappa, rel=max(1e-6, 1e-15 * kappa))
    return dense


@pytest.mark.slow
@pytest.mark.parametrize("depth", [2, 16, 64])
@pytest.mark.parametrize("parameterisation, skip", [("sp", 0), ("mupc", 1), ("orthogonal", 0), ("mupc", 0)])
def test_iterative_condition_number_is_the_dense_one(parameterisation, skip, depth):
    dense = agree(deep(16, depth, parameterisation, skip))
    assert dense.definite == "positive definite"
    assert 1 < dense.kappa < 1e9
    assert dense.smallest <= 1


@pytest.mark.slow
@pytest.mark.parametrize("parameterisation", ["sp", "mupc", "orthogonal"])
@pytest.mark.parametrize("depth, skip", [(2, 1), (16, 0), (16, 1), (16, 3), (64, 0), (64, 1)])
def test_wide_condition_numbers(parameterisation, depth, skip, request):
    if depth == 64 and not request.config.getoption("--zoo"):
        pytest.skip("only with --zoo: 4096 unknowns")
    agree(deep(64, depth, parameterisation, skip))


@pytest.mark.parametrize("skip", [2, 5])
def test_iterative_condition_number_with_long_skips(skip):
    assert agree(deep(8, 12, "mupc", skip)).definite == "positive definite"


def test_ill_conditioned():
    """A residual network in the standard parameterisation: κ near 1e8, at 64 layers beyond what float64 can tell."""
    network = deep(16, 24, "sp", 1)
    assert 1e7 < agree(network).kappa < 1e9, "where `agree` asks for 1e-6"
    assert agree(deep(16, 64, "sp", 1)).definite == "positive semidefinite"


def test_activity_decay_bounds_the_condition_number():
    network = deep(16, 16, "sp", 1)
    without = agree(network)
    energy = mupc.Energy(activity_decay=0.5)
    assert agree(network, energy=energy).smallest == pytest.approx(without.smallest + 0.5, rel=1e-9)


def test_free_input():
    """Theorem A.1: semidefinite with more inputs than outputs, definite with activity decay."""
    network = deep(8, 6, "mupc", 1)
    found = agree(network, free_input=True)
    assert found.definite == "positive semidefinite"
    assert found.kappa == float("inf")
    energy = mupc.Energy(activity_decay=0.1)
    decayed = agree(network, free_input=True, energy=energy)
    assert decayed.definite == "positive definite"
    assert decayed.smallest == pytest.approx(0.1, rel=1e-9)


@functools.partial(jax.jit, static_argnames="skip")
def _open_hessian(params, x, z, y, a, precisions, decay, *, skip):
    """The Hessian over (z₀, z, z_L) of a linear network's energy with both ends open: ½p₀‖x − z₀‖², the hidden layers,
    ½p_L‖z_L − a_LW_Lz_H‖² and ½p_y‖y − z_L‖². That with an end clamped is the same without its rows and columns."""
    first, inner = x.size, z.size

    def value(flat):
        z0, zs, top = flat[None, :first], flat[first : first + inner].reshape(z.shape), flat[None, first + inner :]
        hidden = sum(layer_terms(params, z0, zs, top, a, lambda z: z, skip, "mse", precisions[1]))
        ends = precisions[0] * jnp.sum((x - z0) ** 2) + precisions[2] * jnp.sum((y - top) ** 2)
        return hidden + (ends + decay * jnp.sum(flat**2)) / 2

    return jax.hessian(value)(jnp.concatenate([x.ravel(), z.ravel(), y.ravel()]))


@pytest.mark.slow
@pytest.mark.parametrize("skip", [0, 1, 2, 3])
def test_ends_of_the_hessian(skip):
    kinds = (None, "free", "dummy")
    for bias, decay in itertools.product([False, True], [0.0, 0.3]):
        network, z, x, y = small(activation="linear", parameterisation="ntp", skip=skip, use_bias=bias, seed=skip)
        energy = mupc.Energy(activity_decay=decay, output_precision=0.7)
        for source, target in itertools.product(kinds, kinds):
            precisions = (float(source == "dummy"), 1.0 if target else 0.7, 0.7 * (target == "dummy"))
            numbers = (jnp.array(network.multipliers), jnp.array(precisions), jnp.array(decay))
            whole = _open_hessian(parameters(network), x, z, y, *numbers, skip=skip)
            kept = slice(0 if source else 3, 25 if target else 23)
            options = {f"{source}_input": True} if source else {}
            options |= {f"{target}_output": True} if target else {}
            blocks = theory.hessian_blocks(network, energy=energy, **options)
            dense = blocks.dense()
            assert relative(dense, whole[kept, kept]) < 1e-9
            v = np.random.default_rng(0).standard_normal((blocks.size, 2))
            assert relative(blocks.product(v), dense @ v) < 1e-12
            assert relative(blocks.product(v[:, 0]), dense @ v[:, 0]) < 1e-12


def test_dummy_latents_are_the_papers():
    """§A.2.1: one more layer. Its own block is 2I at the output, and has the identity added at the input."""
    network, z, x, y = small(activation="linear")
    blocks = theory.hessian_blocks(network, dummy_input=True, dummy_output=True)
    assert np.array_equal(blocks.output, 2 * np.eye(2))
    w = network.multipliers[0] * np.asarray(network.input.weight)
    assert relative(blocks.input, np.eye(3) + w.T @ w) < 1e-12
    free = theory.hessian_blocks(network, free_output=True)
    assert np.array_equal(free.output, np.eye(2))
    assert relative(free.exit, -network.multipliers[2] * np.asarray(network.readout.weight)) < 1e-12

    network, z, x, y = small(activation="tanh", skip=2)
    free = theory.activity_hessian(network, x, y, z, free_input=True)
    dummy = theory.activity_hessian(network, x, y, z, dummy_input=True)
    assert relative(dummy - free, np.diag(np.arange(23) < 3)) < 1e-12


@pytest.mark.slow
@pytest.mark.parametrize("depth, skip", [(1, 0), (7, 1), (7, 3)])
@pytest.mark.parametrize("decay", [0.0, 0.3])
def test_iterative_condition_number_with_ends(depth, skip, decay):
    network = deep(8, depth, "mupc", skip)
    energy = mupc.Energy(activity_decay=decay, output_precision=0.7)
    for source, target in itertools.product(["free_input", "dummy_input"], ["free_output", "dummy_output"]):
        found = agree(network, energy=energy, **{source: True, target: True})
        assert found.size == 5 + 8 * depth + 3
        definite = decay > 0 or source == "dummy_input"
        assert found.definite == ("positive definite" if definite else "positive semidefinite")


def test_bad_ends():
    network, z, x, y = small(activation="tanh")
    linear, _, _, _ = small(activation="linear")
    for end in ("input", "output"):
        with pytest.raises(ValueError, match=f"free_{end} and dummy_{end} exclude each other"):
            theory.activity_hessian(linear, **{f"free_{end}": True, f"dummy_{end}": True})
    for end in ("free_output", "dummy_output"):
        with pytest.raises(ValueError, match="a free or dummy output is for linear networks .* got activation 'tanh'"):
            theory.condition_number(network, x, y, z, **{end: True})
        with pytest.raises(ValueError, match="with loss 'cross-entropy'"):
            theory.hessian_blocks(linear, x, 0, z, energy=mupc.Energy("cross-entropy"), **{end: True})
    with pytest.raises(TypeError, match="free_inptu"):
        theory.condition_number(linear, free_inptu=True)


@pytest.mark.parametrize("method", ["dense", "iterative"])
def test_indefinite(method):
    network, x, y = make(activation="tanh", hidden_layers=2, width=16, batch=1, parameterisation="sp")
    z = 2 * jr.normal(jr.key(3), (2, 1, 16))
    found = theory.condition_number(network, x, 20 * y, z, method=method)
    want = np.linalg.eigvalsh(autodiff(network, z, x, 20 * y))
    assert want[0] < -0.01
    assert found.definite == "indefinite"
    assert np.isnan(found.kappa)
    assert found.smallest == pytest.approx(want[0], rel=1e-6)
    assert found.largest == pytest.approx(want[-1], rel=1e-6)


def test_names_of_definiteness():
    ends = [(1.0, 2.0), (0.0, 1.0), (-1.0, 1.0), (-2.0, 0.0), (-2.0, -1.0)]
    names = [theory.Condition(largest, smallest, 4).definite for smallest, largest in ends]
    kinds = ["positive definite", "positive semidefinite", "indefinite", "negative semidefinite", "negative definite"]
    assert names == kinds


@pytest.mark.parametrize("parameterisation, skip", [("sp", 0), ("mupc", 1), ("sp", 3)])
def test_equilibrated_energy(parameterisation, skip):
    network, x, y = make(
        activation="linear", skip=skip, parameterisation=parameterisation, use_bias=skip > 0, hidden_layers=6
    )
    for weight in (1.0, 0.3):
        energy = mupc.Energy(output_precision=jnp.array(weight))
        z = theory.equilibrium(network, x, y, energy=energy)
        if skip == 0:
            assert relative(z, Oracle.of(network, x, y, precision=weight).equilibrium()) < 1e-9
        want = float(mupc.energy(network, z, x, y, energy=energy))
        assert theory.equilibrium_energy(network, x, y, energy=energy) == pytest.approx(want, rel=1e-9)
        loss = weight * float(jnp.mean(jnp.sum((y - network(x)) ** 2, axis=1))) / 2
        ratio = theory.loss_energy_ratio(network, x, y, energy=energy)
        assert ratio == pytest.approx(loss / want, rel=1e-9)
        assert ratio > 1
        logdet = np.linalg.slogdet(theory.activity_hessian(network, energy=energy))
        assert logdet[0] == 1
        assert logdet[1] == pytest.approx(
            np.linalg.slogdet(weight * theory.rescaling(network, energy=energy))[1], rel=1e-8
        )


def test_rescaling_of_a_plain_and_a_residual_network_is_the_papers():
    for skip in (0, 1):
        network, _, _ = make(activation="linear", hidden_layers=4, skip=skip, parameterisation="sp")
        _, a, last = network.multipliers
        product = last * np.asarray(network.readout.weight)
        want = np.eye(3) + product @ product.T
        for weight in reversed(np.asarray(network.hidden.weight)):
            product = product @ (skip * np.eye(6) + a * weight)
            want = want + product @ product.T
        assert relative(theory.rescaling(network), want) < 1e-12


def test_ratio_goes_to_one_with_width():
    """Theorem 1."""
    x, y = jr.normal(jr.key(1), (8, 5)), jr.normal(jr.key(2), (8, 3))
    ratios = [theory.loss_energy_ratio(deep(width, 4, "mupc", 1), x, y) for width in (8, 256)]
    assert ratios[0] > ratios[1] > 1
    assert ratios[1] < 1.05


@pytest.mark.usefixtures("as_users_see_it")
def test_bad_input():
    network, z, x, y = small(activation="tanh")
    linear, _, _, _ = small(activation="linear")
    cases = [
        ("activities missing: the Hessian of activation 'tanh'", (x, y)),
        ("y missing", (x, None, z)),
        (r"activities must have shape \(5, 1, 4\), got \(4, 1, 4\)", (x, y, z[1:])),
        ("x must be one sample, got 2", (jnp.ones((2, 3)), y, z)),
        ("y must have shape", (x, jnp.ones((2, 2)), z)),
        ("the activity Hessian is not finite", (x, y, z * jnp.nan)),
    ]
    for match, given in cases:
        with pytest.raises(ValueError, match=match):
            theory.hessian_blocks(network, *given)
    with pytest.raises(ValueError, match=r"activities must have shape \(5, 1, 4\)"):
        theory.condition_number(linear, activities=z[1:])
    with pytest.raises(ValueError, match="method 'itertive' is not known. Did you mean 'iterative'"):
        theory.condition_number(linear, method="itertive")
    with pytest.raises(TypeError, match="must be a network such as mupc.Network"):
        theory.hessian_blocks(linear.hidden)
    broken = eqx.tree_at(lambda n: n.hidden.weight, linear, linear.hidden.weight.at[0, 0, 0].set(jnp.nan))
    for function in (theory.hessian_blocks, theory.condition_number, theory.rescaling):
        with pytest.raises(ValueError, match="NaN or infinite weights"):
            function(broken)
    for function in (theory.equilibrium, theory.equilibrium_energy, theory.loss_energy_ratio):
        with pytest.raises(ValueError, match="linear networks only, got activation 'tanh'"):
            function(network, x, y)
        with pytest.raises(ValueError, match='the loss "mse" only'):
            function(linear, x, y, energy=mupc.Energy("cross-entropy"))
    with pytest.raises(ValueError, match="without activity decay, got activity_decay=0.1"):
        theory.rescaling(linear, energy=mupc.Energy(activity_decay=0.1))
