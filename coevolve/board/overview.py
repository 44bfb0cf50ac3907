"""The headline numbers of each run under a folder, from journals alone, and kept up to date."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from coevolve.history.directory import RunDirectory, has_journal
from coevolve.history.progress import TOPICS, Progress, progress_snapshots
from coevolve.history.score import Score
from coevolve.journal.codec import topics_of
from coevolve.journal.fold import fold
from coevolve.journal.reader import JournalReader, run_reader
from coevolve.runs.starting import is_launched
from protocols.config import RunConfig
from protocols.control import RunFinished, RunResumed
from protocols.errors import CoevolveError, RunError
from protocols.learning import Evaluation, StepReport


@dataclass(frozen=True)
class Overview:
    """One run in a few numbers."""

    name: str
    state: str
    """``running``, ``paused``, ``finished``, ``stopped``, ``starting`` or ``cannot be read``."""

    note: str = ""
    """Why it cannot be read, or what is wrong in it; empty if nothing is."""

    arm: str = ""
    seed: int = 0
    environment: str = ""
    step: int = 0
    steps: int = 0
    measure: str = "success"
    scores: Mapping[int, Score] = field(default_factory=dict[int, Score])
    """Held-out score by ``measure`` of each scored version, in their order."""

    newest_ns: int = 0
    """Unix time of the newest step or score; 0 if there is none."""

    @property
    def first(self) -> Score | None:
        """Held-out score of the first scored version."""
        return next(iter(self.scores.values()), None)

    @property
    def newest(self) -> Score | None:
        """Held-out score of the newest scored version."""
        return None if self.version is None else self.scores[self.version]

    @property
    def version(self) -> int | None:
        """The newest scored version."""
        return max(self.scores, default=None)


class WatchedRun:
    """One run, whose records are each read once."""

    def __init__(self, directory: RunDirectory) -> None:
        self.directory = directory
        self._config: tuple[int, RunConfig] | None = None
        self._progress: Progress | None = None
        self._through = 0

    async def overview(self) -> Overview:
        """Return its numbers now; what cannot be read is said in them."""
        name = self.directory.path.name
        try:
            return await self._overview(name, self._written_config())
        except CoevolveError as error:
            self._progress = None
            return Overview(name=name, state="cannot be read", note=str(error))

    async def _overview(self, name: str, config: RunConfig) -> Overview:
        running = is_running(self.directory)
        known = Overview(
            name=name,
            state="starting" if running else "stopped",
            arm=config.arm,
            seed=config.seed,
            environment=config.uses,
            steps=config.learner.steps,
        )
        if not has_journal(self.directory):
            return known
        reader = run_reader(self.directory.path)
        progress = await self._newest(reader)
        ends = [await reader.last(topic) for topic in topics_of(RunFinished, RunResumed)]
        finished, resumed = (each.sequence if each else 0 for each in ends)
        times = [await reader.last(topic) for topic in topics_of(StepReport, Evaluation)]
        scores = progress.held_out()
        return Overview(
            name=name,
            state=_state(progress, running=running, finished=finished > resumed),
            note=_note(progress),
            arm=known.arm,
            seed=known.seed,
            environment=known.environment,
            step=progress.step,
            steps=known.steps,
            measure=progress.measure,
            scores={version: scores[version] for version in sorted(scores)},
            newest_ns=max((each.time_ns for each in times if each), default=0),
        )

    def _written_config(self) -> RunConfig:
        """Return the settings, which are read again only when their file was written again."""
        written_ns = self.directory.config_written_ns()
        if self._config is None or self._config[0] != written_ns:
            self._config = written_ns, self.directory.written_config()
        return self._config[1]

    async def _newest(self, reader: JournalReader) -> Progress:
        if self._progress is None:
            self._progress, self._through = await progress_snapshots(reader, {}).folded()
        self._through = await fold(reader, TOPICS, self._progress.fold, self._through)
        return self._progress


class RunsFolder:
    """The runs in a folder."""

    def __init__(self, root: Path) -> None:
        """Take the folder ``root``. Raises RunError if it is no folder that can be listed."""
        self.root = root.resolve()
        self._watched: dict[str, WatchedRun] = {}
        self.names()

    def names(self) -> Sequence[str]:
        """Return the names of the runs, the newest start first. Raises RunError."""
        try:
            with os.scandir(self.root) as entries:
                found = [(_started(entry.path), entry.name) for entry in entries]
        except OSError as error:
            raise RunError(
                f"{self.root}: cannot be listed: {error.strerror}; start a run with `coevolve "
                "launch FILE`, or give the folder of all runs"
            ) from error
        return [name for started, name in sorted(found, reverse=True) if started]

    def directory(self, name: str) -> RunDirectory:
        """Return the folder of a run. Raises RunError if there is no run ``name``."""
        if name not in self.names():
            raise RunError(f"{name}: no run in {self.root} has this name")
        return RunDirectory(self.root / name)

    async def overviews(self) -> list[Overview]:
        """Return the numbers of every run, the newest start first."""
        return [await self._watch(RunDirectory(self.root / name)) for name in self.names()]

    async def overview(self, name: str) -> Overview:
        """Return the numbers of one run. Raises RunError."""
        return await self._watch(self.directory(name))

    async def _watch(self, directory: RunDirectory) -> Overview:
        watched = self._watched.setdefault(directory.path.name, WatchedRun(directory))
        return await watched.overview()


def is_running(directory: RunDirectory) -> bool:
    """Return whether a process of this machine runs it.

    `is_launched` takes the lock for a moment, which would refuse a start; so only ask it if the
    process that launched the run seems to live.
    """
    return psutil.pid_exists(directory.identity().pid) and is_launched(directory)


def _started(path: str) -> float:
    """Return when the run in the folder was started or resumed; 0 if it is no run."""
    try:
        return os.stat(os.path.join(path, "run.json")).st_mtime  # noqa: PTH116, PTH118 - many
    except OSError:
        return 0.0


def _state(progress: Progress, *, running: bool, finished: bool) -> str:
    if running:
        return "paused" if progress.passing.paused else "running"
    return "finished" if finished else "stopped"


def _note(progress: Progress) -> str:
    alarm = progress.deliveries.alarm
    notes = [
        "an engine does not serve the published version" if alarm is not None else "",
        "no progress" if progress.passing.stalled else "",
        progress.lesson(),
    ]
    return "; ".join(filter(None, notes))
