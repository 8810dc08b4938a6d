"""Fast paths against the plain ones: gradient descent by the GPU's kernels, interpreted, and by the CPU's blocks, and
error space with J kept."""

import dataclasses
from types import SimpleNamespace

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

import mupc
from mupc.inference import Batch, _dense_linearised, _infer, kernels, pose, solve, why_no_kernels
from mupc.inference._dense_linearised import output_jacobian
from mupc.inference._operand import WeightOperand
from mupc.inference.kernels import _triton
from mupc.network import _backend, as_mesh, using
from mupc.network._activation import ACTIVATIONS
from mupc.network._precision import POLICIES


def posed(width=7, depth=3, batch=5, activation="tanh", skip=1, outputs=3, precision=0.5, network_key=0):
    network = mupc.Network(
        6, outputs, width, depth, activation=activation, skip=skip, parameterisation="sp", key=jr.key(network_key)
    )
    network = jax.tree.map(lambda w: w.astype(jnp.float32), network)
    x = jr.normal(jr.key(1), (batch, 6), jnp.float32)
    y = jax.nn.one_hot(jnp.arange(batch) % outputs, outputs, dtype=jnp.float32)
    energy = mupc.Energy(output_precision=precision)
    return pose(network, Batch(x, y), energy, POLICIES["bf16"])


def plain(case, lr, steps):
    """By the loop that every solver shares, which keeps a history."""
    return solve(mupc.GradientDescent(lr, steps), case, history=True).point.delta.hidden


def agree(got, want):
    """Layer by layer, because layers far from the output have far smaller values."""
    assert got.shape == want.shape
    for one, other in zip(got, want, strict=True):
        # sums in another order, and now and then an operand that they round to the other side
        np.testing.assert_allclose(one, other, rtol=0, atol=1e-3 * float(jnp.max(jnp.abs(other))))


@pytest.mark.parametrize(
    "width, depth, batch, steps",
    [
        pytest.param(1, 1, 1, 3, marks=pytest.mark.slow),
        (100, 3, 70, 5),
        pytest.param(7, 2, 1, 4, marks=pytest.mark.slow),
        pytest.param(7, 1, 70, 1, marks=pytest.mark.slow),
        pytest.param(16, 2, 16, 0, marks=pytest.mark.slow),
    ],
)
@pytest.mark.slow
def test_sizes(width, depth, batch, steps):
    case = posed(width, depth, batch, "relu", skip=min(1, depth - 1))
    agree(_triton.descend(case, 0.1, steps, interpret=True).hidden, plain(case, 0.1, steps))


@pytest.mark.slow
@pytest.mark.parametrize(
    "activation",
    [name if name == "gelu" else pytest.param(name, marks=pytest.mark.zoo) for name in sorted(ACTIVATIONS)],
)
def test_forms(activation):
    case = posed(20, 4, 6, activation, skip=len(activation) % 2, outputs=17, precision=0.1)
    agree(_triton.descend(case, 0.2, 6, interpret=True).hidden, plain(case, 0.2, 6))


def exactly(case):
    """The same problem with float64 products."""
    policy = POLICIES["float64"]
    maps = {
        name: WeightOperand(policy.cast(part.blocks), policy.cast(part.transposed), policy)
        for name, part in (("hidden", case.hidden), ("readout", case.readout))
    }
    return dataclasses.replace(policy.cast(case), **maps)


@pytest.mark.parametrize(
    "width, depth, batch, skip, steps, loss",
    [
        pytest.param(1, 1, 1, 0, 3, "mse", marks=pytest.mark.slow),
        (7, 3, 5, 0, 3, "cross-entropy"),
        pytest.param(10, 13, 7, 1, 13, "mse", marks=pytest.mark.slow),
        pytest.param(4, 3, 2, 1, 60, "cross-entropy", marks=pytest.mark.slow),
        pytest.param(100, 3, 2, 1, 3, "mse", marks=pytest.mark.slow),
    ],
)
@pytest.mark.slow
def test_blocks(width, depth, batch, skip, steps, loss):
    energy = mupc.Energy(output_precision=0.3, loss=loss)
    case = eqx.tree_at(lambda p: p.energy, exactly(posed(width, depth, batch, "tanh", skip)), energy)
    assert kernels.why_plain(case) is None
    got = solve(mupc.GradientDescent(0.05, steps), case, history=False).point.delta.hidden
    np.testing.assert_allclose(got, plain(case, 0.05, steps), rtol=1e-10, atol=1e-14)


