"""Training on several devices (forced ones of the CPU) against the same run on one."""

import functools
import math
import re

import equinox as eqx
import jax
import jax.random as jr
import numpy as np
import optax
import pytest
from chains import chain_of

import mupc
from mupc.data import Dataset, Schema, Split
from mupc.network import as_mesh, using
from mupc.training._step import DevicePrograms, Trace, advance

IN, OUT, HIDDEN, STEPS = 5, 3, 6, 50
GD, ERROR_SPACE, BP = mupc.GradientDescent(0.2, HIDDEN), mupc.ErrorSpace(), mupc.BP()
MAIN = {"gd": GD, "error-space": ERROR_SPACE, "bp": BP}
OTHERS = {
    "momentum": mupc.GradientDescent(0.2, HIDDEN, momentum=0.5),
    "adam": mupc.Optax(optax.adam(0.05), 4),
    "auto": mupc.GradientDescent("auto", 20),
    "nudged": mupc.Nudged(GD, 0.3, "centred", 0.6),
    "ipc": mupc.IPC(GD),
    "alm": mupc.ALM("auto"),
    "zil": mupc.ZIL(),
    "amortised": mupc.Amortised(GD),
    "samples": mupc.PC(mupc.MonteCarlo(0.2, 3)),
    "ep": mupc.EquilibriumPropagation(),
}


def mesh(**sizes):
    return jax.make_mesh(tuple(sizes.values()), tuple(sizes), devices=jax.devices()[: int(np.prod([*sizes.values()]))])


def network(hidden_layers=HIDDEN, **options):
    return mupc.Network(IN, OUT, width=8, hidden_layers=hidden_layers, activation="tanh", key=jr.key(0), **options)


FORMS = {"network": lambda net: net, "chain": chain_of}
CHAINS = {
    "mlp": lambda: chain_of(network()),
    "resnet": lambda: mupc.models.resnet((1, 3, 2), OUT, 4, (5, 1), key=jr.key(0)),
    "transformer": lambda: mupc.models.transformer(OUT, IN, 4, 5, 2, key=jr.key(0)),
}
"""Each has a stack of five nodes."""


def samples(net=None):
    """80 samples for a network, points or texts: ten batches of eight."""
    rng = np.random.default_rng(0)
    if net is not None and len(net.output_shape) == 2:
        split = Split(*(rng.integers(0, OUT, (80, IN)).astype(kind) for kind in (np.uint8, np.int32)))
        return Dataset("text", split, split, None, Schema(labels=("a", "b", "c"), context=IN), False, "made here")
    split = Split(rng.normal(size=(80, IN if net is None else net.in_size)), rng.integers(0, OUT, 80).astype(np.int32))
    return Dataset("points", split, split, None, Schema(labels=(0, 1, 2)), False, "made here")


def fit(algorithm, steps=STEPS, net=None, **options):
    settings = {"epochs": steps / 10, "batch_size": 8, "weight_lr": 0.05, "seed": 3}
    net = network() if net is None else net
    return mupc.fit(net, samples(net), algorithm, **settings | options)


@functools.cache
def chain_on_one_device(chain, name):
    return fit(MAIN[name], steps=10, net=CHAINS[chain]())


def assert_same(one, two, tolerance=1e-10):
    """Losses, scores and weights are equal to rounding."""
    np.testing.assert_allclose(one.losses, two.losses, rtol=0, atol=tolerance)
    assert one.last["test_loss"] == pytest.approx(two.last["test_loss"], rel=0, abs=tolerance)
    for a, b in zip(jax.tree.leaves(one.network), jax.tree.leaves(two.network), strict=True):
        np.testing.assert_allclose(a, b, rtol=0, atol=100 * tolerance)


