from __future__ import annotations

from pathlib import Path

import pytest

from mupc.data import _locate


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache and no system folders, whatever this machine has."""
    folder = tmp_path / "cache"
    monkeypatch.setenv("MUPC_CACHE", str(folder))
    monkeypatch.setattr(_locate, "SYSTEM_FOLDERS", {})
    return folder


@pytest.fixture(autouse=True)
def no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tests never reach the network: every request fails as it does without one."""
    import requests

    def get(*args: object, **kwargs: object) -> None:
        raise requests.exceptions.ConnectionError("no route\nto host")

    monkeypatch.setattr(requests, "get", get)
