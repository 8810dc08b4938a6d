"""`mupc.bench`: floors against counts by hand, numbers that must agree with each other, and mistakes.

No test asserts how fast something is.
"""

import json
import re
import subprocess
import sys

import jax
import numpy as np
import pytest

from mupc import bench
from mupc.bench import __main__ as command
from mupc.bench import _baseline, _floors, _timing, _workloads
from mupc.bench._growth import growth, work_exponent
from mupc.plots import PerformanceLine

TINY = bench.BenchCase("gd", hidden_layers=3, width=2, batch_size=5)
INPUT, HIDDEN, READOUT = 2 * 784, 2 * 2, 2 * 10  # entries of its matrices: one, two and one of them
QUICK = {"quick": True, "repeats": 1}


@pytest.fixture
def small_device(monkeypatch):
    """Measure the device's limits with tiny programs, and train on few samples."""
    monkeypatch.setattr(_timing, "LARGE", {"cpu": 64, "other": 64})
    monkeypatch.setattr(_timing, "COPIED", {"cpu": 4096, "other": 4096})
    monkeypatch.setattr(_workloads, "TEST_SAMPLES", 250)
    monkeypatch.setattr(_workloads, "CALL_OVERHEAD", 0.0)
    monkeypatch.setattr(_workloads, "SAMPLES", {"epoch": 1280, "grid": 640})


def test_floor_by_hand():
    """Two steps of three layers. Step 0: the readout back. Step 1: readout up and back, and W₃ back. After it: readout
    and W₃ up. Learning: W₂, W₃ and the readout, as two layers are reached. Forward: all."""
    found = _floors.gradient_descent_work(TINY, 2, "float32")
    hidden, readouts = 2 + 1 + 1 + 2, 1 + 1 + 2 + 1 + 1
    assert found.flops == 2 * 5 * (INPUT + hidden * HIDDEN + readouts * READOUT)
    weights = INPUT + 2 * HIDDEN + READOUT
    reads = 2 * HIDDEN + 4 * READOUT
    shared = 2 * HIDDEN + 3 * READOUT  # the readout's two products of step 1 read it once
    layers_before, layers_after = 0 + 1, 1 + 2
    assert found.twice == 4 * (2 * weights + reads + (5 * layers_before + 2 * layers_after) * 10)
    assert found.once == 4 * (2 * weights + shared + (layers_before + 2 * layers_after) * 10)
    half = _floors.gradient_descent_work(TINY, 2, "bf16")
    assert half.flops == found.flops
    assert found.twice - half.twice == 2 * reads - 2 * weights  # reads are halved, a copy is written
    double = _floors.gradient_descent_work(TINY, 2, "float64")
    assert (double.twice, double.once) == (2 * found.twice, 2 * found.once)


@pytest.mark.parametrize("depth", [1, 2, 3, 6])
@pytest.mark.parametrize("steps", [0, 1, 2, 5, 9])
def test_window_against_propagated_sets(depth, steps):
    """Count the products of inference step by step, from the sets of layers that are not zero."""
    moved, products, readouts = set(), 0, 0

    def predict():
        return sum(layer - 1 in moved for layer in range(2, depth + 1)), depth in moved

    for _ in range(steps):
        up, top = predict()
        wrong = {layer for layer in range(1, depth + 1) if layer in moved or layer - 1 in moved}
        products += up + sum(layer in wrong for layer in range(2, depth + 1))
        readouts += top + 1
        moved = wrong | {layer - 1 for layer in wrong if layer > 1} | {depth}
    up, top = predict()
    wrong = {layer for layer in range(1, depth + 1) if layer in moved or layer - 1 in moved}
    products += up + sum(layer in wrong for layer in range(2, depth + 1))
    readouts += top + 1  # learnt
    width = 1000  # counts of the three kinds of matrices cannot make up for each other
    elements = _floors.gradient_descent_work(bench.BenchCase("gd", depth, width, batch_size=1), steps, "float32").flops
    forward = 784 + (depth - 1) * width + 10
    assert elements == 2 * width * (forward + products * width + readouts * 10 + (784 if 1 in wrong else 0))


def test_floor_of_error_space():
    """An update takes two products for each matrix, and one more for all but the input's on the way down and up in each
    conjugate-gradient step, and for the activities."""
    weights = INPUT + 2 * HIDDEN + READOUT
    assert _floors.error_space_work(TINY, 3, "float32").flops == 10 * (2 * weights + 7 * (weights - INPUT))


