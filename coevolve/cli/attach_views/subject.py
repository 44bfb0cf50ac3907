"""The run that a command reads or steers: its journal, and its actors while it runs."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from coevolve.base.user_code import resume_command
from coevolve.environments.interface import Environment
from coevolve.environments.registry import environment_to_read
from coevolve.journal.codec import ANSWERS_BY_REQUEST
from coevolve.journal.mailbox import IDLE_WAIT_S, Mailbox
from protocols.config import RunConfig
from protocols.errors import RunError
from protocols.interfaces import Reader, Store, SupervisedPart
from protocols.journal import Message, StoredRecord

LEASE_S = 30.0


@dataclass(frozen=True)
class LiveRun:
    """The actors of a running run."""

    store: Store
    parts: Sequence[SupervisedPart]

    async def append(self, message: Message) -> None:
        """Write one record; return when it is durable."""
        mailbox = Mailbox(self.store, consumer="attach", member="attach", lease_s=LEASE_S)
        await mailbox.append([message])


@dataclass(frozen=True)
class Subject:
    """The run that a command reads or steers."""

    name: str
    run_id: str
    settings: Callable[[], RunConfig]
    """Reads the settings with which the run was started or last resumed. Raises RunError."""

    reader: Reader
    running: bool
    live: LiveRun | None
    """None if the run is not running, or if the command needs only the journal."""

    folder: Path | None
    """The run's folder; None if it is on another machine."""

    @property
    def config(self) -> RunConfig:
        """The settings with which the run was started or last resumed. Raises RunError."""
        return self.settings()

    @property
    def environment(self) -> Environment:
        """The run's environment. Raises RunError or ConfigError."""
        return environment_to_read(self.config)

    @property
    def standing(self) -> str:
        """One line that says whether the run is running."""
        return f"{self.name}: " + (
            "running" if self.running else "not running; this is its state in the journal"
        )

    def actors(self) -> LiveRun:
        """Return the actors. Raises RunError if the run is not running."""
        if self.live is None:
            raise RunError(
                f"{self.name}: not running; continue it with: "
                f"{resume_command(self.name, self.config)}, and with learner.steps=MORE if it has "
                "taken all steps"
            )
        return self.live

    async def answer(
        self, request_id: str, topics: Sequence[str], patience_s: float
    ) -> StoredRecord | None:
        """Return the answer, a record of ``topics``, to a request; None if none comes in time."""
        deadline = time.monotonic() + patience_s
        newest = 0
        while True:
            found = await self.reader.find(ANSWERS_BY_REQUEST, request_id, limit=1)
            if found:
                return found[0]
            left_s = deadline - time.monotonic()
            if left_s <= 0:
                return None
            newest = await self.actors().store.wait(topics, newest, min(left_s, IDLE_WAIT_S))
