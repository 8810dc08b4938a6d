"""`mupc hessian`: its numbers against `mupc.theory`, the run folder, checkpoints, interruptions and mistakes."""

import io
import json
import signal

import jax
import jax.random as jr
import numpy as np
import pytest
from rich.console import Console
from rich.text import Text

import mupc as library
from mupc import cli
from mupc.cli import hessian, hessian_job
from mupc.cli.runner import Session
from mupc.cli.train_job import Recorder
from mupc.io import Interruption

SMALL = ["--width", "4", "6", "--hidden-layers", "2", "3"]
ROW = {
    "width", "hidden_layers", "in_size", "out_size", "unknowns", "largest", "smallest", "condition_number", "definite",
    "method", "spectrum", "seconds", "seeds",
}  # fmt: skip


@pytest.fixture
def analyse(mupc, tmp_path):
    """Run `mupc hessian` in a folder of its own."""

    def run(*argv, name="hessian"):
        return mupc("hessian", "--out", tmp_path / name, *argv, folder=tmp_path / name)

    return run


def initial(width, depth, seed=0, **options):
    """The network of the command's flags, in float32 as `mupc train` makes it."""
    with jax.enable_x64(False):
        return library.Network(width, width, width, depth, key=jr.key(seed), **{"activation": "linear"} | options)


@pytest.mark.slow
def test_numbers_are_those_of_the_theory(analyse):
    run = analyse(*SMALL, "--seeds", "3", "--seed", "5", "--json")
    assert run.code == 0, run.err
    rows = json.loads(run.out, parse_constant=pytest.fail)["networks"]
    assert [(row["width"], row["hidden_layers"]) for row in rows] == [(4, 2), (4, 3), (6, 2), (6, 3)]
    for row in rows:
        assert set(row) == ROW
        assert (row["unknowns"], row["method"], row["spectrum"]) == (
            row["width"] * row["hidden_layers"],
            "dense",
            "exact",
        )
        assert row["definite"] == {"positive definite": 3}
        assert [one["seed"] for one in row["seeds"]] == [5, 6, 7]
        for one in row["seeds"]:
            found = library.theory.condition_number(initial(row["width"], row["hidden_layers"], one["seed"]))
            assert one["condition_number"] == pytest.approx(found.kappa, rel=1e-9)
            assert (one["largest"], one["smallest"]) == pytest.approx((found.largest, found.smallest), rel=1e-9)
            assert one["definite"] == found.definite
        for name in ("largest", "smallest", "condition_number"):
            assert row[name] == sorted(one[name] for one in row["seeds"])[1]


@pytest.mark.slow
def test_run_folder(analyse):
    run = analyse(*SMALL, "--format", "svg")
    assert run.code == 0, run.err
    names = {path.name for path in run.folder.iterdir()}
    assert names == {"config.json", "metrics.jsonl", "summary.json", "spectra.json", "figures"}
    for name in ("spectrum.svg", "condition-numbers.svg"):
        assert (run.folder / "figures" / name).is_file()
    about = run.json("config.json")
    assert about["config"]["output_precision"] == 1.0
    assert set(about) == {"config", "versions", "device", "precision", "seed"}
    assert about["config"]["networks"][1] == {"width": 4, "hidden_layers": 3, "in_size": 4, "out_size": 4}
    summary = run.json("summary.json")
    assert set(summary) == {"networks", "seconds", "interrupted", "message", "device", "out"}
    assert summary["networks"] == run.metrics and summary["interrupted"] is False
    values = run.json("spectra.json")[0]["values"]
    np.testing.assert_allclose(values, np.linalg.eigvalsh(library.theory.activity_hessian(initial(4, 2))), rtol=1e-9)