def rates(matmul, copy):
    return {"matmul_flops_per_s": matmul, "copy_bytes_per_s": copy}


def test_the_larger_of_two_floors():
    work = _floors.LeastWork(flops=100, twice=50, once=20)
    assert work.seconds(rates(10.0, 10.0)) == 10 and work.limit(rates(10.0, 10.0)) == "compute"
    assert work.seconds(rates(100.0, 10.0)) == 5 and work.limit(rates(100.0, 10.0)) == "memory"
    assert work.seconds(rates(100.0, 10.0), once=True) == 2


def test_floor_of_the_main_workload():
    """H = T = 128, N = 512, B = 64 in bf16 at 4.3 TB/s: about 4 ms, or 2 with weights read once."""
    found = _floors.gradient_descent_work(bench.BenchCase("gd", 128, 512), 128, "bf16")
    weights = 2 * 512**2 * sum(max(0, t - 1) + t for t in range(128)) / 4.3e12
    assert weights == pytest.approx(1.97e-3, rel=0.01)
    assert 3.5e-3 < found.seconds(rates(1e15, 4.3e12)) < 4.5e-3
    assert 1.5e-3 < found.seconds(rates(1e15, 4.3e12), once=True) < 2.2e-3


@pytest.mark.slow
def test_the_baseline_computes_the_same():
    """Layers in a list, full activities and autodiff give the gradients of stacked increments, in float64."""
    case, options = bench.BenchCase("gd", 4, 6, batch_size=3), bench.BenchConfig(activation="tanh")
    network, (x, y) = _workloads.make_network(case, options), _workloads.random_batch(case)
    ours = _workloads.update_functions(case, options, "float64")["mupc"](network, x, y)
    baseline = _baseline.baseline_update(network, x, y, _workloads.LR, steps=4)
    weights = [ours.input.weight, *ours.hidden.weight, ours.readout.weight]
    for own, other in zip(weights, baseline(), strict=True):
        np.testing.assert_allclose(own, other, rtol=1e-6, atol=1e-15)
    assert min(baseline.costs.values()) > 0


@pytest.mark.parametrize(
    ("case", "options", "reason"),
    [
        (bench.BenchCase("gd", 129, 2), {}, "beyond 128 layers"),
        (bench.BenchCase("gd", 128, 512), {}, "would take more than 5 s"),
        (bench.BenchCase("error-space", 4, 2), {}, "does not know error space"),
        (bench.BenchCase("gd", 4, 2), {"unrolled": False}, "baseline is switched off"),
    ],
)
def test_the_baseline_is_left_out(case, options, reason):
    assert reason in _workloads.baseline_missing(case, bench.BenchConfig(**options), matmul=1e9)


def first_row(table):
    """Return the cells of a table's first row by column. The title is above the columns."""
    columns, cells = (re.split("  +", line.strip()) for line in table.splitlines()[1:3])
    return dict(zip(columns, cells, strict=True))


@pytest.mark.slow
@pytest.mark.parametrize("workload", ["gd", "one-step", "error-space"])
def test_an_update_agrees_with_itself(small_device, workload):
    (case,) = bench.bench_cases(bench.BenchConfig(workloads=(workload,), depths=(3,), widths=(4,), batch_size=(2,)))
    row = bench.measure_case(case, bench.BenchConfig(precision="bf16", **QUICK))
    times, ceilings, floor = row["times"], row["ceilings"], row["floor"]
    ours = times["mupc"]["median_s"]
    assert row["steps"] == {"gd": 3, "one-step": 1, "error-space": None}[workload]
    assert row["ratios"]["mupc / backprop"] == pytest.approx(ours / times["backprop"]["median_s"])
    if workload == "error-space":
        assert "unrolled" not in times and "error space" in row["notes"][0]
    else:
        assert row["ratios"]["unrolled / mupc"] == pytest.approx(times["unrolled"]["median_s"] / ours)
    for taken in times.values():
        assert 0 < taken["fastest_s"] <= taken["median_s"] <= taken["slowest_s"] and taken["repeats"] == 1
    rates = ceilings["matmul_flops_per_s"], ceilings["copy_bytes_per_s"]
    assert floor["twice_s"] == pytest.approx(max(floor["flops"] / rates[0], floor["bytes_twice"] / rates[1]))
    assert row["shares"]["floor"] == pytest.approx(floor["twice_s"] / ours)
    assert row["shares"]["matmul"] == pytest.approx(floor["flops"] / ours / rates[0])
    assert row["shares"]["batched_matmul"] == pytest.approx(
        floor["flops"] / ours / ceilings["batched_matmul_flops_per_s"]
    )
    weights = 4 * (784 + 2 * 4 + 10)
    assert times["mupc"]["memory_bytes"] >= 4 * (2 * weights + 2 * 784)  # weights, their gradients, and the inputs
    assert json.loads(json.dumps(row, allow_nan=False)) == row
    first, second = bench.tables([row, row])
    assert len(first.splitlines()) == len(second.splitlines()) == 4
    cells = first_row(first)
    assert (cells["workload"], cells["H"], cells["N"], cells["B"]) == (workload, "3", "4", "2")
    assert cells["ms/BP"] == f"{row['ratios']['mupc / backprop']:.3g}"


