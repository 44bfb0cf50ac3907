"""MLflow: a tracking server (``MLFLOW_TRACKING_URI``), or SQLite in ``trackers/mlflow``.

A point's metrics and its number go in one call, which the server stores in one transaction; the
number says which points it has. Timestamps are those of the journal, so a point that comes again
is the same rows.
"""

# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false

import os
import re
from collections.abc import Iterator, Mapping
from typing import Any

from mlflow.entities import Metric, Param, Run
from mlflow.tracking import MlflowClient

from coevolve.followers.interface import Artifact, FollowedRun, Point, Table, Tracker
from coevolve.history.metric_docs import described

NUMBER = "coevolve.point"
RUN_ID = "coevolve.run_id"
MAX_PARAMS = 100
"""Parameters per call."""

MOST_CHARS = 6000
"""Characters of a parameter's value."""

_UNKNOWN = re.compile(r"[^\w\-./ ]")
"""Characters that MLflow does not take in a name."""

MS_PER_S = 1000


class MlflowTracker(Tracker):
    """One MLflow run, found by the run's id."""

    def __init__(self, run: FollowedRun) -> None:
        """Begin or continue MLflow's run. Raises MlflowException."""
        uri = "" if run.offline else os.environ.get("MLFLOW_TRACKING_URI", "")
        self._client = MlflowClient(uri or f"sqlite:///{run.folder / 'mlflow.db'}")
        artifacts = None if uri else (run.folder / "artifacts").as_uri()
        held = self._run(run, artifacts)
        self._id: str = held.info.run_id
        self._reached = int(held.data.metrics.get(NUMBER, 0))
        self._client.log_dict(self._id, dict(run.config), "config.json")
        # MLflow has no description of a metric, and a run's own is too short for all of them.
        self._client.log_text(self._id, described(), "metrics.md")

    def reached(self) -> int:
        return self._reached

    def write(self, point: Point) -> None:
        """Log the metrics and the number together."""
        time_ms = round(point.time_s * MS_PER_S)
        metrics = [
            Metric(_UNKNOWN.sub("_", name), value, time_ms, point.step)
            for name, value in point.metrics.items()
        ]
        # MLflow's latest value is that of the highest step.
        number = Metric(NUMBER, point.number, time_ms, point.number)
        self._client.log_batch(self._id, metrics=[*metrics, number])

    def write_table(self, table: Table, number: int) -> None:
        """Write the table as JSON, in the form of `mlflow.load_table`."""
        del number
        content = {"columns": list(table.columns), "data": [list(row) for row in table.rows]}
        self._client.log_dict(self._id, content, f"rollouts/step_{table.step}.json")

    def write_artifact(self, artifact: Artifact) -> None:
        if artifact.path.is_dir():
            target = f"{artifact.name}s/{artifact.path.name}"
            self._client.log_artifacts(self._id, str(artifact.path), target)
        else:
            self._client.log_artifact(self._id, str(artifact.path))

    def close(self, *, finished: bool) -> None:
        self._client.set_terminated(self._id, "FINISHED" if finished else "KILLED")

    def _run(self, run: FollowedRun, artifacts: str | None) -> Run:
        """Return the run of this id; begin it if there is none."""
        experiment = self._client.get_experiment_by_name(run.project)
        experiment_id = (
            experiment.experiment_id
            if experiment
            else self._client.create_experiment(run.project, artifacts)
        )
        found = self._client.search_runs([experiment_id], f"tags.`{RUN_ID}` = '{run.run_id}'")
        if found:
            self._client.update_run(found[0].info.run_id, "RUNNING")
            return found[0]
        begun = self._client.create_run(experiment_id, tags={RUN_ID: run.run_id}, run_name=run.name)
        params = [Param(key, value[:MOST_CHARS]) for key, value in _flat(run.config)]
        for start in range(0, len(params), MAX_PARAMS):
            batch = params[start : start + MAX_PARAMS]
            self._client.log_batch(begun.info.run_id, params=batch)
        return begun


def _flat(tree: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, str]]:
    """Yield settings by their whole path."""
    for key, value in tree.items():
        name = _UNKNOWN.sub("_", f"{above}{key}")
        if isinstance(value, Mapping):
            yield from _flat(value, f"{name}.")
        else:
            yield name, str(value)
