"""What training shows while it runs."""

import io

import jax.random as jr
import numpy as np
import pytest
from rich.console import Console
from rich.text import Text

import mupc
from mupc.data import Dataset, Schema, Split
from mupc.training.progress import TrainProgress

RECORD = {
    "train_loss": 0.0213,
    "test_accuracy": 0.971,
    "learning_layers": 128,
    "layers": 129,
    "regime": "backpropagation",
    "steps_per_second": 1.23,
    "total_steps": 938000,
}
SHOWN = ["loss 0.0213", "accuracy 97.1 %", "128/129 layers learn (backpropagation)", "1.2 steps/s"]


def last_line(width, *records):
    stream = io.StringIO()
    with TrainProgress(Console(file=stream, force_terminal=True, width=width)) as progress:
        for record in records:
            progress(mupc.TrainStatus(record, [record], None))
    return Text.from_ansi(stream.getvalue()).plain.splitlines()[-1].rstrip()


@pytest.mark.parametrize(("width", "kept"), [(140, 4), (120, 3), (80, 2), (60, 1)])
def test_what_matters_most_stays_in_a_narrow_terminal(width, kept):
    """One line with the bar, the step and the time left; at 80 columns also the loss and the score."""
    line = last_line(width, *(RECORD | {"step": step} for step in (0, 469, 93800)))
    assert len(line) <= width
    assert line.startswith("━") and "step 93800/938000" in line and line.endswith(" left")
    assert [part for part in SHOWN if part in line] == SHOWN[:kept]


@pytest.mark.parametrize(
    ("record", "part"),
    [
        ({"test_r2": -0.1234, "validation_r2": 0.5}, "test R² -0.123 · validation 0.500"),
        ({"train_loss": 1.0, "test_r2": -0.1234}, "loss 1.0000 · R² -0.123"),
        ({"validation_accuracy": 0.5}, "accuracy 50.0 %"),
        ({"test_perplexity": 7.951, "test_accuracy": 0.4}, "perplexity 7.95 · accuracy 40.0 %"),
        ({"train_loss": 1.2e6}, "loss 1.2e+06"),
        ({"train_loss": 0.00002}, "loss 2e-05"),
        ({"test_loss": 0.25}, "loss 0.2500"),
    ],
)
def test_losses_and_scores(record, part):
    assert part in last_line(80, {"step": 5, "total_steps": 10} | record)


def fit(**options):
    rng = np.random.default_rng(0)
    split = Split(rng.normal(size=(16, 5)).astype(np.float32), rng.integers(0, 3, 16).astype(np.int32))
    data = Dataset("noise", split, split, None, Schema(labels=(0, 1, 2)), False, "made here")
    network = mupc.Network(5, 3, 6, 4, key=jr.key(0))
    return mupc.fit(network, data, mupc.GradientDescent(lr=0.2, steps=4), batch_size=8, epochs=2, **options)


def test_verbose_shows_lines_where_there_is_no_terminal(capsys):
    seen = []
    result = fit(verbose=True, callbacks=[seen.append])
    out, err = capsys.readouterr()
    lines = err.splitlines()
    assert out == "" and len(seen) == 3
    rates = "learning rates scaled from 8 hidden layers of 64: updates of hidden weights × "
    first = ["compiling …", rates, result.compute_path]
    assert sorted(line if line in first else line[: len(rates)] for line in lines[:3]) == sorted(first)
    assert [line.split("  ")[0] for line in lines[3:6]] == ["step 0/4", "step 2/4", "step 4/4"]
    assert f"loss {result.last['train_loss']:.4f}" in lines[5]
    assert lines[6:] == ["all steps were taken"]


def test_silent_when_off(capsys):
    fit()
    assert capsys.readouterr() == ("", "")


def test_verbose_is_yes_or_no():
    with pytest.raises(TypeError, match="verbose must be True or False, got 'yes'"):
        fit(verbose="yes")
