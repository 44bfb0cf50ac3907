import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from actors import start_worker
from coevolve.launcher.forking import SOCKET, forking
from coevolve.parts import template

MODULE = "this"
"""A module of the standard library that nothing else imports."""

WORKER = """
import json, os, sys
print(json.dumps({
    "imported": "this" in sys.modules, "arguments": sys.argv[1:], "parent": os.getppid(),
    "group": os.getpgid(0) == os.getpid(), "variable": os.environ.get("GIVEN"),
    "folder": os.getcwd(), "name": __name__,
}))
"""


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """Yield a folder with Ray's two scripts, for whose workers a template imports `MODULE`."""
    (tmp_path / "default_worker.py").write_text(WORKER)
    (tmp_path / "setup_worker.py").write_text("print('\"own\"')")
    with forking(tmp_path, [MODULE, "a_module_that_is_missing"]):
        yield tmp_path


def test_a_worker_is_a_fork_that_has_imported_all(folder: Path) -> None:
    told = _started(folder, "--worker-id=7", GIVEN="yes")
    assert told == {
        "imported": True,
        "arguments": ["--worker-id=7"],
        "parent": _template().pid,
        "group": True,
        "variable": "yes",
        "folder": str(folder),
        "name": "__main__",
    }


def test_a_killed_template_starts_again(folder: Path) -> None:
    parent = _started(folder)["parent"]
    killed = psutil.Process(parent)
    killed.kill()
    psutil.wait_procs([killed], timeout=10)  # until then it may still accept a connection
    again = _started(folder)
    assert again["imported"]
    assert again["parent"] != parent


def test_a_worker_with_a_runtime_environment_starts_as_ray_starts_it(folder: Path) -> None:
    context = json.dumps({"env_vars": {"A": "1"}})
    assert _started(folder, f"--serialized-runtime-env-context={context}") == "own"


def test_a_worker_starts_as_ray_starts_it_if_there_is_no_template(folder: Path) -> None:
    assert _started(folder, COEVOLVE_TEMPLATE=str(folder / "nothing")) == "own"


def test_a_worker_that_gave_up_waiting_is_not_started_twice(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _started(folder)
    process = _template()
    process.suspend()
    monkeypatch.setattr(start_worker, "PATIENCE_S", 0.2)
    monkeypatch.setenv(start_worker.VARIABLE, str(folder / SOCKET))
    (folder / "late.py").write_text("open('late', 'w').close()")
    request = {"arguments": ["late.py"], "folder": str(folder), "environment": {}}
    line = json.dumps(request | {"oom_score_adj": "0"}).encode() + b"\n"
    forked = start_worker.forked(line)
    process.resume()
    assert not forked
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(str(folder / SOCKET))
        socket.send_fds(connection, [line], [0, 1, 2])
        assert connection.recv(1) == start_worker.READY
    assert _started(folder, COEVOLVE_TEMPLATE=str(folder / SOCKET))["imported"]
    assert not (folder / "late").exists()


def test_the_template_ends_with_the_block(tmp_path: Path) -> None:
    with forking(tmp_path, []):
        process = _template()
    assert not process.is_running()


def test_a_template_that_has_imported_all_has_its_name(folder: Path) -> None:
    _started(folder)
    assert _template().name() == template.NAME


def _started(folder: Path, *words: str, **variables: str) -> Any:
    """Start a worker as Ray's raylet does, and return what it said."""
    command = [sys.executable, start_worker.__file__, str(folder / "default_worker.py")]
    answer = subprocess.run(
        [*command, *words, "--language=PYTHON"],
        env=os.environ | variables,
        cwd=folder,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        check=True,
        timeout=60,
    )
    return json.loads(answer.stdout)


def _template() -> psutil.Process:
    """Return the template that this process keeps."""
    while True:
        for child in psutil.Process().children():
            if "coevolve.parts.template" in child.cmdline():
                return child


def test_a_template_whose_launcher_is_gone_ends() -> None:
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    words = [sys.executable, "-m", template.__name__, str(gone.pid), "0"]
    assert subprocess.run(words, timeout=30).returncode == 0
