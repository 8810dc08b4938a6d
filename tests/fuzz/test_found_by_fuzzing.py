"""What fuzzing found, one test each, so that it stays found."""

import io
import json
import shutil
import struct
import zipfile

import numpy as np
import pytest
from fuzz_inputs import CELL, RESULT, npy, zipped
from safetensors.numpy import save_file

import mupc
from mupc import data
from mupc.cli import main
from mupc.cli.transfer_job import read_cell
from mupc.data import DataError
from mupc.experiments._results import read_record
from mupc.training import _checkpoints

ARRAYS = {
    "x_train": np.arange(24.0).reshape(6, 4),
    "y_train": np.arange(6) % 3,
    "x_test": np.arange(8.0).reshape(2, 4),
    "y_test": np.array([0, 2]),
}


def write(tmp_path, **members):
    path = tmp_path / "toy.npz"
    path.write_bytes(zipped({name: npy(array) for name, array in ARRAYS.items()} | members))
    return path


def test_headers_of_python_2_are_read_without_a_warning(tmp_path):
    old = npy(ARRAYS["y_test"]).replace(b"(2,), }  ", b"(2L,), } ")
    assert b"2L" in old
    assert data.load(write(tmp_path, y_test=old)).test.targets.tolist() == [0, 2]


def test_an_archive_that_claims_more_than_it_can_hold(tmp_path):
    """Archive and header agree on 3.2 GB, in a file of a few hundred bytes."""
    claim, buffer = 400_000_000, io.BytesIO()
    header = {"descr": "<f8", "fortran_order": False, "shape": (claim,)}
    np.lib.format.write_array_header_1_0(buffer, header)
    content = bytearray(zipped({"x_train": buffer.getvalue()}, zipfile.ZIP_DEFLATED))
    size = struct.pack("<I", len(buffer.getvalue()))
    lie = struct.pack("<I", len(buffer.getvalue()) + 8 * claim)
    assert content.count(size) == 2  # next to the member, and in the directory at the end
    path = write(tmp_path)
    path.write_bytes(content.replace(size, lie))
    with zipfile.ZipFile(path, "a") as archive:
        for name in ("y_train", "x_test", "y_test"):
            archive.writestr(f"{name}.npy", npy(ARRAYS[name]))
    with pytest.raises(DataError, match="x_train is corrupt, its header says 3,200,000,000 bytes"):
        data.load(path)


def test_metadata_of_brackets_without_end(tmp_path):
    save_file({"a": np.zeros(1)}, tmp_path / "deep", {"mupc": "[" * 5000})
    with pytest.raises(ValueError, match="damaged metadata"):
        mupc.load(tmp_path / "deep")


def test_a_checkpoint_under_the_name_of_another(tmp_path):
    """A whole one, its checksums right, but of another step."""
    with _checkpoints.Checkpoints(tmp_path, {}, keep=2) as checkpoints:
        for step in (3, 6):
            checkpoints.save(step, {"array": np.full(2, step)}, {})
    shutil.rmtree(tmp_path / "step-00000006")
    shutil.copytree(tmp_path / "step-00000003", tmp_path / "step-00000006")
    found, damaged = _checkpoints.find_checkpoint(tmp_path)
    assert found.step == 3
    assert damaged == [f"the checkpoint {tmp_path / 'step-00000006'} is damaged (it is that of step 3)"]


@pytest.mark.slow
@pytest.mark.parametrize("content", ["null", "[]", "[" * 5000])
def test_a_summary_that_is_something_else(ended, tmp_path, capsys, content):
    """The run counts as one that was killed before its end was recorded."""
    run = shutil.copytree(ended, tmp_path / "run")
    (run / "summary.json").write_text(content)
    assert main(["train", "--resume", str(run), "--quiet"]) == 0
    assert capsys.readouterr().err == ""
    assert json.loads((run / "summary.json").read_text())["steps"] == 22


TRANSFER = ("transfer", "--width", "3", "--hidden-layers", "2", "--large-width", "4", "--large-hidden-layers", "2")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([*TRANSFER, "--seed", str(2**63)], "--seed must be below 2**63"),
        ([*TRANSFER, "--seeds", str(2**40)], "Use fewer --seeds, or smaller networks"),
        (["report", "--results", "a\x1eb"], "a b is not a folder"),
    ],
)
def test_flags(words, said, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(words) == 2
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 1
    assert said in lines[0]


@pytest.mark.slow
def test_rates_beyond_float32_diverge_without_a_warning(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    words = ["--seeds", "1", "--weight-lrs", "1e39", "--activity-lrs", "0.1", "--epochs", "0.1", "--quiet"]
    assert main([*TRANSFER, *words]) == 2
    assert "every run of the small network (2 hidden layers of 3) diverged" in capsys.readouterr().err


def test_damaged_lines_of_transfer_are_passed_over():
    size, cell = read_cell(json.dumps(CELL))
    assert (size.width, cell.rates, cell.validation_loss) == (3, (0.5, 0.8), np.inf)
    broken = ("null", "[]", "{}", '{"width": 3', "[" * 5000, *(json.dumps(CELL | {name: "x"}) for name in CELL))
    assert [read_cell(line) for line in broken] == [None] * len(broken)


def test_damaged_results_are_ignored(tmp_path):
    path = tmp_path / "toy.json"
    path.write_text(json.dumps(RESULT))
    assert read_record(path) == RESULT
    shown = RESULT.keys() - {"title", "caption", "precision"}  # whatever they are
    for content in ("[" * 5000, *(json.dumps(RESULT | {name: [None]}) for name in shown)):
        path.write_text(content)
        assert read_record(path) is None