@pytest.mark.parametrize(("shares", "shown"), [({}, "–"), ({"batched_matmul": 0.5}, "50 %")])
def test_a_share_of_a_product_that_is_too_quick_to_have_a_rate(shares, shown):
    taken = {"median_s": 1.0, "spread": 0.5, "trace_compile_s": 1.0, "memory_bytes": 1}
    row = {
        "workload": "gd", "hidden_layers": 2, "width": 8, "steps": 2, "batch_size": 64, "times": {"mupc": taken},
        "ratios": {}, "floor": {"twice_s": 1.0, "once_s": 1.0, "limit": "memory"}, "shares": shares,
    }  # fmt: skip
    first, second = map(first_row, bench.tables([row]))
    assert second["of batched"] == shown and first["spread ±"] == "50 %" and second["MiB"] == "9.54e-07"


@pytest.mark.slow
def test_an_epoch(small_device):
    row = bench.measure_case(bench.BenchCase("epoch", 2, 4, batch_size=8), bench.BenchConfig(**QUICK))
    assert row["steps_per_epoch"] == 128 // 8 and row["data"] == "random"
    times = row["times"]
    assert times["mupc"]["repeats"] == 3  # four intervals without the one that compiles
    evaluation = row["evaluation_s"]
    assert evaluation > 0 and row["epoch_s"] == pytest.approx(16 * times["mupc"]["median_s"] + evaluation)
    assert row["ratios"]["mupc / alone"] == pytest.approx(times["mupc"]["median_s"] / times["alone"]["median_s"])


@pytest.mark.slow
def test_a_grid(small_device):
    """In float64, runs together and runs alone end at the same losses. Runs that diverge are counted and left out."""
    options = bench.BenchConfig(etas=(1e200, 0.01), betas=(5.0,), seeds=2, sequential=3, precision="float64", **QUICK)
    row = bench.measure_case(bench.BenchCase("grid", 2, 4, batch_size=16), options)
    assert (row["runs"], row["run_one_after_another"], row["diverged"]) == (4, 3, 2)
    assert row["largest_difference_of_first_losses"] < 1e-12 and row["largest_difference_of_final_losses"] < 1e-9
    ratio = row["one_after_another_s"] / row["together_s"]
    assert row["ratios"]["one after another / together"] == pytest.approx(ratio)
    assert row["notes"] == ["3 runs one after another, extrapolated to 4"]


