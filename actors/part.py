"""A part as a Ray actor: the shell that runs it in a process, and the callers' proxy."""

import asyncio
import time
from collections.abc import Mapping
from typing import Any, ClassVar, cast

import ray
from ray._private import state as ray_state
from ray.exceptions import ActorUnavailableError, RayActorError, RayError, RayTaskError

from actors.home import Home
from actors.remote_store import RemoteStore
from coevolve.environments.open_parts import OpenPart, Simulators
from coevolve.learning.sharded.rpc import RankStarter
from coevolve.loop import PARTS
from coevolve.parts.starting import unexpected_logged
from protocols.config import RunConfig
from protocols.control import PartStatus
from protocols.errors import (
    CoevolveError,
    PartDiedError,
    PartRaisedError,
    PartStartError,
    first_error,
)

ANSWER_S = 5.0
STOP_S = 60.0
END_S = 10.0
LOOK_S = 0.05

STARTING = {
    "DEPENDENCIES_UNREADY": "is starting",
    "PENDING_CREATION": "is starting",
    "RESTARTING": "is starting again",
}
"""Ray's state of an actor whose constructor has not returned yet -> what is said of the part."""

DEAD = "DEAD"
"""Ray's state of an actor that it never starts again."""


class PartShell:
    """Runs a part of `coevolve.loop` in its own process, with its own engine, if it has one."""

    part: ClassVar[str]
    """The part's name in `coevolve.loop.PARTS`; the process is called after the subclass."""

    def __init__(
        self,
        name: str,
        config: RunConfig,
        home: Home,
        store: RemoteStore,
        simulators: Simulators = (),
        ranks: RankStarter | None = None,
    ) -> None:
        with home.starting(name):
            context = home.context(home.settings(config), store)
            self._opened = OpenPart(PARTS[self.part], context, simulators, name=name, ranks=ranks)

    async def run(self) -> None:
        with unexpected_logged():
            await self._opened.part.run()

    async def stop(self) -> None:
        await self._opened.part.stop()

    async def status(self) -> PartStatus:
        return self._opened.part.status()

    async def cpu_s(self) -> float:
        return self._opened.cpu_s()


class RemotePart:
    """A `protocols.interfaces.SupervisedPart` for an actor with run, stop, status and cpu_s."""

    def __init__(self, name: str, actor: Any) -> None:
        self._name = name
        self._actor = actor

    @property
    def name(self) -> str:
        return self._name

    async def run(self) -> None:
        try:
            await self._actor.run.remote()
        except RayTaskError as error:
            cause = first_error(cast("BaseException", error.cause))
            if isinstance(cause, CoevolveError):
                raise cause from error
            raised = f"{self._name} raised {type(cause).__name__}: {cause}"
            raise PartRaisedError(raised) from error
        except RayError as error:
            raise _died(error)(f"{self._name}: {_first_sentence(error)}") from error

    async def renew(self) -> None:
        """Kill the process; Ray starts another."""
        ray.kill(self._actor, no_restart=False)

    async def stop(self) -> None:
        """Ask the part to stop and wait at most a minute for it."""
        try:
            async with asyncio.timeout(STOP_S):
                await self._actor.stop.remote()
        except (RayError, TimeoutError):
            return

    async def end(self) -> None:
        ray.kill(self._actor, no_restart=True)
        await asyncio.to_thread(_until_dead, self._actor)

    async def status(self) -> PartStatus:
        try:
            async with asyncio.timeout(ANSWER_S):
                return await self._actor.status.remote()
        except (RayError, TimeoutError) as error:
            starting = STARTING.get(await asyncio.to_thread(_state, self._actor) or "")
            return PartStatus(
                part=self._name,
                pid=None,
                waits_for=starting or "does not answer",
                since_s=0.0,
                mailbox=0,
                done=0,
                policy_version=-1,
                last_error="" if starting else _first_sentence(error),
            )

    async def cpu_s(self) -> float:
        try:
            async with asyncio.timeout(ANSWER_S):
                return await self._actor.cpu_s.remote()
        except (RayError, TimeoutError):
            return 0.0


def _state(actor: Any) -> str | None:
    """Return Ray's state of an actor, which its public API does not say; None if unknown."""
    return cast("Mapping[str, str]", ray_state.actors(actor._actor_id.hex())).get("State")


def _until_dead(actor: Any) -> None:
    """Return when Ray has ended an actor, or after `END_S`."""
    deadline = time.monotonic() + END_S
    while _state(actor) != DEAD and time.monotonic() < deadline:
        time.sleep(LOOK_S)


def _died(error: RayError) -> type[PartDiedError]:
    started = not (isinstance(error, RayActorError) and error.actor_init_failed)
    return PartDiedError if started else PartStartError


def _first_sentence(error: BaseException) -> str:
    if isinstance(error, ActorUnavailableError):
        return "its process ended or cannot be reached; Ray starts it again"
    if isinstance(error, TimeoutError):
        return f"no answer within {ANSWER_S:.0f} s: it is still loading or computing"
    lines = str(error).strip().splitlines()
    return lines[-1] if lines else type(error).__name__
