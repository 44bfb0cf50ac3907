"""A run in the foreground of a terminal."""

import asyncio
import signal
import sys
from pathlib import Path

from rich.console import Console

from coevolve.launcher import launch as launcher
from coevolve.launcher.interrupts import end, end_within
from coevolve.parts import logs
from coevolve.runs.display import open_display
from protocols.config import RunConfig


def print_dry_run(config: RunConfig) -> None:
    """Print the resolved settings and what the run will take. Raises CoevolveError."""
    sys.stdout.write(launcher.dry_run(config))


def stay_with(config: RunConfig, runs: Path, *, resume: bool) -> None:
    """Start or resume a run under ``runs``, stay with it, and print how it went.

    Raises CoevolveError where it cannot start or go on.
    """
    console = Console()
    logs.to_output()
    launcher.check(config)
    directory = launcher.open_directory(config, runs, resume=resume)
    asyncio.run(_stay_with(config, directory, console))


async def _stay_with(config: RunConfig, directory: launcher.RunDirectory, console: Console) -> None:
    display = open_display(config, console)

    def on_start(stop: asyncio.Event) -> None:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, _interrupt, stop, config.cluster.stop_s)

    ended = await launcher.launch(config, directory, display, on_start)
    await launcher.summarize(ended, config, console)
    if ended.failure is not None:
        raise ended.failure


def _interrupt(stop: asyncio.Event, stop_s: float) -> None:
    """Stop the run cleanly at the first interrupt, and at once at the second."""
    if stop.is_set():
        end("interrupted; resume the run to take the step in hand again")
    stop.set()
    end_within(
        stop_s,
        f"the step in hand did not end within cluster.stop_s = {stop_s:g} s; resume the run to "
        "take it again",
    )
