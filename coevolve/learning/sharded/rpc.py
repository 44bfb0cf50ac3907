"""What the driving process and the ranks that it started say to each other, pickled."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from protocols.config import RunConfig

Method = Literal["take_step", "take_supervised_step", "go_back", "probe", "save_weights", "save"]
"""The methods of a `Trainer` that all ranks have to call together."""


@dataclass(frozen=True, kw_only=True)
class Enlistment:
    """What a new process is told first."""

    rank: int
    port: int
    """Where the ranks meet."""

    config: RunConfig
    base: Path
    weights: Path | None
    checkpoint: Path | None


@dataclass(frozen=True, kw_only=True)
class Order:
    """What all ranks do next."""

    method: Method
    arguments: tuple[Any, ...]


@dataclass(frozen=True, kw_only=True)
class Done:
    """The rank is ready, or the order was carried out."""

    cpu_s: float
    """CPU seconds that the rank has spent inside the model so far."""


@dataclass(frozen=True, kw_only=True)
class Failed:
    """The order could not be carried out; the process ends."""

    reason: str


Answer = Done | Failed
