"""`make train` ends with a table and a figure; here with small networks."""

import dataclasses
import importlib.util
from pathlib import Path

MAIN_JOB = Path(__file__).parents[2] / "examples" / "main_job.py"


def test_the_main_job(tmp_path, monkeypatch, capsys):
    spec = importlib.util.spec_from_file_location("main_job", MAIN_JOB)
    job = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(job)
    small = {"hidden_layers": 3, "width": 8, "epochs": 0.2}
    monkeypatch.setattr(job, "RUNS", {name: dataclasses.replace(run, **small) for name, run in job.RUNS.items()})
    monkeypatch.setattr("sys.argv", ["main_job.py", "--out", str(tmp_path / "job")])
    assert job.main() == 0
    shown = capsys.readouterr().out
    assert all(name in shown for name in job.RUNS) and "of 4" in shown
    assert (tmp_path / "job" / "figures" / "learning-curve.png").is_file()
