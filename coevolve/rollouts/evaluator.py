"""The evaluator: scores policy versions on tasks that are not trained on, during training.

A run's reported results are on the held-out tasks. The guard's canaries
(`coevolve.learning.guard`) are scored more often, and no results are reported on them. A task that
is both is attempted once.

All tokens of an evaluation come from one version, and only after the engine has proven that it
serves this version: its own engine (`OwnScores`), or those of the rollout actors
(`coevolve.rollouts.scoring`). The learner never trains on anything that the evaluator writes.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import structlog

from coevolve.curriculum.schedule import is_due, is_guarded, is_scored
from coevolve.delivery.engine import VerifiedEngine
from coevolve.parts.context import PartContext
from coevolve.parts.worker import Worker
from coevolve.rollouts.agent import Agent
from coevolve.rollouts.scored_versions import has_scores
from coevolve.rollouts.trained_tasks import TrainedTasks
from protocols.config import RunConfig
from protocols.control import PartStatus
from protocols.errors import SimulatorError
from protocols.journal import Message
from protocols.learning import (
    CanaryScores,
    Evaluation,
    PolicyVersion,
    TaskScore,
    WeightsVerified,
)
from protocols.tasks import Task

log = structlog.get_logger()

INSTANCE = 1
"""The instance of a task that is scored. No version trains on it: those that
`PoolConfig.new_instances` draws are other ones."""

TAKE_WAIT_S = 3.0
"""Seconds after which it takes the versions that there are: a stopped run has no further ones."""

Instantiate = Callable[[Task, int], Awaitable[Task | None]]
"""Makes the instance with this number of a task; None if there is none."""


class Scorer(Protocol):
    """Scores the policy on one task."""

    async def score(self, task: Task, session: str) -> TaskScore:
        """Return the score. Raises SimulatorError and GeneratorError, like `Agent.attempt`."""
        ...


@dataclass(frozen=True)
class AttemptScorer:
    """Scores one attempt of an agent."""

    agent: Agent

    async def score(self, task: Task, session: str) -> TaskScore:
        """Return how many turns passed."""
        episode = await self.agent.attempt(task, session, seed=0)
        return TaskScore(
            task_id=task.task_id,
            turns_passed=episode.turns_passed,
            turns_total=episode.turns_total,
            scenario=task.scenario,
        )


async def score_with_retries(
    scorer: Scorer, task: Task, session: str, tries: int, note: Callable[[Exception], None]
) -> TaskScore | None:
    """Return the score; None after ``tries`` infrastructure failures, each passed to ``note``.

    ``session`` identifies the task and the version. Raises GeneratorError if the engine failed.
    """
    for attempt in range(tries):
        try:
            return await scorer.score(task, f"{session}/{attempt}")
        except SimulatorError as error:
            note(error)
    return None


@dataclass(frozen=True, kw_only=True)
class Scored:
    """The scores of one version."""

    scores: Mapping[str, TaskScore]
    """By task id, without the tasks that infrastructure failures left unscored."""

    proofs: tuple[WeightsVerified, ...]
    """Proofs of delivery that are not in the journal yet."""


class ScoreSource(Protocol):
    """The engines that score a version."""

    @property
    def last_error(self) -> str:
        """The last infrastructure failure; empty if there was none."""
        ...

    async def score(self, version: PolicyVersion, tasks: Sequence[Task]) -> Scored:
        """Return the scores of ``version`` on these tasks.

        Raises GeneratorError if the engine failed, and DeliveryError if it serves other weights.
        """
        ...


class OwnScores:
    """Scores with an engine that serves only the evaluator."""

    def __init__(self, config: RunConfig, engine: VerifiedEngine, scorer: Scorer) -> None:
        self._config = config
        self._engine = engine
        self._scorer = scorer
        self.last_error = ""

    async def score(self, version: PolicyVersion, tasks: Sequence[Task]) -> Scored:
        proof = await self._engine.serve(version)
        gate = asyncio.Semaphore(self._config.evaluator.concurrent)

        async def score(number: int, task: Task) -> TaskScore | None:
            session = f"evaluation-{version.version}-{number}"
            async with gate:
                return await score_with_retries(
                    self._scorer, task, session, self._config.rollout.tries, self._note
                )

        found = await asyncio.gather(*(score(*each) for each in enumerate(tasks)))
        scores = {score.task_id: score for score in found if score is not None}
        return Scored(scores=scores, proofs=(proof,))

    def _note(self, error: Exception) -> None:
        self.last_error = str(error)


class Evaluator:
    """A `protocols.interfaces.Part` that makes one evaluation for each version that is scored."""

    def __init__(
        self,
        context: PartContext,
        *,
        source: ScoreSource,
        tasks: Sequence[Task],
        canaries: Sequence[Task],
        trained: TrainedTasks,
        instantiate: Instantiate,
    ) -> None:
        """Score on the held-out ``tasks`` and on the guard's ``canaries``, by ``source``.

        For `EvaluatorConfig.fresh`, ``trained`` draws tasks and ``instantiate`` makes instances.
        """
        self._config = context.config
        self._source = source
        self._tasks = tasks
        self._canaries = canaries
        self._instantiate = instantiate
        self._trained = trained
        self._instances: dict[str, Task] = {}
        self._worker = Worker("evaluator", context)
        self.stop = self._worker.stop
        self._newest = -1

    async def run(self) -> None:
        """Score versions until stopped; a version whose scores are not complete stays unfinished.

        Raises GeneratorError if the engine failed, and DeliveryError if it serves other weights
        than those published.
        """
        await self._worker.run(self._score_versions)

    async def _score_versions(self) -> None:
        mailbox, pace, reporter = self._worker.mailbox, self._worker.pace, self._worker.reporter
        while True:
            reporter.waits_for("a policy version to score")
            skipped: list[int] = []
            for delivery in await mailbox.take(
                pace.take_limit, TAKE_WAIT_S, at_least=self._missing()
            ):
                version = delivery.message
                assert isinstance(version, PolicyVersion)
                self._newest = version.version
                if has_scores(version, self._config):
                    reporter.policy_version = version.version
                    outputs = await self._score_version(version)
                    await mailbox.complete((delivery.sequence,), outputs)
                    reporter.done += 1
                else:
                    skipped.append(delivery.sequence)
            if skipped:
                await mailbox.complete(skipped)
            await asyncio.sleep(pace.take_gather_s)

    def _missing(self) -> int:
        """Return how many further versions there will be up to the next one to score.

        Each of the first versions may end the warm start.
        """
        last = self._config.learner.steps
        if self._newest < self._config.learner.warm_start.steps:
            return 1
        following = range(self._newest + 1, last + 1)
        due = next((each for each in following if is_scored(each, self._config)), last)
        return max(1, due - self._newest)

    def status(self) -> PartStatus:
        self._worker.reporter.last_error = self._source.last_error
        return self._worker.status()

    async def _score_version(self, version: PolicyVersion) -> Sequence[Message]:
        """Return the greedy scores of ``version`` on every task that is due, and new proofs."""
        started = time.monotonic()
        tasks = self._tasks if is_due(version, self._config) else ()
        guarded = is_guarded(version.version, self._config)
        canaries = self._canaries if guarded else ()
        trained, instances = await self._fresh(version.version) if tasks else ((), ())
        wanted = (*tasks, *canaries, *trained, *instances)
        due = list({task.task_id: task for task in wanted}.values())
        self._worker.reporter.waits_for(f"version {version.version} on {len(due)} tasks")
        found = await self._source.score(version, due)

        def of(wanted: Sequence[Task]) -> tuple[TaskScore, ...]:
            ids = (task.task_id for task in wanted)
            return tuple(found.scores[task_id] for task_id in ids if task_id in found.scores)

        outputs: list[Message] = [*found.proofs]
        if tasks:
            passed = of(tasks)
            outputs.append(
                Evaluation(
                    version=version.version,
                    scores=passed,
                    errors=len(tasks) - len(passed),
                    wall_s=time.monotonic() - started,
                    trained=of(trained),
                    instances=of(instances),
                )
            )
        if guarded:
            passed = of(canaries)
            errors = len(canaries) - len(passed)
            outputs.append(CanaryScores(version=version.version, scores=passed, errors=errors))
        return outputs

    async def _fresh(self, version: int) -> tuple[Sequence[Task], Sequence[Task]]:
        """Return the trained tasks to score that have an instance, and all instances to score."""
        most = self._config.evaluator.fresh
        if not most:
            return (), ()
        held_out = [task for task in self._tasks if task.split == "held_out"][:most]
        drawn = await self._trained.drawn(most, version)
        made: dict[str, Task] = {}
        for task in (*held_out, *drawn):
            instance = self._instances.get(task.task_id) or await self._instantiate(task, INSTANCE)
            if instance:
                made[task.task_id] = instance
        if not made:
            log.warning(
                "no_instances",
                version=version,
                reason="evaluator.fresh: none of "
                f"{len(held_out)} held-out and {len(drawn)} trained tasks has an instance",
            )
        self._instances = made
        return [task for task in drawn if task.task_id in made], list(made.values())
