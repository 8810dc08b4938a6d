"""Commands with `--method`: the relatives of predictive coding, from flags to a run folder."""

import re
import typing

import jax
import numpy as np
import pytest

import mupc as library
from mupc.cli import flags
from mupc.cli.building import METHODS
from mupc.cli.config import METHOD_FLAGS

QUICK = ("--hidden-layers", "3", "--width", "8", "--epochs", "0.5", "--no-tensorboard", "--quiet")


def test_flags_follow_the_methods():
    assert typing.get_args(flags.Method) == tuple(METHODS)
    assert set(flags.DEFAULT_SOLVERS) < set(METHODS)
    solvers = {"activity_lr", "inference_steps"}
    assert {name for choice in METHODS.values() for name in choice.flags} - solvers == set(METHOD_FLAGS)


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["--nudge", "0.1"], "--nudge 0.1 has no effect with --method pc: leave it out, or use --method nudged"),
        (["--method", "nudged", "--nudge", "0"], "--nudge must be greater than 0, got 0"),
        (["--method", "nudged", "--nudge-sign", "up"], "centred"),
        (["--method", "nudged", "--beta", "0.1"], "there is no --beta: did you mean --activity-lr or --nudge"),
        (["--method", "alm", "--solver", "gd"], "--solver gd has no effect with --method alm: leave it out"),
        (["--method", "alm", "--momentum", "0.5"], "--momentum 0.5 has no effect with --method alm"),
        (["--method", "alm", "--penalty", "-1"], "--penalty must be greater than 0, got -1"),
        (
            ["--method", "ipc", "--inference-tol", "0.1"],
            "and iPC takes every step. Leave out --inference-tol",
        ),
        (["--method", "zil", "--skip", "2"], "--skip 2 lets errors reach a layer at several steps"),
        (
            ["--method", "amortised", "--model", "resnet"],
            "the network is a Chain, and an amortised start is for .* Use --model mlp, or --method pc",
        ),
        (["--method", "ep"], "--skip 1, and with skip connections the energy of equilibrium propagation"),
        (["--method", "ep", "--skip", "0", "--activity-lr", "auto"], "--activity-lr"),
        *(
            ([*flags, "--method", method], f"{' '.join(flags)} has no effect with --method {method}: leave it out, or")
            for method in ("bp", "zil")
            for flags in (
                ("--solver", "gd"),
                ("--activity-lr", "auto"),
                ("--inference-steps", "3"),
                ("--output-precision", "0.5"),
            )
        ),
        *(
            (["--method", method, "--skip", "0", "--activity-decay", "0.1"], "--activity-decay 0.1, but .* Set it to 0")
            for method in ("bp", "zil", "ep")
        ),
        (["--method", "zil", "--dual-lr", "0.5"], "--dual-lr 0.5 has no effect with --method zil: .* --method alm"),
    ],
)
def test_mistakes(mupc, tmp_path, argv, message):
    run = mupc("train", *argv, "--out", tmp_path / "run")
    assert run.code == 2 and not (tmp_path / "run").exists()
    assert len(run.err.splitlines()) == 1
    assert re.search(message, run.err), run.err


def test_the_summary_counts_the_layers_that_the_last_record_does(train):
    """Also where weights move within a batch."""
    run = train("--method", "ipc", "--hidden-layers", "8", "--width", "8", "--epochs", "0.5", "--inference-steps", "3",
                "--no-tensorboard", tiny=False)  # fmt: skip
    counted = run.json("summary.json")["credit_reach"]["learning_layers"]
    assert run.metrics[-1]["learning_layers"] == counted
    assert f"{counted}/9 layers learn" in run.out and f"{counted} of 9 layers learn" in run.out


@pytest.mark.slow
@pytest.mark.parametrize("method", sorted(set(METHODS) - {"pc", "bp"}))
def test_runs_go_on_and_repeat(mupc, train, method):
    form = ("--skip", "0", "--activation", "tanh") if method == "ep" else ()
    whole = train("--method", method, *form, *QUICK, tiny=False)
    assert whole.code == 0, whole.err
    summary = whole.json("summary.json")
    assert summary["credit_reach"]["layers"] == 4
    assert summary["credit_reach"]["regime"] is not None
    digits = library.data.load("digits").test
    scored = library.load(whole.folder).evaluate(digits.raw, digits.targets)["accuracy"]
    assert scored == pytest.approx(summary["test_accuracy"])
    again = train("--config", whole.folder, "--epochs", "0.25", "--quiet", "--no-tensorboard", tiny=False, name="again")
    assert again.code == 0, again.err
    longer = mupc("train", "--resume", again.folder, "--epochs", "0.5", "--quiet")
    assert longer.code == 0, longer.err
    repeated = train("--config", whole.folder, "--quiet", "--no-tensorboard", tiny=False, name="repeated")
    one, two = (jax.tree.leaves(library.load(run.folder).network) for run in (whole, repeated))
    for a, b in zip(one, two, strict=True):
        np.testing.assert_array_equal(a, b)
