"""Lets the workers of a local Ray cluster start as forks of one process that has imported all."""

import contextlib
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Generator, Sequence
from pathlib import Path

from ray._private import ray_constants, workers

from actors import start_worker
from coevolve.parts import template

SOCKET = "template"
"""Name of the socket in the session's folder, which only this user can enter."""

WAITING = 256
"""Most processes that wait for the template to answer."""

PAUSE_S = 1.0
"""Seconds before a template that ended is started again."""


@contextlib.contextmanager
def forking(folder: Path, modules: Sequence[str]) -> Generator[None]:
    """Let the workers of a cluster that starts in the block be forks of a process with ``modules``.

    The socket is in ``folder``. A worker waits there while the template imports, also if that was
    killed and starts again.
    """
    path = folder / SOCKET
    with socket.socket(socket.AF_UNIX) as listening, _started_by(Path(start_worker.__file__)):
        listening.bind(str(path))
        listening.listen(WAITING)
        os.environ[start_worker.VARIABLE] = str(path)
        try:
            with _kept([str(listening.fileno()), *modules], listening.fileno()):
                yield
        finally:
            del os.environ[start_worker.VARIABLE]


@contextlib.contextmanager
def _kept(words: Sequence[str], descriptor: int) -> Generator[None]:
    """Keep a template running for the block."""
    changing = threading.Lock()
    running: list[subprocess.Popen[bytes]] = []
    ended = threading.Event()

    def started() -> subprocess.Popen[bytes] | None:
        with changing:
            running[:] = [] if ended.is_set() else [_template(words, descriptor)]
            return running[0] if running else None

    def keep() -> None:
        while process := started():
            process.wait()
            ended.wait(PAUSE_S)

    thread = threading.Thread(target=keep, name="template", daemon=True)
    thread.start()
    try:
        yield
    finally:
        with changing:
            ended.set()
            for each in running:
                each.kill()
        thread.join()


def _template(words: Sequence[str], descriptor: int) -> subprocess.Popen[bytes]:
    return subprocess.Popen(  # noqa: S603 - a module of this package
        [sys.executable, "-m", template.__name__, str(os.getpid()), *words],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        pass_fds=(descriptor,),
        start_new_session=True,
    )


@contextlib.contextmanager
def _started_by(script: Path) -> Generator[None]:
    """Let a raylet that starts in the block start its workers by ``script``.

    Ray has no setting for that, but looks the file's name up when it starts a raylet.
    """
    before = ray_constants.SETUP_WORKER_FILENAME
    ray_constants.SETUP_WORKER_FILENAME = os.path.relpath(script, Path(workers.__file__).parent)
    try:
        yield
    finally:
        ray_constants.SETUP_WORKER_FILENAME = before
