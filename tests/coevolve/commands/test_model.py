"""Small chat models that a machine can have: from a real wheel, and from a hub on loopback."""

import json
import shutil
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest

from coevolve.commands.model import ORIGIN, WHEELS, check_digest, fetch, kept_folder
from coevolve.models.model_folder import TINY_FOLDER
from protocols.errors import DependencyError
from tests.commands import Answer, answered, called

CLASS = '''
class Lamp:
    """A lamp."""

    def reset(self, world: dict) -> None:
        self.is_on = world["is_on"]

    def switch(self, is_on: bool) -> str:
        """Switch the lamp on or off."""
        self.is_on = is_on
        return "done"
'''
TASKS = [
    {
        "id": f"t{number}",
        "world": {"is_on": number % 2 == 0},
        "turns": [
            {
                "instruction": f"Lamp {number}: switch it {'off' if number % 2 == 0 else 'on'}.",
                "reference": [f"switch(is_on={number % 2 == 1})"],
            }
        ],
    }
    for number in range(10)
]


@pytest.mark.timeout(480)
def test_the_model_of_a_wheel_holds_conversations_with_a_users_class(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("COEVOLVE_CACHE", str(tmp_path / "cache"))
    folder = tmp_path / "smollm2-135m"
    done = answered("model", "fetch", "smollm2-135m", str(folder))
    assert done.returncode == 0, done.stderr
    told = (folder / ORIGIN).read_text()
    assert "Apache 2.0" in told
    assert WHEELS["smollm2-135m"].sha256 in told
    (tmp_path / "lamp.py").write_text(CLASS)
    (tmp_path / "tasks.jsonl").write_text("\n".join(map(json.dumps, TASKS)))
    checked = called(
        *("environment", "check", "lamp:Lamp", f"tasks={tmp_path / 'tasks.jsonl'}"),
        *(f"policy.model={folder}", "policy.chat.tools=prompt", "rollout.max_tokens=1024"),
        PYTHONPATH=str(tmp_path),
    )
    assert checked.returncode == 0, checked.stdout + checked.stderr
    again = answered("model", "fetch", "smollm2-135m", str(folder))
    assert again.returncode == 1
    assert f"{folder}: needs to be a new folder" in again.stderr


class _Hub(BaseHTTPRequestHandler):
    """Answers `snapshot_download` with the files of the tiny policy, under one name."""

    NAME = "alice/tiny"
    COMMIT = "0123456789abcdef0123456789abcdef01234567"

    def do_HEAD(self) -> None:
        self._answer(b"", TINY_FOLDER / self.path.rpartition("/")[2])

    def do_GET(self) -> None:
        if f"/{self.NAME}" not in self.path:
            self.send_error(404)
        elif "/tree/" in self.path:
            files = [each for each in TINY_FOLDER.iterdir() if each.is_file()]
            told = [
                {"type": "file", "path": each.name, "size": each.stat().st_size, "oid": each.name}
                for each in files
            ]
            self._answer(json.dumps(told).encode())
        elif self.path.startswith("/api/models/"):
            self._answer(json.dumps({"id": self.NAME, "sha": self.COMMIT}).encode())
        else:
            file = TINY_FOLDER / self.path.rpartition("/")[2]
            self._answer(file.read_bytes(), file)

    def _answer(self, body: bytes, file: Path | None = None) -> None:
        self.send_response(200)
        if file is not None:
            self.send_header("ETag", f'"{file.name}"')
            self.send_header("X-Repo-Commit", self.COMMIT)
        size = len(body) if file is None else file.stat().st_size
        self.send_header("Content-Length", str(size))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        del format, args


@contextmanager
def _hub() -> Generator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), _Hub) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()


def _from_hub(name: str, folder: Path, hub: str) -> Answer:
    return called("model", "fetch", name, str(folder), HF_ENDPOINT=hub, HF_HUB_OFFLINE="0")


def test_a_model_of_a_hub_is_fetched_by_its_name(tmp_path: Path):
    folder = tmp_path / "here"
    with _hub() as hub:
        done = _from_hub("alice/tiny", folder, hub)
        missing = _from_hub("alice/another", tmp_path / "there", hub)
    assert done.returncode == 0, done.stderr
    for file in TINY_FOLDER.glob("*.json"):
        assert (folder / file.name).read_bytes() == file.read_bytes()
    assert "here: " in done.stdout
    assert missing.returncode == 1
    assert "alice/another: cannot be downloaded" in missing.stderr
    assert not (tmp_path / "there").exists()


def test_a_model_that_the_cache_keeps_is_copied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("COEVOLVE_CACHE", str(tmp_path))
    shutil.copytree(TINY_FOLDER, kept_folder("alice/tiny"))
    lines: list[str] = []
    made = fetch("alice/tiny", tmp_path / "here", lines.append)
    assert lines[0].startswith("copying ")
    assert {each.name for each in made.iterdir()} == {each.name for each in TINY_FOLDER.iterdir()}


@pytest.mark.parametrize("name", ["smollm3", "a/b/c", "../x", "", "http://127.0.0.1/x"])
def test_a_name_that_is_no_models_is_refused_with_those_that_are(name: str, tmp_path: Path):
    done = answered("model", "fetch", name, str(tmp_path / "new"))
    assert done.returncode == 1
    assert "smollm2-135m, or ORG/NAME" in done.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("content", [None, b"", b"another"])
def test_a_file_of_another_content_is_refused(content: bytes | None, tmp_path: Path):
    wheel = replace(WHEELS["smollm2-135m"], file="model.gguf")
    file = tmp_path / wheel.file
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(DependencyError, match=r"needs the SHA-256 b179c95.*, found "):
        check_digest(file, wheel)


def test_the_list_names_each_model_with_its_licence():
    done = answered("model", "list")
    assert done.returncode == 0
    for name, wheel in WHEELS.items():
        assert name in done.stdout
        assert wheel.licence in done.stdout
