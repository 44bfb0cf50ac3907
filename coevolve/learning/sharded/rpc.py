"""Messages between the driving process and the ranks that it started, pickled."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from protocols.config import RunConfig

Method = Literal[
    "take_step",
    "take_supervised_step",
    "go_back",
    "load_weights",
    "probe",
    "save_weights",
    "save",
]
"""Methods of a `Trainer` that all ranks must call together."""


@dataclass(frozen=True, kw_only=True)
class Enlistment:
    """First message to a new process."""

    rank: int
    port: int
    """Port of the rendezvous store."""

    config: RunConfig
    base: Path
    weights: Path | None
    checkpoint: Path | None


@dataclass(frozen=True, kw_only=True)
class Order:
    """The next call for all ranks."""

    method: Method
    arguments: tuple[Any, ...]


@dataclass(frozen=True, kw_only=True)
class Done:
    """The rank is ready, or has executed the order."""

    cpu_s: float
    """CPU seconds that the rank has spent in the model so far."""


@dataclass(frozen=True, kw_only=True)
class Failed:
    """The order failed; the process ends."""

    reason: str


Answer = Done | Failed
