"""`make train` ends with a table, a figure and a sentence; here with small networks."""

import dataclasses
import importlib.util
from pathlib import Path

import pytest

MAIN_JOB = Path(__file__).parents[2] / "examples" / "main_job.py"


@pytest.fixture(scope="module")
def job():
    spec = importlib.util.spec_from_file_location("main_job", MAIN_JOB)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.slow
def test_the_main_job(job, tmp_path, monkeypatch, capsys):
    small = {"hidden_layers": 3, "width": 8, "epochs": 0.2}
    monkeypatch.setattr(job, "RUNS", {name: dataclasses.replace(run, **small) for name, run in job.RUNS.items()})
    monkeypatch.setattr("sys.argv", ["main_job.py", "--out", str(tmp_path / "job")])
    assert job.main() == 0
    shown = capsys.readouterr().out
    assert all(name in shown for name in job.RUNS) and "of 4" in shown
    assert shown.splitlines()[-1].startswith("One learning rate, 0.05, gives ")
    assert (tmp_path / "job" / "figures" / "learning-curve.png").is_file()


@pytest.mark.parametrize(
    ("accuracies", "sentence"),
    [
        (
            (0.96, 0.97, 0.965, 0.95, 0.1, 0.975),
            "One learning rate, 0.05, gives 96.0 % with 8 hidden layers, 97.0 % with 128 and 96.5 % with 1024. "
            "Error space trains 9 of 9 layers and is on a par with backpropagation (97.0 % and 97.5 %, cosine of "
            "their gradients 0.98 or more); the paper's gradient descent reaches 95.0 % and trains 3, "
            "and SP stays at chance (10.0 %).",
        ),
        (
            (0.96, 0.5, 0.97, None, 0.6, 0.9),
            "Error space trains 9 of 9 layers and falls behind backpropagation (50.0 % and 90.0 %, cosine of "
            "their gradients 0.98 or more); the paper's gradient descent diverges, and SP reaches 60.0 % and trains 3.",
        ),
        ((0.9, 0.9, 0.9, 0.5, 0.5, 0.8), "is ahead of backpropagation (90.0 % and 80.0 %, "),
    ],
)
def test_the_sentence_says_what_was_seen(job, accuracies, sentence):
    learning = (9, 9, 9, 3, 3, 9)
    summaries = {
        name: {"test_accuracy": found or 0.0, "diverged": found is None}
        | {"credit_reach": {"learning_layers": count, "layers": 9, "evidence": {"smallest_cosine": 0.989}}}
        for name, found, count in zip(job.RUNS, accuracies, learning, strict=True)
    }
    assert sentence in job.conclusion(summaries)
