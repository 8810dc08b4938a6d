from __future__ import annotations

import gzip
import os
import struct
from pathlib import Path

import numpy as np
import pytest
from data_helpers import (
    CIFAR_NAMES,
    IDX_NAMES,
    idx_bytes,
    publish,
    raises_line,
    small_cifar,
    small_mnist,
    write_files,
    write_idx,
)

from mupc import data
from mupc.data import NAMED_DATASETS, _locate

REPLACE = "delete the file and run `mupc data fetch mnist`"
IMAGES, LABELS = IDX_NAMES[:2]


def load(folder: Path, name: str = "mnist") -> data.Dataset:
    return data.load(name, data_dir=folder, verify=False)


@pytest.fixture
def official(monkeypatch: pytest.MonkeyPatch) -> dict[str, np.ndarray]:
    """A small data set that counts as the published MNIST."""
    arrays = small_mnist()
    contents = {name: idx_bytes(array) for name, array in arrays.items()}
    monkeypatch.setitem(NAMED_DATASETS, "mnist", publish(NAMED_DATASETS["mnist"], contents))
    return arrays


@pytest.mark.parametrize("suffix", [".gz", ""])
@pytest.mark.parametrize("below", ["mnist", ""])
@pytest.mark.parametrize("dotted", [False, True])
def test_idx_is_read_in_every_form(tmp_path, suffix, below, dotted):
    arrays = small_mnist()
    names = {name: name.replace("-idx", ".idx") if dotted else name for name in arrays}
    write_idx(tmp_path / below, {names[name]: array for name, array in arrays.items()}, suffix)
    mnist = load(tmp_path)
    np.testing.assert_array_equal(mnist.train.raw, arrays[IMAGES].reshape(30, 784))
    np.testing.assert_array_equal(mnist.train.targets, arrays[LABELS])
    np.testing.assert_array_equal(mnist.test.raw, arrays[IDX_NAMES[2]].reshape(20, 784))
    assert mnist.train.raw.dtype == np.uint8 and mnist.train.targets.dtype == np.int32
    assert mnist.sample_shape == (1, 28, 28) and mnist.out_size == 10 and not mnist.official
    np.testing.assert_allclose(mnist.x_test, (mnist.test.raw / 255 - 0.1307) / 0.3081, rtol=1e-5, atol=1e-5)


def test_a_plain_file_named_gz_is_read(tmp_path):
    write_idx(tmp_path, small_mnist())
    path = tmp_path / f"{LABELS}.gz"
    path.write_bytes(gzip.decompress(path.read_bytes()))
    assert len(load(tmp_path).train) == 30


DAMAGE = {
    "truncated gzip": (IMAGES, lambda b: gzip.compress(b)[:-400], "truncated"),
    "gzip without its trailer": (LABELS, lambda b: gzip.compress(b)[:-8], "truncated"),
    "corrupt gzip": (LABELS, lambda b: b"\x1f\x8bnot gzip at all", "corrupt"),
    "wrong crc": (LABELS, lambda b: gzip.compress(b)[:-8] + bytes(8), "corrupt"),
    "wrong magic": (IMAGES, lambda b: b"\0\0\x0d\x03" + b[4:], "begins with '00000d03', not '00000803'"),
    "labels for images": (IMAGES, lambda b: idx_bytes(np.zeros(5, np.uint8)), "not the expected IDX"),
    "web page": (IMAGES, lambda b: b"<html>not found</html>", "not the expected IDX"),
    "empty file": (IMAGES, lambda b: b"", "not the expected IDX"),
    "half a header": (IMAGES, lambda b: b[:10], "ends within its IDX header"),
    "no items": (LABELS, lambda b: idx_bytes(np.zeros(0, np.uint8)), "0 items"),
    "truncated plain": (IMAGES, lambda b: b[:-1], "it holds 23,519"),
    "trailing bytes": (LABELS, lambda b: b + b"\0", "trailing bytes"),
    "huge header": (LABELS, lambda b: b[:4] + struct.pack(">I", 2**32 - 1) + b[8:], "4,294,967,295 bytes"),
    "wrong image size": (
        IMAGES,
        lambda b: idx_bytes(np.zeros((30, 28, 29), np.uint8)),
        "shape (28, 29), not (28, 28)",
    ),
    "decompression bomb": (LABELS, lambda b: gzip.compress(b + bytes(10**6)), "more than the 60,008 bytes"),
    "label out of range": (LABELS, lambda b: b[:-1] + b"\x0a", "label 10 at item 29, out of range 0 to 9"),
    "fewer labels": (LABELS, lambda b: idx_bytes(np.zeros(29, np.uint8)), "30 images"),
}