@pytest.mark.parametrize("form", FORMS)
def test_four_devices_train_as_one(form):
    net = FORMS[form](network())
    one, four = (fit(BP, steps=10, net=net, mesh=each) for each in (None, mesh(data=2, layers=2)))
    assert_same(one, four)
    assert "on 4 CPUs (data 2, layers 2), without kernels" in four.compute_path
    assert all(len(leaf.devices()) == 1 for leaf in jax.tree.leaves(four.network))


@pytest.mark.slow
@pytest.mark.parametrize("name", MAIN)
@pytest.mark.parametrize("sizes", [{"data": 8}, {"layers": 4}, {"data": 3, "layers": 2}], ids=str)
def test_every_mesh(name, sizes):
    """The eight samples and five matrices divide evenly over some devices, and not over others."""
    assert_same(fit(MAIN[name]), fit(MAIN[name], mesh=mesh(**sizes)))


@pytest.mark.slow
@pytest.mark.parametrize("name", OTHERS)
@pytest.mark.parametrize("form", FORMS)
def test_every_other_algorithm(name, form):
    if (name, form) == ("amortised", "chain"):
        pytest.skip("an amortised start is for mupc.Network")
    net = FORMS[form](network(skip=0 if name == "ep" else 1))
    one, four = (fit(OTHERS[name], steps=10, net=net, mesh=each) for each in (None, mesh(data=2, layers=2)))
    assert_same(one, four, tolerance=1e-8)


@pytest.mark.slow
@pytest.mark.parametrize(("hidden_layers", "skip"), [(5, 1), (7, 2), (9, 0)])
def test_any_depth_and_skip(hidden_layers, skip):
    """Four devices have one to three layers each, some of them fewer than others."""
    net = network(hidden_layers, skip=skip, use_bias=True)
    one, four = (fit(GD, steps=10, net=net, mesh=each) for each in (None, mesh(layers=4)))
    assert_same(one, four)


@pytest.mark.slow
@pytest.mark.parametrize("settings", [{"augment": True}, {"unsupervised": True}], ids=str)
def test_random_numbers_do_not_depend_on_the_devices(settings):
    digits, (into, out) = mupc.data.load("digits"), (4, 64) if "unsupervised" in settings else (64, 10)
    net = mupc.Network(into, out, width=8, hidden_layers=5, key=jr.key(0))
    one, four = (mupc.fit(net, digits, GD, epochs=0.2, mesh=each, **settings) for each in (None, mesh(data=4)))
    assert_same(one, four)


@pytest.mark.slow
@pytest.mark.parametrize("name", MAIN)
@pytest.mark.parametrize("chain", CHAINS)
@pytest.mark.parametrize("sizes", [{"data": 4}, {"layers": 2}, {"layers": 4}, {"data": 2, "layers": 2}], ids=str)
def test_chains(chain, name, sizes):
    """Five nodes divide unevenly. The resnet's second stack has one node, so that only one device has some of it."""
    assert_same(chain_on_one_device(chain, name), fit(MAIN[name], steps=10, net=CHAINS[chain](), mesh=mesh(**sizes)))


@pytest.mark.slow
@pytest.mark.parametrize("sizes", [{"runs": 4}, {"runs": 2, "data": 2}], ids=str)
def test_many_runs(sizes):
    """Five runs on four devices: the chunk is filled up."""
    runs = [mupc.Run(network(), GD, rate, seed) for seed, rate in enumerate((0.1, 0.05, 0.02, 0.01, 0.2))]
    settings = {"epochs": 2, "batch_size": 8}
    seen = []
    several = mupc.fit_many(runs, samples(), mesh=mesh(**sizes), callbacks=[lambda s: seen.append(s.run)], **settings)
    for one, other in zip(mupc.fit_many(runs, samples(), **settings), several, strict=True):
        assert_same(one, other)
    assert set(seen) == set(range(5))


