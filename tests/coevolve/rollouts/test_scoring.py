import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

import msgspec
import pytest

from coevolve.curriculum.schedule import is_scored
from coevolve.delivery.engine import VerifiedEngine
from coevolve.journal.codec import decode_as, encode, topic_of
from coevolve.journal.journal import Journal
from coevolve.journal.local_store import LocalStore
from coevolve.rollouts.evaluator import Evaluator
from coevolve.rollouts.scored_versions import unscored_version, version_to_serve
from coevolve.rollouts.scoring import OneVersion, RolloutScores, ScoringWorker
from coevolve.rollouts.served_version import ServedVersion
from coevolve.rollouts.trained_tasks import TrainedTasks
from coevolve.rollouts.worker import RolloutWorker
from protocols.config import EvaluatorConfig, LearnerConfig, RolloutConfig, RunConfig, StoreConfig
from protocols.control import PartsRest
from protocols.errors import GeneratorError, SimulatorError
from protocols.generation import Generation, GenerationRequest
from protocols.interfaces import Generator
from protocols.journal import Append, Complete, Message, Receipt
from protocols.learning import (
    CanaryScores,
    Evaluation,
    PolicyVersion,
    ScoreReport,
    ScoreRequest,
    TaskScore,
    WeightsVerified,
)
from protocols.tasks import Task
from tests.contexts import context_of
from tests.evolving import stepped
from tests.fakes import ScriptGenerator, instance, tool_task

pytestmark = pytest.mark.usefixtures("short_waits")

WAIT_S = 30.0
TASKS = [
    msgspec.structs.replace(tool_task("ls", task_id=name), split="held_out")
    for name in ("a", "bb", "ccc", "dddd")
]
Kind = TypeVar("Kind", bound=msgspec.Struct)


def settings(concurrent: int = 8) -> RunConfig:
    """Score every second version on all tasks, and every fourth also on the canaries."""
    return RunConfig(
        name="test",
        rollout=RolloutConfig(tries=2),
        evaluator=EvaluatorConfig(every=2, concurrent=concurrent),
        learner=msgspec.convert({"steps": 8, "guard": {"every": 4}}, LearnerConfig),
    )


class Talker:
    """Scores a task by the length of its name, after one request to the engine."""

    def __init__(self, generator: Generator, starts: "asyncio.Queue[str]") -> None:
        self._generator = generator
        self._starts = starts
        self.may = asyncio.Event()
        self.may.set()
        self.began: list[str] = []
        self.broken: set[str] = set()

    async def score(self, task: Task, session: str) -> TaskScore:
        self.began.append(task.task_id)
        self._starts.put_nowait(task.task_id)
        await self.may.wait()
        if task.task_id in self.broken:
            raise SimulatorError("the child died")
        await self._generator.generate(asked(session))
        passed = len(task.task_id)
        return TaskScore(task_id=task.task_id, turns_passed=passed, turns_total=4)


def asked(session: str) -> GenerationRequest:
    return GenerationRequest(
        conversation_id=session,
        prompt_ids=(1,),
        max_tokens=4,
        stop_ids=(2,),
        temperature=0.0,
        seed=0,
    )


class Noting(LocalStore):
    """A store that notes what was completed."""

    def __init__(self, journal: Journal) -> None:
        super().__init__(journal)
        self.completed: asyncio.Queue[Complete] = asyncio.Queue()

    async def complete(self, request: Complete) -> tuple[int, ...]:
        added = await super().complete(request)
        self.completed.put_nowait(request)
        return added


