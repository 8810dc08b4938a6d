"""Training on several devices (forced ones of the CPU) against the same run on one."""

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


def samples():
    """80 samples: ten batches of eight."""
    rng = np.random.default_rng(0)
    split = Split(rng.normal(size=(80, IN)), rng.integers(0, OUT, 80).astype(np.int32))
    return Dataset("points", split, split, None, Schema(labels=(0, 1, 2)), False, "made here")


def fit(algorithm, steps=STEPS, net=None, **options):
    settings = {"epochs": steps / 10, "batch_size": 8, "weight_lr": 0.05, "seed": 3}
    return mupc.fit(network() if net is None else net, samples(), algorithm, **settings | options)


def assert_same(one, two, tolerance=1e-10):
    """Losses, scores and weights are equal to rounding."""
    np.testing.assert_allclose(one.losses, two.losses, rtol=0, atol=tolerance)
    assert one.last["test_loss"] == pytest.approx(two.last["test_loss"], rel=0, abs=tolerance)
    for a, b in zip(jax.tree.leaves(one.network), jax.tree.leaves(two.network), strict=True):
        np.testing.assert_allclose(a, b, rtol=0, atol=100 * tolerance)


def test_four_devices_train_as_one():
    one, four = (fit(BP, steps=10, mesh=each) for each in (None, mesh(data=2, layers=2)))
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
def test_every_other_algorithm(name):
    net = network(skip=0 if name == "ep" else 1)
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
def test_data_with_a_chain():
    one, four = (fit(GD, steps=10, net=chain_of(network()), mesh=each) for each in (None, mesh(data=4)))
    assert_same(one, four)


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
def test_checkpoints_of_other_device_counts(sizes, tmp_path):
    """Saved by four devices in the middle of an epoch, resumed by one, two and eight."""
    settings = {"checkpoints": tmp_path, "checkpoint_every": 15}
    calls = iter(range(9))
    ended = fit(BP, **settings, mesh=mesh(layers=4), stop=lambda: next(calls) > 2)
    assert ended.stopped and 0 < ended.steps < STEPS
    assert_same(fit(BP), fit(BP, **settings, mesh=sizes and mesh(**sizes)))


def compiled(algorithm, hidden_layers, each):
    """The program of training steps on a mesh, and the bytes of the hidden weights with Adam's two moments."""
    net = mupc.Network(IN, OUT, width=16, hidden_layers=hidden_layers, key=jr.key(0))
    config, programs = mupc.TrainConfig(batch_size=8), DevicePrograms().on(as_mesh(each, ("data", "layers")))
    job = programs.place_job(config.job(net, samples(), mupc.training.as_algorithm(algorithm)))
    state = programs.start(job, programs.place(net))
    trace = programs.place(Trace(np.zeros(16), np.zeros(16), np.zeros(net.layer_count)))
    order = next(config.plan(samples()).batches.dispatches(job.source, range(2), None)).order
    with using(programs.mesh):
        lowered = eqx.filter_jit(advance.__wrapped__).lower(job, state, order, np.array([0, 0, 2]), trace)
    return lowered.compile().compiled, 3 * net.hidden.weight.nbytes


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
    moved = collectives(compiled(GD, hidden_layers, mesh(layers=4))[0])
    assert "collective-permute" in dict(moved) and "all-to-all" not in dict(moved)
    for kind, shapes in moved:
        for shape in shapes:
            numbers_per_layer = len(shape) == 1  # one number for each layer or sample
            assert numbers_per_layer or (sorted(shape) == [1, 8, 16] and kind != "all-gather"), (kind, shape)


@pytest.mark.slow
def test_batches_reduce_gradients():
    moved = collectives(compiled(BP, 8, mesh(data=4))[0])
    assert ("all-reduce", (7, 16, 16)) in [(kind, shape) for kind, shapes in moved for shape in shapes]
    assert not any((7, 16, 16) in shapes for kind, shapes in moved if kind != "all-reduce")


@pytest.mark.slow
def test_memory_falls_with_the_number_of_devices():
    """Of 31 matrices, Adam's moments and the activities, eight devices keep a quarter of what each of two does."""
    found = {count: compiled(GD, 32, mesh(layers=count)) for count in (2, 8)}
    two, eight = (program.memory_analysis() for program, _ in found.values())
    less = (1 / 2 - 1 / 8) * 32 / 31 * found[2][1]
    assert two.argument_size_in_bytes - eight.argument_size_in_bytes == pytest.approx(less, rel=0.01)
    assert two.output_size_in_bytes - eight.output_size_in_bytes == pytest.approx(less, rel=0.01)
    assert eight.temp_size_in_bytes < 0.35 * two.temp_size_in_bytes


def test_one_device_needs_no_mesh():
    assert as_mesh(mesh(data=1, layers=1), ("data", "layers")) is None


def test_infer():
    x, y = np.random.default_rng(1).normal(size=(6, IN)), np.arange(6) % OUT
    one, two = (mupc.infer(network(), x, y, GD, history=True, mesh=each) for each in (None, mesh(data=2)))
    np.testing.assert_allclose(one.activities, two.activities, atol=1e-14)
    np.testing.assert_allclose(one.history.energies, two.history.energies, atol=1e-14)
    assert len(two.activities.devices()) == 1


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
            lambda: fit(BP, net=chain_of(network()), mesh=mesh(layers=2)),
            "mesh has the axis 'layers', which divides the hidden layers of mupc.Network alone, not of a Chain. Use",
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
