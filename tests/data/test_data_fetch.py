from __future__ import annotations

import dataclasses
import gzip
import hashlib
import io
import sys
import tarfile
from collections.abc import Callable
from pathlib import Path

import pooch
import pytest
import requests
from data_helpers import (
    CIFAR_NAMES,
    IDX_NAMES,
    idx_bytes,
    publish,
    raises_line,
    small_cifar,
    small_mnist,
    write_idx,
)

from mupc import data
from mupc.data import NAMED_DATASETS

MNIST = {name: idx_bytes(array) for name, array in small_mnist().items()}


class Response:
    """What pooch uses of a response of requests."""

    def __init__(self, body: bytes, status: int = 200) -> None:
        self.body, self.status = body, status
        self.headers = {"content-length": str(len(body))}

    def raise_for_status(self) -> None:
        if self.status >= 400:
            raise requests.exceptions.HTTPError(f"{self.status}\nnot found")

    def iter_content(self, chunk_size: int):
        yield self.body[: len(self.body) // 2]
        yield self.body[len(self.body) // 2 :]


@pytest.fixture
def serve(monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[str]]:
    """Publish these contents and serve these bodies under the official addresses; gives the requests made."""

    def start(name: str, contents: dict[str, bytes], bodies: dict[str, bytes], status: int = 200) -> list[str]:
        asked: list[str] = []
        entry = publish(NAMED_DATASETS[name], contents)
        downloads = tuple(
            dataclasses.replace(d, sha256=hashlib.sha256(bodies[d.name]).hexdigest()) for d in entry.downloads
        )
        monkeypatch.setitem(NAMED_DATASETS, name, dataclasses.replace(entry, downloads=downloads))
        served = {d.url: bodies[d.name] for d in downloads}

        def get(url: str, **kwargs: object) -> Response:
            asked.append(url)
            return Response(served[url], status)

        monkeypatch.setattr(requests, "get", get)
        return asked

    return start


def gzipped(contents: dict[str, bytes]) -> dict[str, bytes]:
    return {f"{name}.gz": gzip.compress(body) for name, body in contents.items()}


def test_load_downloads_once_and_fetch_keeps_what_is_good(cache, serve):
    asked = serve("mnist", MNIST, gzipped(MNIST))
    mnist = data.load("mnist")
    assert mnist.official and mnist.source == "the cache folder" and len(mnist.train) == 30
    assert sorted(path.name for path in (cache / "mnist").iterdir()) == sorted(gzipped(MNIST))
    assert len(asked) == 4
    assert data.fetch("mnist") == cache / "mnist" and data.load("mnist").official
    assert len(asked) == 4
    (cache / "mnist" / f"{IDX_NAMES[0]}.gz").write_bytes(b"rubbish")
    data.fetch("mnist")
    assert len(asked) == 5 and data.load("mnist").official


def test_good_contents_packed_differently_are_kept(cache, serve):
    asked = serve("mnist", MNIST, gzipped(MNIST))
    write_idx(cache / "mnist", small_mnist(), suffix="")
    data.fetch("mnist")
    assert not asked


def test_fetch_into_a_folder(tmp_path, serve):
    serve("mnist", MNIST, gzipped(MNIST))
    folder = data.fetch("mnist", data_dir=tmp_path / "new", progress=False)
    assert folder == tmp_path / "new" / "mnist"
    assert data.load("mnist", data_dir=tmp_path / "new").official


@pytest.mark.parametrize("name, files", [("mnist", [f"{n}.gz" for n in IDX_NAMES]), ("cifar10", CIFAR_NAMES)])
def test_no_network(cache, monkeypatch, name, files):
    def retrieve(*args: object, **kwargs: object) -> None:
        raise requests.exceptions.ConnectionError("Max retries\nexceeded")

    monkeypatch.setattr(pooch, "retrieve", retrieve)
    with raises_line(name, str(cache), f"`mupc data fetch {name}`", "network", "pass it as data_dir", *files):
        data.load(name)
    assert not list(cache.rglob("*.*"))


def test_a_failed_download_leaves_nothing_behind(cache):
    with raises_line("mnist", "ConnectionError"):
        data.fetch("mnist")
    assert list(cache.iterdir()) == []


def test_server_errors(cache, serve):
    serve("mnist", MNIST, gzipped(MNIST), status=404)
    with raises_line("mnist", "HTTPError", "data_dir"):
        data.fetch("mnist")


def test_download_off(cache):
    with raises_line("mnist is not in", str(cache / "mnist"), "run `mupc data fetch mnist`"):
        data.load("mnist", download=False)


def test_a_download_with_the_wrong_checksum_is_discarded(cache, serve, monkeypatch):
    serve("mnist", MNIST, gzipped(MNIST))
    monkeypatch.setattr(requests, "get", lambda url, **kwargs: Response(b"tampered"))
    with raises_line("train-images-idx3-ubyte.gz", "wrong checksum", "discarded", "data_dir"):
        data.fetch("mnist")
    assert list(cache.iterdir()) == []


def test_a_cache_that_cannot_be_written(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("MUPC_CACHE", str(tmp_path / "file"))
    with raises_line("mnist", str(tmp_path / "file"), "set MUPC_CACHE"):
        data.fetch("mnist")


@pytest.mark.parametrize("package", ["pooch", "rich.console"])
def test_missing_packages(monkeypatch, package):
    monkeypatch.setitem(sys.modules, package, None)
    with raises_line(package, "pip install pooch rich"):
        data.fetch("mnist")


def test_unknown_name():
    with raises_line("did you mean 'cifar10'?"):
        data.fetch("cifar-10")


CIFAR = small_cifar()


def tar(files: dict[str, bytes], links: dict[str, str] | None = None) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        for name, body in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(body)
            archive.addfile(member, io.BytesIO(body))
        for name, target in (links or {}).items():
            member = tarfile.TarInfo(name)
            member.type, member.linkname, member.size = tarfile.SYMTYPE, target, len(CIFAR[CIFAR_NAMES[0]])
            archive.addfile(member)
    return buffer.getvalue()


def in_folder(files: dict[str, bytes]) -> dict[str, bytes]:
    return {f"cifar-10-batches-bin/{name}": body for name, body in files.items()}


def test_cifar_comes_out_of_its_archive(cache, serve):
    archive = tar(in_folder(CIFAR) | {"cifar-10-batches-bin/readme.html": b"hello", "../evil": b"evil"})
    serve("cifar10", CIFAR, {"cifar-10-binary.tar.gz": archive})
    cifar = data.load("cifar10")
    assert cifar.official and len(cifar.train) == 35
    assert {path.name for path in (cache / "cifar-10-batches-bin").iterdir()} == set(CIFAR_NAMES)
    assert not list(cache.parent.rglob("evil"))


BAD_ARCHIVES = {
    "lacks a file": tar(in_folder({name: CIFAR[name] for name in CIFAR_NAMES[:-1]})),
    "wrong size": tar(in_folder(CIFAR | {"test_batch.bin": b"short"})),
    "huge member": tar(in_folder(CIFAR) | {"bomb": bytes(10**6)}),
    "too many members": tar({f"file{i}": b"" for i in range(50)} | in_folder(CIFAR)),
    "link": tar(
        in_folder({name: CIFAR[name] for name in CIFAR_NAMES[:-1]}),
        {"cifar-10-batches-bin/test_batch.bin": "/etc/passwd"},
    ),
    "link within": tar(
        in_folder({name: CIFAR[name] for name in CIFAR_NAMES[:-1]}),
        {"cifar-10-batches-bin/test_batch.bin": "data_batch_1.bin"},
    ),
    "truncated": tar(in_folder(CIFAR))[:-50],
    "not an archive": b"hello",
}


@pytest.mark.parametrize("case", BAD_ARCHIVES)
def test_bad_archives_are_refused_whole(cache: Path, serve, case):
    serve("cifar10", CIFAR, {"cifar-10-binary.tar.gz": BAD_ARCHIVES[case]})
    with raises_line("cifar-10-binary.tar.gz", "delete it and fetch"):
        data.fetch("cifar10")
    assert not list(cache.rglob("*.bin"))
