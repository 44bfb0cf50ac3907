"""Each test has a folder for its classes, and a cache of its own."""

from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def _apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("COEVOLVE_CACHE", str(tmp_path / "cache"))
