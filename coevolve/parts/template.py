"""A process that has imported what parts need, of which Ray's workers on this machine are forks.

`python -m coevolve.parts.template PARENT DESCRIPTOR MODULE...` imports the modules. Then it answers
the requests of `actors/start_worker.py` on the listening socket that it inherited: it forks, and
the fork becomes Ray's worker, with the arguments, the environment, the folder and the streams of
the process that asked. So a part starts without imports, which take seconds, and all parts share
the memory that these take. The template imports no Ray, starts no thread and touches no device: all
of that would not survive a fork. It ends with the thread that started it.
"""

import array
import contextlib
import ctypes
import gc
import importlib
import json
import os
import runpy
import signal
import socket
import sys
from pathlib import Path
from typing import Any

MOST_BYTES = 1 << 20

PATIENCE_S = 5.0
"""Seconds within which a process that has connected has to ask."""

READY, GO, STARTED = b"r", b"g", b"s"
"""What the two say: this process can fork; it shall; the fork runs."""

STREAMS = 3
"""Standard input, output and error."""

OOM = Path("/proc/self/oom_score_adj")

NAME = "template"
"""Name of this process, by which the kernel lists it, once it has imported all."""

PR_SET_PDEATHSIG, PR_SET_NAME = 1, 15


def main() -> None:
    """Import, and fork for each request, until the thread that started this process ends."""
    prctl = ctypes.CDLL(None).prctl
    prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    parent, descriptor, *modules = sys.argv[1:]
    if os.getppid() != int(parent):  # it ended before this process could ask for the signal
        return
    for module in modules:
        with contextlib.suppress(Exception):  # the part that needs it says what is wrong
            importlib.import_module(module)
    gc.collect()
    gc.freeze()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    prctl(PR_SET_NAME, NAME.encode(), 0, 0, 0)
    with socket.socket(fileno=int(descriptor)) as listening:
        request = _own_request(listening)
    _become(request)


def _own_request(listening: socket.socket) -> dict[str, Any]:
    """Fork for each request; return the request in its fork, and never in this process."""
    while True:
        connection, _ = listening.accept()
        with connection, contextlib.suppress(OSError, ValueError):
            connection.settimeout(PATIENCE_S)
            request, streams = _received(connection)
            try:
                if _is_wanted(connection) and os.fork() == 0:
                    _begin(connection, streams)
                    return request
            finally:
                for each in streams:
                    os.close(each)


def _is_wanted(connection: socket.socket) -> bool:
    """Return whether the process that asked still waits; it then never becomes the worker itself.

    Raises OSError. Without this agreement both could become the same worker, which Ray's control
    service does not survive.
    """
    connection.sendall(READY)
    return connection.recv(len(GO)) == GO


def _begin(connection: socket.socket, streams: list[int]) -> None:
    """Take over the streams and say that the worker runs; end if nobody waits for that."""
    try:
        for target, stream in enumerate(streams):
            os.dup2(stream, target)
        connection.sendall(STARTED)
    except OSError:
        os._exit(1)


def _received(connection: socket.socket) -> tuple[dict[str, Any], list[int]]:
    """Return a request and the streams that came with it. Raises OSError or ValueError."""
    streams = array.array("i")
    space = socket.CMSG_SPACE(STREAMS * streams.itemsize)
    text, ancillary, _, _ = connection.recvmsg(MOST_BYTES, space)
    for _, _, data in ancillary:
        streams.frombytes(data)
    while not text.endswith(b"\n"):
        text += connection.recv(MOST_BYTES) or b"\n"
    return json.loads(text), list(streams)


def _become(request: dict[str, Any]) -> None:
    """Run the script of a request in this process, as if Ray's raylet had started it."""
    os.setpgid(0, 0)
    with contextlib.suppress(OSError):
        OOM.write_text(request["oom_score_adj"])
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    os.chdir(request["folder"])
    os.environ.clear()
    os.environ.update(request["environment"])
    sys.argv = request["arguments"]
    if not sys.flags.safe_path:  # else Python puts no script's folder first
        sys.path[0] = str(Path(sys.argv[0]).parent)
    runpy.run_path(sys.argv[0], run_name="__main__")


if __name__ == "__main__":
    main()
