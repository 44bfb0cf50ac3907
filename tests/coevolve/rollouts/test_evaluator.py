import asyncio
from collections.abc import Sequence
from typing import Any

import msgspec
import pytest
from structlog.testing import capture_logs

from coevolve.curriculum.schedule import is_evaluated, is_guarded, is_scored
from coevolve.delivery.engine import VerifiedEngine
from coevolve.rollouts.evaluator import Evaluator, OwnScores
from coevolve.rollouts.trained_tasks import TrainedTasks
from protocols.config import EvaluatorConfig, LearnerConfig, RolloutConfig, RunConfig
from protocols.errors import JournalError, SimulatorError
from protocols.journal import Message
from protocols.learner_config import WarmStartConfig
from protocols.learning import CanaryScores, Evaluation, PolicyVersion, TaskScore, WeightsVerified
from protocols.tasks import Task
from tests.contexts import context_of
from tests.evolving import stepped
from tests.fakes import ScriptGenerator, instance, tool_task
from tests.learning import MemoryJournal

TRIES = 3


def settings(**guard: Any) -> RunConfig:
    """Score held-out tasks every second step, canaries every third, both after the last."""
    learner = {"steps": 7, "guard": {"every": 3, **guard}}
    return RunConfig(
        name="test",
        rollout=RolloutConfig(tries=TRIES),
        evaluator=EvaluatorConfig(every=2),
        learner=msgspec.convert(learner, LearnerConfig),
    )


def version(number: int, config: RunConfig) -> PolicyVersion:
    return PolicyVersion(
        version=number,
        path=f"versions/v_{number}",
        format="full",
        digest=f"d{number}",
        size_bytes=1,
        kept=is_scored(number, config),
    )


class Scorer:
    """Each task passes as many turns as its name has letters; some tasks break the simulator."""

    def __init__(self, broken: Sequence[str] = ()) -> None:
        self._broken = broken
        self.seen: list[tuple[str, str]] = []
        """(version, task) of every attempt."""

    async def score(self, task: Task, session: str) -> TaskScore:
        self.seen.append((session.split("-")[1], task.task_id))
        if task.task_id in self._broken:
            raise SimulatorError("the child died")
        return score(task.task_id)


def held_out(task_id: str) -> Task:
    return msgspec.structs.replace(tool_task("ls", task_id=task_id), split="held_out")


def score(task_id: str) -> TaskScore:
    return TaskScore(task_id=task_id, turns_passed=len(task_id), turns_total=3)


def evaluator(
    config: RunConfig,
    journal: MemoryJournal,
    scorer: Scorer,
    *,
    tasks: Sequence[str] = ("a", "bb"),
    canaries: Sequence[str] = ("bb", "ccc"),
) -> Evaluator:
    context = context_of(config, journal, "evaluator")
    engine = VerifiedEngine(context, "evaluator", ScriptGenerator([]))
    return Evaluator(
        context,
        source=OwnScores(config, engine, scorer),
        tasks=[held_out(each) for each in tasks],
        canaries=[tool_task("ls", task_id=each) for each in canaries],
        trained=TrainedTasks(journal, config.seed),
        instantiate=instance,
    )


async def scored(part: Evaluator, journal: MemoryJournal, versions: int) -> None:
    """Let the evaluator work until it has proven this many versions."""
    running = asyncio.create_task(part.run())
    await journal.until(lambda: len(journal.all(WeightsVerified)) == versions or running.done())
    await part.stop()
    await running


def evaluations(journal: MemoryJournal) -> list[tuple[str, int, list[str], int]]:
    """Return kind, version, tasks and errors of every record of scores, in order."""
    found: list[tuple[str, int, list[str], int]] = []
    for each in journal.all(object):
        if not isinstance(each, Evaluation | CanaryScores):
            continue
        assert all(one == score(one.task_id) for one in each.scores)
        kind = "held out" if isinstance(each, Evaluation) else "canaries"
        found.append((kind, each.version, [one.task_id for one in each.scores], each.errors))
    return found


