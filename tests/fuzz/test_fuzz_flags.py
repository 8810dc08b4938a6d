"""Flags of every kind and value: one line or the parser's box, never a traceback, nothing written elsewhere."""

import dataclasses
import typing

import jax.random as jr
import numpy as np
import pytest
from fuzz_client import fuzz
from fuzz_inputs import argv, value
from hypothesis import given
from hypothesis import strategies as st

import mupc
from mupc.bench import PRESETS, WORKLOADS
from mupc.cli.bench import BenchFlags
from mupc.cli.check import CheckFlags
from mupc.cli.config import TrainFlags
from mupc.cli.export import ExportFlags
from mupc.cli.flags import TrainOutputFlags
from mupc.cli.hessian import HessianFlags
from mupc.cli.predict import PredictFlags
from mupc.cli.report import ReportFlags
from mupc.cli.reproduce import ReproduceFlags
from mupc.cli.sweep import SweepFlags, WorkFlags
from mupc.cli.train import SafetyFlags
from mupc.cli.transfer import TransferFlags
from mupc.experiments import CATALOGUE

pytestmark = pytest.mark.slow

SIZED = {
    "width", "hidden-layers", "in-size", "out-size", "widths", "depths", "seeds", "steps", "trials", "group",
    "batch-size", "epochs", "inference-steps", "cg-steps", "skip", "heartbeat", "seed", "large-width",
    "large-hidden-layers", "keep", "checkpoint-every", "samples", "repeats", "chunk", "sequential",
}  # fmt: skip
OMITTED = {"debug", "storage", "return"}


def flags(kind):
    """The names of all flags of a class or a function, groups within it too."""
    names = set()
    for name, hint in typing.get_type_hints(kind).items():
        names |= flags(hint) if dataclasses.is_dataclass(hint) else {name.replace("_", "-")}
    return names - OMITTED


TINY = ("--width", "3", "--hidden-layers", "2")


@fuzz(quick=25, full=900)
@given(words=argv(flags(TrainFlags) | flags(TrainOutputFlags) | flags(SafetyFlags), SIZED, ("train", *TINY)))
def test_train(fuzzer, words):
    fuzzer.check("command", words)


@fuzz(quick=20, full=600)
@given(words=argv(flags(SafetyFlags) | {"epochs", "config", "out", "width"}, SIZED), data=st.data())
def test_resume(fuzzer, ended, words, data):
    """What goes on with a run, on a copy of it."""
    fuzzer.folder("run", ended)
    run = data.draw(st.sampled_from(("run", "run", "run/config.json", "run/checkpoints")) | value())
    fuzzer.check("command", ["train", "--resume", run, *words])


@fuzz(quick=12, full=500)
@given(words=argv(flags(TransferFlags), SIZED, ("transfer", *TINY, "--large-width", "4", "--large-hidden-layers", "3")))
def test_transfer(fuzzer, words):
    fuzzer.check("command", words)


@fuzz(quick=12, full=400)
@given(
    names=st.lists(st.sampled_from(sorted(WORKLOADS)) | value(), max_size=2),
    preset=st.lists(st.sampled_from(sorted(PRESETS)), max_size=1),
    words=argv(flags(BenchFlags) - {"workloads"}, SIZED),
)
def test_bench(fuzzer, names, preset, words):
    fuzzer.check("command", ["bench", *names, *(word for name in preset for word in ("--preset", name)), *words])


@fuzz(quick=12, full=400)
@given(
    names=st.lists(st.sampled_from(("all", "fig1", *CATALOGUE)) | value(), max_size=2),
    words=argv(flags(ReproduceFlags) - {"slugs"}, SIZED),
)
def test_reproduce(fuzzer, names, words):
    fuzzer.check("command", ["reproduce", *names, *words])


@fuzz(quick=12, full=300)
@given(words=argv(flags(ReportFlags), SIZED), there=st.booleans())
def test_report(fuzzer, words, there):
    fuzzer.folder("results" if there else "others")
    fuzzer.check("command", ["report", *words])