@pytest.mark.slow
def test_blocks_with_rounded_products():
    case = posed(10, 5, 4)
    agree(solve(mupc.GradientDescent(0.1, 5), case, history=False).point.delta.hidden, plain(case, 0.1, 5))


def test_layers_that_no_signal_has_reached_stay_exactly_zero():
    delta = _triton.descend(posed(16, 6, 4), 0.3, 2, interpret=True).hidden
    reached = [bool(jnp.any(layer)) for layer in delta]
    assert reached == [False] * 4 + [True] * 2


@pytest.mark.slow
def test_many_at_once():
    """As `fit_many` runs it: networks and step sizes with a leading axis."""
    cases = [posed(network_key=key) for key in range(3)]
    stacked = jax.tree.map(lambda *leaves: jnp.stack(leaves) if eqx.is_array(leaves[0]) else leaves[0], *cases)
    rates = jnp.asarray([0.05, 0.1, 0.2])
    got = eqx.filter_vmap(lambda case, lr: _triton.descend(case, lr, 4, interpret=True).hidden)(stacked, rates)
    for index, case in enumerate(cases):
        agree(got[index], plain(case, float(rates[index]), 4))


@pytest.fixture
def on_a_gpu(monkeypatch):
    for module in (kernels, _dense_linearised):
        monkeypatch.setattr(module, "backend", lambda: _backend.GPU)


@pytest.mark.slow
def test_every_device_runs_them_for_its_own_samples(on_a_gpu, monkeypatch):
    used = []

    def descend(problem, lr, steps, interpreted=_triton.descend):
        used.append(problem.y.shape)
        return interpreted(problem, lr, steps, interpret=True)

    monkeypatch.setattr(_triton, "descend", descend)
    case, mesh = posed(batch=6), jax.make_mesh((2,), ("data",), devices=jax.devices()[:2])
    with using(as_mesh(mesh, ["data"])):
        got = eqx.filter_jit(solve)(mupc.GradientDescent(0.2, 6), case, False).point.delta.hidden
    assert used == [(3, 3)]
    agree(got, plain(case, 0.2, 6))


def test_where_they_are_used(on_a_gpu, monkeypatch):
    used = []

    def descend(problem, lr, steps):
        used.append(steps)
        return problem.start().delta

    monkeypatch.setattr(_triton, "descend", descend)
    solve(mupc.GradientDescent(0.1, 4), posed(), history=False)
    assert used == [4]
    with_decay = eqx.tree_at(lambda p: p.energy, posed(), mupc.Energy(activity_decay=0.1))
    entropy = eqx.tree_at(lambda p: p.energy, posed(), mupc.Energy(loss="cross-entropy"))
    own = eqx.tree_at(lambda p: p.energy, posed(), mupc.Energy(loss=jnp.abs))
    for case, why in (
        (posed(outputs=65), "at most 64 outputs"),
        (posed(activation=jnp.sin), "a function of your own"),
        (with_decay, "without activity decay"),
        (entropy, '"mse" only'),
        (own, "not 'abs'"),
        (posed(skip=2), "over one layer"),
        (exactly(posed()), "the precision is float64"),
    ):
        assert why in kernels.why_plain(case)
    for other in (
        mupc.GradientDescent(0.1, 4, momentum=0.5),
        mupc.GradientDescent(0.1, 4, tol=1e-3),
        mupc.GradientDescent("auto"),
    ):
        assert other.plain_rate is None
    assert kernels.why_plain(posed(activation=jnp.sin), _backend.CPU) is None


def test_training_can_ask_why_the_kernels_are_not_used(on_a_gpu, monkeypatch):
    monkeypatch.setattr(_infer, "backend", lambda: _backend.GPU)
    network, solver = mupc.Network(6, 3, 7, 3, key=jr.key(0)), mupc.GradientDescent(0.1, 4)
    bf16, float32 = POLICIES["bf16"], POLICIES["float32"]
    assert why_no_kernels(network, solver, mupc.Energy(), bf16) is None
    assert "the precision is float32" in why_no_kernels(network, solver, mupc.Energy(), float32)
    assert "given inputs" in why_no_kernels(network, solver, mupc.Energy(), bf16, free_input=True)
    for other, why in (
        (mupc.ErrorSpace(), "plain gradient descent"),
        (mupc.GradientDescent("auto", 4), "a given rate"),
    ):
        assert why in why_no_kernels(network, other, mupc.Energy(), bf16)
    monkeypatch.undo()
    assert why_no_kernels(network, solver, mupc.Energy(), float32) is None  # a CPU's blocks take any precision


