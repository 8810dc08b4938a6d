"""`mupc bench`: its run folder, its output, interruptions and mistakes."""

import json

import pytest

from mupc import bench, cli, plots
from mupc.bench import _timing

SMALL = ["--widths", "4", "--batch-size", "2", "--quick", "--repeats", "1", "--no-unrolled"]
PNG = b"\x89PNG"


@pytest.fixture
def measure(mupc, tmp_path, monkeypatch):
    """Run `mupc bench` into a folder of its own; the device's limits are measured with tiny programs."""
    for name in ("LARGE", "COPIED"):
        monkeypatch.setattr(_timing, name, {"cpu": 64, "other": 64})

    def run(*argv, name="bench"):
        return mupc("bench", "--out", tmp_path / name, *argv, folder=tmp_path / name)

    return run


@pytest.mark.slow
def test_run_folder(measure):
    run = measure("one-step", "--depths", "1", "2", "3", *SMALL)
    assert (run.code, run.err) == (0, "")
    about, summary = run.json("config.json"), run.json("summary.json")
    assert about["config"]["workloads"] == ["one-step"] and about["config"]["widths"] == [4]
    assert about["device"].startswith("CPU") and "jax" in about["versions"]
    assert run.metrics == summary["cases"] and [row["hidden_layers"] for row in run.metrics] == [1, 2, 3]
    assert summary["interrupted"] is False
    assert [path.name for path in (run.folder / "figures").iterdir()] == ["performance.png"]
    assert "\x1b" not in run.out and "one-step H=2 N=4 T=1 B=2, float32: mupc " in run.out
    assert run.out.splitlines()[-1] == f"run folder {run.folder}"


def test_json_and_interruption(measure, monkeypatch):
    original, calls = bench.measure_case, []

    def interrupt(case, options):
        calls.append(case)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return original(case, options)

    monkeypatch.setattr(bench, "measure_case", interrupt)
    run = measure("one-step", "--depths", "1", "2", *SMALL, "--json")
    assert run.code == cli.INTERRUPTED
    summary = json.loads(run.out, parse_constant=pytest.fail)
    assert summary == run.json("summary.json") and len(summary["cases"]) == len(run.metrics) == 1
    assert run.err == f"mupc bench: interrupted; 1 of 2 cases are in {run.folder / 'summary.json'}.\n"
    calls[:] = [None]
    run = measure("one-step", *SMALL, name="at-once")
    assert (run.code, run.err) == (cli.INTERRUPTED, "mupc bench: interrupted.\n") and not run.folder.exists()


def test_a_case_that_runs_out_of_memory(measure, monkeypatch):
    monkeypatch.setattr(bench, "measure_case", lambda case, _: {"label": case.label, "workload": "gd", "failed": "out"})
    run = measure("gd", "--depths", "1", *SMALL)
    assert run.code == cli.FAILURE and "gd H=1 N=4 T=1 B=2: out\n" in run.out
    assert run.json("summary.json")["cases"][0]["failed"] == "out"


@pytest.mark.parametrize(
    ("argv", "help"),
    [
        (["epohc"], "workload 'epohc' is not known. Did you mean 'epoch'?"),
        (["gd", "--preset", "fast"], "--preset 'fast' is not known. Choose one of: small, cpu, growth, gpu."),
        (["--widths", "0"], "--widths must be at least 1, got 0"),
        (["--depths", "8", "-2"], "--depths must be at least 1, got -2"),
        (["--steps", "0"], "--steps must be at least 1, got 0"),
        (["--batch-size", "-1"], "--batch-size must be at least 1, got -1"),
        (["--repeats", "0"], "--repeats must be at least 1, got 0"),
        (["--precision", "half"], "--precision 'half' is not known"),
        (["epoch", "--samples", "5"], "--batch-size 64 is more than the 5 training samples"),
        (["grid", "--data", "absent.npz"], "absent.npz"),
    ],
)
def test_mistakes(measure, argv, help):
    run = measure(*argv)
    assert run.code == cli.USAGE_ERROR, run.err
    assert run.err.startswith("mupc bench: ") and len(run.err.splitlines()) == 1
    assert help in run.err and run.out == "" and not run.folder.exists()


def test_figure(monkeypatch):
    """A row for each quantity, a column for each size that varies, and a line for each program. Sizes that follow
    another one are no line of their own."""
    figures = []
    monkeypatch.setattr(plots.style, "save", lambda figure, _: figures.append(figure))
    rows = [
        {"workload": "gd", "hidden_layers": h, "width": n, "batch_size": 64, "steps": h}
        | {"times": {"mupc": {"median_s": 1e-3 * h, "memory_bytes": 2**20 * h}, "backprop": {"median_s": 1e-3}}}
        for h, n in ((8, 4), (4, 4), (4, 8))
    ]
    plots.draw_performance([*rows, {"workload": "gd", "failed": "out of memory"}], "figure.png", title="a device")
    panels = figures[0].axes
    assert [panel.get_xlabel() for panel in panels] == ["hidden layers H", "width N"] * 2
    assert [panel.get_ylabel().split()[0] for panel in panels] == ["time", "time", "memory", "memory"]
    legends = [[text.get_text() for text in panel.get_legend().get_texts()] for panel in panels]
    assert legends[0] == ["PC, gd (N=4, B=64, T=H)", "BP, gd (N=4, B=64, T=H)"]
    assert legends[3] == ["PC, gd (H=4, B=64, T=4)"]
    assert panels[0].lines[0].get_xydata().tolist() == [[4.0, 4.0], [8.0, 8.0]]
    plots.draw_performance(rows[:1], "figure.png")
    assert len(figures) == 1
