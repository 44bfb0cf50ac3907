"""A real run that measures the instance gap is killed, and goes on with its series."""

import asyncio
import json
import signal
from pathlib import Path

import pytest

from coevolve.journal.journal import Journal
from coevolve.journal.local_store import LocalStore
from coevolve.rollouts.trained_tasks import TrainedTasks
from protocols.learning import Evaluation
from protocols.tasks import instance_of
from tests.books import check_books
from tests.launched import SMALL, LaunchedRun, gone, launched

pytestmark = [pytest.mark.ray, pytest.mark.exhaustive, pytest.mark.timeout(600)]

FRESH, EVERY, STEPS = 4, 2, 8
SETTINGS = (
    *SMALL,
    "arm=static",
    f"learner.steps={STEPS}",
    f"evaluator.every={EVERY}",
    f"evaluator.fresh={FRESH}",
)


def test_the_instance_gap_is_measured_on_after_kill_9(tmp_path: Path):
    with launched(tmp_path, "gaps", *SETTINGS) as run:
        run.until("scores of a trained version", lambda: run.count(Evaluation) > 1)
        processes = run.processes()
        run.signal(signal.SIGKILL)
        assert not gone(processes)
        run.start("--resume")
        assert run.wait() == 0, run.said()
        tasks = run.told("tasks", "--origin", "seed")["tasks"]
    messages = [message for _, message in run.journal()]
    check_books(messages, STEPS)
    found = [each for each in messages if isinstance(each, Evaluation)]
    assert [each.version for each in found] == list(range(0, STEPS + 1, EVERY))
    assert len({tuple(each.task_id for each in one.scores) for one in found}) == 1
    asyncio.run(check_draws(run, found))
    check_metrics(run)
    gaps = [each["instance_gap"] for each in tasks if each["instance_gap"]]
    assert gaps
    assert all(-1 <= gap["mean"] <= 1 and 1 <= gap["evaluations"] <= 4 for gap in gaps)
    page = (run.directory / "report.html").read_text()
    assert "Held-out tasks under other names" in page
    assert "Tasks that were trained on, under other names" in page


async def check_draws(run: LaunchedRun, found: list[Evaluation]) -> None:
    """Check that each evaluation is of the tasks that its version and the seed determine."""
    journal = Journal.open(run.directory / "store")
    trained = TrainedTasks(LocalStore(journal), seed=0)
    for each in found:
        drawn = {task.task_id for task in await trained.drawn(FRESH, each.version)}
        scored = {score.task_id for score in each.trained}
        roots = {instance_of(score.task_id)[0] for score in each.instances}
        assert bool(scored) == bool(each.version)
        assert scored <= drawn
        assert scored <= roots <= scored | {score.task_id for score in each.scores}
    journal.close()
    assert len({held_out(each) for each in found}) == 1


def held_out(evaluation: Evaluation) -> frozenset[str]:
    """Return the instances of held-out tasks."""
    trained = {score.task_id for score in evaluation.trained}
    ids = [score.task_id for score in evaluation.instances]
    return frozenset(task_id for task_id in ids if instance_of(task_id)[0] not in trained)


def check_metrics(run: LaunchedRun) -> None:
    lines = [json.loads(line) for line in (run.directory / "metrics.jsonl").open()]
    scored = [line for line in lines if "val/success/all" in line]
    assert [line["step"] for line in scored] == list(range(0, STEPS + 1, EVERY))
    for line in scored:
        assert -1 <= line["val/instance_gap/held_out/mean"] <= 1
        assert ("val/instance_gap/trained/mean" in line) == (line["step"] > 0)
