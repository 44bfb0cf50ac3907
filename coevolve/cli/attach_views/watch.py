"""`attach watch`: the live screen of a run, from any machine that reaches it.

It shows what the launching process shows, from the same records and the same statuses. Engines that
the run adds while it is watched have no line of their own; the records about them do.
"""

import asyncio
import contextlib
import sys
import time
from collections.abc import Sequence
from dataclasses import replace

import msgspec

from coevolve.cli.attach_views.status import progress_line
from coevolve.cli.attach_views.subject import LiveRun, Subject
from coevolve.history.directory import RunDirectory
from coevolve.history.progress import TOPICS, Progress, progress_snapshots
from coevolve.journal.codec import decode, topic_of
from coevolve.journal.fold import fold_records
from coevolve.journal.mailbox import IDLE_WAIT_S
from coevolve.parts import logs
from coevolve.runs.drive import LOOK_GATHER_S, WAKING
from coevolve.runs.polling import poll_statuses
from coevolve.runs.starting import is_launched
from coevolve.screen.display import Display, LineDisplay, open_display
from coevolve.screen.drawing import draw
from coevolve.screen.start import StartScreen
from coevolve.screen.view import View
from protocols.control import RunFinished, RunResumed, RunStarted
from protocols.errors import CoevolveError
from protocols.interfaces import SupervisedPart
from protocols.journal import Message, StoredRecord
from protocols.learning import Evaluation, PolicyVersion, StepReport

FOLLOWED = (*TOPICS, topic_of(RunFinished))
WOKEN_BY = (*WAKING, topic_of(RunFinished))
NS_PER_S = 1e9

LAUNCHER_LOOK_S = 0.5
"""Seconds between two looks whether the launcher lives. Ray says so of its store minutes late."""


async def watch(subject: Subject, screen: StartScreen, *, as_json: bool) -> None:
    """Show the run until it ends; one that is not running is shown once.

    With ``as_json``, and on a console that cannot redraw, print a JSON line for each event.
    """
    labels = subject.environment.labels()
    progress, through = await progress_snapshots(subject.reader, labels).folded()
    config, elapsed_s = subject.config, await _elapsed_s(subject)
    joined = time.monotonic()
    if as_json:
        screen.close()  # or it would draw the lines
    logs.to_output()
    display = LineDisplay(config) if as_json else open_display(config, screen, elapsed_s)
    for newest in await _newest(subject):
        display.show(newest, progress)
    try:
        if subject.live is not None:
            await _Watching(subject, subject.live, progress, through).until_it_ends(display)
            elapsed_s += time.monotonic() - joined
    finally:
        display.close()
    if display.look is not None:
        console = screen.console
        doing = "not running after"
        view = View(config=config, progress=progress, elapsed_s=elapsed_s, doing=doing)
        console.print(
            draw(view, console.width, console.height, ascii_only=console.options.ascii_only)
        )
    else:
        ended = replace(subject, running=False)
        begun = await subject.reader.last(topic_of(PolicyVersion)) is not None
        sys.stderr.write(f"{progress_line(ended, progress, begun=begun)}\n")


class _Watching:
    """Passes the records of a running run, and what its parts wait for, to a display."""

    def __init__(self, subject: Subject, live: LiveRun, progress: Progress, through: int) -> None:
        self._subject = subject
        self._live = live
        self._progress = progress
        self._through = through
        self._ended = False

    async def until_it_ends(self, display: Display) -> None:
        """Show the run until it has finished, its launcher has ended, or its store is gone."""
        tasks = [asyncio.create_task(self._follow(display))]
        folder = self._subject.folder
        if folder is not None and is_launched(RunDirectory(folder)):
            tasks.append(asyncio.create_task(_launcher_ends(RunDirectory(folder))))
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for each in done:
                each.result()
        finally:
            for each in tasks:
                each.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        if not self._ended:  # the last records may have come with the launcher's end
            with contextlib.suppress(CoevolveError):
                await self._fold(display)

    async def _follow(self, display: Display) -> None:
        """Return when the run has finished, or when its store answers no longer."""
        looking = (
            asyncio.create_task(poll_statuses(self._parts, display.look)) if display.look else None
        )

        try:
            with contextlib.suppress(CoevolveError):  # the run has ended, or its cluster is lost
                while not self._ended:
                    await asyncio.sleep(LOOK_GATHER_S)
                    await self._fold(display)
                    if not self._ended:
                        await self._live.store.wait(WOKEN_BY, self._through, IDLE_WAIT_S)
        finally:
            if looking is not None:
                looking.cancel()
                await asyncio.gather(looking, return_exceptions=True)

    async def _fold(self, display: Display) -> None:
        """Show the records since the last call."""

        def take(record: StoredRecord) -> None:
            message = decode(record)
            self._ended = self._ended or isinstance(message, RunFinished)
            self._progress.fold(message)
            display.show(message, self._progress)

        reader, through = self._subject.reader, self._through
        self._through = await fold_records(reader, FOLLOWED, take, through)

    def _parts(self) -> Sequence[SupervisedPart]:
        """Return the parts, without engines that the run has let go."""
        scaled = self._progress.deliveries.scaled
        engines = scaled.engines if scaled else ()
        return [
            part
            for part in self._live.parts
            if not part.name.startswith("rollout-") or part.name in engines
        ]


async def _launcher_ends(directory: RunDirectory) -> None:
    """Return when no process launches the run, however its launcher ended."""
    while is_launched(directory):  # noqa: ASYNC110 - the kernel frees the lock
        await asyncio.sleep(LAUNCHER_LOOK_S)


async def _elapsed_s(subject: Subject) -> float:
    """Return the seconds from the run's newest start until now, or until its newest progress."""
    began = await _newest_ns(subject, (RunStarted, RunResumed))
    if subject.running:
        return (time.time_ns() - began) / NS_PER_S
    return (
        max(await _newest_ns(subject, (StepReport, Evaluation, RunFinished)) - began, 0) / NS_PER_S
    )


async def _newest_ns(subject: Subject, kinds: Sequence[type[msgspec.Struct]]) -> int:
    """Return the time of the newest record of these kinds; 0 if there is none."""
    found = [await subject.reader.last(topic_of(kind)) for kind in kinds]
    return max((each.time_ns for each in found if each is not None), default=0)


async def _newest(subject: Subject) -> Sequence[Message]:
    """Return the newest start, report of a step and evaluation, as far as there are any."""
    kinds = (RunStarted, StepReport, Evaluation)
    found = [await subject.reader.last(topic_of(kind)) for kind in kinds]
    return [decode(each) for each in found if each is not None]
