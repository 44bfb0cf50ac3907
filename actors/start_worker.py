"""Starts a worker of Ray as a fork of `coevolve.parts.template`.

Ray's raylet runs this file as a script, in place of Ray's `setup_worker.py`. If no template answers
or the worker's runtime environment asks for anything, Ray's own script follows. Only the standard
library is imported, because Ray takes a third of a second.
"""

import array
import json
import os
import runpy
import socket
import sys
from collections.abc import Sequence
from pathlib import Path

VARIABLE = "COEVOLVE_TEMPLATE"
"""Variable with the path of the template's socket."""

CONTEXT = "--serialized-runtime-env-context="
LANGUAGE = "--language="

PATIENCE_S = 20.0
"""Seconds within which the template has to answer; at a run's start it still imports."""

READY, GO, STARTED = b"r", b"g", b"s"
"""As in the template."""


def main() -> None:
    """Let the template start the worker; otherwise become the worker."""
    words = sys.argv[1:]
    if not (_is_plain(words) and forked(_request(words))):
        # The raylet's words begin with the path of Ray's script for the worker itself.
        sys.argv[0] = str(Path(words[0]).with_name("setup_worker.py"))
        runpy.run_path(sys.argv[0], run_name="__main__")


def _is_plain(words: Sequence[str]) -> bool:
    """Return whether the runtime environment asks for nothing."""
    given = (each.removeprefix(CONTEXT) for each in words if each.startswith(CONTEXT))
    return not any(json.loads(next(given, "") or "{}").values())


def _request(words: Sequence[str]) -> bytes:
    """Return what the template needs in order to start the worker."""
    request = {
        "arguments": [each for each in words if not each.startswith((CONTEXT, LANGUAGE))],
        "environment": dict(os.environ),
        "folder": str(Path.cwd()),
        "oom_score_adj": Path("/proc/self/oom_score_adj").read_text(),
    }
    return json.dumps(request).encode() + b"\n"


def forked(request: bytes) -> bool:
    """Return whether the template has started the worker."""
    try:
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(PATIENCE_S)
            connection.connect(os.environ[VARIABLE])
            streams = array.array("i", (0, 1, 2))
            sent = connection.sendmsg([request], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, streams)])
            connection.sendall(request[sent:])
            if connection.recv(1) != READY:
                return False
            connection.settimeout(None)  # from here on, only the end of the template is a refusal
            connection.sendall(GO)
            return connection.recv(1) == STARTED
    except (OSError, KeyError):
        return False


if __name__ == "__main__":
    main()