@pytest.mark.slow
@pytest.mark.parametrize("sizes", [None, {"layers": 2}, {"data": 2, "layers": 4}], ids=str)
@pytest.mark.parametrize("net", [network, CHAINS["resnet"]], ids=["network", "resnet"])
def test_checkpoints_of_other_device_counts(sizes, net, tmp_path):
    """Saved by four devices in the middle of an epoch, resumed by one, two and eight."""
    settings = {"checkpoints": tmp_path, "checkpoint_every": 15}
    net = net()
    calls = iter(range(9))
    ended = fit(BP, net=net, **settings, mesh=mesh(layers=4), stop=lambda: next(calls) > 2)
    assert ended.stopped and 0 < ended.steps < STEPS
    assert_same(fit(BP, net=net), fit(BP, net=net, **settings, mesh=sizes and mesh(**sizes)))


def wide(hidden_layers):
    return mupc.Network(IN, OUT, width=16, hidden_layers=hidden_layers, key=jr.key(0))


def compiled(algorithm, net, each):
    """The program of training steps on a mesh."""
    config, programs = mupc.TrainConfig(batch_size=8), DevicePrograms().on(as_mesh(each, ("data", "layers")))
    job = programs.place_job(config.job(net, samples(net), mupc.training.as_algorithm(algorithm)))
    state = programs.start(job, programs.place(net))
    trace = programs.place(Trace(np.zeros(16), np.zeros(16), np.zeros(net.layer_count)))
    order = next(config.plan(samples(net)).batches.dispatches(job.source, range(2), None)).order
    with using(programs.mesh):
        lowered = eqx.filter_jit(advance.__wrapped__).lower(job, state, order, np.array([0, 0, 2]), trace)
    return lowered.compile().compiled


def collectives(program):
    """The collective operations of a program with the shapes that they move."""
    found = re.findall(
        r"= (\S.*) (all-gather|all-reduce|all-to-all|collective-permute)(?:-start)?\(", program.as_text()
    )
    return [(kind, [tuple(map(int, s.split(","))) for s in re.findall(r"\[([\d,]+)\]", text)]) for text, kind in found]


@pytest.mark.slow
@pytest.mark.parametrize("hidden_layers", [8, 11])
def test_neighbours_exchange_one_layer(hidden_layers):
    """Gradient descent moves no weights, and one layer's activities at a time."""
    moved = collectives(compiled(GD, wide(hidden_layers), mesh(layers=4)))
    assert "collective-permute" in dict(moved) and "all-to-all" not in dict(moved)
    for kind, shapes in moved:
        for shape in shapes:
            numbers_per_layer = len(shape) == 1  # one number for each layer or sample
            assert numbers_per_layer or (sorted(shape) == [1, 8, 16] and kind != "all-gather"), (kind, shape)


@pytest.mark.slow
@pytest.mark.parametrize("chain", ["resnet", "transformer"])
def test_neighbours_exchange_one_latent(chain):
    """The same for the stacks of chains, where only the arrays of a single latent have so many numbers."""
    net = CHAINS[chain]()
    moved = collectives(compiled(GD, net, mesh(layers=4)))
    assert "collective-permute" in dict(moved) and "all-to-all" not in dict(moved)
    latents = {math.prod(shape[1:]) for shape in net.activity_shapes(8)}
    for kind, shapes in moved:
        for shape in shapes:
            assert len(shape) == 1 or (math.prod(shape) in latents and kind != "all-gather"), (kind, shape)


@pytest.mark.slow
def test_batches_reduce_gradients():
    moved = collectives(compiled(BP, wide(8), mesh(data=4)))
    assert ("all-reduce", (7, 16, 16)) in [(kind, shape) for kind, shapes in moved for shape in shapes]
    assert not any((7, 16, 16) in shapes for kind, shapes in moved if kind != "all-reduce")


DEEP = {
    "network": (lambda: wide(32), lambda net: net.hidden),
    "resnet": (lambda: mupc.models.resnet((1, 3, 2), OUT, 8, (32,), key=jr.key(0)), lambda net: net.parts[1]),
    "transformer": (lambda: mupc.models.transformer(OUT, IN, 8, 32, 2, key=jr.key(0)), lambda net: net.parts[1]),
}
"""Networks with a stack of 32 layers, or 31 that are filled up, and the stack."""