def test_runs_one_after_another_have_all_rates():
    """22 runs of the paper's grid with three seeds have every rate among them."""
    options = bench.BenchConfig(paper=True, etas=(0.3,), seeds=3)
    places = _workloads.evenly_spaced(3 * len(options.rates), 22)
    chosen = [options.rates[place // 3] for place in places]
    assert len(set(places)) == 22 and set(map(len, map(set, zip(*chosen, strict=True)))) == {4, 11}
    assert _workloads.evenly_spaced(4, None) == _workloads.evenly_spaced(4, 9) == [0, 1, 2, 3]


def test_out_of_memory_is_a_result(monkeypatch):
    def fail(*_):
        raise jax.errors.JaxRuntimeError("RESOURCE_EXHAUSTED: out of memory")

    monkeypatch.setitem(_workloads.MEASURES, "gd", fail)
    row = bench.measure_case(bench.BenchCase("gd", 2, 4), bench.BenchConfig())
    assert row["failed"] == "out of memory" and bench.tables([row]) == []


def test_cases():
    assert [case.workload for case in bench.bench_cases(bench.BenchConfig())][:3] == ["gd"] * 3
    gpu = [case.label for case in bench.bench_cases(bench.BenchConfig(preset="gpu"))]
    wanted = ["gd H=128 N=512 T=128 B=64", "gd H=1024 N=512 T=1024 B=64", "epoch H=8 N=512 T=8 B=64",
              "error-space H=128 N=512 B=64", "one-step H=8 N=512 T=1 B=64"]  # fmt: skip
    assert set(wanted) <= set(gpu) and len(set(gpu)) == len(gpu)
    given = bench.BenchConfig(workloads=("gd", "one-step"), depths=(8,), widths=(4, 2), steps=(3, 5), batch_size=(7,))
    assert [case.label for case in bench.bench_cases(given)] == [
        "gd H=8 N=4 T=3 B=7", "gd H=8 N=4 T=5 B=7", "gd H=8 N=2 T=3 B=7", "gd H=8 N=2 T=5 B=7",
        "one-step H=8 N=4 T=1 B=7", "one-step H=8 N=2 T=1 B=7",
    ]  # fmt: skip


def test_growth_of_known_powers():
    """Rows with times H·N²·T and memory H·N² have those exponents. Two sizes are not fitted."""
    sizes = [(8, 64, 8), (16, 64, 16), (32, 64, 32), (8, 128, 8), (8, 256, 8), (8, 64, 16)]
    rows = [
        {"workload": "gd", "hidden_layers": h, "width": n, "steps": t, "batch_size": 2}
        | {"times": {"mupc": {"median_s": 1e-9 * h * n**2 * t, "memory_bytes": 4 * h * n**2}}}
        for h, n, t in sizes
    ]
    found = {row["over"]: row for row in growth(rows)}
    assert set(found) == {"H", "N"}
    for size, work, memory in (("H", "2", "1"), ("N", "2", "1 to 2")):
        time, kept = found[size]["time"], found[size]["memory"]
        assert time["exponent"] == pytest.approx(2) and time["off"] == pytest.approx(1)
        assert (time["theory"], kept["theory"]) == (work, memory)
    assert found["H"]["memory"]["exponent"] == pytest.approx(1) and found["N"]["memory"]["exponent"] == pytest.approx(2)
    assert (found["N"]["from"], found["N"]["to"]) == (64, 256)
    rows[1]["times"]["mupc"]["median_s"] *= 1.5  # the middle one of three: its fit rises by a third of log 1.5
    assert {row["over"]: row for row in growth(rows)}["H"]["time"]["off"] == pytest.approx(1.5 ** (2 / 3))


@pytest.mark.parametrize(
    ("program", "fixed", "size", "exponent"),
    [
        ("mupc", {"N": 8, "B": 2, "T": "H"}, "hidden_layers", "2"),
        ("backprop", {"N": 8, "B": 2, "T": "H"}, "hidden_layers", "1"),
        ("mupc", {"N": 8, "B": 2, "T": 4}, "hidden_layers", "1"),
        ("mupc", {"N": 8, "B": 2}, "hidden_layers", "1"),
        ("mupc", {"H": 6, "B": 2}, "width", "2"),
        ("backprop", {"H": 8, "N": 8, "T": 4}, "batch_size", "1"),
        ("mupc", {"H": 8, "N": 8, "B": 2}, "steps", "1"),
        ("backprop", {"H": 8, "N": 8, "B": 2}, "steps", "0"),
    ],
)
def test_work_in_theory(program, fixed, size, exponent):
    assert work_exponent(PerformanceLine(program, "gd", tuple(fixed.items())), size) == exponent


@pytest.mark.parametrize(("latents", "blocks"), [(6, (1, 1, 1)), (7, (1, 1, 2)), (21, (6, 6, 6))])
def test_a_resnet_has_as_many_latents_as_asked(latents, blocks):
    network = _workloads.make_resnet(bench.BenchCase("resnet", latents, 2), bench.BenchConfig())
    assert network.layer_count == latents + 1
    assert tuple(sum(f"stage {stage}." in name for name in network.layer_names) for stage in (1, 2, 3)) == blocks


@pytest.mark.slow
def test_a_resnet():
    row = bench.measure_case(bench.BenchCase("resnet", 6, 2, batch_size=2), bench.BenchConfig(**QUICK))
    times = {name: taken["median_s"] for name, taken in row["times"].items()}
    assert row["ratios"]["mupc / backprop"] == pytest.approx(times["mupc"] / times["backprop"])
    assert first_row(bench.tables([row])[0])["workload"] == "resnet"


MISTAKES = [
    ({"workloads": ("resnet",), "depths": (5,)}, "depths has 5, too few for the three stages of resnet. Use 6 or more"),
    ({"workloads": ("eror-space",)}, "workload 'eror-space' is not known. Did you mean 'error-space'?"),
    ({"preset": "gpus"}, "preset 'gpus' is not known. Did you mean 'gpu'?"),
    ({"precision": "fp32"}, "precision 'fp32' is not known"),
    ({"depths": (8, 0)}, "depths must be at least 1, got 0"),
    ({"widths": (-1,)}, "widths must be at least 1, got -1"),
    ({"steps": (0,)}, "steps must be at least 1, got 0"),
    ({"batch_size": ()}, "batch_size has no values"),
    ({"repeats": 0}, "repeats must be at least 1, got 0"),
    ({"etas": (0.0,)}, "etas must be greater than 0, got 0"),
    ({"epochs": float("nan")}, "epochs must be finite"),
]


@pytest.mark.parametrize(("options", "text"), MISTAKES)
def test_mistakes(options, text):
    with pytest.raises(ValueError) as caught:
        bench.bench_cases(bench.BenchConfig(**options))
    assert text in str(caught.value)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"activation": "rleu"}, "activation 'rleu' is not known. Did you mean 'relu'?"),
        ({"samples": 3}, "batch_size 64 is more than the 3 training samples. Use a smaller one, or more samples."),
        ({"data": "mnits"}, "mnist"),
    ],
)
def test_mistakes_that_show_before_anything_is_measured(small_device, options, text):
    given = bench.BenchConfig(workloads=("grid",), **options)
    with pytest.raises(ValueError, match=None) as caught:
        bench.prepare(given, bench.bench_cases(given))
    assert text in str(caught.value)


