"""Opens a run and executes an attach command on it."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

from coevolve.cli.attach_views.subject import Subject
from coevolve.history import finding
from coevolve.launcher.interrupts import end_at_once


@dataclass(frozen=True, kw_only=True)
class RunChoice:
    """Identifies a run."""

    run: str | None
    """The run's folder or name; None for the newest run."""

    runs: Path
    """Folder of all runs."""

    address: str | None
    """Address of the Ray cluster, if the run's folder is on another machine."""


def carry_out(choice: RunChoice, act: Callable[[Subject], Awaitable[None]], *, join: bool) -> None:
    """Execute ``act`` on the run; with ``join``, connect to the actors of a live run first.

    An interrupt ends the process at once: nothing needs cleaning up, and Ray's native code would
    print stack traces. Call it in the main thread.

    Raises CoevolveError if there is no such run, and any error of ``act``.
    """
    end_at_once("interrupted")
    asyncio.run(_carry_out(choice, act, join=join))


async def _carry_out(
    choice: RunChoice, act: Callable[[Subject], Awaitable[None]], *, join: bool
) -> None:
    # Imported here, so that a command's help does not load Ray.
    from coevolve.cli.attach_views import live

    if choice.address:
        async with live.opened_from_afar(choice.address, choice.run) as subject:
            await act(subject)
        return
    with live.opened(finding.find(choice.run, choice.runs), join=join) as subject:
        await act(subject)
