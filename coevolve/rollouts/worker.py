"""The rollout worker: turns rollout requests into rollouts, many at a time.

Guarantees: one transaction finishes a request and adds its rollout, so each request is answered
exactly once even if processes are killed. The worker retries after an infrastructure failure, each
time with another seed, because what was sampled may be the cause; if all tries fail, the result is
a failed rollout, never a reward. The same holds for a request that raises unexpected errors, or
kills the process (`coevolve.parts.attempts`). New weights take effect between two tokens, without
waiting for running requests, and the engine proves that it serves them (`coevolve.delivery`). If
versions are scored on this engine, it stays at such a version until its scores are complete
(`coevolve.rollouts.scored_versions`).

A candidate's probes are ordinary conversations in the same batches. Only their counts are recorded,
so nothing can be trained on them.
"""

import asyncio
from collections.abc import Mapping, Sequence

import structlog

from coevolve.delivery.engine import VerifiedEngine
from coevolve.journal.codec import topics_of
from coevolve.journal.mailbox import IDLE_WAIT_S, Mailbox
from coevolve.journal.task_cache import TaskCache, unread
from coevolve.parts.attempts import WorkItem
from coevolve.parts.context import PartContext
from coevolve.parts.worker import Dispatcher, Handler, Worker
from coevolve.rollouts.agent import Agent, Episode, rollout_of, seed_of
from coevolve.rollouts.scored_versions import SCORES, version_to_serve
from coevolve.rollouts.scoring import ScoringWorker
from coevolve.rollouts.served_version import ServedVersion
from coevolve.rollouts.turns import EngineTurns
from protocols.control import PartsRest, PartStatus
from protocols.errors import EndpointError, GeneratorError, SimulatorError
from protocols.evolution import ProbeReport, ProbeRequest
from protocols.journal import Message
from protocols.learning import PolicyVersion, ScoreRequest, WeightsVerified
from protocols.rollouts import FailedRollout, Rollout, RolloutRequest, Writer
from protocols.tasks import Seeded, Task, attempted

CONSUMER = "rollout"
"""The journal's consumer that all rollout workers are members of, by their names."""

RETRY_PAUSE_S = 0.5
"""Pause before the second try; it doubles with each further try. Workers restart in seconds."""

log = structlog.get_logger()


