"""The evaluator: scores policy versions on tasks that are not trained on, during training.

A run's reported results are on the held-out tasks. The guard's canaries
(`coevolve.learning.guard`) are scored more often, and no results are reported on them. A task that
is both is attempted once.

The evaluator has its own engine, so all tokens of an evaluation come from one version, and only
after the engine has proven that it serves this version. The learner never trains on anything that
the evaluator writes.
"""

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from coevolve.curriculum.schedule import is_evaluated, is_guarded, is_scored
from coevolve.delivery.engine import VerifiedEngine
from coevolve.journal.mailbox import Mailbox
from coevolve.parts.status import StatusReporter
from coevolve.parts.stopping import unless_stopped
from coevolve.rollouts.agent import Agent
from protocols.config import RunConfig
from protocols.control import PartStatus
from protocols.errors import SimulatorError
from protocols.interfaces import Store
from protocols.learning import CanaryScores, Evaluation, PolicyVersion, TaskScore
from protocols.tasks import Task

TAKE_LIMIT = 64

REST_S = 1.0
"""Pause between takes: most versions are not scored, so one call can skip several of them."""


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
        )


class Evaluator:
    """A `protocols.interfaces.Part` that makes one evaluation for each version that is scored."""

    def __init__(
        self,
        config: RunConfig,
        *,
        store: Store,
        engine: VerifiedEngine,
        scorer: Scorer,
        tasks: Sequence[Task],
        canaries: Sequence[Task],
    ) -> None:
        """Score on the held-out ``tasks`` and on the guard's ``canaries``."""
        self._config = config
        self._engine = engine
        self._scorer = scorer
        self._tasks = tasks
        self._canaries = canaries
        self._mailbox = Mailbox(
            store,
            consumer="evaluator",
            topics=("policy_version",),
            member="evaluator",
            lease_s=config.store.lease_s,
        )
        self._newest = -1
        self._reporter = StatusReporter("evaluator")
        self._stopping = asyncio.Event()

    async def run(self) -> None:
        """Score versions until stopped.

        Raises GeneratorError if the engine failed, and DeliveryError if it serves other weights
        than those published.
        """
        await unless_stopped(self._stopping, self._score_versions())

    async def _score_versions(self) -> None:
        while True:
            self._reporter.waits_for("a policy version to score")
            skipped: list[int] = []
            for delivery in await self._mailbox.take(TAKE_LIMIT, at_least=self._missing()):
                version = delivery.message
                assert isinstance(version, PolicyVersion)
                self._newest = version.version
                if version.kept:
                    proof = await self._engine.serve(version)
                    self._reporter.policy_version = version.version
                    scores = await self._score_version(version)
                    await self._mailbox.complete((delivery.sequence,), (proof, *scores))
                    self._reporter.done += 1
                else:
                    skipped.append(delivery.sequence)
            if skipped:
                await self._mailbox.complete(skipped)
            await asyncio.sleep(REST_S)

    def _missing(self) -> int:
        """Return how many further versions there will be up to the next one to score."""
        last = self._config.learner.steps
        following = range(self._newest + 1, last + 1)
        due = next((each for each in following if is_scored(each, self._config)), last)
        return max(1, due - self._newest)

    async def stop(self) -> None:
        """Abort the current evaluation (its version stays unfinished) and make ``run`` return."""
        self._stopping.set()

    def status(self) -> PartStatus:
        """Return the part's current status."""
        return self._reporter.report(len(self._mailbox.held))

    async def _score_version(self, version: PolicyVersion) -> Sequence[Evaluation | CanaryScores]:
        """Return the greedy scores of ``version``, the served one, on every task that is due."""
        started = time.monotonic()
        tasks = self._tasks if is_evaluated(version.version, self._config) else ()
        guarded = is_guarded(version.version, self._config)
        canaries = self._canaries if guarded else ()
        due = list({task.task_id: task for task in (*tasks, *canaries)}.values())
        self._reporter.waits_for(f"version {version.version} on {len(due)} tasks")
        gate = asyncio.Semaphore(self._config.evaluator.concurrent)
        found = await asyncio.gather(
            *(self._score(number, task, version, gate) for number, task in enumerate(due))
        )
        scored = {score.task_id: score for score in found if score is not None}

        def of(wanted: Sequence[Task]) -> tuple[TaskScore, ...]:
            return tuple(scored[task.task_id] for task in wanted if task.task_id in scored)

        scores: list[Evaluation | CanaryScores] = []
        if tasks:
            passed = of(tasks)
            scores.append(
                Evaluation(
                    version=version.version,
                    scores=passed,
                    errors=len(tasks) - len(passed),
                    wall_s=time.monotonic() - started,
                )
            )
        if guarded:
            passed = of(canaries)
            errors = len(canaries) - len(passed)
            scores.append(CanaryScores(version=version.version, scores=passed, errors=errors))
        return scores

    async def _score(
        self, number: int, task: Task, version: PolicyVersion, gate: asyncio.Semaphore
    ) -> TaskScore | None:
        async with gate:
            for attempt in range(self._config.rollout.tries):
                session = f"evaluation-{version.version}-{number}/{attempt}"
                try:
                    return await self._scorer.score(task, session)
                except SimulatorError as error:
                    self._reporter.last_error = str(error)
        return None