async def everything(
    config: RunConfig, scorer: Scorer, before: Sequence[Message] = (), **tasks: Sequence[str]
) -> MemoryJournal:
    """Return the journal of a whole run after all due versions are scored."""
    journal = MemoryJournal()
    journal.add(*before)
    journal.add(*(version(number, config) for number in range(8)))
    part = evaluator(config, journal, scorer, **tasks)
    await scored(part, journal, sum(is_scored(number, config) for number in range(8)))
    return journal


def test_the_last_version_and_every_so_many_are_scored_on_either_kind_of_task():
    config = settings()
    assert [n for n in range(8) if is_evaluated(n, config)] == [0, 2, 4, 6, 7]
    assert [n for n in range(8) if is_guarded(n, config)] == [0, 3, 6, 7]
    assert [n for n in range(8) if is_scored(n, config)] == [0, 2, 3, 4, 6, 7]
    without = settings(action="none")
    assert [n for n in range(8) if is_guarded(n, without)] == []
    assert [n for n in range(8) if is_scored(n, without)] == [0, 2, 4, 6, 7]
    assert [n for n in range(8) if is_guarded(n, settings(action="warn"))] == [0, 3, 6, 7]


async def test_the_version_that_ends_the_warm_start_is_scored_whatever_its_number():
    config = settings()
    warm = msgspec.structs.replace(config.learner, warm_start=WarmStartConfig(steps=6))
    config = msgspec.structs.replace(config, learner=warm)
    journal = MemoryJournal()
    ends = {"kept": True, "is_milestone": True}
    part = evaluator(config, journal, Scorer())
    running = asyncio.create_task(part.run())
    for number in range(6):  # one by one, as a learner publishes them
        each = version(number, config)
        journal.add(msgspec.structs.replace(each, **ends) if number == 5 else each)
        await journal.tell()
    await journal.until(lambda: len(journal.all(Evaluation)) == 4 or running.done())
    await part.stop()
    await running
    assert [each[:3] for each in evaluations(journal) if each[0] == "held out"] == [
        ("held out", number, ["a", "bb"]) for number in (0, 2, 4, 5)
    ]
    assert 5 not in [each[1] for each in evaluations(journal) if each[0] == "canaries"]


async def test_held_out_tasks_are_also_scored_under_other_names():
    config = msgspec.structs.replace(settings(), evaluator=EvaluatorConfig(every=2, fresh=3))
    scorer = Scorer(broken=["ccc~1"])
    journal = await everything(config, scorer, tasks=("a", "bb", "ccc", "dddd"))
    found = [each for each in journal.all(object) if isinstance(each, Evaluation)]
    assert len(found) == 5
    for each in found:
        assert [one.task_id for one in each.scores] == ["a", "bb", "ccc", "dddd"]
        assert [one.task_id for one in each.instances] == ["bb~1"]
        assert each.errors == 0
    assert ("0", "dddd~1") not in scorer.seen


async def test_trained_tasks_are_scored_as_given_and_under_other_names():
    config = msgspec.structs.replace(settings(), evaluator=EvaluatorConfig(every=2, fresh=2))
    names = ("t", "tt", "ttt")
    before = [*(tool_task("ls", task_id=name) for name in names), stepped(1, "t"), stepped(3, "tt")]
    scorer = Scorer()
    journal = await everything(config, scorer, before, tasks=("a", "bb"), canaries=())
    found = [each for each in journal.all(object) if isinstance(each, Evaluation)]
    fresh = [[one.task_id for one in each.instances] for each in found]
    assert fresh == [["bb~1"]] * 2 + [["bb~1", "tt~1"]] * 3
    assert [[one.task_id for one in each.trained] for each in found] == [[]] * 2 + [["tt"]] * 3
    assert not any(each.errors for each in found)
    assert "ttt" not in {task_id for _, task_id in scorer.seen}