class RolloutWorker:
    """A `protocols.interfaces.Part`: one engine and its conversations."""

    def __init__(
        self,
        context: PartContext,
        name: str,
        *,
        engine: VerifiedEngine,
        agents: Mapping[Writer, Agent],
        served: ServedVersion,
        scoring: ScoringWorker | None = None,
        turns: EngineTurns | None = None,
    ) -> None:
        """Serve the published versions with ``engine``; ``agents`` maps each author to its agent.

        The policy's agent must be among them; it also makes the probes. The worker sets ``served``.
        ``scoring`` scores versions on the same engine, and ``turns`` lets it sleep.
        """
        self._run = context.config
        self._config = self._run.rollout
        self._served = served
        self._scoring = scoring
        self._turns = turns
        self._device = asyncio.Lock()
        """Held while weights change, and while the engine sleeps."""

        self._store = context.store
        self._reader = context.reader
        self._engine = engine
        self._agents = agents
        self._tasks = TaskCache(context.reader, unread)
        kinds = [kind for kind in context.takes if kind is not ScoreRequest]
        self._worker = Worker(CONSUMER, context, name, kinds)
        concurrent = self._config.concurrent
        self._requests = Dispatcher(
            self._worker,
            {
                RolloutRequest: Handler(self._roll_out, _failed),
                ProbeRequest: Handler(self._probe, _no_probe),
            },
            concurrent=concurrent,
            take_limit=concurrent,
            # Taking requests ahead saves one call of the store for each conversation that ends.
            held=2 * concurrent,
            activity=_activity,
            is_urgent=_ends_group,
            writes_retried=False,  # the group of a retried request has ended without it
        )

    @property
    def _mailbox(self) -> Mailbox:
        return self._worker.mailbox

    async def run(self) -> None:
        """Serve requests until stopped; what was completed by then is in the journal.

        Raises GeneratorError if the engine failed, and DeliveryError if it serves other weights
        than those published.
        """
        async with asyncio.TaskGroup() as group:
            group.create_task(self._worker.run(self._work))
            if self._scoring:
                group.create_task(self._scoring.run())

    async def stop(self) -> None:
        """Abort current conversations (their requests stay unfinished) and make ``run`` return."""
        await self._worker.stop()
        if self._scoring:
            await self._scoring.stop()

    def status(self) -> PartStatus:
        return self._worker.status(self._scoring.held if self._scoring else 0)

    async def _work(self) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(self._follow_versions(group))
            if self._turns:
                group.create_task(self._turns.run(self._device))
            await self._requests.serve(group)

    async def _follow_versions(self, group: asyncio.TaskGroup) -> None:
        """Serve each version that is due; skip older versions that were missed."""
        known = 0
        topics = (*topics_of(PolicyVersion, PartsRest), *SCORES)
        while True:
            known = max(known, await self._store.wait(topics, known, IDLE_WAIT_S))
            version = await version_to_serve(self._reader, self._run)
            if version is None or version.version <= self._served.number:
                continue
            proof = await self._serve_version(version)
            if proof is not None:
                self._worker.reporter.policy_version = version.version
                await self._served.set(version.version)
                # The proof is written together with finished rollouts; the next version does not
                # wait for it.
                group.create_task(self._mailbox.append([proof]))

    async def _serve_version(self, version: PolicyVersion) -> WeightsVerified | None:
        """Serve ``version``; return None if its weights were deleted because newer ones exist."""
        try:
            async with self._device:
                return await self._engine.serve(version)
        except GeneratorError:
            due = await version_to_serve(self._reader, self._run)
            if due is None or due.version == version.version:
                raise
            return None

    def _tried(self, item: WorkItem) -> int:
        """Return how many tries the earlier attempts at a request may have made."""
        return self._config.tries * (self._worker.attempts.count(item) - 1)

    async def _roll_out(
        self, request: RolloutRequest, item: WorkItem
    ) -> tuple[Rollout | FailedRollout]:
        tried = self._tried(item)
        task = await self._tasks.get(attempted(request.task_id, request.instance))
        await self._served.at_least(request.policy_version_at_least)
        session = f"{request.group_id}/{request.index}"
        try:
            agent = self._agents[request.author]
            episode, attempt = await self._attempt_with_retries(
                agent, task, session, seed=request.seed, tried=tried
            )
        except (SimulatorError, EndpointError) as error:
            tries = self._config.tries if isinstance(error, SimulatorError) else 1
            return _failed(request, str(error), tried + tries)
        return (rollout_of(request, episode, attempt),)

    async def _probe(self, request: ProbeRequest, item: WorkItem) -> tuple[ProbeReport]:
        tried = self._tried(item)
        await self._served.at_least(request.policy_version_at_least)
        outcomes = await asyncio.gather(
            *(self._run_probe(request, index, tried) for index in range(request.rollouts)),
            return_exceptions=True,  # all have ended before the request is attempted again
        )
        played = [episode for each in outcomes if (episode := _returned(each)) is not None]
        versions = [version for each in played for version in each.versions]
        report = ProbeReport(
            probe_id=request.probe_id,
            candidate_id=request.candidate_id,
            successes=sum(each.succeeded for each in played),
            rollouts=len(played),
            errors=len(outcomes) - len(played),
            policy_version=max(versions, default=request.policy_version_at_least),
            sampled_tokens=len(versions),
            calls=sum(len(each.actions) for each in played),
        )
        return (report,)

    async def _run_probe(self, request: ProbeRequest, index: int, tried: int) -> Episode | None:
        """Return one probe, or None if the simulator failed."""
        try:
            session = f"{request.probe_id}/{index}"
            task = Task(
                task_id=request.candidate_id,
                split="train",
                origin=Seeded(source="candidate"),
                skills=request.skills,
                body=request.body,
            )
            agent = self._agents["policy"]
            episode, _ = await self._attempt_with_retries(
                agent, task, session, seed=request.seed + index, tried=tried
            )
        except SimulatorError:
            return None
        return episode

    async def _attempt_with_retries(
        self, agent: Agent, task: Task, session: str, *, seed: int, tried: int
    ) -> tuple[Episode, int]:
        """Return an attempt and its number, which the seed of its samples depends on.

        Numbers continue after the ``tried`` earlier ones. Raises SimulatorError after the last of
        several tries. A teacher's endpoint is not retried here, because its client retries.
        """
        attempt = 0
        while True:
            number = tried + attempt
            try:
                sampled = seed_of(seed, number)
                return await agent.attempt(task, f"{session}/{number}", seed=sampled), number
            except EndpointError as error:
                self._note(session, error)
                raise
            except SimulatorError as error:
                self._note(session, error)
                if attempt + 1 >= self._config.tries:
                    raise
            await asyncio.sleep(RETRY_PAUSE_S * 2**attempt)
            attempt += 1

    def _note(self, session: str, error: SimulatorError | EndpointError) -> None:
        self._worker.reporter.last_error = str(error)
        log.warning("rollout_failed", session=session, reason=str(error))


def _activity(conversations: int, is_full: bool) -> str:
    """Return what the worker waits for; each finished conversation changes it."""
    if is_full:
        return f"{conversations} conversations to end"
    if conversations:
        return f"{conversations} conversations, or more requests"
    return "rollout requests from the curriculum"


def _ends_group(answered: Message, in_progress: Sequence[Message]) -> bool:
    return isinstance(answered, RolloutRequest) and not any(
        isinstance(other, RolloutRequest) and other.group_id == answered.group_id
        for other in in_progress
    )


def _failed(request: RolloutRequest, reason: str, tries: int) -> tuple[FailedRollout]:
    failed = FailedRollout(
        group_id=request.group_id,
        group=request.group,
        index=request.index,
        group_size=request.group_size,
        task_id=request.task_id,
        reason=reason,
        tries=tries,
    )
    return (failed,)


def _returned(outcome: Episode | BaseException | None) -> Episode | None:
    """Return the result of a probe; raise what it raised."""
    if isinstance(outcome, BaseException):
        raise outcome
    return outcome


def _no_probe(request: ProbeRequest, reason: str, attempts: int) -> tuple[ProbeReport]:
    del reason, attempts
    report = ProbeReport(
        probe_id=request.probe_id,
        candidate_id=request.candidate_id,
        successes=0,
        rollouts=0,
        errors=request.rollouts,
        policy_version=request.policy_version_at_least,
        sampled_tokens=0,
        calls=0,
    )
    return (report,)
