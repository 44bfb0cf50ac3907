"""TensorBoard: event files in ``trackers/tensorboard``. ``tensorboard --logdir runs`` shows them.

A point is one event, which has a checksum. The files themselves say which points they hold, so a
torn end costs nothing. Artifacts have no place in TensorBoard.
"""

# tensorboard is untyped.
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportMissingTypeStubs=false, reportAttributeAccessIssue=false
# pyright: reportUnknownParameterType=false

import json
from collections.abc import Iterator, Sequence
from pathlib import Path

from tensorboard.backend.event_processing.event_file_loader import RawEventFileLoader
from tensorboard.compat.proto.event_pb2 import Event
from tensorboard.compat.proto.summary_pb2 import Summary, SummaryMetadata
from tensorboard.plugins.text.summary_v2 import text_pb
from tensorboard.summary.writer.event_file_writer import EventFileWriter

from coevolve.followers.interface import FollowedRun, Point, Table, Tracker
from coevolve.history.metric_docs import meaning_of

NUMBER = "coevolve/point"
"""Tag under which a point's event holds its number."""


class TensorBoardTracker(Tracker):
    """Appends events to files, a new one for each process."""

    def __init__(self, run: FollowedRun) -> None:
        """Read what earlier processes wrote, and open a new file."""
        self._reached = max(point_numbers(run.folder), default=0)
        self._writer = EventFileWriter(str(run.folder))
        self._explained = set[str]()
        if not self._reached:
            text = f"```json\n{json.dumps(run.config, indent=2)}\n```"
            self._writer.add_event(Event(step=0, summary=text_pb("config", text)))

    def reached(self) -> int:
        return self._reached

    def write(self, point: Point) -> None:
        values = {**point.metrics, NUMBER: float(point.number)}
        summary = Summary(value=[self._value(tag, value) for tag, value in values.items()])
        self._writer.add_event(Event(wall_time=point.time_s, step=point.step, summary=summary))

    def _value(self, tag: str, value: float) -> Summary.Value:
        """Return a value; the first of a tag that this process writes says what it means."""
        found = meaning_of(tag) if tag not in self._explained else None
        self._explained.add(tag)
        if found is None:
            return Summary.Value(tag=tag, simple_value=value)
        about = f"{found.meaning} ({found.unit})" if found.unit else found.meaning
        metadata = SummaryMetadata(summary_description=about)
        return Summary.Value(tag=tag, simple_value=value, metadata=metadata)

    def write_table(self, table: Table, number: int) -> None:
        """Add the rollouts as text."""
        del number
        texts = [
            "\n".join(f"    {line}" for line in _lines(table.columns, row)) for row in table.rows
        ]
        summary = text_pb("rollouts", "\n\n---\n\n".join(texts))
        self._writer.add_event(Event(step=table.step, summary=summary))

    def flush(self) -> None:
        self._writer.flush()

    def close(self, *, finished: bool) -> None:
        self._writer.close()


def point_numbers(folder: Path) -> Iterator[int]:
    """Yield the number of each point in the event files of a folder."""
    for file in sorted(folder.glob("events.out.tfevents.*")):
        for content in RawEventFileLoader(str(file)).Load():
            for value in Event.FromString(content).summary.value:
                if value.tag == NUMBER:
                    yield int(value.simple_value)


def _lines(columns: Sequence[str], row: Sequence[object]) -> list[str]:
    cells = zip(columns, row, strict=True)
    return [line for name, cell in cells for line in f"{name}: {cell}".splitlines()]
