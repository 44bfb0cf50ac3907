"""Scores policy versions on the engines of rollout actors: both ends, and the records between them.

The evaluator asks for a score of each task (`RolloutScores`). Rollout workers take the requests
under a lease and attempt the tasks beside their rollouts (`ScoringWorker`). One transaction
finishes a request and adds its report, so each task of a version is scored exactly once, and the
death of a rollout actor repeats only the attempts that it was making. A task that raises errors, or
kills the actor, at each of several attempts has no score (`coevolve.parts.attempts`).

An attempt starts when the engine has proven the version, and `coevolve.rollouts.scored_versions`
keeps the engine there until all reports are in. `OneVersion` refuses tokens of any other version.
The requests name tasks and do not contain them, so no held-out task enters the journal.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property

import structlog

from coevolve.journal.codec import (
    REQUESTED_SCORES_BY_VERSION,
    TASKS_BY_ID,
    decode_as,
    topic_of,
)
from coevolve.journal.mailbox import IDLE_WAIT_S
from coevolve.parts.attempts import WorkItem
from coevolve.parts.context import PartContext
from coevolve.parts.worker import Dispatcher, Handler, Worker
from coevolve.rollouts.evaluator import Instantiate, Scored, Scorer, score_with_retries
from coevolve.rollouts.served_version import ServedVersion
from protocols.control import LetterRetried
from protocols.errors import GeneratorError
from protocols.generation import Generation, GenerationRequest
from protocols.interfaces import Generator
from protocols.learning import PolicyVersion, ScoreReport, ScoreRequest, ServedWeights, TaskScore
from protocols.tasks import Task, instance_of

ALL = 1 << 30
"""A limit for lookups that no number of tasks reaches."""

MOST_INSTANCES = 512
"""Number of instances that an actor keeps for further versions; each took executions to make."""

TAKEN = (ScoreRequest, LetterRetried)
"""Kinds that it takes of those that the rollout worker takes."""

log = structlog.get_logger()


class RolloutScores:
    """The evaluator's end; a `coevolve.rollouts.evaluator.ScoreSource`."""

    last_error = ""

    def __init__(self, context: PartContext, name: str) -> None:
        """Ask in the name of the part ``name``."""
        self._store = context.store
        self._reader = context.reader
        self._append = context.appender("scores", name)

    async def score(self, version: PolicyVersion, tasks: Sequence[Task]) -> Scored:
        """Return the scores once every task has its report; what was asked before is not repeated.

        Rollout engines prove on their own that they serve the version.
        """
        asked = await self._asked(version.version)
        wanted = {task.task_id for task in tasks}
        await self._append(
            [
                ScoreRequest(version=version.version, task_id=task_id)
                for task_id in sorted(wanted - asked.keys())
            ]
        )
        after = min(asked.values(), default=0)
        reports = await self._reports(version, wanted, after)
        scores = {task_id: score for task_id, score in reports.items() if score is not None}
        return Scored(scores=scores, proofs=())

    async def _asked(self, version: int) -> Mapping[str, int]:
        """Return the sequence of each request for scores of ``version``, by task id."""
        found = await self._reader.find(REQUESTED_SCORES_BY_VERSION, str(version), limit=ALL)
        return {decode_as(record, ScoreRequest).task_id: record.sequence for record in found}

    async def _reports(
        self, version: PolicyVersion, wanted: set[str], after: int
    ) -> Mapping[str, TaskScore | None]:
        topic = topic_of(ScoreReport)
        reports: dict[str, TaskScore | None] = {}
        while not wanted <= reports.keys():
            page = await self._reader.scan(topic, after=after)
            for record in page:
                report = decode_as(record, ScoreReport)
                if report.version == version.version:
                    reports[report.task_id] = report.score
            if page:
                after = page[-1].sequence
            else:
                await self._store.wait((topic,), after, IDLE_WAIT_S)
        return {task_id: reports[task_id] for task_id in wanted}