@pytest.mark.slow
def test_table_and_plain_lines(analyse):
    run = analyse(*SMALL, "--seeds", "2")
    assert "\x1b" not in run.out and run.err == ""
    first = run.json("summary.json")["networks"][0]
    kappa = f"{first['condition_number']:.4g}"
    title, line, *rest = run.out.splitlines()
    assert line.startswith(f"2 hidden layers of 4: κ {kappa}, positive definite 2/2, ")
    assert title == "activity Hessian of initial networks, linear, mupc, skip 1, medians of 2 seeds"
    numbers = [f"{first[name]:.4g}" for name in ("largest", "smallest", "condition_number")]
    assert rest[5].split()[:8] == ["4", "2", *numbers, "positive", "definite", "2/2"]
    assert run.out.splitlines()[-2:] == ["medians over 2 seeds, column by column", f"run folder {run.folder}"]
    assert run.json("spectra.json")[0]["label"] == "2 hidden layers of 4, seed 0"
    alone = analyse("--width", "4", "--hidden-layers", "2", name="alone")
    assert "medians" not in alone.out and alone.json("spectra.json")[0]["label"] == "2 hidden layers of 4"


def test_a_bar_on_a_terminal(tmp_path):
    stream = io.StringIO()
    flags = hessian.HessianFlags(
        network=hessian.HessianNetworkFlags(width=(4,), hidden_layers=(2, 3)),
        model=hessian.HessianModelFlags(),
        energy=hessian.EnergyFlags(),
        method=hessian.MethodFlags(),
        output=hessian.OutputFlags(out=str(tmp_path / "run")),
    )
    console = Console(file=stream, force_terminal=True, width=100)
    hessian_job.analyse(flags, Session("mupc hessian", console, Interruption("mupc hessian")))
    shown = Text.from_ansi(stream.getvalue()).plain
    assert "network 2/2" in shown and "hidden layers of" not in shown
    assert shown.count("positive definite 1/1") == 2


@pytest.mark.slow
def test_nonlinear_networks_have_their_hessian_at_the_forward_pass(analyse):
    options = {"activation": "tanh", "parameterisation": "sp", "skip": 0, "init": "kaiming-uniform"}
    flags = [word for name, value in options.items() for word in (f"--{name}", value)]
    energy = ["--loss", "cross-entropy", "--output-precision", "0.5", "--activity-decay", "0.1", "--free-input"]
    run = analyse("--width", "4", "--hidden-layers", "2", "--seed", "3", "--json", *flags, *energy)
    assert run.code == 0, run.err
    (row,) = json.loads(run.out)["networks"]
    network, rng = initial(4, 2, 3, **options), np.random.default_rng(3)
    x, y = rng.standard_normal(4), np.eye(4)[rng.integers(4)]
    options = {"energy": library.Energy("cross-entropy", 0.5, 0.1), "free_input": True}
    activities = library.forward(network, x[None])[0]
    found = library.theory.condition_number(network, x, y, activities, **options)
    assert row["unknowns"] == 12
    assert (row["largest"], row["smallest"]) == pytest.approx((found.largest, found.smallest), rel=1e-9)


def test_seeds_below_zero(analyse):
    """As for linear networks, which need no random sample."""
    for activation in ("linear", "tanh"):
        run = analyse(
            "--width", "4", "--hidden-layers", "2", "--seed", "-1", "--activation", activation, name=activation
        )
        assert run.code == 0, run.err


@pytest.mark.slow
def test_methods(analyse, monkeypatch):
    """Beyond the limits of what is quick: Lanczos, whose ends agree with the dense ones."""
    sizes = ("--width", "16", "--hidden-layers", "4", "--json")
    rows = {"dense": json.loads(analyse(*sizes).out)["networks"][0]}
    monkeypatch.setattr(hessian_job, "QUICK", 8)
    monkeypatch.setattr(hessian_job, "DRAWN", 8)
    rows["auto"] = json.loads(analyse(*sizes, name="auto").out)["networks"][0]
    rows["plain"] = json.loads(analyse(*sizes, "--no-spectrum", name="plain").out)["networks"][0]
    asked = analyse(*sizes, "--method", "dense", "--no-spectrum", name="asked")
    rows["asked"] = json.loads(asked.out)["networks"][0]
    kinds = {name: (row["method"], row["spectrum"]) for name, row in rows.items()}
    assert kinds == {
        "dense": ("dense", "exact"),
        "auto": ("iterative", "lanczos"),
        "plain": ("iterative", None),
        "asked": ("dense", None),
    }
    for row in rows.values():
        assert row["condition_number"] == pytest.approx(rows["dense"]["condition_number"], rel=1e-6)
    assert not (asked.folder / "figures").exists() and not (asked.folder / "spectra.json").exists()