FAKE = {"label": "gd", "workload": "gd", "hidden_layers": 2, "width": 4, "batch_size": 2, "steps": 2,
        "precision": "float32", "failed": "out of memory"}  # fmt: skip


def test_module_writes_as_it_goes(monkeypatch, tmp_path, capsys):
    """An interruption keeps what is finished."""
    calls = []

    def measure(case, options):
        calls.append(case)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return FAKE

    monkeypatch.setattr(bench, "measure_case", measure)
    file = tmp_path / "bench.json"
    assert command.main(["gd", "--depths", "2", "3", "--widths", "4", "--no-unrolled", "--json", str(file)]) == 130
    found = json.loads(file.read_text())
    assert found["cases"] == [FAKE] and found["config"]["depths"] == [2, 3] and found["config"]["unrolled"] is False
    assert capsys.readouterr().err == "mupc.bench: interrupted after 1 of 2 cases.\n"
    assert command.main(["gd", "--depths", "2", "--widths", "4"]) == 1  # a case ran out of memory
    assert command.main(["epochs"]) == 2
    assert "Did you mean 'epoch'?" in capsys.readouterr().err
    assert command.main(["gd", "--batch-size", "0"]) == 2
    assert capsys.readouterr().err == "mupc.bench: --batch-size must be at least 1, got 0.\n"


@pytest.mark.slow
def test_module_needs_little():
    """It works without the packages of the command line and of figures."""
    absent = ("tyro", "rich", "matplotlib", "optuna", "sklearn", "diffrax", "tensorboardX")
    code = (
        f"import sys; sys.modules.update(dict.fromkeys({absent!r}))\n"
        "import mupc.bench; assert 'jax' not in sys.modules\n"
        "from mupc.bench import _timing, __main__; _timing.LARGE = _timing.COPIED = {'cpu': 64, 'other': 64}\n"
        "words = '--depths 2 --widths 4 --batch-size 2 --quick --repeats 1 --no-unrolled'\n"
        "sys.exit(__main__.main(['gd', *words.split()]))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("1 case on ")
    assert "[1/1] gd H=2 N=4 T=2 B=2, float32: mupc " in done.stdout and "a bare weight update" in done.stdout
