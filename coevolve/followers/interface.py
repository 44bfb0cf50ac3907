"""What follows a run from outside: trackers, also one's own.

A tracker runs in a process of its own, so it may wait for a network and may fail. It gets the
points of a run in order, and says which it has, so that each is sent once whatever is killed.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from protocols.learning import PolicyVersion, StepReport
from protocols.tasks import Task


@dataclass(frozen=True, kw_only=True)
class FollowedRun:
    """The run that is followed."""

    name: str
    run_id: str
    """The run's own id, which stays when the run is resumed."""

    path: Path
    """The run's folder."""

    folder: Path
    """Folder for the follower's own files, which exists."""

    config: Mapping[str, Any]
    """The resolved settings, as in ``config.yaml``. They hold no keys."""

    project: str
    """``trackers.project``."""

    offline: bool
    """``trackers.offline``: whether to write only into ``folder``."""


@dataclass(frozen=True, kw_only=True)
class Point:
    """One line of ``metrics.jsonl``."""

    number: int
    """Counted from 1 in the order of the file."""

    step: int
    """Step of the learner, or the policy version that was scored. Scores of a version come later
    than the next steps, so steps do not always ascend."""

    time_s: float
    """Unix time of the record."""

    metrics: Mapping[str, float]


@dataclass(frozen=True, kw_only=True)
class Table:
    """Rollouts of one step, for people to read."""

    step: int
    columns: Sequence[str]
    rows: Sequence[Sequence[str | int | float | bool]]


@dataclass(frozen=True, kw_only=True)
class Artifact:
    """A file or a folder that the run has made."""

    name: str
    """Equal names are versions of the same thing: ``report`` or ``checkpoint``."""

    step: int
    path: Path


class Tracker(Protocol):
    """Sends points somewhere; a method that a tracker does not have does nothing.

    It is made with the `FollowedRun` as its only argument. Whatever it raises ends its process; a
    new one is made after a pause. Each point comes once. The rest comes in order with the points,
    and after a restart again if it came after the last point.
    """

    def reached(self) -> int:
        """Return the number of the last point that is durably there; 0 for none.

        Points up to it are not sent again. Without this method a point may be sent twice if the
        process is killed just after it.
        """
        return 0

    def write(self, point: Point) -> None:
        """Send a point."""

    def write_table(self, table: Table, number: int) -> None:
        """Send a table that belongs to the point ``number``, before that point."""

    def write_artifact(self, artifact: Artifact) -> None:
        """Send a file or a folder."""

    def on_step(self, report: StepReport) -> None:
        """Do something about a step, before its point is sent."""

    def on_version(self, version: PolicyVersion) -> None:
        """Do something about new weights.

        Their folder is ``path`` in the run's folder. Unless ``kept``, they are removed once no
        rollout needs them.
        """

    def on_task(self, task: Task) -> None:
        """Do something about a task that the loop made and admitted."""

    def flush(self) -> None:
        """Write what is buffered; called whenever there is nothing more to send at present."""

    def close(self, *, finished: bool) -> None:
        """Send what is left. ``finished``: the launcher has ended, and did not die."""