@pytest.mark.parametrize(
    ("options", "kind"),
    [
        (["--activation", "tanh", "--output-precision", "1e4"], "indefinite"),
        (["--free-input", "--in-size", "12"], "positive semidefinite"),
    ],
)
def test_without_a_condition_number(analyse, options, kind):
    run = analyse(*options, "--width", "4", "--hidden-layers", "2", "--seeds", "2")
    (row,) = run.json("summary.json")["networks"]
    assert row["definite"] == {kind: 2} and row["condition_number"] is None and row["smallest"] < 1e-12
    assert f" –  {kind} 2/2 " in run.out and "– stands for no condition number" in run.out


@pytest.mark.slow
@pytest.mark.parametrize("method", ["pc", "bp"])
@pytest.mark.parametrize("end", ["finished", "interrupted", "diverged"])
def test_training_leaves_its_last_good_network(train, monkeypatch, method, end):
    """The one whose accuracy is the last that was recorded of a finite network."""
    if end == "interrupted":
        show = Recorder.__call__

        def interrupt(self, status):
            show(self, status)
            if status.record["step"] > 0:
                raise KeyboardInterrupt

        monkeypatch.setattr(Recorder, "__call__", interrupt)
    rate = "1e30" if end == "diverged" else "0.1"
    run = train("--quiet", "--method", method, "--weight-lr", rate)
    assert run.code == {"finished": 0, "interrupted": 130, "diverged": 1}[end]
    network = library.load(run.folder / "checkpoints" / "network.safetensors").network
    digits = library.data.load("digits")
    right = np.argmax(network(digits.x_test), axis=1) == digits.test.targets
    last = [record for record in run.metrics if not record["diverged"]][-1]
    assert last["step"] == {"finished": 22, "interrupted": 11, "diverged": 0}[end]
    assert np.mean(right) == pytest.approx(last["test_accuracy"])


@pytest.fixture
def trained(train):
    run = train(
        "--quiet", "--epochs", "0.1", "--activation", "tanh", "--output-precision", "0.25", "--validation", "0.1"
    )
    assert run.code == 0, run.err
    return run.folder


@pytest.mark.slow
def test_a_trained_run(trained, analyse):
    """With the energy of the run, at the forward pass of its first training sample."""
    network = library.load(trained / "checkpoints" / "network.safetensors").network
    digits = library.data.load("digits").with_validation(0.1, 0)
    x, y = digits.x_train[0], digits.y_train[0]
    energy, activities = library.Energy(output_precision=0.25), library.forward(network, x[None])[0]
    found = library.theory.condition_number(network, x, y, activities, energy=energy)
    for number, path in enumerate((trained, trained / "checkpoints" / "network.safetensors")):
        run = analyse("--checkpoint", path, "--json", name=str(number))
        assert run.code == 0, run.err
        (row,) = json.loads(run.out)["networks"]
        assert (row["width"], row["hidden_layers"], row["in_size"], row["out_size"]) == (8, 3, 64, 10)
        assert row["condition_number"] == pytest.approx(found.kappa, rel=1e-9)
    assert run.json("config.json")["config"]["activation"] == "tanh"
    assert run.json("config.json")["config"]["output_precision"] == 0.25
    stiff = analyse("--checkpoint", trained, "--output-precision", "4", "--json", name="stiff")
    assert json.loads(stiff.out)["networks"][0]["condition_number"] != pytest.approx(found.kappa, rel=1e-3)


