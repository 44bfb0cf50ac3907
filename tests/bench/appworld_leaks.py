"""Memory, processes and descriptors of a simulator of appworld over many episodes."""

import asyncio
import contextlib
import sys
from collections.abc import Sequence
from dataclasses import dataclass

import psutil

from coevolve.environments.appworld.environment import AppWorld
from coevolve.environments.registry import config_of
from coevolve.environments.tools.commands import Act, Command, Failed, Grade, Ready, Release, Reset
from coevolve.environments.tools.task import ToolTask, tool_task
from coevolve.environments.tools.wire import ToolClient

AT_A_TIME = 4
BLOCKS = 16
SETTLE_S = 3.0
"""Seconds for the processes of the last episodes to end, which nobody waits for."""

ONE = "print(apis.spotify.show_song(song_id=1))"


@dataclass(frozen=True)
class Held:
    """What a process and its descendants hold while no episode is open."""

    memory_mb: float
    """Resident memory of this process."""

    server_mb: float
    """Resident memory of its descendants."""

    processes: int
    descriptors: int

    def __str__(self) -> str:
        """Return one line."""
        return (
            f"{self.memory_mb:.0f} MB here, {self.server_mb:.0f} MB in {self.processes} other "
            f"processes, {self.descriptors} descriptors"
        )


async def leaks(episodes: int) -> int:
    """Play the episodes, and print what is held after a tenth of them and at the end."""
    environment = AppWorld(config_of({"use": "appworld", "scenarios": 2, "held_out": 3}))
    tasks = [tool_task(task) for task in environment.source().pool()]
    service = environment.simulator()
    simulator = ToolClient(service)
    try:
        await _played(simulator, tasks, max(1, episodes // 10))
        before = await _held()
        await _played(simulator, tasks, episodes - max(1, episodes // 10))
        after = await _held()
    finally:
        await service.close()
    sys.stdout.write(f"after a tenth of {episodes} episodes: {before}\n")
    sys.stdout.write(f"after all of them: {after}\n")
    return 0


async def _played(simulator: ToolClient, tasks: Sequence[ToolTask], episodes: int) -> None:
    for first in range(0, episodes, AT_A_TIME):
        numbers = range(first, min(first + AT_A_TIME, episodes))
        await asyncio.gather(
            *(_episode(simulator, f"episode-{n}", tasks[n % len(tasks)]) for n in numbers)
        )


async def _episode(simulator: ToolClient, name: str, task: ToolTask) -> None:
    commands: list[Command] = [Reset(session=name, task=task)]
    commands += [Act(session=name, text=ONE)] * BLOCKS
    commands += [Grade(session=name), Release(session=name)]
    opened, *_, verdict, released = await simulator.execute(commands)
    assert (opened, released) == (Ready(), Ready())
    assert isinstance(verdict, Failed)


async def _held() -> Held:
    await asyncio.sleep(SETTLE_S)
    me = psutil.Process()
    others: list[psutil.Process] = []
    memory = 0
    for each in me.children(recursive=True):
        with contextlib.suppress(psutil.NoSuchProcess):
            memory += each.memory_info().rss
            others.append(each)
    descriptors = 0
    for each in (me, *others):
        with contextlib.suppress(psutil.NoSuchProcess):
            descriptors += each.num_fds()
    return Held(
        memory_mb=me.memory_info().rss / 2**20,
        server_mb=memory / 2**20,
        processes=len(others),
        descriptors=descriptors,
    )