class ScoringWorker:
    """A rollout worker's end: attempts at tasks with its engine, beside the rollouts."""

    def __init__(
        self,
        context: PartContext,
        name: str,
        *,
        scorer: Scorer,
        tasks: Callable[[], Sequence[Task]],
        served: ServedVersion,
        instantiate: Instantiate,
    ) -> None:
        """Score with ``scorer``, whose engine serves ``served``.

        ``tasks`` returns all tasks but those that the run has trained on, and ``instantiate`` makes
        instances of either.
        """
        self._config = context.config
        self._reader = context.reader
        self._scorer = scorer
        self._all_tasks = tasks
        self._served = served
        self._instantiate = instantiate
        self._instances: dict[str, Task] = {}
        kinds = [kind for kind in context.takes if kind in TAKEN]
        self._worker = Worker("scoring", context, name, kinds)
        concurrent = self._config.evaluator.concurrent
        self._requests = Dispatcher(
            self._worker,
            {ScoreRequest: Handler(self._score, _no_score)},
            concurrent=concurrent,
            take_limit=concurrent,
            held=concurrent,  # none is taken ahead, because other rollout actors share the requests
            activity=lambda live, is_full: f"{live} scores, or more requests",
        )
        self.stop = self._worker.stop

    @property
    def held(self) -> int:
        """Number of requests that were taken and not answered."""
        return len(self._worker.mailbox.held)

    async def run(self) -> None:
        """Answer requests until stopped. Raises GeneratorError if the engine failed."""
        await self._worker.run(self._work)

    async def _work(self) -> None:
        async with asyncio.TaskGroup() as group:
            await self._requests.serve(group)

    async def _score(self, request: ScoreRequest, item: WorkItem) -> Sequence[ScoreReport]:
        del item
        # An engine serves a newer version only if this one's scores are complete without it.
        if await self._served.at_least(request.version) > request.version:
            return ()
        task = await self._task(request.task_id)
        score = task and await score_with_retries(
            self._scorer,
            task,
            f"evaluation-{request.version}-{request.task_id}",
            self._config.rollout.tries,
            self._note,
        )
        return (ScoreReport(version=request.version, task_id=request.task_id, score=score),)

    def _note(self, error: Exception) -> None:
        log.warning("score_failed", reason=str(error))

    async def _task(self, task_id: str) -> Task | None:
        """Return a task, or make the instance; None if the simulator failed at it."""
        if task := await self._given(task_id):
            return task
        if task := self._instances.get(task_id):
            return task
        root, instance = instance_of(task_id)
        given = await self._given(root)
        made = await self._instantiate(given, instance) if given else None
        if made:
            if len(self._instances) == MOST_INSTANCES:
                self._instances.clear()
            self._instances[task_id] = made
        return made

    async def _given(self, task_id: str) -> Task | None:
        """Return a task that is scored, or one that the run has trained on; None for others."""
        if task := self._tasks.get(task_id):
            return task
        found = await self._reader.find(TASKS_BY_ID, task_id, limit=1)
        return decode_as(found[0], Task) if found else None

    @cached_property
    def _tasks(self) -> Mapping[str, Task]:
        return {task.task_id: task for task in self._all_tasks()}


def _no_score(request: ScoreRequest, reason: str, attempts: int) -> Sequence[ScoreReport]:
    del reason, attempts
    return (ScoreReport(version=request.version, task_id=request.task_id, score=None),)


class OneVersion:
    """A `protocols.interfaces.Generator` that refuses tokens of other versions than the served."""

    def __init__(self, generator: Generator, served: ServedVersion) -> None:
        self._generator = generator
        self._served = served

    async def generate(self, request: GenerationRequest) -> Generation:
        said = await self._generator.generate(request)
        versions = {*said.versions, *said.cache_versions}
        if versions - {self._served.number}:
            raise GeneratorError(
                f"conversation {request.conversation_id!r} is scored and needs tokens of version "
                f"{self._served.number} alone, found those of {sorted(versions)}; the attempt is "
                "repeated"
            )
        return said

    async def release(self, conversation_id: str) -> None:
        await self._generator.release(conversation_id)

    async def load(self, version: PolicyVersion) -> ServedWeights:
        """Raise GeneratorError: attempts do not choose the version."""
        raise GeneratorError(f"version {version.version}: a scored attempt cannot change weights")

    def cpu_s(self) -> float:
        """Return 0: the engine itself counts."""
        return 0.0

    async def close(self) -> None:
        """Do nothing: the engine belongs to the rollout worker."""
