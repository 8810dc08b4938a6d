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
from mupc.cli.check import CheckFlags
from mupc.cli.config import OutputFlags, TrainConfig
from mupc.cli.export import ExportFlags
from mupc.cli.hessian import HessianFlags
from mupc.cli.predict import PredictFlags
from mupc.cli.sweep import SweepFlags

SIZED = {
    "width", "hidden-layers", "in-size", "out-size", "widths", "depths", "seeds", "steps", "trials", "group",
    "batch-size", "epochs", "inference-steps", "cg-steps", "skip", "heartbeat", "seed",
}  # fmt: skip
OMITTED = {"debug", "storage"}


def flags(kind):
    """The names of all flags of a class, groups within it too."""
    names = set()
    for name, hint in typing.get_type_hints(kind).items():
        names |= flags(hint) if dataclasses.is_dataclass(hint) else {name.replace("_", "-")}
    return names - OMITTED


TINY = ("--width", "3", "--hidden-layers", "2")


@fuzz(quick=25, full=900)
@given(words=argv(flags(TrainConfig) | flags(OutputFlags), SIZED, ("train", *TINY)))
def test_train(fuzzer, words):
    fuzzer.check("command", words)


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


def test_the_fuzzer_notices(fuzzer, tmp_path):
    """Without this a harness that sees nothing would look like a program without faults."""
    cases = {"raise": "RuntimeError", "touch": "touches", "grow": "takes 1,", "talk": "one line", "hang": "hangs"}
    fuzzer.seconds = 5
    for how, said in cases.items():
        with pytest.raises(AssertionError, match=said):
            fuzzer.check("misbehave", how, str(tmp_path / "elsewhere"))
