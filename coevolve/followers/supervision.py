"""The launcher's side of followers: it starts their processes, tells them of news, and ends them.

A process that ends is started again after a pause that doubles each time. The journal says which
of them fail, and why. Nothing here waits for a follower before the run has ended.
"""

import asyncio
import contextlib
import os
import signal
import sys
import time
from collections.abc import AsyncGenerator, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
import structlog

from coevolve.base.durable_files import no_link
from coevolve.followers.said import END, NEWS, Said, folder_of
from coevolve.journal.codec import topics_of
from coevolve.journal.mailbox import IDLE_WAIT_S, Mailbox
from coevolve.parts.logs import FOLDER as LOGS
from protocols.config import RunConfig
from protocols.control import FollowersFail
from protocols.errors import JournalError
from protocols.followers_config import TrackersConfig
from protocols.interfaces import Store
from protocols.learning import CanaryScores, Checkpoint, Evaluation, PolicyVersion, StepReport
from protocols.tasks import Task

PAUSE_S = 5.0
LONGEST_PAUSE_S = 300.0
"""Pause before an ended process is started again; it doubles each time, up to the longest."""

STEADY_S = 60.0
"""Seconds after which a process counts as working, so that the pause begins anew."""

GATHER_S = 1.0
"""Minimum seconds between two lines about news, and between two records about failures."""

LATE_S = 120.0
"""Seconds without an answer after which a follower is said to hang."""

FINISH_S = 30.0
"""Seconds that followers may take after the run has ended."""

WAKING = topics_of(StepReport, Evaluation, CanaryScores, Checkpoint, PolicyVersion, Task)

QUIET = {
    "DO_NOT_TRACK": "1",
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "WANDB_ERROR_REPORTING": "false",
}
"""Variables that keep libraries from sending their makers anything about their use."""

PLACES = ("MLFLOW_TRACKING_URI", "TRACKIO_SPACE_ID", "TRACKIO_SERVER_URL", "TRACKIO_DIR")
"""Variables that say where trackers write; offline they write into the run's folder."""

log = structlog.get_logger()


def environment(
    settings: TrackersConfig, folder: Path, withheld: Collection[str]
) -> Mapping[str, str]:
    """Return the environment of a follower with this folder, without the variables ``withheld``."""
    left = {*withheld, *(PLACES if settings.offline else ())}
    kept = {name: value for name, value in os.environ.items() if name not in left}
    offline = {"HF_HUB_OFFLINE": "1", "WANDB_MODE": "offline"} if settings.offline else {}
    return {"TRACKIO_DIR": str(folder), **kept, **QUIET, **offline}


class Follower:
    """One follower's process, and those that replace it."""

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        env: Mapping[str, str],
        output: Path,
        changed: asyncio.Event,
    ) -> None:
        """``output`` is the file for what it prints; ``failure`` sets ``changed``."""
        self.name = name
        self.failure = ""
        """Why it fails; empty while it works."""

        self._changed = changed
        self._command = command
        self._env = env
        self._output = output
        self._process: asyncio.subprocess.Process | None = None
        self._listening: asyncio.Task[None] | None = None
        self._unanswered_s: float | None = None

    async def keep(self) -> None:
        """Start the process again whenever it ends; never return."""
        pause_s = PAUSE_S
        while True:
            began_s = time.monotonic()
            await self._start()
            await self._ended()
            pause_s = PAUSE_S if time.monotonic() - began_s > STEADY_S else pause_s
            await asyncio.sleep(pause_s)
            pause_s = min(LONGEST_PAUSE_S, 2 * pause_s)

    def tell(self, line: bytes) -> None:
        """Write a line to the process, if it reads; a second line about news says no more."""
        now_s = time.monotonic()
        if self._unanswered_s is not None and now_s - self._unanswered_s > LATE_S:
            self._fail(f"has not answered for {LATE_S:.0f} s")
        stdin = self._process and self._process.stdin
        if stdin and not stdin.is_closing() and not stdin.transport.get_write_buffer_size():
            stdin.write(line)
            if self._unanswered_s is None:
                self._unanswered_s = now_s

    async def finish(self, within_s: float) -> None:
        """Let the process send what is left, and end it after that time; start it if it failed."""
        try:
            async with asyncio.timeout(within_s):
                if self._process is None or self._process.returncode is not None:
                    await self._start()
                self.tell(f"{END}\n".encode())
                await self._ended()
        except TimeoutError:
            self._fail(f"did not end within {within_s:g} s")
        self.kill()
        await self._ended()

    def kill(self) -> None:
        """End the process and its own processes."""
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, signal.SIGKILL)

    async def _start(self) -> None:
        self.kill()  # what the last one started may still write
        self._output.parent.mkdir(parents=True, exist_ok=True)
        with open(self._output, "ab", opener=no_link) as output:  # noqa: ASYNC230 - takes no time
            self._process = await asyncio.create_subprocess_exec(
                *self._command,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=output,
                env=self._env,
                start_new_session=True,
            )
        self._unanswered_s = time.monotonic()
        self._listening = asyncio.create_task(self._listen(self._process))

    async def _ended(self) -> None:
        """Return when the process has ended; who is cancelled here leaves it as it is."""
        if self._listening is not None:
            await asyncio.shield(self._listening)

    async def _listen(self, process: asyncio.subprocess.Process) -> None:
        """Read what the process says until it ends."""
        assert process.stdout is not None
        told = False
        while line := await process.stdout.readline():
            with contextlib.suppress(msgspec.DecodeError):
                self._unanswered_s = None
                self._fail(msgspec.json.decode(line, type=Said).failure)
                told = bool(self.failure)
        code = await process.wait()
        self._unanswered_s = None
        if code and not told:
            self._fail(f"its process ended with {code}; see {self._output}")

    def _fail(self, failure: str) -> None:
        if failure != self.failure:
            self.failure = failure
            self._changed.set()