class Run:
    """Rollout workers and the evaluator on a real journal; no learner."""

    def __init__(self, folder: Path, config: RunConfig) -> None:
        self.config = config
        self.store = Noting(Journal.open(folder, map_size_bytes=1 << 28))
        self._counter = 0
        self.starts: asyncio.Queue[str] = asyncio.Queue()
        self.scorers: dict[str, Talker] = {}
        self.running: dict[str, asyncio.Task[None]] = {}

    async def append(self, messages: Sequence[Message]) -> tuple[int, ...]:
        self._counter += 1
        receipt = Receipt(producer="test", counter=self._counter)
        return await self.store.append(
            Append(records=tuple(map(encode, messages)), receipt=receipt)
        )

    async def publish(self, *numbers: int) -> None:
        await self.append(
            [
                PolicyVersion(
                    version=number,
                    path=f"versions/v_{number}",
                    format="full",
                    digest=f"d{number}",
                    size_bytes=1,
                    kept=is_scored(number, self.config),
                )
                for number in numbers
            ]
        )

    def start_worker(self, name: str) -> Talker:
        generator, served = ScriptGenerator([None] * 1000), ServedVersion()
        scorer = self.scorers[name] = Talker(OneVersion(generator, served), self.starts)
        context = context_of(self.config, self.store, "rollout")
        worker = RolloutWorker(
            context,
            name,
            engine=VerifiedEngine(context, name, generator),
            agents={},
            served=served,
            scoring=ScoringWorker(
                context,
                name,
                scorer=scorer,
                tasks=lambda: TASKS,
                served=served,
                instantiate=instance,
            ),
        )
        self.running[name] = asyncio.create_task(worker.run())
        return scorer

    def start_evaluator(self) -> None:
        context = context_of(self.config, self.store, "evaluator")
        part = Evaluator(
            context,
            source=RolloutScores(context, "evaluator"),
            tasks=TASKS[:3],
            canaries=TASKS[1:],
            trained=TrainedTasks(self.store, self.config.seed),
            instantiate=instance,
        )
        self.running["evaluator"] = asyncio.create_task(part.run())

    async def kill(self, *names: str) -> None:
        for name in names or tuple(self.running):
            task = self.running.pop(name)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def all(self, kind: type[Kind]) -> list[Kind]:
        return [decode_as(record, kind) for record in await self.store.scan(topic_of(kind))]

    async def until(self, kind: type[Kind], so: Callable[[list[Kind]], bool]) -> list[Kind]:
        """Return every message of a kind, once the condition holds for them."""
        async with asyncio.timeout(WAIT_S):
            seen = 0
            while not so(found := await self.all(kind)):
                seen = await self.store.wait((topic_of(kind),), seen, WAIT_S)
            return found

    async def proven(self, engine: str) -> list[int]:
        return [each.version for each in await self.all(WeightsVerified) if each.engine == engine]


async def test_engines_stay_at_a_scored_version_until_its_scores_are_complete(tmp_path: Path):
    run = Run(tmp_path, settings())
    scorers = [run.start_worker("rollout-0"), run.start_worker("rollout-1")]
    for scorer in scorers:
        scorer.may.clear()
    run.start_evaluator()
    await run.publish(0)
    await run.until(ScoreRequest, lambda found: len(found) == 4)
    await run.publish(1, 2, 3)
    async with asyncio.timeout(WAIT_S):
        for _ in TASKS:
            await run.starts.get()
    proofs = await run.until(WeightsVerified, lambda found: len(found) == 2)
    assert {each.version for each in proofs} == {0}
    for scorer in scorers:
        scorer.may.set()
    evaluations = await run.until(Evaluation, lambda found: len(found) == 2)
    assert [each.version for each in evaluations] == [0, 2]
    for evaluation in evaluations:
        found = [(each.task_id, each.turns_passed) for each in evaluation.scores]
        assert (found, evaluation.errors) == ([("a", 1), ("bb", 2), ("ccc", 3)], 0)
    (canaries,) = await run.all(CanaryScores)
    assert [each.task_id for each in canaries.scores] == ["bb", "ccc", "dddd"]
    await run.until(WeightsVerified, lambda found: sum(each.version == 3 for each in found) == 2)
    # Version 1 is not scored, and was not the newest when the engines were free.
    assert await run.proven("rollout-0") == await run.proven("rollout-1") == [0, 2, 3]
    reports = [(each.version, each.task_id) for each in await run.all(ScoreReport)]
    assert sorted(reports) == sorted({*reports})
    await run.kill()


async def test_a_killed_rollout_actor_repeats_only_the_attempts_that_it_was_making(tmp_path: Path):
    run = Run(tmp_path, settings(concurrent=2))
    killed, other = run.start_worker("rollout-0"), run.start_worker("rollout-1")
    killed.may.clear()
    run.start_evaluator()
    await run.publish(0, 1)
    await run.until(ScoreReport, lambda found: len(found) == 4 - len(killed.began) > 0)
    lost, done = list(killed.began), list(other.began)
    await run.kill("rollout-0")
    again = run.start_worker("rollout-0")
    await run.until(WeightsVerified, lambda found: sum(each.version == 1 for each in found) == 2)
    repeated = again.began + other.began[len(done) :]
    assert sorted(repeated) == sorted(lost)
    assert len(await run.all(ScoreReport)) == 4
    await run.kill()


