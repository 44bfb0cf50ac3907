"""Trackers of one's own, of which some misbehave."""

import time

from coevolve.followers.interface import Artifact, FollowedRun, Point
from protocols.learning import PolicyVersion, StepReport
from protocols.tasks import Task


class Noting:
    """Writes the numbers of its points to a file."""

    def __init__(self, run: FollowedRun) -> None:
        self._file = run.folder / "points"

    def write(self, point: Point) -> None:
        with self._file.open("a") as file:
            file.write(f"{point.number} {point.step}\n")

    def write_artifact(self, artifact: Artifact) -> None:
        with self._file.open("a") as file:
            file.write(f"{artifact.name}\n")


class Calling:
    """Has callbacks only, and writes what they get to a file."""

    def __init__(self, run: FollowedRun) -> None:
        self._file = run.folder / "calls"

    def on_step(self, report: StepReport) -> None:
        self._add(f"step {report.step} of {len(report.groups)} group")

    def on_version(self, version: PolicyVersion) -> None:
        self._add(f"version {version.version} in {version.path}")

    def on_task(self, task: Task) -> None:
        self._add(f"task {task.task_id}")

    def _add(self, line: str) -> None:
        with self._file.open("a") as file:
            file.write(f"{line}\n")


class Unreachable:
    """Finds no network."""

    def __init__(self, run: FollowedRun) -> None:
        raise ConnectionError(f"no network for {run.name}")


class Hanging:
    """Never returns."""

    def __init__(self, run: FollowedRun) -> None:
        del run

    def write(self, point: Point) -> None:
        time.sleep(3600 + point.number)
