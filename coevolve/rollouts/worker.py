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
from collections import Counter
from collections.abc import Mapping, Sequence

import structlog

from coevolve.delivery.engine import VerifiedEngine
from coevolve.journal.codec import topics_of
from coevolve.journal.mailbox import GATHER_S, IDLE_WAIT_S, Mailbox
from coevolve.journal.task_cache import TaskCache, unread
from coevolve.parts.attempts import AttemptQueue, Attempts, WorkItem
from coevolve.parts.status import StatusReporter
from coevolve.parts.stopping import unless_stopped
from coevolve.rollouts.agent import Agent, Episode, rollout_of, seed_of
from coevolve.rollouts.scored_versions import SCORES, version_to_serve
from coevolve.rollouts.scoring import ScoringWorker
from coevolve.rollouts.served_version import ServedVersion
from coevolve.rollouts.turns import EngineTurns
from protocols.config import RunConfig
from protocols.control import LetterAnswered, LetterRetried, PartsRest, PartStatus
from protocols.errors import (
    ContractError,
    EndpointError,
    GeneratorError,
    LeaseLostError,
    SimulatorError,
)
from protocols.evolution import ProbeReport, ProbeRequest
from protocols.interfaces import Reader, Store
from protocols.journal import Message
from protocols.learning import PolicyVersion, ScoreRequest, WeightsVerified
from protocols.rollouts import FailedRollout, Rollout, RolloutRequest, Writer
from protocols.tasks import Seeded, Task, attempted

CONSUMER = "rollout"
"""The journal's consumer that all rollout workers are members of, by their names."""

RETRY_PAUSE_S = 0.5
"""Pause before the second try; it doubles with each further try. Workers restart in seconds."""

GROUP_GATHER_S = 0.1
"""`GATHER_S` for the last rollout of a group in progress, because the learner needs whole
groups."""

TAKEN = (RolloutRequest, ProbeRequest, LetterRetried)
"""Kinds that it takes on its own; with ``scoring`` it shares letters with a `ScoringWorker`."""

log = structlog.get_logger()