@pytest.mark.parametrize("concurrent", [1, 2, 3])
async def test_a_score_that_takes_three_leases_is_made_once(concurrent: int, tmp_path: Path):
    config = msgspec.structs.replace(settings(concurrent), store=StoreConfig(lease_s=0.8))
    run = Run(tmp_path, config)
    scorers = [run.start_worker("rollout-0"), run.start_worker("rollout-1")]
    for scorer in scorers:
        scorer.may.clear()
    run.start_evaluator()
    await run.publish(0)
    await run.until(ScoreRequest, lambda found: len(found) == 4)
    await asyncio.sleep(3 * config.store.lease_s)
    for scorer in scorers:
        scorer.may.set()
    await run.until(Evaluation, lambda found: len(found) == 1)
    began = [task_id for scorer in scorers for task_id in scorer.began]
    assert sorted(began) == ["a", "bb", "ccc", "dddd"]
    assert len(await run.all(ScoreReport)) == 4
    await run.kill()


async def test_an_evaluator_that_was_started_again_asks_for_nothing_twice(tmp_path: Path):
    run = Run(tmp_path, settings())
    run.start_evaluator()
    await run.publish(0)
    await run.until(ScoreRequest, lambda found: len(found) == 4)
    await run.kill("evaluator")
    run.start_worker("rollout-0").broken = {"bb"}
    await run.until(ScoreReport, lambda found: len(found) == 4)
    run.start_evaluator()
    (evaluation,) = await run.until(Evaluation, lambda found: len(found) == 1)
    assert [each.task_id for each in evaluation.scores] == ["a", "ccc"]
    assert evaluation.errors == 1
    assert len(await run.all(ScoreRequest)) == 4
    assert run.scorers["rollout-0"].began.count("bb") == 2
    await run.kill()


async def test_an_instance_is_made_by_the_actor_that_attempts_it(tmp_path: Path):
    config = msgspec.structs.replace(settings(), evaluator=EvaluatorConfig(every=2, fresh=2))
    run = Run(tmp_path, config)
    run.start_evaluator()
    await run.publish(0)
    requests = await run.until(ScoreRequest, lambda found: len(found) == 5)
    assert "bb~1" in {each.task_id for each in requests}
    await run.kill("evaluator")
    run.start_worker("rollout-0")
    run.start_evaluator()
    (evaluation,) = await run.until(Evaluation, lambda found: len(found) == 1)
    assert [each.task_id for each in evaluation.instances] == ["bb~1"]
    assert run.scorers["rollout-0"].began.count("bb~1") == 1
    assert len(await run.all(ScoreRequest)) == 5
    await run.kill()


async def series(folder: Path, *, dies: bool) -> list[Evaluation]:
    """Return three evaluations of a run that trains; ``dies``: all processes, during the last."""
    config = msgspec.structs.replace(settings(), evaluator=EvaluatorConfig(every=2, fresh=2))
    run = Run(folder, config)
    names = [f"trained-{number}" for number in range(6)]
    await run.append([tool_task("ls", task_id=name) for name in names])
    await run.append([stepped(number, *names[:number]) for number in (1, 2)])
    run.start_worker("rollout-0")
    run.start_evaluator()
    await run.publish(0, 1, 2)
    await run.until(Evaluation, lambda found: len(found) == 2)
    if dies:
        await run.kill("rollout-0")
    await run.append([stepped(number, *names[: number + 2]) for number in (3, 4)])
    await run.publish(3, 4)
    await run.until(ScoreRequest, lambda found: found[-1].version == 4)
    if dies:
        await run.kill()
        run.start_evaluator()
        run.start_worker("rollout-0")
    evaluations = await run.until(Evaluation, lambda found: len(found) == 3)
    await run.kill()
    asked = [(each.version, each.task_id) for each in await run.all(ScoreRequest)]
    assert len(asked) == len({*asked})
    return evaluations


