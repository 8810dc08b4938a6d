"""Scripts in `examples/` run, with less training than they have by default, and show what they say they do."""

import importlib.util
import re
from pathlib import Path

import jax
import pytest

EXAMPLES = Path(__file__).parents[1] / "examples"


@pytest.mark.slow
def test_sampled_digits(tmp_path, monkeypatch, capsys):
    spec = importlib.util.spec_from_file_location("sample_digits", EXAMPLES / "sample_digits.py")
    example = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(example)
    monkeypatch.setattr("sys.argv", ["sample_digits.py", "--epochs", "8", "--out", str(tmp_path / "run")])
    with jax.enable_x64(False):
        assert example.main() == 0
    shown = capsys.readouterr().out
    noisy, plain = ([float(number) for number in re.findall(rf"{name} +(\S+) +(\S+) +(\S+)", shown)[0]]
                    for name in example.SOLVERS)  # fmt: skip
    assert all(with_noise < without for with_noise, without in zip(noisy, plain, strict=True))
    assert noisy[2] < 2.5 < plain[2]
    assert (tmp_path / "run" / "figures" / "samples.png").is_file()
    assert example.main() == 2  # the folder is no longer empty
    assert "sample_digits: " in capsys.readouterr().err