async def test_held_out_tasks_without_instances_are_said_to_have_none():
    config = msgspec.structs.replace(settings(), evaluator=EvaluatorConfig(every=2, fresh=3))
    with capture_logs() as said:
        journal = await everything(config, Scorer(), tasks=("a", "b"))
    found = [each for each in journal.all(object) if isinstance(each, Evaluation)]
    assert not any(each.instances for each in found)
    words = "evaluator.fresh: none of 2 held-out and 0 trained tasks has an instance"
    assert [(each["log_level"], each["reason"]) for each in said] == [("warning", words)] * 5


async def test_each_version_is_scored_on_what_is_due():
    journal = await everything(settings(), Scorer())
    held_out, canaries = ["a", "bb"], ["bb", "ccc"]
    assert evaluations(journal) == [
        ("held out", 0, held_out, 0),
        ("canaries", 0, canaries, 0),
        ("held out", 2, held_out, 0),
        ("canaries", 3, canaries, 0),
        ("held out", 4, held_out, 0),
        ("held out", 6, held_out, 0),
        ("canaries", 6, canaries, 0),
        ("held out", 7, held_out, 0),
        ("canaries", 7, canaries, 0),
    ]
    delivered = [each for each in journal.all(WeightsVerified) if isinstance(each, WeightsVerified)]
    assert [each.version for each in delivered] == [0, 2, 3, 4, 6, 7]
    assert {each.engine for each in delivered} == {"evaluator"}


async def test_a_task_that_is_both_is_attempted_once():
    scorer = Scorer()
    await everything(settings(), scorer)
    attempts = {
        number: [task for seen, task in scorer.seen if seen == str(number)] for number in range(8)
    }
    both, held_out, canaries = ["a", "bb", "ccc"], ["a", "bb"], ["bb", "ccc"]
    assert attempts == {
        0: both, 1: [], 2: held_out, 3: canaries, 4: held_out, 5: [], 6: both, 7: both
    }  # fmt: skip


async def test_a_task_that_breaks_the_simulator_fails_in_both_after_some_tries():
    scorer = Scorer(broken=["bb"])
    journal = await everything(settings(), scorer)
    assert evaluations(journal)[:2] == [
        ("held out", 0, ["a"], 1),
        ("canaries", 0, ["ccc"], 1),
    ]
    assert scorer.seen.count(("0", "bb")) == TRIES


async def test_without_a_guard_there_are_no_scores_of_canaries():
    scorer = Scorer()
    journal = await everything(settings(action="none"), scorer, canaries=("bb", "ccc"))
    assert [each[:2] for each in evaluations(journal)] == [
        ("held out", number) for number in (0, 2, 4, 6, 7)
    ]
    assert {task for _, task in scorer.seen} == {"a", "bb"}


async def test_without_canaries_the_learner_still_hears_that_a_version_is_done_with():
    scorer = Scorer()
    journal = await everything(settings(), scorer, canaries=())
    found = [each for each in evaluations(journal) if each[0] == "canaries"]
    assert found == [("canaries", number, [], 0) for number in (0, 3, 6, 7)]
    assert {task for _, task in scorer.seen} == {"a", "bb"}


async def test_scores_are_written_in_the_transaction_that_finishes_the_version():
    config, journal = settings(), MemoryJournal()
    (sequence,) = journal.add(version(0, config))
    written: list[list[str]] = []

    def die(outputs: Sequence[Message]) -> None:
        written.append([type(each).__name__ for each in outputs])
        if len(written) == 1:
            raise JournalError("the power went")

    journal.before_complete = die
    with pytest.raises(JournalError, match="the power went"):
        await evaluator(config, journal, Scorer()).run()
    assert evaluations(journal) == []
    assert journal.finished == set()
    await scored(evaluator(config, journal, Scorer()), journal, 1)
    assert written == [["WeightsVerified", "Evaluation", "CanaryScores"]] * 2
    assert len(evaluations(journal)) == 2
    assert journal.finished == {sequence}
