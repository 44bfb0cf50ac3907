"""Weights & Biases: online, or in ``trackers/wandb`` for ``wandb sync``.

A point's number is W&B's own step, of which each exists once in a run; its charts are drawn over
the learner's ``step``. Online, the server says which points it has. Offline, the files do: they are
read as LevelDB's log, whose records have checksums, because what a killed process logged last may
not be in them.
"""

# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false

from collections.abc import Iterator
from pathlib import Path

import wandb
from wandb.proto.wandb_internal_pb2 import Record  # pyright: ignore[reportAttributeAccessIssue]

from coevolve.followers.interface import Artifact, FollowedRun, Point, Table, Tracker
from coevolve.history.metric_docs import described

INIT_S = 60.0
"""Seconds that the server may take to answer."""

BLOCK_BYTES, HEADER_BYTES, RECORD_BYTES = 32768, 7, 7
FULL, FIRST, MIDDLE, LAST = 1, 2, 3, 4


class WandbTracker(Tracker):
    """One W&B run with the id of the run."""

    def __init__(self, run: FollowedRun) -> None:
        """Begin or continue W&B's run. Raises wandb.Error."""
        settings = wandb.Settings(
            root_dir=str(run.folder),
            init_timeout=INIT_S,
            console="off",
            silent=True,
            disable_git=True,
            disable_code=True,
            x_disable_stats=True,  # they would be those of this process, which trains nothing
        )
        self._run = wandb.init(
            project=run.project,
            id=run.run_id,
            name=run.name,
            config=dict(run.config),
            resume="allow",
            mode="offline" if run.offline else None,
            settings=settings,
        )
        written = (number for file in files(run.folder) for number in numbers(file))
        self._reached = max(self._run.starting_step - 1, max(written, default=0))
        if not self._run.notes:
            self._run.notes = described()  # W&B has no description of a metric
        self._run.define_metric("step", hidden=True)
        self._run.define_metric("*", step_metric="step")

    def reached(self) -> int:
        """Return the last of W&B's steps that the server or a file has."""
        return self._reached

    def write(self, point: Point) -> None:
        values = {"step": point.step, "_timestamp": point.time_s, **point.metrics}
        self._run.log(values, step=point.number, commit=True)

    def write_table(self, table: Table, number: int) -> None:
        """Log the table within the same step."""
        shown = wandb.Table(columns=list(table.columns), data=[list(row) for row in table.rows])
        self._run.log({"rollouts": shown}, step=number, commit=False)

    def write_artifact(self, artifact: Artifact) -> None:
        """Log a version of the artifact; equal files are no new version."""
        made = wandb.Artifact(
            f"{self._run.name}-{artifact.name}", artifact.name, metadata={"step": artifact.step}
        )
        if artifact.path.is_dir():
            made.add_dir(str(artifact.path))
        else:
            made.add_file(str(artifact.path))
        self._run.log_artifact(made)

    def close(self, *, finished: bool) -> None:
        """Send what is left; the run may be continued."""
        self._run.finish(exit_code=0 if finished else 1)


def files(folder: Path) -> list[Path]:
    """Return the files of all offline starts, oldest first."""
    return sorted(folder.glob("wandb/offline-run-*/run-*.wandb"))


def numbers(file: Path) -> Iterator[int]:
    """Yield W&B's steps in a file, up to a torn end."""
    for content in records(file):
        record = Record.FromString(content)
        if record.WhichOneof("record_type") == "history":
            yield record.history.step.num


def records(file: Path) -> Iterator[bytes]:
    """Yield the whole records of a file."""
    content = file.read_bytes()
    offset, parts = HEADER_BYTES, list[bytes]()
    while offset + RECORD_BYTES <= len(content):
        left = BLOCK_BYTES - offset % BLOCK_BYTES
        if left < RECORD_BYTES:
            offset += left
            continue
        size, kind = int.from_bytes(content[offset + 4 : offset + 6], "little"), content[offset + 6]
        offset += RECORD_BYTES
        if kind not in (FULL, FIRST, MIDDLE, LAST) or offset + size > len(content):
            return
        parts.append(content[offset : offset + size])
        offset += size
        if kind in (FULL, LAST):
            yield b"".join(parts)
            parts = []
