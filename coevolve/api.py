"""Runs from Python: ``coevolve.run("quickstart", on_step=...)``."""

import asyncio
import signal
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from coevolve.base.terminal import Terminal
from coevolve.history.directory import RunDirectory
from coevolve.history.progress import Progress
from coevolve.history.score import Choice, Score
from coevolve.launcher import launch as launcher
from coevolve.launcher.jobs import lasting
from coevolve.runs.stop import Stop
from coevolve.screen.display import Display, StatusListener, open_display
from coevolve.screen.start import StartScreen
from protocols.config import RunConfig
from protocols.errors import ConfigError
from protocols.journal import Message
from protocols.learning import StepReport

OnStep = Callable[[StepReport], None]

LOOK_S = 0.2
"""Seconds between two checks of the caller's thread for an interrupt."""


@dataclass(frozen=True, kw_only=True)
class RunResult:
    """How a run ended."""

    name: str
    directory: Path
    """Folder of the run: settings, journal, checkpoints, logs, report."""

    steps: int
    """Number of learner steps, over all starts of the run."""

    finished: bool
    """Whether the run took all steps and scored the last version; False after a stop."""

    held_out: Mapping[int, Score]
    """Policy version -> score on the held-out tasks, for each version that was scored."""

    best: Choice | None
    """The best version, chosen on other tasks than its score is from; None without scores."""

    report: Path
    """The page about the run."""


def run(
    config: RunConfig | str | Path,
    *,
    overrides: Sequence[str] = (),
    runs: str | Path = "runs",
    resume: bool = False,
    on_step: OnStep | None = None,
    show: bool = False,
) -> RunResult:
    """Carry out a run, and return when it has ended.

    The run has its own thread and event loop, so this works in scripts, in any thread, and in
    notebooks. The calling thread waits, and an event loop in it stands still; in async code use
    ``await asyncio.to_thread(coevolve.run, ...)``. In the main thread an interrupt (Ctrl-C, or a
    notebook's stop button) stops the run cleanly and raises KeyboardInterrupt; the run can be
    resumed.

    Args:
        config: Settings, the path of a run file, or the name of one that coevolve ships.
        overrides: Settings of a run file to change, as ``"learner.steps=20"``.
        runs: Folder of all runs; in a Ray job relative to the home folder.
        resume: Continue the run of this name. With a run file, it keeps the number of rollout
            actors that ``coevolve attach scale`` set last, unless ``overrides`` changes it.
        on_step: Called in the run's thread with the report of each learner step (its number, and
            its metrics by name). Its exceptions stop the run cleanly and are raised here.
        show: Print the run's progress and summary, as the command does.

    Raises:
        CoevolveError: The run cannot start or continue; the message gives cause and remedy.
    """
    _check_arguments(config, overrides, on_step)
    root = lasting(Path(runs))
    if not isinstance(config, RunConfig):
        config = launcher.settings(config, overrides, root, resume=resume)
    launcher.check(config, root, resume=resume)
    directory = launcher.open_directory(config, root, resume=resume)
    return _InThread(config, directory, on_step, show=show).result()


def _check_arguments(config: object, overrides: object, on_step: object) -> None:
    """Refuse arguments of `run` of a wrong type. Raises ConfigError."""
    if not isinstance(config, RunConfig | str | Path):
        raise ConfigError(
            "config: needs a RunConfig, or the path or name of a run file, found "
            f"{type(config).__name__}; settings are given as overrides=[...]"
        )
    if isinstance(config, RunConfig) and overrides:
        raise ConfigError("overrides: are for run files; change the RunConfig itself")
    if isinstance(overrides, str | Mapping):
        kind = "a dict" if isinstance(overrides, Mapping) else "one text"
        raise ConfigError(
            f'overrides: needs a list of texts such as ["learner.steps=20"], found {kind}, '
            f"{overrides!r}; write each setting as KEY=VALUE, with dots in the key"
        )
    if on_step is not None and not callable(on_step):
        raise ConfigError(
            f"on_step: needs a function such as print, found {type(on_step).__name__}"
        )


