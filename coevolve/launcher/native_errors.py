"""Standard error of this process while a block holds back what native code writes there."""

import contextlib
import os
import sys
from collections.abc import Generator
from pathlib import Path

from coevolve.base.durable_files import no_link

_STDERR = 2
_direct = [_STDERR]
"""File descriptors; the last one reaches the user at once."""


def write(text: str) -> None:
    """Write to the user at once, even while a block holds standard error back."""
    os.write(_direct[-1], text.encode())


@contextlib.contextmanager
def held_back(file: Path, unwanted: bytes) -> Generator[None]:
    """Write standard error to ``file`` during the block, and then to the user.

    Lines with ``unwanted`` are left out. If native code ends the process, they are all in ``file``.
    """
    file.parent.mkdir(parents=True, exist_ok=True)
    with open(file, "w+b", opener=no_link) as held:
        direct = os.dup(_STDERR)
        _direct.append(direct)
        os.dup2(held.fileno(), _STDERR)
        try:
            yield
        finally:
            os.dup2(direct, _STDERR)
            _direct.pop()
            os.close(direct)
            held.seek(0)
            for line in held:
                if unwanted not in line:  # not to the descriptor: a screen may be drawn
                    sys.stderr.write(line.decode(errors="replace"))
            sys.stderr.flush()
