"""Finds a run by its folder or on a Ray cluster, and connects to its actors.

With the run's folder on this machine, reads go through the memory-mapped journal; otherwise they
go through the store's actor.
"""

import contextlib
import logging
import re
from collections.abc import AsyncGenerator, Generator, Mapping, Sequence
from typing import Any, cast

import msgspec
import psutil
import ray

from actors.part import RemotePart
from actors.remote_store import STORE_NAME, RemoteStore
from coevolve.base.foreign import boundary
from coevolve.cli.attach_views.subject import LiveRun, Subject
from coevolve.history.directory import RunDirectory
from coevolve.journal.codec import decode_as
from coevolve.journal.reader import run_reader
from coevolve.launcher.cluster import use_token
from coevolve.launcher.interrupts import handlers_kept
from coevolve.launcher.session import JOIN_REMEDY, reaching
from coevolve.loop import PARTS
from coevolve.runs.reach import listens
from coevolve.runs.sessions import is_launcher_of_this_user
from coevolve.runs.starting import LOCK_FILE, is_launched
from protocols.config import RunConfig
from protocols.control import RunResumed, RunStarted
from protocols.errors import RunError
from protocols.interfaces import Reader

NAMESPACE = re.compile(r"coevolve-(?P<name>.+)-(?P<run_id>[0-9a-f]{12})")
"""The Ray namespace of a run's actors, as `coevolve.runs.starting.create` names it."""


@contextlib.contextmanager
def opened(directory: RunDirectory, *, join: bool) -> Generator[Subject]:
    """Yield the run in ``directory``; with ``join``, a running one comes with its actors."""
    identity = directory.identity()
    reader = run_reader(directory.path)
    with contextlib.ExitStack() as stack:
        live = None
        # A folder from elsewhere may name any address, and joining shows Ray's token there.
        is_own = is_launched(directory) and is_launcher_of_this_user(directory.path / LOCK_FILE)
        is_there = is_own and listens(identity.address)
        running = is_there and psutil.pid_exists(identity.pid)
        if join and is_there:
            actors = stack.enter_context(_joined(identity.address))
            live = _live(identity.namespace, actors.get(identity.namespace, ()))
            running = live is not None
        yield Subject(
            name=directory.path.name,
            run_id=identity.run_id,
            settings=directory.config,
            reader=reader,
            running=running,
            live=live,
            folder=directory.path,
        )


@contextlib.asynccontextmanager
async def opened_from_afar(address: str, run: str | None) -> AsyncGenerator[Subject]:
    """Yield a run on the Ray cluster ``address``; all access goes through its actors.

    ``run`` may be None if only one run uses the cluster. Raises RunError if the run is not there.
    """
    if not listens(address):
        raise RunError(
            f"--address: needs the Ray cluster of a running run, but nothing listens at "
            f"{address!r}; the file run.json of a run holds its address"
        )
    with _joined(address) as actors:
        namespace = _chosen(address, run, actors)
        live = _live(namespace, actors[namespace])
        match = NAMESPACE.fullmatch(namespace)
        assert live is not None
        assert match is not None
        reader = RemoteStore(_actor(STORE_NAME, namespace)).reader()
        config = await _recorded_config(reader, match["name"])
        yield Subject(
            name=match["name"],
            run_id=match["run_id"],
            settings=lambda: config,
            reader=reader,
            running=True,
            live=live,
            folder=None,
        )


@contextlib.contextmanager
def _joined(address: str) -> Generator[Mapping[str, Sequence[str]]]:
    """Join a Ray cluster until the block ends; yield the names of its actors by namespace."""
    logging.getLogger("ray").setLevel(logging.ERROR)
    use_token()
    try:
        with reaching(address), handlers_kept():  # those of Ray print a stack trace
            ray.init(address=address, log_to_driver=False, logging_level=logging.CRITICAL)
    except (ConnectionError, RuntimeError, ValueError) as error:
        raise RunError(
            f"cannot join the Ray cluster at {address!r}: {error}; {JOIN_REMEDY}"
        ) from error
    try:
        named = cast("list[dict[str, str]]", ray.util.list_named_actors(all_namespaces=True))
        actors: dict[str, list[str]] = {}
        for each in named:
            actors.setdefault(each["namespace"], []).append(each["name"])
        yield actors
    finally:
        ray.shutdown()


def _live(namespace: str, names: Sequence[str]) -> LiveRun | None:
    """Return the run of a namespace; None if the namespace has no store."""
    if STORE_NAME not in names:
        return None
    return LiveRun(
        store=RemoteStore(_actor(STORE_NAME, namespace)),
        parts=[RemotePart(name, _actor(name, namespace)) for name in sorted(names, key=_place)],
    )


def _place(name: str) -> tuple[int, str]:
    """Return the key that sorts actors: parts in the order of the loop, then those that serve."""
    kind, _, _ = name.partition("-")
    return list(PARTS).index(kind) if kind in PARTS else len(PARTS), name


def _chosen(address: str, run: str | None, actors: Mapping[str, Sequence[str]]) -> str:
    """Return the namespace of the run to use. Raises RunError if none or several match."""
    runs = {
        namespace: match["name"]
        for namespace, names in actors.items()
        if STORE_NAME in names and (match := NAMESPACE.fullmatch(namespace))
    }
    found = [namespace for namespace, name in runs.items() if run in (None, name)]
    if len(found) == 1:
        return found[0]
    names = ", ".join(sorted(runs.values())) or "none"
    what = f"the run {run!r}" if run else "exactly one run, or a run's name before the command"
    raise RunError(f"--address: needs {what} at {address!r}; runs found: {names}")


async def _recorded_config(reader: Reader, name: str) -> RunConfig:
    """Return the settings with which the run was started or last resumed, from its journal."""
    for kind in (RunResumed, RunStarted):
        record = await reader.last(str(kind.__struct_config__.tag))
        if record is not None:
            with boundary(RunError, f"{name}: its recorded settings cannot be read"):
                return msgspec.json.decode(decode_as(record, kind).config, type=RunConfig)
    raise RunError(f"{name}: has no record yet; try again when the run has started")


def _actor(name: str, namespace: str) -> Any:
    return cast("Any", ray).get_actor(name, namespace=namespace)
