"""A tracker of one's own, by import path. A file remembers what it was given."""

from typing import Any

from coevolve.base.durable_files import replace_file
from coevolve.followers.import_path import load
from coevolve.followers.interface import Artifact, FollowedRun, Point, Table, Tracker
from protocols.learning import PolicyVersion, StepReport
from protocols.tasks import Task

POSITION = "position"


class OwnTracker(Tracker):
    """Gives a user's object what it has methods for."""

    def __init__(self, run: FollowedRun, path: str) -> None:
        """Make the object. Raises what its class raises."""
        self._file = run.folder / POSITION
        self._own = load(path)(run)
        self._number = 0

    def reached(self) -> int:
        """Return what the object says, or else the last point that it took."""
        if hasattr(self._own, "reached"):
            return self._own.reached()
        return int(self._file.read_text()) if self._file.exists() else 0

    def write(self, point: Point) -> None:
        self._call("write", point)
        self._number = point.number

    def write_table(self, table: Table, number: int) -> None:
        self._call("write_table", table, number)

    def write_artifact(self, artifact: Artifact) -> None:
        self._call("write_artifact", artifact)

    def on_step(self, report: StepReport) -> None:
        self._call("on_step", report)

    def on_version(self, version: PolicyVersion) -> None:
        self._call("on_version", version)

    def on_task(self, task: Task) -> None:
        self._call("on_task", task)

    def flush(self) -> None:
        """Let it write what it has buffered; then remember the position."""
        self._call("flush")
        if self._number:
            replace_file(self._file, str(self._number).encode())

    def close(self, *, finished: bool) -> None:
        self.flush()
        self._call("close", finished=finished)

    def _call(self, name: str, *values: Any, **named: Any) -> None:
        method = getattr(self._own, name, None)
        if method is not None:
            method(*values, **named)