@pytest.mark.slow
@pytest.mark.parametrize("name", DEEP)
def test_memory_falls_with_the_number_of_devices(name):
    """Of a stack, Adam's moments and the activities, eight devices keep a quarter of what each of two does."""
    make, stack = DEEP[name]
    net = make()
    two, eight = (compiled(GD, net, mesh(layers=count)).memory_analysis() for count in (2, 8))
    less = (1 / 2 - 1 / 8) * 3 * sum(32 / len(leaf) * leaf.nbytes for leaf in jax.tree.leaves(stack(net)))
    assert two.argument_size_in_bytes - eight.argument_size_in_bytes == pytest.approx(less, rel=0.01)
    assert two.output_size_in_bytes - eight.output_size_in_bytes == pytest.approx(less, rel=0.01)
    assert eight.temp_size_in_bytes < 0.4 * two.temp_size_in_bytes


def test_one_device_needs_no_mesh():
    assert as_mesh(mesh(data=1, layers=1), ("data", "layers")) is None


@pytest.mark.parametrize(("form", "sizes"), [("network", {"data": 2}), ("chain", {"layers": 2})])
def test_infer(form, sizes):
    x, y = np.random.default_rng(1).normal(size=(6, IN)), np.arange(6) % OUT
    net = FORMS[form](network())
    one, two = (mupc.infer(net, x, y, GD, history=True, mesh=each) for each in (None, mesh(**sizes)))
    for a, b in zip(jax.tree.leaves(one.activities), jax.tree.leaves(two.activities), strict=True):
        np.testing.assert_allclose(a, b, atol=1e-14)
        assert len(b.devices()) == 1
    np.testing.assert_allclose(one.history.energies, two.history.energies, atol=1e-14)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: fit(BP, mesh=8), "mesh must be a jax.sharding.Mesh, got 8. Use jax.make_mesh((8,), ("),
        (lambda: fit(BP, mesh=mesh(model=2)), "mesh has the axis 'model', which is not known here. Name its axes"),
        (lambda: fit(BP, mesh=mesh(runs=2)), "mesh has the axis 'runs', which is not known here. Name its axes 'data'"),
        (lambda: fit(BP, batch_size=4, mesh=mesh(data=8)), "batch_size=4 is less than the 8 devices that share a"),
        (
            lambda: mupc.infer(network(), np.ones((3, IN)), np.zeros(3, int), GD, mesh=mesh(data=4)),
            "x has 3 rows, less than the 4 devices that share a batch. Use a larger batch, or fewer devices.",
        ),
        (
            lambda: fit(BP, net=mupc.models.transformer(OUT, IN, 4, split=True, key=jr.key(0)), mesh=mesh(layers=2)),
            "mesh has the axis 'layers', which divides every mupc.Stack of a network, and this one has none. Make a "
            "Stack of equal nodes, or use the axis 'data'.",
        ),
        (
            lambda: fit(BP, net=CHAINS["resnet"](), mesh=mesh(layers=8)),
            "mesh has 8 devices on the axis 'layers', and the deepest stack, 'stage 1', has 5 nodes. Use fewer",
        ),
        (
            lambda: fit(BP, mesh=mesh(layers=8)),
            "hidden_layers=6 are 5 matrices, fewer than the 8 devices of the axis 'layers'. Use fewer devices.",
        ),
        (
            lambda: mupc.fit_many([mupc.Run(network())], samples(), mesh=mesh(layers=2)),
            "mesh has the axis 'layers', which is not known here. Name its axes 'data' or 'runs'.",
        ),
    ],
)  # fmt: skip
def test_bad_input(call, message, as_users_see_it):
    with pytest.raises(ValueError, match=re.escape(message)):
        call()