class RolloutWorker:
    """A `protocols.interfaces.Part`: one engine and its conversations."""

    def __init__(
        self,
        name: str,
        config: RunConfig,
        *,
        store: Store,
        reader: Reader,
        takes: Sequence[type[Message]] = TAKEN,
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
        self._run = config
        self._config = config.rollout
        self._served = served
        self._scoring = scoring
        self._turns = turns
        self._device = asyncio.Lock()
        """Held while weights change, and while the engine sleeps."""

        self._store = store
        self._reader = reader
        self._engine = engine
        self._agents = agents
        self._tasks = TaskCache(reader, unread)
        self._mailbox = Mailbox(
            store,
            consumer=CONSUMER,
            topics=topics_of(*(kind for kind in takes if kind is not ScoreRequest)),
            member=name,
            lease_s=config.store.lease_s,
            gather_s=GATHER_S,
        )
        self._attempts = Attempts(self._mailbox, config, reader)
        self._reporter = StatusReporter(name)
        self._stopping = asyncio.Event()
        self._live: set[asyncio.Task[None]] = set()
        self._in_progress = Counter[str]()
        """Group id -> number of its requests taken and not answered."""

    async def run(self) -> None:
        """Serve requests until stopped; what was completed by then is in the journal.

        Raises GeneratorError if the engine failed, and DeliveryError if it serves other weights
        than those published.
        """
        await unless_stopped(self._stopping, self._work())
        await self._mailbox.flush()
        await self._attempts.release()
        if self._scoring:
            await self._scoring.release()

    async def stop(self) -> None:
        """Abort current conversations (their requests stay unfinished) and make ``run`` return."""
        self._stopping.set()

    def status(self) -> PartStatus:
        scores = self._scoring.held if self._scoring else 0
        return self._reporter.report(len(self._mailbox.held) + scores)

    async def _work(self) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(self._follow_versions(group))
            group.create_task(self._serve(group))
            if self._scoring:
                group.create_task(self._scoring.run(group))
            if self._turns:
                group.create_task(self._turns.run(self._device))

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
                self._reporter.policy_version = version.version
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

    async def _serve(self, group: asyncio.TaskGroup) -> None:
        queue = AttemptQueue(self._attempts, self._config.concurrent)
        while True:
            while unit := queue.begin_next():
                task = group.create_task(self._answer(unit, queue, group))
                self._live.add(task)
                task.add_done_callback(self._conversation_ended)
            if queue:
                self._reporter.waits_for(f"{len(self._live)} conversations to end")
                await asyncio.wait(self._live, return_when=asyncio.FIRST_COMPLETED)
                continue
            self._report_waiting()
            # Taking requests ahead saves one call of the store for every conversation that ends.
            taken = await self._attempts.take(self._config.concurrent)
            self._in_progress.update(
                each.message.group_id for each in taken if isinstance(each.message, RolloutRequest)
            )
            queue.add(taken)

    def _conversation_ended(self, conversation: asyncio.Task[None]) -> None:
        self._live.discard(conversation)
        self._report_waiting()

    def _report_waiting(self) -> None:
        """Report what the worker waits for; each finished conversation changes it."""
        if self._live:
            self._reporter.waits_for(f"{len(self._live)} conversations, or more requests")
        else:
            self._reporter.waits_for("rollout requests from the curriculum")

    async def _answer(self, unit: WorkItem, queue: AttemptQueue, group: asyncio.TaskGroup) -> None:
        """Execute the request; its result is written while other conversations run.

        After an earlier attempt that may have killed its process, the result is written before the
        next such request begins: another death must not count against a request that was done.
        """
        was_attempted_before = self._attempts.was_attempted_before(unit)
        match unit.message:
            case RolloutRequest() as request:
                outcome = await self._attempts.outcome_of(
                    unit,
                    lambda: self._roll_out(request, self._tried(unit)),
                    lambda reason: (_failed(request, reason, self._attempts.count(unit)),),
                )
            case ProbeRequest() as request:
                outcome = await self._attempts.outcome_of(
                    unit,
                    lambda: self._probe(request, self._tried(unit)),
                    lambda reason: (_no_probe(request),),
                )
            case other:
                raise TypeError(f"the rollout part does not take {type(other).__name__}")
        if was_attempted_before:
            await self._hand_in(unit, outcome, gather_s=0.0)
            queue.ended(unit)
        else:
            queue.ended(unit)
            group.create_task(self._hand_in(unit, outcome))

    async def _hand_in(
        self, unit: WorkItem, outcome: Sequence[Message], *, gather_s: float | None = None
    ) -> None:
        """Write the outcome of a unit, or its dead letter if the journal cannot hold it."""
        if self._ends_group(unit.message):
            gather_s = GROUP_GATHER_S
        if unit.retry_of:  # the group of the request has ended without it
            outcome = [each for each in outcome if isinstance(each, LetterAnswered)]
        try:
            await self._mailbox.complete((unit.sequence,), outcome, gather_s=gather_s)
            self._reporter.done += 1
        except ContractError as error:
            await self._hand_in_nothing(unit, str(error))
        except LeaseLostError as error:
            # Another rollout actor took over the request while the store was unreachable.
            log.warning("rollout_dropped", request=str(unit.sequence), reason=str(error))
        self._attempts.forget((unit.sequence,))

    async def _hand_in_nothing(self, unit: WorkItem, reason: str) -> None:
        request = unit.message
        assert isinstance(request, RolloutRequest | ProbeRequest)
        outcome = (
            _failed(request, reason, self._attempts.count(unit))
            if isinstance(request, RolloutRequest)
            else _no_probe(request)
        )
        await self._mailbox.complete(
            (unit.sequence,), self._attempts.dead_letter(unit, reason, (outcome,))
        )

    def _ends_group(self, answered: Message) -> bool:
        """Count a request as answered; return whether it was the last of its group in progress."""
        if not isinstance(answered, RolloutRequest):
            return False
        self._in_progress[answered.group_id] -= 1
        if self._in_progress[answered.group_id]:
            return False
        del self._in_progress[answered.group_id]
        return True

    def _tried(self, unit: WorkItem) -> int:
        """Return how many tries the earlier attempts at a unit may have made."""
        return self._config.tries * (self._attempts.count(unit) - 1)

    async def _roll_out(
        self, request: RolloutRequest, tried: int
    ) -> tuple[Rollout | FailedRollout]:
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
            return (_failed(request, str(error), tried + tries),)
        return (rollout_of(request, episode, attempt),)

    async def _probe(self, request: ProbeRequest, tried: int) -> tuple[ProbeReport]:
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
        self._reporter.last_error = str(error)
        log.warning("rollout_failed", session=session, reason=str(error))


def _failed(request: RolloutRequest, reason: str, tries: int) -> FailedRollout:
    return FailedRollout(
        group_id=request.group_id,
        group=request.group,
        index=request.index,
        group_size=request.group_size,
        task_id=request.task_id,
        reason=reason,
        tries=tries,
    )


def _returned(outcome: Episode | BaseException | None) -> Episode | None:
    """Return the result of a probe; raise what it raised."""
    if isinstance(outcome, BaseException):
        raise outcome
    return outcome


def _no_probe(request: ProbeRequest) -> ProbeReport:
    """Return the report of probes that could not be made."""
    return ProbeReport(
        probe_id=request.probe_id,
        candidate_id=request.candidate_id,
        successes=0,
        rollouts=0,
        errors=request.rollouts,
        policy_version=request.policy_version_at_least,
        sampled_tokens=0,
        calls=0,
    )
