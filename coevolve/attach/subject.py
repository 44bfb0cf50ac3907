"""The run that a command is about: its journal, and its actors where it goes on."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from coevolve.environments.interface import Environment
from coevolve.environments.registry import environment_of
from coevolve.journal.mailbox import Mailbox
from protocols.config import RunConfig
from protocols.errors import RunError
from protocols.interfaces import Reader, Store, SupervisedPart
from protocols.journal import Message

LEASE_S = 30.0


@dataclass(frozen=True)
class LiveRun:
    """The actors of a run that goes on."""

    store: Store
    parts: Sequence[SupervisedPart]

    async def append(self, message: Message) -> None:
        """Write one record; returns when it is durable."""
        mailbox = Mailbox(
            self.store, consumer="attach", topics=(), member="attach", lease_s=LEASE_S
        )
        await mailbox.append([message])


@dataclass(frozen=True)
class Subject:
    """What a command looks at or steers."""

    name: str
    run_id: str
    settings: Callable[[], RunConfig]
    """Reads what the run was started or last resumed with; raises RunError where it cannot."""

    reader: Reader
    running: bool
    live: LiveRun | None
    """None where nothing runs, and where the command asked for no more than the journal."""

    folder: Path | None
    """The run's folder; None where it is on another machine."""

    @property
    def config(self) -> RunConfig:
        """What the run was started or last resumed with. Raises RunError."""
        return self.settings()

    @property
    def environment(self) -> Environment:
        """The run's environment. Raises RunError and ConfigError."""
        return environment_of(self.config)

    @property
    def standing(self) -> str:
        """One line on whether the run goes on."""
        return f"{self.name}: " + (
            "runs" if self.running else "does not run; what follows is from its journal"
        )

    def actors(self) -> LiveRun:
        """Return the actors. Raises RunError where nothing runs."""
        if self.live is None:
            raise RunError(
                f"{self.name}: does not run; go on with python -m coevolve.launch RUN.yaml --resume"
            )
        return self.live