@pytest.mark.parametrize(
    "capability, switch, why",
    [
        ("7.5", None, "compute capability 7.5"),
        ("8.0", None, None),
        ("10.3", None, None),
        ("gfx90a", None, None),
        ("9.0", "0", "MUPC_KERNELS=0"),
        ("9.0", "1", None),
    ],
)
def test_the_backend_says_why_there_are_no_kernels(monkeypatch, capability, switch, why):
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    monkeypatch.setattr(jax, "devices", lambda: [SimpleNamespace(compute_capability=capability)])
    monkeypatch.delenv("MUPC_KERNELS", raising=False)
    if switch is not None:
        monkeypatch.setenv("MUPC_KERNELS", switch)
    found = _backend.backend.__wrapped__()
    assert found.platform == "gpu" and found.unroll > 1
    assert (found.kernels, found.why_plain) == ("triton", "") if why is None else why in found.why_plain


def linearised(width, depth, batch, precision, skip=1, loss="mse"):
    """At a random point, where errors are not zero."""
    key = jr.split(jr.key(3), 4)
    network = mupc.Network(6, 3, width, depth, activation="tanh", skip=min(skip, depth - 1), key=key[0])
    policy = POLICIES[precision]
    network, x = policy.cast((network, jr.normal(key[1], (batch, 6))))
    y = jax.nn.one_hot(jnp.arange(batch) % 3, 3, dtype=policy.dtype)
    energy = mupc.Energy(loss=loss, output_precision=0.5)
    case = pose(network, Batch(x, y), energy, policy)
    delta = jax.tree.map(lambda z: 0.1 * jr.normal(key[2], z.shape, z.dtype), case.start().delta)
    return case.linearise(case.at(delta))


@pytest.mark.parametrize(
    "width, depth, batch, skip, loss",
    [
        (7, 5, 3, 2, "mse"),
        pytest.param(1, 1, 1, 0, "mse", marks=pytest.mark.slow),
        pytest.param(100, 3, 5, 1, "mse", marks=pytest.mark.slow),
        pytest.param(16, 4, 6, 1, "cross-entropy", marks=pytest.mark.slow),
    ],
)
@pytest.mark.slow
def test_error_space_with_the_jacobian_kept(width, depth, batch, skip, loss):
    passes = linearised(width, depth, batch, "float64", skip, loss)
    kept = dataclasses.replace(passes, jacobian=output_jacobian(passes))
    slope = passes.downhill()
    np.testing.assert_allclose(kept.downhill().hidden, slope.hidden, rtol=1e-11, atol=1e-14)
    for steps in (1, 3, 6, None):
        want = passes.solve(slope, steps, tol=1e-13).hidden
        np.testing.assert_allclose(kept.solve(slope, steps, tol=1e-13).hidden, want, rtol=1e-9, atol=1e-12)


@pytest.mark.slow
def test_the_jacobian_is_kept_as_products_read_it():
    passes = linearised(100, 6, 5, "bf16")
    jacobian = output_jacobian(passes)
    assert jacobian.rows.dtype == jnp.bfloat16
    want = output_jacobian(linearised(100, 6, 5, "float32")).rows
    np.testing.assert_allclose(jacobian.rows.astype(jnp.float32), want, rtol=0, atol=0.02 * float(jnp.max(want)))


def test_where_the_jacobian_is_kept(monkeypatch):
    plain = linearised(7, 3, 2, "float32")
    assert plain.with_jacobian().jacobian is None  # a CPU is quicker with a few narrow passes
    monkeypatch.setattr(_dense_linearised, "backend", lambda: _backend.GPU)
    assert plain.with_jacobian().jacobian is not None
    decaying = eqx.tree_at(lambda at: at.problem.energy.activity_decay, plain, 0.1)
    many = eqx.tree_at(lambda at: at.problem.y, plain, jnp.zeros((33, 2)))
    assert decaying.with_jacobian().jacobian is None and many.with_jacobian().jacobian is None
