"""A run in the foreground of a terminal."""

import asyncio
import math
import sys
import time
from pathlib import Path

from coevolve.base.user_code import resume_command
from coevolve.launcher import jobs, working_folder
from coevolve.launcher import launch as launcher
from coevolve.launcher.address import with_address
from coevolve.launcher.interrupts import INTERRUPTED, LOST, end_within, stop_when_interrupted
from coevolve.parts import logs
from coevolve.parts.privacy import private_files
from coevolve.runs.stop import Stop
from coevolve.screen.display import open_display
from coevolve.screen.start import CHECKS, StartScreen, redraws
from protocols.config import RunConfig

LOST_S = 8.0
"""Seconds after which this process ends if its cluster is lost, whatever still waits for it."""


def print_dry_run(config: RunConfig, screen: StartScreen, measured: Path | None = None) -> None:
    """Print the resolved settings and what the run will take. Raises CoevolveError.

    ``measured`` is a file of `coevolve.estimate.step_time.read_throughput`.
    """
    screen.begin(CHECKS)
    found = launcher.dry_run(config, measured)
    screen.close()
    sys.stdout.write(found)


def stay_with(
    config: RunConfig, runs: Path, screen: StartScreen, *, resume: bool, for_s: float = math.inf
) -> int:
    """Start or resume a run under ``runs``, stay with it, and print how it went.

    ``screen`` shows the start, and then the run in its place. ``for_s`` seconds after this process
    began the run stops, as if it was asked to.

    Return the exit code: `INTERRUPTED` if a signal stopped the run before its end.

    Raises CoevolveError if it cannot start or continue.
    """
    logs.to_output()
    screen.begin(CHECKS)
    launcher.check(config, runs, resume=resume)
    directory = launcher.open_directory(config, runs, resume=resume)
    if redraws(screen.console):  # a line of a log would tear the screen
        with private_files():
            logs.to_file(directory.path, "launch")
    return asyncio.run(_stay_with(config, directory, screen, for_s))


async def _stay_with(
    config: RunConfig, directory: launcher.RunDirectory, screen: StartScreen, for_s: float
) -> int:
    interrupted = asyncio.Event()
    display = open_display(config, screen)
    warnings = (
        jobs.kill_warning(config.cluster.stop_s),
        working_folder.warning(with_address(config)),
    )
    for warning in filter(None, warnings):
        display.say(warning)

    def on_start(stop: Stop) -> None:
        loop = asyncio.get_running_loop()
        resume = resume_command(directory.called, config)
        stop_when_interrupted(loop, stop, interrupted, config.cluster.stop_s, resume)
        if not math.isinf(for_s):
            loop.call_later(launcher.STARTED + for_s - time.monotonic(), stop.ask)

    def on_loss(sentence: str) -> None:
        end_within(LOST_S, sentence, code=LOST)

    ended = await launcher.launch(config, directory, display, on_start, on_loss)
    await launcher.summarize(ended, config, screen.console)
    if ended.failure is not None:
        raise ended.failure
    return INTERRUPTED if interrupted.is_set() and not ended.run.finished else 0
