"""How rank 0 drives the other ranks: the messages, and the interfaces of those who carry them.

Messages are pickled. They name folders of the run by their place in the run's folder, because a
node may have a copy of it elsewhere.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Protocol

Method = Literal[
    "take_step",
    "go_back",
    "load_weights",
    "probe",
    "save_weights",
    "save",
]
"""Methods of a `Trainer` that all ranks must call together."""


@dataclass(frozen=True, kw_only=True)
class RunFolder:
    """A folder of the run, as every node finds it through its `protocols.interfaces.Files`."""

    path: str
    """Relative to the run's folder."""


Folder = RunFolder | Path
"""A plain path is on a machine that all ranks share."""


@dataclass(frozen=True, kw_only=True)
class Enlistment:
    """First message to a rank: whom to join, and what to load."""

    address: str
    """Address of the rendezvous store, which is rank 0's node."""

    port: int
    weights: Folder | None
    checkpoint: Folder | None


@dataclass(frozen=True, kw_only=True)
class Order:
    """The next call for all ranks."""

    method: Method
    arguments: tuple[Any, ...]


@dataclass(frozen=True, kw_only=True)
class Done:
    """The rank is ready, or has executed the order."""

    cpu_s: float = 0.0
    """CPU seconds that the rank has spent in the model so far."""


class Member(Protocol):
    """The process of another rank, as rank 0 sees it."""

    def wait_until_started(self, wait_s: float) -> None:
        """Wait until the process runs. Raises RankError if it ended, or after ``wait_s``."""
        ...

    def call(self, message: Enlistment | Order) -> Done:
        """Let the rank execute a message, and return its answer; one call at a time.

        Raises the rank's own error, and RankError if its process ends.
        """
        ...

    def dismiss(self) -> None:
        """Kill the process. All its state is on rank 0 or can be computed again."""
        ...


class RankStarter(Protocol):
    """Starts the processes of the ranks from 1 on; they end with this process."""

    @property
    def address(self) -> str:
        """The address at which these processes reach this one."""
        ...

    def start(self, rank: int) -> Member:
        """Start the process of a rank, without waiting for it."""
        ...