class _InThread:
    """A run in its own thread and event loop."""

    def __init__(
        self, config: RunConfig, directory: RunDirectory, on_step: OnStep | None, *, show: bool
    ) -> None:
        self._config = config
        self._directory = directory
        self._console = Terminal() if show else Terminal(quiet=True)
        self._display = _Callbacks(self._open_display() if show else _Silence(), on_step, self.stop)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop: Stop | None = None
        self._stopped = False
        self._ended: launcher.Ended | None = None
        self._failure: BaseException | None = None
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._drive, name=f"run {config.name}", daemon=True)

    def _open_display(self) -> Display:
        return open_display(self._config, StartScreen(self._console, self._config.name))

    def result(self) -> RunResult:
        """Start the thread, wait for its end, and return the run's result."""
        self._thread.start()
        interrupted = self._wait()
        for failure in (self._display.failure, self._failure):
            if failure is not None:
                raise failure
        if interrupted:
            raise KeyboardInterrupt
        assert self._ended is not None
        if self._ended.failure is not None:
            raise self._ended.failure
        progress = self._ended.run.progress
        return RunResult(
            name=self._config.name,
            directory=self._directory.path,
            steps=progress.step,
            finished=self._ended.run.finished,
            held_out=progress.held_out(),
            best=progress.choice(),
            report=self._directory.report,
        )

    def stop(self) -> None:
        """Stop the run cleanly, even before it has begun."""
        self._stopped = True
        if self._loop is not None and self._stop is not None:
            self._loop.call_soon_threadsafe(self._stop.ask)

    def _wait(self) -> bool:
        """Return whether an interrupt came before the thread's end."""
        # Otherwise an event loop in the caller's thread would swallow the first interrupt.
        in_main = threading.current_thread() is threading.main_thread()
        before = signal.signal(signal.SIGINT, signal.default_int_handler) if in_main else None
        try:
            return self._wait_or_stop()
        finally:
            if in_main:
                signal.signal(signal.SIGINT, before)

    def _wait_or_stop(self) -> bool:
        interrupted = False
        # An interrupted `Thread.join` may treat a live thread as dead (bpo-45274).
        while not self._done.is_set():
            try:
                self._done.wait(LOOK_S)
            except KeyboardInterrupt:
                if interrupted:
                    raise
                interrupted = True
                self.stop()
        return interrupted

    def _drive(self) -> None:
        try:
            self._ended = asyncio.run(self._launch())
        except BaseException as failure:  # noqa: BLE001 - raised again in the caller's thread
            self._failure = failure
        finally:
            self._done.set()

    async def _launch(self) -> launcher.Ended:
        def on_start(stop: Stop) -> None:
            self._loop, self._stop = asyncio.get_running_loop(), stop
            if self._stopped:
                stop.set()

        ended = await launcher.launch(self._config, self._directory, self._display, on_start)
        await launcher.summarize(ended, self._config, self._console)
        return ended


class _Callbacks:
    """A display that also calls back at each step."""

    def __init__(self, display: Display, on_step: OnStep | None, stop: Callable[[], None]) -> None:
        self._display = display
        self._on_step = on_step
        self._stop = stop
        self.failure: BaseException | None = None

    def show(self, message: Message, progress: Progress) -> None:
        """Show the record; pass steps to the caller. An exception of the caller stops the run."""
        self._display.show(message, progress)
        if isinstance(message, StepReport) and self._on_step is not None and not self.failure:
            try:
                self._on_step(message)
            except BaseException as failure:  # noqa: BLE001 - raised again in the caller's thread
                self.failure = failure
                self._stop()

    @property
    def look(self) -> StatusListener | None:
        return self._display.look

    def begin(self, phase: str) -> None:
        self._display.begin(phase)

    def say(self, text: str) -> None:
        self._display.say(text)

    def close(self) -> None:
        self._display.close()


class _Silence:
    """A display that shows nothing."""

    look = None

    def show(self, message: Message, progress: Progress) -> None:
        """Show nothing."""

    def begin(self, phase: str) -> None:
        """Show nothing."""

    def say(self, text: str) -> None:
        """Show nothing."""

    def close(self) -> None:
        """Do nothing."""
