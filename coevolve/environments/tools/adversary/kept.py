"""Keeps what the cheap adversary found, so that the processes of a run do not each play it.

A finding is kept in the cache of this machine under a digest of the tasks with the answers of their
references, and of the code that answers and grades: this package's own for tools, the modules of
the class's folder, and the names, sizes and times of the files beside it, which the modules may
read. Another code or task has another digest. What cannot be kept is found again.
"""

import contextlib
import hashlib
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

import msgspec

from coevolve.base.durable_files import replace_file
from coevolve.environments import tools
from coevolve.environments.cache_folder import cache_folder
from coevolve.environments.tools.adversary.found import Found
from coevolve.environments.tools.adversary.probes import Grading
from coevolve.environments.tools.simple import folder_of
from coevolve.environments.tools.task import ToolTask
from protocols.errors import DependencyError

MOST_KEPT = 100
"""Findings that are kept; the oldest go."""

_found: dict[str, Found] = {}


def kept(
    kind: type[Any], bodies: Sequence[ToolTask], grading: Grading, play: Callable[[], Found]
) -> Found:
    """Return what ``play`` returns, or what it returned for the same tasks and class before."""
    key = _key(kind, bodies, grading)
    if key not in _found:
        _found[key] = _from_disk(key, play)
    return _found[key]


def _from_disk(key: str, play: Callable[[], Found]) -> Found:
    try:
        file = cache_folder() / "adversary" / f"{key}.json"
    except DependencyError:
        return play()
    with contextlib.suppress(OSError, msgspec.MsgspecError):
        return msgspec.json.decode(file.read_bytes(), type=Found)
    found = play()
    with contextlib.suppress(OSError):
        file.parent.mkdir(parents=True, exist_ok=True)
        replace_file(file, msgspec.json.encode(found))
        oldest_first = sorted(file.parent.glob("*.json"), key=lambda each: each.stat().st_mtime)
        for old in oldest_first[:-MOST_KEPT]:
            old.unlink(missing_ok=True)
    return found


def _key(kind: type[Any], bodies: Sequence[ToolTask], grading: Grading) -> str:
    digest = hashlib.blake2b(digest_size=16)
    digest.update(msgspec.msgpack.encode((version("coevolve"), sys.version, grading, list(bodies))))
    for content in (*_own_code(), *_code(kind)):
        digest.update(len(content).to_bytes(8) + content)
    return digest.hexdigest()


@cache
def _own_code() -> tuple[bytes, ...]:
    """Return what the modules contain that play, answer and grade."""
    files = sorted(Path(tools.__file__ or "").parent.rglob("*.py"))
    return tuple(file.read_bytes() for file in files)


def _code(kind: type[Any]) -> Iterator[bytes]:
    """Yield what the modules of the class's folder contain, and which files are beside them."""
    folder, package = folder_of(kind), kind.__module__.partition(".")[0]
    is_installed = "site-packages" in folder.parts
    modules = {name: getattr(found, "__file__", None) for name, found in sys.modules.items()}
    for name, file in sorted(modules.items()):
        belongs = name.partition(".")[0] == package or not is_installed
        if file and belongs and Path(file).resolve().is_relative_to(folder):
            with contextlib.suppress(OSError):
                yield Path(file).read_bytes()
    beside = Path(sys.modules[kind.__module__].__file__ or "").resolve().parent
    for each in sorted(beside.iterdir()):
        with contextlib.suppress(OSError):
            if each.is_file():
                facts = each.stat()
                yield f"{each.name} {facts.st_size} {facts.st_mtime_ns}".encode()
