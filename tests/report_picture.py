"""The pictures of the report in the docs, of two runs that were recorded.

python -m tests.report_picture runs/one runs/two   # records a few metrics and a group, and draws
python -m tests.report_picture                     # draws the recorded ones again
python -m tests.report_picture opening runs/one    # draws the first screen of a run's report.html
"""

import asyncio
import base64
import json
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import msgspec

from coevolve.config.load import load_config
from coevolve.environments.registry import environment_of
from coevolve.history.histories import SignalHistory
from coevolve.history.lineage import TOPICS, LineageIndex
from coevolve.history.rollouts import Group, Sample, group_of, pieces_of
from coevolve.history.run_history import RunHistory, nothing_yet
from coevolve.history.series import read_series
from coevolve.journal.codec import TASKS_BY_ID, decode, encode
from coevolve.journal.fold import in_order
from coevolve.journal.reader import run_reader
from coevolve.report.page import write_report
from protocols.evolution import (
    Candidate,
    CandidateVerdict,
    Exploration,
    GroupSummary,
    OnTask,
    ProbeReport,
    Signal,
    SignalSettled,
)
from protocols.interfaces import Reader
from protocols.journal import Message, StoredRecord
from protocols.learning import StepReport
from protocols.rollouts import Rollout
from protocols.tasks import Task
from tests.browser import opened
from tests.commands import ROOT

RECORDED = ROOT / "tests/recorded/report.json"
PICTURES = ROOT / "coevolve/docs"
WIDTH, HEIGHT = 1200, 860
SECTIONS = {
    "findings": "#findings",
    "weaknesses": "#weaknesses",
    "lineage": "#life h3",
    "metrics": ".plot svg >> nth=1",
    "rollouts": ".side article >> nth=2",
}
"""Section of the report -> what of it must be there before it is pictured."""

METRICS = (
    "step",
    "val/success/all",
    "guard/canaries",
    "val/success/one turn",
    "actor/entropy",
    "actor/grad_norm",
    "actor/kl_from_start",
)


class Recorded(msgspec.Struct):
    """What the pictures show."""

    runs: dict[str, list[dict[str, float]]]
    """Name of a run -> its lines of `metrics.jsonl`, with some metrics."""

    records: list[tuple[str, str]]
    """Topic and body, as base64, of a group's records: the task, its rollouts, its summary."""

    story: list[tuple[str, str, int]]
    """Likewise, with Unix times in ns: of what was forgotten first, and what followed from it."""


async def record(folders: Sequence[Path]) -> Recorded:
    """Return the metrics of the runs, and the newest group of the first with mixed success."""
    runs = {
        folder.name: [
            {name: round(value, 5) for name, value in line.items() if name in METRICS}
            for text in (folder / "metrics.jsonl").read_text().splitlines()
            if len(line := json.loads(text)) > 1
        ]
        for folder in folders
    }
    reader = run_reader(folders[0])
    mixed: GroupSummary | None = None
    async for each in in_order(reader, ["group_summary"]):
        summary = decode(each)
        assert isinstance(summary, GroupSummary)
        if 1 < summary.successes < summary.rollouts // 2:
            mixed = summary
    assert mixed is not None
    tasks = [decode(each) for each in await reader.find(TASKS_BY_ID, mixed.root)]
    group = await group_of(reader, mixed)
    records = [encode(each) for each in (*tasks, *group.rollouts, mixed)]
    group = [(each.topic, base64.b64encode(each.body).decode()) for each in records]
    return Recorded(runs, group, await story_of(reader))


async def story_of(reader: Reader) -> list[tuple[str, str, int]]:
    """Return the records of the first forgetting signal with a task, its tasks and the steps."""
    every = [(each, decode(each)) async for each in in_order(reader, TOPICS)]
    index = LineageIndex()
    for each, message in every:
        index.fold(message, each.time_ns)
    histories = [
        index.signal_history(s.signal_id) for s in index.signals.values() if s.kind == "forgetting"
    ]
    history = next(each for each in histories if each.tasks and each.since)
    assert isinstance(history.signal.about, OnTask)
    tasks = {history.signal.about.task_id, *(each.task.task_id for each in history.tasks)}
    return [
        (each.topic, base64.b64encode(encode(short).body).decode(), each.time_ns)
        for each, message in every
        if (short := _part_of(message, history, tasks)) is not None
    ]


