"""trackio: a Space (``TRACKIO_SPACE_ID``), a server (``TRACKIO_SERVER_URL``), or SQLite.

Without either, or offline, it writes to ``trackers/trackio``. A point's number is trackio's step,
and its highest step says which points it has; the learner's step is the metric ``learner/step``.
"""

# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false

import trackio

from coevolve.followers.interface import Artifact, FollowedRun, Point, Table, Tracker


class TrackioTracker(Tracker):
    """One trackio run with the name of the run."""

    def __init__(self, run: FollowedRun) -> None:
        """Begin or continue trackio's run."""
        self._run = trackio.init(
            project=run.project,
            name=f"{run.name}-{run.run_id[:8]}",
            config=dict(run.config),
            resume="allow",
            embed=False,
            auto_log_gpu=False,
            auto_log_cpu=False,
        )
        self._beside: dict[str, trackio.Table] = {}
        # For runs on servers, too, trackio asks for the last step when it begins, and has no other
        # name for the answer.
        self._reached = max(0, self._run._next_step - 1)  # pyright: ignore[reportPrivateUsage]

    def reached(self) -> int:
        """Return trackio's last step."""
        return self._reached

    def write(self, point: Point) -> None:
        """Log the point, with its table, as one of trackio's steps."""
        values = {"learner/step": point.step, **point.metrics, **self._beside}
        self._run.log(values, step=point.number)
        self._beside = {}

    def write_table(self, table: Table, number: int) -> None:
        """Keep the table for its point: alone it would pass for that point."""
        del number
        rows = [list(row) for row in table.rows]
        self._beside = {"rollouts": trackio.Table(columns=list(table.columns), data=rows)}

    def write_artifact(self, artifact: Artifact) -> None:
        """Log a version of the artifact; equal files are no new version."""
        self._run.log_artifact(artifact.path, name=artifact.name, type=artifact.name)

    def close(self, *, finished: bool) -> None:
        del finished
        trackio.finish()
