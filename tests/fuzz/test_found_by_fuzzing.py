"""What fuzzing found, one test each, so that it stays found."""

import io
import struct
import zipfile

import numpy as np
import pytest
from fuzz_inputs import npy, zipped
from safetensors.numpy import save_file

import mupc
from mupc import data
from mupc.data import DataError

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
    assert content.count(size) == 2  # beside the member, and in the directory at the end
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
