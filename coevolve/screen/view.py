"""All that a live screen shows of a run."""

from collections.abc import Sequence
from dataclasses import dataclass

from coevolve.history.progress import Progress
from protocols.config import RunConfig
from protocols.control import PartStatus, Stalled


@dataclass(frozen=True, kw_only=True)
class View:
    """A moment of a run."""

    config: RunConfig
    progress: Progress
    elapsed_s: float
    """Seconds since the start of the run, or since its last resumption."""

    since_step_s: float = 0.0
    """Seconds since its newest step; 0 before the first one."""

    parts: Sequence[PartStatus] = ()
    """The newest statuses of the parts; none if nobody has asked yet."""

    stalled: Stalled | None = None
    """The alarm about a run without progress, while there is none."""

    events: Sequence[str] = ()
    """Sentences about what has just happened, oldest first."""

    doing: str = ""
    """What the run does instead of steps, for example that it stops; empty if it does not."""