@pytest.mark.slow
def test_another_model(analyse):
    run = analyse("--model", "resnet", "--width", "2", "--blocks", "1", "2", "--seed", "3", "--activation", "tanh")
    assert run.code == 0, run.err
    rows = run.json("summary.json")["networks"]
    assert [(row["width"], row["hidden_layers"], row["in_size"], row["method"]) for row in rows] == [
        (2, 6, 64, "iterative"), (2, 9, 64, "iterative")
    ]  # fmt: skip
    with jax.enable_x64(False):
        network = library.models.resnet((1, 8, 8), 10, width=2, blocks=(1,) * 3, activation="tanh", key=jr.key(3))
    digits = library.data.load("digits")
    found = library.diagnostics.hessian_extremes(network, digits.x_train[:1], digits.y_train[:1])
    assert rows[0]["unknowns"] == sum(np.prod(shape) for shape in network.activity_shapes(1))
    assert rows[0]["condition_number"] == pytest.approx(found.kappa[0], rel=0.05)  # a few Lanczos steps


@pytest.mark.slow
def test_a_file_without_a_run(analyse, tmp_path):
    network = library.Network(5, 3, 4, 2, activation="tanh", use_bias=True, key=jr.key(7))  # float64
    library.save(tmp_path / "own.safetensors", network)
    run = analyse("--checkpoint", tmp_path / "own.safetensors", "--seed", "2")
    assert run.code == 0, run.err
    rng = np.random.default_rng(2)
    x, y = rng.standard_normal(5), np.eye(3)[rng.integers(3)]
    found = library.theory.condition_number(network, x, y, library.forward(network, x[None])[0])
    (row,) = run.json("summary.json")["networks"]
    assert row["condition_number"] == pytest.approx(found.kappa, rel=1e-9)
    assert run.out.startswith(f"activity Hessian of {tmp_path / 'own.safetensors'}, tanh, mupc, skip 1, at the forward")
    assert not (run.folder / "figures" / "condition-numbers.png").exists()


@pytest.mark.parametrize(
    ("argv", "help"),
    [
        (["--width", "0"], "--width must be at least 1, got 0"),
        (["--width", "4", "-3"], "--width must be at least 1, got -3"),
        (["--hidden-layers", "2", "0"], "--hidden-layers must be at least 1, got 0"),
        (["--in-size", "0"], "--in-size must be at least 1, got 0"),
        (["--out-size", "-1"], "--out-size must be at least 1, got -1"),
        (["--seeds", "0"], "--seeds must be at least 1, got 0"),
        (["--seeds", "1000000000"], "--seeds must be at most 10,000, got 1000000000"),
        (["--seed", str(2**63 - 1), "--seeds", "2"], "--seed must be below 2**63"),
        (["--skip", "16"], "--skip 16 needs more than 16 --hidden-layers"),
        (["--output-precision", "0"], "--output-precision must be greater than 0"),
        (["--activity-decay", "-1"], "--activity-decay must be at least 0"),
        (["--width", "512", "--hidden-layers", "64", "--method", "dense"], "use --method iterative"),
        (["--blocks", "2"], "--blocks has no effect without a --model other than mlp: leave it out"),
        (["--model", "resnet", "--hidden-layers", "2"], "--hidden-layers has no effect with --model resnet"),
        (["--model", "resnet", "--skip", "2"], "--skip has no effect with --model resnet"),
        (["--model", "resnet", "--method", "dense"], "--method dense is for an mlp"),
        (["--model", "resnet", "--free-input"], "--free-input is for an mlp"),
        (["--checkpoint", "absent"], "--checkpoint absent is not there: give a run folder of `mupc train`"),
        (["--checkpoint", "."], "has no checkpoints/network.safetensors"),
    ],
)
def test_mistakes(analyse, tmp_path, monkeypatch, argv, help):
    monkeypatch.chdir(tmp_path)
    run = analyse(*argv)
    assert run.code == cli.USAGE_ERROR, run.err
    assert run.err.startswith("mupc hessian: ") and len(run.err.splitlines()) == 1
    assert help in run.err and run.out == ""
    assert not run.folder.exists()