@fuzz(quick=10, full=300)
@given(words=argv(flags(WorkFlags) - {"folder"}, SIZED), folder=value())
def test_sweep_work(fuzzer, words, folder):
    fuzzer.check("command", ["sweep", "work", folder, *words])


@fuzz(quick=12, full=500)
@given(words=argv(flags(SweepFlags), SIZED, ("sweep", *TINY)), axis=value() | st.just("weight_lr=0.1,0.2"))
def test_sweep(fuzzer, words, axis):
    fuzzer.check("command", [*words, "--grid", axis])


@fuzz(quick=12, full=500)
@given(
    words=argv(
        flags(CheckFlags), SIZED, ("check", "--widths", "2", "3", "--depths", "2", "3", *TINY, "--seeds", "1")
    )
)  # fmt: skip
def test_check(fuzzer, words):
    fuzzer.check("command", words)


@fuzz(quick=12, full=500)
@given(words=argv(flags(HessianFlags), SIZED, ("hessian", *TINY)))
def test_hessian(fuzzer, words):
    fuzzer.check("command", words)


@fuzz(quick=20, full=500)
@given(
    action=st.sampled_from(("list", "check", "fetch", "lsit")),
    words=argv({"data-dir", "json"}, set()),
    name=value() | st.sampled_from(("digits", "mnist", "all", "absent.npz")),
)
def test_data(fuzzer, action, words, name):
    fuzzer.check("command", ["data", action, name, *words])


@pytest.fixture(scope="module")
def files(fuzzer):
    """A network and samples for it."""
    mupc.save(fuzzer.inputs / "network", mupc.Network(4, 3, width=3, hidden_layers=2, key=jr.key(0)))
    np.savez(fuzzer.inputs / "new.npz", x=np.zeros((2, 4)))
    return str(fuzzer.inputs / "network"), str(fuzzer.inputs / "new.npz")


@fuzz(quick=12, full=400)
@given(words=argv(flags(ExportFlags) - {"run", "target"}, set()), data=st.data())
def test_export(fuzzer, files, words, data):
    run = data.draw(st.just(files[0]) | value())
    target = data.draw(value().map(lambda text: f"{text}.safetensors") | value())
    fuzzer.check("command", ["export", run, target, *words])


@fuzz(quick=12, full=400)
@given(words=argv(flags(PredictFlags) - {"model", "data"}, SIZED), data=st.data())
def test_predict(fuzzer, files, words, data):
    model, samples = (data.draw(st.just(file) | st.just(file) | value()) for file in files)
    fuzzer.check("command", ["predict", model, samples, *words])


@fuzz(quick=10, full=200)
@given(words=st.lists(value(), min_size=1, max_size=3))
def test_commands(fuzzer, words):
    fuzzer.check("command", words)


@pytest.mark.parametrize(
    "words",
    [
        ["--seed", str(2**63)],
        ["--width", str(2**31)],
        ["--hidden-layers", str(2**63)],
        ["--data-dir", "\udcff"],
        ["--config", "deep.json"],
    ],
)
def test_what_fuzzing_found(fuzzer, words):
    (fuzzer.work / "deep.json").write_text("[" * 5000)
    fuzzer.check("command", ["train", *TINY, *words])


def test_the_fuzzer_notices(fuzzer, tmp_path, monkeypatch):
    """Without this a harness that sees nothing would look like a program without faults."""
    cases = {"raise": "RuntimeError", "touch": "touches", "grow": "takes 1,", "talk": "one line", "hang": "hangs"}
    for how, said in cases.items():
        if how == "hang":
            monkeypatch.setattr(fuzzer, "patience", 0)  # it never answers, however long one waits
        with pytest.raises(AssertionError, match=said):
            fuzzer.check("misbehave", how, str(tmp_path / "elsewhere"))