async def test_the_series_of_trained_tasks_goes_on_after_every_process_died(tmp_path: Path):
    undisturbed = await series(tmp_path / "undisturbed", dies=False)
    assert [len(each.trained) for each in undisturbed] == [0, 2, 2]
    for each in undisturbed:
        fresh = {"bb~1", *(f"{one.task_id}~1" for one in each.trained)}
        assert {one.task_id for one in each.instances} == fresh
        assert each.errors == 0
    killed = await series(tmp_path / "killed", dies=True)
    assert [(each.trained, each.instances) for each in killed] == [
        (each.trained, each.instances) for each in undisturbed
    ]


async def test_requests_for_a_version_that_was_scored_otherwise_are_dropped(tmp_path: Path):
    run = Run(tmp_path, settings())
    await run.publish(0, 1)
    await run.append([ScoreRequest(version=0, task_id="a")])
    await run.append([Evaluation(version=0, scores=(), errors=3, wall_s=0.0)])
    scorer = run.start_worker("rollout-0")
    await run.until(WeightsVerified, lambda found: [each.version for each in found] == [1])
    async with asyncio.timeout(WAIT_S):
        completed = await run.store.completed.get()
    assert (completed.consumer, completed.outputs) == ("scoring", ())
    assert not scorer.began
    assert not await run.all(ScoreReport)
    await run.kill()


async def test_the_version_to_serve_is_the_oldest_without_scores_or_the_newest(tmp_path: Path):
    run = Run(tmp_path, settings())
    own = msgspec.structs.replace(run.config, evaluator=EvaluatorConfig(every=2, engine="own"))
    assert await version_to_serve(run.store, run.config) is None
    expected: list[int] = []
    for number in range(6):
        await run.publish(number)
        due = await version_to_serve(run.store, run.config)
        newest = await version_to_serve(run.store, own)
        assert due is not None
        assert newest is not None
        assert newest.version == number
        expected.append(due.version)
        if number == 3:
            await run.append([Evaluation(version=0, scores=(), errors=3, wall_s=0.0)])
    assert expected == [0, 0, 0, 0, 2, 2]
    await run.append([Evaluation(version=4, scores=(), errors=3, wall_s=0.0)])
    assert await unscored_version(run.store, run.config) is None


@pytest.mark.parametrize(
    ("causes", "served"), [({"evaluator": "?"}, 2), ({"signals": "?"}, 0), ({}, 0)]
)
async def test_no_engine_waits_for_the_scores_of_an_evaluator_that_rests(
    tmp_path: Path, causes: dict[str, str], served: int
):
    run = Run(tmp_path, settings())
    await run.publish(0, 1, 2)
    await run.append([PartsRest(causes=causes)])
    due = await version_to_serve(run.store, run.config)
    assert due is not None
    assert due.version == served
    await run.append([PartsRest(causes={})])
    due = await version_to_serve(run.store, run.config)
    assert due is not None
    assert due.version == 0


async def test_tokens_of_another_version_are_no_score():
    served, generator = ServedVersion(), ScriptGenerator([None, None], version=3)
    await served.set(3)
    checked = OneVersion(generator, served)
    assert (await checked.generate(asked("one"))).versions == (3,)
    generator.version = 4
    with pytest.raises(
        GeneratorError, match=r"needs tokens of version 3 alone, found those of \[4"
    ):
        await checked.generate(asked("two"))


class OldCache(ScriptGenerator):
    """Samples with one version over keys and values of another one."""

    cached = 0

    async def generate(self, request: GenerationRequest) -> Generation:
        said = await super().generate(request)
        caches = (*said.versions[:-1], self.cached)
        return msgspec.structs.replace(said, cache_versions=caches)


async def test_tokens_over_the_cache_of_another_version_are_no_score():
    served, generator = ServedVersion(), OldCache(["ls", "ls", "ls"], version=3)
    await served.set(3)
    checked = OneVersion(generator, served)
    generator.cached = 3
    assert set((await checked.generate(asked("one"))).cache_versions) == {3}
    for cached in (2, 4):
        generator.cached = cached
        with pytest.raises(GeneratorError, match=rf"alone, found those of \[.*{cached}"):
            await checked.generate(asked("two"))