@pytest.mark.parametrize(("flag", "value"), [("--activation", "rleu"), ("--method", "exact"), ("--loss", "mae")])
def test_unknown_names(analyse, flag, value):
    run = analyse(flag, value)
    assert run.code == cli.USAGE_ERROR and value in run.err
    assert not run.folder.exists()


@pytest.mark.parametrize("flag", ["--width", "--hidden-layers", "--in-size", "--out-size", "--skip", "--seeds"])
def test_a_checkpoint_says_what_the_network_is(analyse, flag):
    run = analyse("--checkpoint", "anywhere", flag, "7")
    assert run.code == cli.USAGE_ERROR
    assert f"{flag} has no effect with --checkpoint, which has a network of its own: leave it out" in run.err


@pytest.mark.slow
def test_damaged_checkpoints(analyse, trained):
    file = trained / "checkpoints" / "network.safetensors"
    content = file.read_bytes()
    file.write_bytes(content[:-5])
    run = analyse("--checkpoint", trained)
    assert run.code == cli.USAGE_ERROR and "it is damaged" in run.err and len(run.err.splitlines()) == 1
    file.write_bytes(content)
    (trained / "config.json").write_text("{")
    run = analyse("--checkpoint", trained)
    assert run.code == cli.USAGE_ERROR and len(run.err.splitlines()) == 1
    assert f"the configuration of --checkpoint {trained} is not JSON" in run.err


def test_interruption_keeps_finished_rows(analyse, monkeypatch):
    measure, calls = hessian_job.find_ends, []

    def interrupt(*arguments):
        calls.append(arguments)
        if len(calls) == 4:
            raise KeyboardInterrupt
        return measure(*arguments)

    monkeypatch.setattr(hessian_job, "find_ends", interrupt)
    run = analyse(*SMALL, "--seeds", "2", "--json")
    assert run.code == cli.INTERRUPTED
    assert run.err == f"mupc hessian: interrupted; 1 of 4 networks are in {run.folder / 'summary.json'}.\n"
    summary = run.json("summary.json")
    assert summary["interrupted"] is True and len(summary["networks"]) == 1
    assert json.loads(run.out) == summary
    assert (run.folder / "figures" / "spectrum.png").exists()

    calls[:] = [()] * 3
    run = analyse(*SMALL, name="at-once")
    assert (run.code, run.err) == (cli.INTERRUPTED, "mupc hessian: interrupted.\n")
    assert not run.folder.exists()


@pytest.mark.parametrize(("finished", "told"), [(0, "interrupted.\n"), (1, "interrupted; 1 of 4 networks are in ")])
def test_sigterm_tells_how_far_it_came(analyse, monkeypatch, finished, told):
    measure, calls = hessian_job.find_ends, []

    def terminate(*arguments):
        calls.append(arguments)
        if len(calls) > finished:
            signal.raise_signal(signal.SIGTERM)
        return measure(*arguments)

    monkeypatch.setattr(hessian_job, "find_ends", terminate)
    before = signal.getsignal(signal.SIGTERM)
    run = analyse(*SMALL)
    assert run.code == 143 and run.err.startswith(f"mupc hessian: {told}") and len(run.err.splitlines()) == 1
    assert run.folder.exists() == bool(finished) and signal.getsignal(signal.SIGTERM) == before


def test_quiet_and_numbered_folders(mupc, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for _ in range(2):
        run = mupc("hessian", "--width", "4", "--hidden-layers", "2", "--quiet", "--no-spectrum")
        assert (run.code, run.out, run.err) == (0, "", "")
    assert {path.name for path in (tmp_path / "runs").iterdir()} == {"hessian-1", "hessian-2"}
