"""Finds the run that was asked for, by its folder or on a Ray cluster, and joins its actors.

Reads go by the journal's map where the run's folder is, and through the store's actor elsewhere.
"""

import contextlib
import logging
import re
from collections.abc import AsyncGenerator, Generator, Mapping, Sequence
from typing import Any, cast

import msgspec
import psutil
import ray
from ray._private.authentication.authentication_token_setup import (
    maybe_enable_token_auth_if_token_available,
)

from actors.part import RemotePart
from actors.store import STORE_NAME, RemoteReader, RemoteStore
from coevolve.attach.subject import LiveRun, Subject
from coevolve.journal.codec import decode_as
from coevolve.journal.reader import run_reader
from coevolve.runs.directory import RunDirectory
from coevolve.runs.reach import listens
from protocols.config import RunConfig
from protocols.control import RunResumed, RunStarted
from protocols.errors import RunError
from protocols.interfaces import Reader

NAMESPACE = re.compile(r"coevolve-(?P<name>.+)-(?P<run_id>[0-9a-f]{12})")
"""Of a run's actors, as `coevolve.runs.directory.create` names it."""


@contextlib.contextmanager
def opened(directory: RunDirectory, *, join: bool) -> Generator[Subject]:
    """Give the run of ``directory``; with ``join``, and where it goes on, with its actors."""
    identity = directory.identity()
    reader = run_reader(directory.path)
    with contextlib.ExitStack() as stack:
        live = None
        running = listens(identity.address) and psutil.pid_exists(identity.pid)
        if join and listens(identity.address):
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
    """Give a run that goes on at the Ray cluster ``address``; everything goes through its actors.

    ``run`` may be None where only one runs there. Raises RunError where it does not run there.
    """
    if not listens(address):
        raise RunError(
            f"--address: needs the Ray cluster of a run that goes on, and nothing listens at "
            f"{address!r}; a run's address stands in its run.json"
        )
    with _joined(address) as actors:
        namespace = _chosen(address, run, actors)
        live = _live(namespace, actors[namespace])
        match = NAMESPACE.fullmatch(namespace)
        assert live is not None
        assert match is not None
        reader = RemoteReader(_actor(STORE_NAME, namespace))
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
    """Join a cluster as long as it lasts; gives the names of its actors by namespace."""
    logging.getLogger("ray").setLevel(logging.ERROR)
    # Ray protects the clusters that it starts with a token, and asks whoever joins to say so.
    maybe_enable_token_auth_if_token_available(warn_if_disabled=False)
    try:
        ray.init(address=address, log_to_driver=False, logging_level=logging.CRITICAL)
    except (ConnectionError, RuntimeError, ValueError) as error:
        raise RunError(f"Ray cannot join the cluster at {address!r}: {error}") from error
    try:
        named = cast("list[dict[str, str]]", ray.util.list_named_actors(all_namespaces=True))
        actors: dict[str, list[str]] = {}
        for each in named:
            actors.setdefault(each["namespace"], []).append(each["name"])
        yield actors
    finally:
        ray.shutdown()


def _live(namespace: str, names: Sequence[str]) -> LiveRun | None:
    """Return the run of a namespace; None where it has no store."""
    if STORE_NAME not in names:
        return None
    return LiveRun(
        store=RemoteStore(_actor(STORE_NAME, namespace)),
        parts=[RemotePart(name, _actor(name, namespace)) for name in sorted(names)],
    )


def _chosen(address: str, run: str | None, actors: Mapping[str, Sequence[str]]) -> str:
    """Return the namespace of the run that is meant. Raises RunError where that is not clear."""
    runs = {
        namespace: match["name"]
        for namespace, names in actors.items()
        if STORE_NAME in names and (match := NAMESPACE.fullmatch(namespace))
    }
    found = [namespace for namespace, name in runs.items() if run in (None, name)]
    if len(found) == 1:
        return found[0]
    there = ", ".join(sorted(runs.values())) or "none"
    what = f"the run {run!r}" if run else "one run, or the name of one before the command"
    raise RunError(f"--address: needs {what} at {address!r}; runs there: {there}")


async def _recorded_config(reader: Reader, name: str) -> RunConfig:
    """Return the settings that the run was started or last resumed with, from its journal."""
    for kind in (RunResumed, RunStarted):
        record = await reader.last(str(kind.__struct_config__.tag))
        if record is not None:
            return msgspec.json.decode(decode_as(record, kind).config, type=RunConfig)
    raise RunError(f"{name}: has written no record yet; ask again when it has begun")


def _actor(name: str, namespace: str) -> Any:
    return cast("Any", ray).get_actor(name, namespace=namespace)