class Followers:
    """All followers of a run."""

    def __init__(self, config: RunConfig, run: Path, withheld: Collection[str]) -> None:
        """``run`` is the run's folder. ``withheld`` are variables that followers do not get."""
        self._lease_s = config.store.lease_s
        self._changed = asyncio.Event()
        self._began = False
        self._others: dict[str, str] = {}
        self._followers = [
            Follower(
                name,
                (sys.executable, "-m", "coevolve.followers", str(run), name),
                environment(config.trackers, folder_of(run, name), withheld),
                run / LOGS / f"{folder_of(run, name).name}.log",
                self._changed,
            )
            for name in dict.fromkeys(config.trackers.use)
        ]

    async def run(self, store: Store) -> None:
        """Keep the followers up to date until cancelled; their processes then stay."""
        self._began = True
        async with asyncio.TaskGroup() as group:
            for each in self._followers:
                group.create_task(each.keep())
            group.create_task(self._tell(store))
            group.create_task(self._note(store))

    def say(self, name: str, failure: str) -> None:
        """Let the journal say that something without a process of its own fails, or works again."""
        if self._others.get(name, "") != failure:
            self._others[name] = failure
            self._changed.set()

    async def finish(self, within_s: float) -> None:
        """Let all send what is left, and end them after that time; say what cannot be sent."""
        if self._began:
            await asyncio.gather(*(each.finish(within_s) for each in self._followers))
        if causes := self._causes():
            log.warning("followers_fail", causes=causes, remedy="coevolve resume sends the rest")

    async def _tell(self, store: Store) -> None:
        through = 0
        while self._followers:
            through = await store.wait(WAKING, through, IDLE_WAIT_S)
            for each in self._followers:
                each.tell(NEWS)
            await asyncio.sleep(GATHER_S)

    async def _note(self, store: Store) -> None:
        """Record who fails whenever it changes."""
        mailbox = Mailbox(store, consumer="followers", member="launch", lease_s=self._lease_s)
        while True:
            await self._changed.wait()
            self._changed.clear()
            try:
                await mailbox.append([FollowersFail(causes=self._causes())])
            except JournalError as error:
                self._changed.set()
                log.warning("failure_of_followers_not_recorded", cause=str(error))
            await asyncio.sleep(GATHER_S)

    def _causes(self) -> dict[str, str]:
        of_all = {**self._others, **{each.name: each.failure for each in self._followers}}
        return {name: failure for name, failure in of_all.items() if failure}


@asynccontextmanager
async def followers(
    config: RunConfig, run: Path, withheld: Collection[str], finish_s: float = FINISH_S
) -> AsyncGenerator[Followers]:
    """Yield the followers of a run; after the block they send what is left, and end.

    The arguments are those of `Followers`. After ``finish_s`` seconds they end anyway.
    """
    made = Followers(config, run, withheld)
    try:
        yield made
    finally:
        await made.finish(finish_s)
