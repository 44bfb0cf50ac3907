"""Keeps the points of designs on this machine, so that a command need not simulate them again.

A file is named by a hash of everything that the points depend on, beside the runtime of the
toolchain. A design that does not compile by itself leaves none.
"""

import contextlib
import hashlib
import os
import tempfile
from collections.abc import Callable
from pathlib import Path

import msgspec

from coevolve.environments.hdl.coverage import points as reading
from coevolve.environments.hdl.simulate.messages import Point
from coevolve.environments.sdk import shared_folder


def known_points(
    folder: Path, inputs: object, find: Callable[[], tuple[Point, ...]]
) -> tuple[Point, ...]:
    """Return the points for ``inputs``: those kept in ``folder``, or what ``find`` returns."""
    digest = hashlib.sha256(msgspec.msgpack.encode(inputs))
    digest.update(Path(reading.__file__).read_bytes())
    path = folder / "points" / digest.hexdigest()[:32]
    with contextlib.suppress(OSError, msgspec.DecodeError):
        return msgspec.msgpack.decode(path.read_bytes(), type=tuple[Point, ...])
    found = find()
    with contextlib.suppress(OSError):
        _keep(path, msgspec.msgpack.encode(found))
    return found


def _keep(path: Path, data: bytes) -> None:
    """Write the file at once, whatever other processes do. Raises OSError."""
    shared_folder(path.parent)
    handle, name = tempfile.mkstemp(prefix="new_", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        Path(name).chmod(0o644)
        Path(name).rename(path)
    except OSError:
        Path(name).unlink(missing_ok=True)
        raise