def _part_of(message: Message, history: SignalHistory, tasks: set[str]) -> Message | None:
    """Return the message, without what the pictures do not show; None if it is of another story."""
    name = history.signal.signal_id
    match message:
        case StepReport():
            groups = tuple(each for each in message.groups if each.task_id in tasks)
            return msgspec.structs.replace(message, metrics={}, groups=groups)
        case Task(task_id=task_id) | GroupSummary(task_id=task_id):
            return message if task_id in tasks else None
        case Signal() | SignalSettled() | Exploration() | Candidate() | CandidateVerdict():
            return message if message.signal_id == name else None
        case ProbeReport(candidate_id=candidate):
            return message if candidate in {c.candidate_id for c in history.candidates} else None
        case _:
            return None


def recorded_data(folder: Path) -> RunHistory:
    """Return the recorded data; ``folder`` is for files."""
    recorded = msgspec.json.decode(RECORDED.read_bytes(), type=Recorded)
    messages = [
        decode(StoredRecord(sequence=1, topic=topic, time_ns=1, body=base64.b64decode(body)))
        for topic, body in recorded.records
    ]
    config = msgspec.structs.replace(load_config("quickstart"), name=next(iter(recorded.runs)))
    data = nothing_yet(config, environment_of(config))
    for topic, body, time_ns in recorded.story:
        stored = StoredRecord(sequence=1, topic=topic, time_ns=time_ns, body=base64.b64decode(body))
        data.fold(decode(stored), time_ns)
        data.totals.fold(decode(stored))
    for message in messages:
        data.fold(message, data.timeline.newest_ns)
    groups = [each for each in messages if isinstance(each, GroupSummary)]
    rollouts = [each for each in messages if isinstance(each, Rollout)]
    files = {name: _lines(folder / name, lines) for name, lines in recorded.runs.items()}
    series = [read_series(file, name) for name, file in files.items()]
    sample = Sample([Group(groups[0], rollouts)], len(groups), pieces_of(config))
    return replace(data, series=series, sample=sample)


def _lines(path: Path, lines: Sequence[dict[str, float]]) -> Path:
    path.write_text(
        "".join(json.dumps({**each, "step": int(each["step"])}) + "\n" for each in lines)
    )
    return path


def draw(folder: Path, pictures: Path) -> None:
    """Draw the recorded data into the folder ``pictures``; ``folder`` is for other files."""
    page = folder / "report.html"
    write_report(page, recorded_data(folder))
    for section, shown in SECTIONS.items():
        address = f"{page.as_uri()}#{section}"
        with opened(address, width=WIDTH, height=HEIGHT) as browser:
            title = browser.page.locator(f"#{section}")
            title.evaluate("(title) => title.scrollIntoView()")
            browser.page.locator(shown).wait_for(state="attached")
            title.evaluate("(title) => title.scrollIntoView()")  # what was drawn has moved it
            browser.page.wait_for_timeout(500)
            (pictures / f"report_{section}.png").write_bytes(browser.page.screenshot())


def draw_opening(page: Path, picture: Path) -> None:
    """Draw the first screen of a report."""
    with opened(page.resolve().as_uri(), width=WIDTH, height=HEIGHT) as browser:
        picture.write_bytes(browser.page.screenshot())


def main() -> None:
    """Record the runs that the command line names, if it names any, and draw the pictures."""
    if sys.argv[1:2] == ["opening"]:
        draw_opening(Path(sys.argv[2]) / "report.html", PICTURES / "report_opening.png")
        return
    if folders := [Path(each) for each in sys.argv[1:]]:
        RECORDED.write_bytes(msgspec.json.encode(asyncio.run(record(folders))) + b"\n")
    with tempfile.TemporaryDirectory() as scratch:
        draw(Path(scratch), PICTURES)


if __name__ == "__main__":
    main()