@pytest.mark.parametrize("case", DAMAGE)
@pytest.mark.parametrize("verify", [True, False])
def test_damaged_idx_files_are_named_with_the_cure(tmp_path, case, verify):
    name, damage, said = DAMAGE[case]
    arrays = small_mnist()
    write_idx(tmp_path, arrays, "")
    (tmp_path / name).write_bytes(damage(idx_bytes(arrays[name])))
    with raises_line(name, said, REPLACE):
        data.load("mnist", data_dir=tmp_path, verify=verify)


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root reads everything")
def test_unreadable_file(tmp_path):
    write_idx(tmp_path, small_mnist())
    (tmp_path / f"{IMAGES}.gz").chmod(0)
    with raises_line(IMAGES, "cannot be read"):
        load(tmp_path)


def test_checksums_decide_what_is_official(tmp_path, official):
    write_idx(tmp_path, official)
    assert data.load("mnist", data_dir=tmp_path).official
    assert all(result.ok for result in data.check("mnist", tmp_path))
    changed = official | {IMAGES: official[IMAGES] ^ 1}
    write_idx(tmp_path, changed)
    with raises_line(IMAGES, "published checksum of mnist", REPLACE, "--no-verify-data"):
        data.load("mnist", data_dir=tmp_path)
    assert not load(tmp_path).official
    bad, *good = data.check("mnist", tmp_path)
    assert not bad.ok and IMAGES in bad.file and REPLACE in bad.cure
    assert all(result.ok for result in good)


def test_check_reports_damage_and_absence(tmp_path, official):
    assert [result.ok for result in data.check("mnist")] == [False] * 4
    assert all(result.cure == "run `mupc data fetch mnist`" for result in data.check("mnist"))
    write_idx(tmp_path, official)
    (tmp_path / f"{IMAGES}.gz").write_bytes(b"\x1f\x8b")
    (tmp_path / f"{LABELS}.gz").unlink()
    images, labels, *test = data.check("mnist", tmp_path)
    assert "truncated" in images.message and "not in" in labels.message
    assert not images.ok and not labels.ok and all(result.ok for result in test)


def test_order_of_places(tmp_path, cache, official, monkeypatch):
    own, system = tmp_path / "own", tmp_path / "system"
    monkeypatch.setattr(_locate, "SYSTEM_FOLDERS", {"mnist": (system, "the system")})
    write_idx(cache / "mnist", official)
    assert data.load("mnist").source == "the cache folder"
    write_idx(system, official)
    assert data.load("mnist").source == "the system"
    own.mkdir()
    assert data.load("mnist", data_dir=own).source == "the system"
    write_idx(own, official)
    assert data.load("mnist", data_dir=own).source == str(own)
    write_idx(own / "mnist", official)
    assert data.load("mnist", data_dir=own).source == str(own / "mnist")
    where = {record.name: record.where for record in data.available(own)}
    assert where["mnist"] == str(own / "mnist") and where["cifar10"] is None


def test_source_keeps_the_path_as_given(tmp_path, official, monkeypatch):
    write_idx(tmp_path / "sets" / "mnist", official)
    monkeypatch.chdir(tmp_path)
    assert data.load("mnist", data_dir="sets").source == os.path.join("sets", "mnist")


