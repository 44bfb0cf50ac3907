"""The headline numbers of runs as the board lists them, and when it reads them again."""

import itertools
import os
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec
import pytest

from coevolve.board.answers import KEPT_PAGES, MOST_RUNS, Answers
from coevolve.board.overview import RunsFolder
from coevolve.history.directory import RunDirectory
from coevolve.journal.codec import encode
from coevolve.journal.journal import Journal
from coevolve.runs import starting
from protocols.config import RunConfig
from protocols.control import RunContinued, RunFinished, RunPaused, RunResumed, RunStarted, Stalled
from protocols.errors import RunError
from protocols.journal import Append, Message, Receipt
from protocols.learning import OldVersionServed, WeightSyncAlarm
from tests.following import scored, taken

STARTED, RESUMED = RunStarted(run_id="r", config="{}"), RunResumed(run_id="r", config="{}")
FINISHED = RunFinished(steps=1)
PAUSED, CONTINUED = RunPaused(run_id="r"), RunContinued(run_id="r")
OLD = OldVersionServed(served=1, evidence="digest")

Recorded = Callable[..., RunDirectory]


@pytest.fixture
def recorded(tmp_path: Path, quickstart: RunConfig) -> Recorded:
    """A function that creates a run with these records, or adds them to it."""

    writes = itertools.count(1)

    def record(*messages: Message, name: str = "one") -> RunDirectory:
        path = tmp_path / "runs" / name
        directory = RunDirectory(path) if path.exists() else starting.create(path, quickstart)
        journal = Journal.open(directory.store)
        receipt = Receipt(producer="test", counter=next(writes))
        journal.append(Append(records=tuple(map(encode, messages)), receipt=receipt)).result(10)
        journal.close()
        return directory

    return record


@pytest.mark.parametrize(
    ("messages", "is_launched", "state", "note"),
    [
        ([STARTED], False, "stopped", ""),
        ([STARTED, FINISHED], False, "finished", ""),
        ([STARTED, FINISHED, RESUMED], False, "stopped", ""),
        ([STARTED, FINISHED, RESUMED, FINISHED], False, "finished", ""),
        ([STARTED], True, "running", ""),
        ([STARTED, PAUSED], True, "paused", ""),
        ([STARTED, PAUSED, CONTINUED], True, "running", ""),
        ([STARTED, Stalled(quiet_s=9.0, waiting=())], True, "running", "no progress"),
        (
            [STARTED, WeightSyncAlarm(engine="e", version=2, reason=OLD)],
            True,
            "running",
            "an engine does not serve the published version",
        ),
    ],
)
async def test_a_run_is_listed_with_what_it_does_and_what_is_wrong(
    recorded: Recorded, messages: Sequence[Message], is_launched: bool, state: str, note: str
):
    directory = recorded(*messages)
    folder = RunsFolder(directory.path.parent)
    if is_launched:
        with starting.launch_lock(directory):
            found = await folder.overview("one")
    else:
        found = await folder.overview("one")
    assert (found.state, found.note) == (state, note)


async def test_records_and_settings_that_came_since_are_in_the_next_overview(
    recorded: Recorded, quickstart: RunConfig
):
    directory = recorded(STARTED, taken(1), scored(0, 1))
    folder = RunsFolder(directory.path.parent)
    (before,) = await folder.overviews()
    assert (before.step, before.version) == (1, 0)
    recorded(taken(2), scored(2, 3))
    longer = msgspec.structs.replace(quickstart.learner, steps=before.steps + 5)
    directory.write_config(msgspec.structs.replace(quickstart, learner=longer))
    (after,) = await folder.overviews()
    assert (after.step, after.steps, after.version) == (2, before.steps + 5, 2)
    assert after.first is not None
    assert after.newest is not None
    assert (after.first.mean, after.newest.mean) == (0.25, 0.75)


async def test_the_newest_start_is_listed_first(recorded: Recorded):
    paths = {name: recorded(name=name).path / "run.json" for name in "bca"}
    for number, path in enumerate(paths.values(), 1):
        os.utime(path, (number, number))
    folder = RunsFolder(paths["a"].parents[1])
    assert [each.name for each in await folder.overviews()] == ["a", "c", "b"]
    os.utime(paths["b"], (9, 9))  # as if it had been resumed
    assert folder.names() == ["b", "a", "c"]


def test_so_many_runs_are_compared_at_most(recorded: Recorded):
    answers = Answers(RunsFolder(recorded(STARTED).path.parent))
    with pytest.raises(RunError, match="nobody: no run in"):
        answers.to("/compare", [("run", "nobody")] * MOST_RUNS)
    with pytest.raises(RunError, match=f"needs 1 to {MOST_RUNS} runs, got {MOST_RUNS + 1}"):
        answers.to("/compare", [("run", "one")] * (MOST_RUNS + 1))


def test_the_pages_that_were_loaded_last_are_kept(recorded: Recorded):
    names = [f"run{number}" for number in range(KEPT_PAGES + 1)]
    folders = [recorded(STARTED, name=name).path for name in names]
    answers = Answers(RunsFolder(folders[0].parent))
    for name in names:
        answers.to(f"/runs/{name}", [])
    with pytest.raises(RunError, match="run0: load the page of the run first"):
        answers.to("/runs/run0/life.json", [("at", "task-t")])
    for name in names[1:]:
        with pytest.raises(RunError, match=f"no signal or task of {name}"):
            answers.to(f"/runs/{name}/life.json", [("at", "task-t")])


def test_a_page_has_the_settings_of_the_newest_start(recorded: Recorded, quickstart: RunConfig):
    directory = recorded(STARTED, taken(1))
    answers = Answers(RunsFolder(directory.path.parent))
    steps = quickstart.learner.steps + 12_345
    pages = [answers.to("/runs/one", [])]
    longer = msgspec.structs.replace(quickstart.learner, steps=steps)
    directory.write_config(msgspec.structs.replace(quickstart, learner=longer))
    pages.append(answers.to("/runs/one", []))
    assert [page is not None and f"{steps}".encode() in page.body for page in pages] == [
        False,
        True,
    ]
