"""`mupc data list | fetch | check`."""

import json

import pytest

from mupc import data


@pytest.fixture(autouse=True)
def empty_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("MUPC_CACHE", str(tmp_path / "cache"))


def test_list(mupc):
    run = mupc("data", "list")
    assert run.code == 0
    assert "digits" in run.out and "absent: mupc data fetch mnist, or --data-dir DIR" in run.out
    found = json.loads(mupc("data", "list", "--json").out)
    assert found["digits"]["present"] is True and found["mnist"]["train"] == 60_000
    assert found["tinyshakespeare"]["image_shape"] is None and "tinyshakespeare  text     15,685" in run.out


def test_check(mupc, tmp_path):
    assert mupc("data", "check", "digits").code == 0
    run = mupc("data", "check", "mnist", "--json")
    assert run.code == 1
    assert not any(file["ok"] for file in json.loads(run.out)["mnist"])
    folder = tmp_path / "mnist"
    folder.mkdir()
    (folder / "train-images-idx3-ubyte").write_bytes(b"damaged")
    run = mupc("data", "check", "mnist", "--data-dir", tmp_path)
    assert run.code == 1 and "WRONG" in run.out
    run = mupc("data", "check", "nmist")
    assert run.code == 2 and "did you mean 'mnist'?" in run.err


def test_check_says_once_what_to_do(mupc, tmp_path):
    run = mupc("data", "check", "cifar10")
    assert run.out.count("not in ") == 1 and run.out.count("as above") == 5
    assert run.out.splitlines()[-1] == "cifar10: run `mupc data fetch cifar10`"
    for number in range(1, 6):
        (tmp_path / f"data_batch_{number}.bin").write_bytes(bytes(3))
    run = mupc("data", "check", "cifar10", "--data-dir", tmp_path)
    assert run.out.count("WRONG") == run.out.count("sha256 ") == 5 and run.out.count("delete the file and run") == 1
    assert run.out.count("`mupc train --no-verify-data`") == run.out.count("--no-verify-data") == 1


def test_usage(mupc):
    run = mupc("data", "fetch", "--help")
    assert "NAME [NAME ...]" in run.out and "(default: )" not in run.out


def test_fetch(mupc, monkeypatch, tmp_path):
    asked = []

    def fetch(name, *, data_dir, progress):
        asked.append((name, data_dir, progress))
        return tmp_path

    monkeypatch.setattr(data, "fetch", fetch)
    assert mupc("data", "fetch", "all", "--quiet").code == 0
    assert asked == [(name, None, False) for name in ("mnist", "fashion-mnist", "cifar10", "tinyshakespeare")]
    run = mupc("data", "fetch", "mnist", "--data-dir", tmp_path)
    assert asked[-1] == ("mnist", str(tmp_path), True) and str(tmp_path) in run.out


def test_fetch_mistakes(mupc):
    for argv, help in ((["digits"], "nothing to fetch"), (["nmist"], "did you mean"), ([], "such as")):
        run = mupc("data", "fetch", *argv)
        assert run.code == 2 and help in run.err and len(run.err.splitlines()) == 1
    assert mupc("data").code == 2