def test_an_explicit_folder_is_never_filled_by_a_download(tmp_path):
    folder = tmp_path / "own"
    folder.mkdir()
    files = [f"{name}.gz" for name in IDX_NAMES]
    with raises_line(str(folder), *files, "`mupc data fetch mnist`", "drop data_dir"):
        data.load("mnist", data_dir=folder)
    with raises_line(str(tmp_path / "typo"), "is not a folder", "mupc data fetch", "drop data_dir"):
        data.load("mnist", data_dir=tmp_path / "typo")
    with raises_line(str(tmp_path / "typo"), "is not a folder"):
        data.available(tmp_path / "typo")


def test_a_folder_with_a_part_of_the_files(tmp_path):
    write_idx(tmp_path, small_mnist())
    (tmp_path / f"{LABELS}.gz").unlink()
    with raises_line(str(tmp_path), "only a part of mnist", f"add {LABELS}.gz"):
        load(tmp_path)


def test_unknown_names():
    with raises_line("'fashion_mnist'", "did you mean 'fashion-mnist'?", "digits, mnist", ".npz"):
        data.load("fashion_mnist")
    with raises_line("unknown data set 'zzz'", "choose one of"):
        data.load("zzz")


@pytest.mark.parametrize("below", ["cifar-10-batches-bin", "cifar10", ""])
def test_cifar_records(tmp_path, below):
    write_files(tmp_path / below, small_cifar(7))
    cifar = load(tmp_path, "cifar10")
    assert cifar.train.raw.shape == (35, 3072) and cifar.test.raw.shape == (7, 3072)
    assert cifar.train.targets.tolist() == [(f + r) % 10 for f in range(5) for r in range(7)]
    assert cifar.test.targets.tolist() == [(5 + r) % 10 for r in range(7)]
    images = cifar.train.raw.reshape(-1, *cifar.sample_shape)
    assert images.shape == (35, 3, 32, 32)
    assert [images[9, c, 4, 5] for c in range(3)] == [2, 52, 102]  # file 1, record 2
    np.testing.assert_allclose(cifar.x_test[0, 0], -1.0)


@pytest.mark.parametrize("name", CIFAR_NAMES)
def test_damaged_cifar_files(tmp_path, name):
    cure = "delete the file and run `mupc data fetch cifar10`"
    good = small_cifar(3)
    for data_, said in [
        (good[name][:-1], "truncated"),
        (b"", "truncated"),
        (good[name][:3073] + b"\x0b" + good[name][3074:], "label 11 at item 1"),
    ]:
        write_files(tmp_path, good | {name: data_})
        with raises_line(name, said, cure):
            load(tmp_path, "cifar10")


def test_cifar_of_unknown_origin_is_refused_unless_asked(tmp_path):
    write_files(tmp_path, small_cifar())
    with raises_line("data_batch_1.bin", "published checksum of cifar10", "--no-verify-data"):
        data.load("cifar10", data_dir=tmp_path)
    assert not load(tmp_path, "cifar10").official


def test_pickles_of_cifar_are_not_looked_at(tmp_path):
    write_files(tmp_path / "cifar-10-batches-py", {"data_batch_1": b"\x80\x04pickle"})
    with raises_line("data_batch_1.bin"):
        data.load("cifar10", data_dir=tmp_path)


REAL = Path(os.environ.get("MUPC_TEST_DATA", "~/.cache/mupc")).expanduser()


@pytest.mark.parametrize("name, mean", [("mnist", 0.1307), ("fashion-mnist", 0.2860)])
def test_the_real_thing(name, mean):
    if not (REAL / name).is_dir():
        pytest.skip(f"no {name} in MUPC_TEST_DATA or ~/.cache/mupc")
    real = data.load(name, data_dir=REAL)
    assert real.official and (len(real.train), len(real.test)) == (60_000, 10_000)
    assert real.train.raw.mean() / 255 == pytest.approx(mean, abs=1e-4)
    assert real.train.targets[:5].tolist() == {"mnist": [5, 0, 4, 1, 9], "fashion-mnist": [9, 0, 0, 3, 0]}[name]
