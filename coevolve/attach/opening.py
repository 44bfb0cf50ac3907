"""Opens the run that a command is about, and carries the command out on it."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

from coevolve.attach.subject import Subject
from coevolve.runs import directory as run_directory


@dataclass(frozen=True, kw_only=True)
class Which:
    """Which run is meant."""

    run: str | None
    """Its folder or name; None for the newest."""

    runs: Path
    """Folder of all runs."""

    address: str | None
    """Ray cluster, where the run's folder is on another machine."""


def carry_out(which: Which, act: Callable[[Subject], Awaitable[None]], *, join: bool) -> None:
    """Carry out ``act`` on the run; with ``join`` on its actors, too, if it goes on.

    Raises CoevolveError where there is no such run, or what ``act`` raises.
    """
    asyncio.run(_carry_out(which, act, join=join))


async def _carry_out(
    which: Which, act: Callable[[Subject], Awaitable[None]], *, join: bool
) -> None:
    # Ray loads when a command is carried out, not for its help.
    from coevolve.attach import live

    if which.address:
        async with live.opened_from_afar(which.address, which.run) as subject:
            await act(subject)
        return
    with live.opened(run_directory.find(which.run, which.runs), join=join) as subject:
        await act(subject)
