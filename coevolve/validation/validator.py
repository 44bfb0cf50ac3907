"""The validator: turns candidates into verdicts, and valid candidates into tasks of the pool.

    candidate -> gates -> refused
                       -> sound -> probe by the policy -> admitted, with a label
                                                       -> parked -> probed again later
                                                       -> refused, if too many are parked
                                -> admitted unprobed, if probes have used up their share of rollouts

Guarantees: no candidate enters the pool without executed checks, nor by these alone: either a
reader confirms that its instructions ask for its reference, or the policy solves it. A judge's
opinion is recorded without effect. Each candidate ends in one final verdict, even
if processes are killed, and the same transaction writes its task. An infrastructure failure refuses
nothing.

A candidate whose simulators or reader fail repeatedly stays unfinished: the validator retries it
after a pause, or the next holder of its lease does; the journal says that a reader rests. One that
raises other errors, or kills the process, at each of several attempts is a dead letter without a
verdict (`coevolve.parts.attempts`).
Decisions depend only on the journal (`coevolve.validation.ledger`) and are made one at a time; only
the gates run concurrently.
"""

import asyncio
import functools
import hashlib
from collections.abc import Callable, Sequence
from itertools import islice
from typing import NamedTuple

import msgspec
import structlog

from coevolve.journal.codec import CANDIDATES_BY_ID, decode_as, encode
from coevolve.parts.attempts import Outcome, WorkItem, reason_of
from coevolve.parts.context import PartContext
from coevolve.parts.worker import Dispatcher, Handler, Worker
from coevolve.validation.gates import Findings, Gates, Sound, TaskIndex
from coevolve.validation.judge import Judge
from coevolve.validation.ledger import Ledger, Wordings
from coevolve.validation.reader_state import ReaderState
from coevolve.validation.verdicts import Views, admission, doubted, task_of, verdict
from protocols.errors import EndpointError, JournalError, LeaseLostError, SimulatorError
from protocols.evolution import (
    NO_OPINION,
    Candidate,
    Opinion,
    Parked,
    ProbeReport,
    ProbeRequest,
    Reading,
    Refused,
)
from protocols.journal import Message
from protocols.learning import PolicyVersion
from protocols.tasks import Task

AHEAD = 16
"""Maximum number of records taken ahead, as a multiple of the candidates validated concurrently."""

FAILED_PROBES = 3
"""Number of consecutive probes without any rollout after which a candidate is parked."""

PUT_BY_S = 2.0
LONGEST_PUT_BY_S = 600.0
"""Pause after a candidate's simulators failed: it doubles each time, up to the longest."""

log = structlog.get_logger()


class _Decision(NamedTuple):
    """A record that is ready to be finished."""

    item: WorkItem
    outputs: Callable[[], Outcome]
    """Returns the messages that follow, given all earlier decisions."""

    decided: "asyncio.Future[None]"


class Validator:
    """A `protocols.interfaces.Part` that makes one verdict or one probe for each record."""

    def __init__(
        self,
        context: PartContext,
        *,
        gates: Gates,
        open_index: Callable[[], TaskIndex],
        held_out: Sequence[Task],
        judge: Judge,
        wordings: Wordings,
    ) -> None:
        """Validate with ``gates``; ``open_index`` creates an index of similar tasks."""
        self._config = context.config
        self._settings = self._config.validator
        self._reader = context.reader
        self._judge = judge
        self._gates = gates
        self._open_index = open_index
        self._wordings = wordings
        self._held_out = open_index()
        for task in held_out:
            self._held_out.add(task.task_id, task.body)
        self._worker = Worker("validator", context)
        self.stop, self.status = self._worker.stop, self._worker.status
        held = (AHEAD + 1) * self._settings.concurrent
        self._records = Dispatcher(
            self._worker,
            {
                Candidate: Handler(self._judge_candidate),
                ProbeReport: Handler(self._judge_probe),
                PolicyVersion: Handler(self._probe_parked),
            },
            concurrent=held,
            take_limit=self._settings.concurrent,
            held=held,
            activity=self._activity,
        )
        self._forget()

    def _forget(self) -> None:
        """Drop all state that is not in the journal."""
        self._ledger = self._new_ledger()
        self._reader_state = ReaderState(self._worker.mailbox.append)
        self._judging = asyncio.Semaphore(self._settings.concurrent)
        self._decisions: asyncio.Queue[_Decision] = asyncio.Queue()

    def _new_ledger(self) -> Ledger:
        return Ledger(
            self._reader,
            self._open_index(),
            self._config.pool.remembered,
            wordings=self._wordings,
        )

    async def run(self) -> None:
        """Validate candidates until stopped; those in work then stay unfinished."""
        await self._worker.run(self._work)

    async def _work(self) -> None:
        self._forget()
        await self._worker.mailbox.take_seat()
        await self._ledger.follow()
        await self._reader_state.restore(self._reader)
        async with asyncio.TaskGroup() as group:
            group.create_task(self._decide_all())
            await self._records.serve(group)

    def _activity(self, live: int, is_full: bool) -> str:
        if is_full:
            return f"the judgement of {live} candidates"
        return f"new candidates ({live} being judged, {self._ledger.under_probe()} in probes)"

    async def _judge_candidate(self, candidate: Candidate, item: WorkItem) -> Outcome:
        findings = await self._examine_with_retries(candidate)
        opinion = await self._opinion(candidate)
        return await self._decide(item, lambda: self._first_outcome(candidate, findings, opinion))

    async def _judge_probe(self, report: ProbeReport, item: WorkItem) -> Outcome:
        candidate = await self._candidate(report.candidate_id)
        return await self._decide(item, lambda: self._probe_outcome(candidate, report))

    async def _probe_parked(self, version: PolicyVersion, item: WorkItem) -> Outcome:
        return await self._decide(item, lambda: self._retries_due(version))

    async def _opinion(self, candidate: Candidate) -> Opinion:
        """Return the judge's opinion; none if asking for it raises an error."""
        try:
            async with self._judging:
                return await self._judge.opinion(candidate)
        except JournalError:
            raise
        except Exception as error:  # an opinion is optional
            self._worker.reporter.last_error = reason_of(error)
            log.exception("no_opinion", candidate=candidate.candidate_id)
            return NO_OPINION

    async def _decide(self, item: WorkItem, outputs: Callable[[], Outcome]) -> tuple[()]:
        """Finish a record with ``outputs``, which take all earlier decisions into account.

        Returns what remains to be written: nothing. Raises what ``outputs`` raises; the record is
        not finished then.
        """
        decided = asyncio.get_running_loop().create_future()
        finished = self._worker.attempts.finished
        self._decisions.put_nowait(_Decision(item, lambda: finished(item, outputs()), decided))
        await decided
        return ()

    async def _decide_all(self) -> None:
        """Make queued decisions in order, several per write."""
        while True:
            batch = [await self._decisions.get()]
            await asyncio.sleep(self._worker.pace.take_gather_s)
            while not self._decisions.empty():
                batch.append(self._decisions.get_nowait())
            if not await self._settle(batch):
                for decision in batch:
                    if not decision.decided.done():
                        await self._settle([decision])
            for decision in batch:
                if not decision.decided.done():
                    decision.decided.set_result(None)

    async def _settle(self, batch: Sequence["_Decision"]) -> bool:
        """Write the results of ``batch``; return False if one of its leases was lost."""
        await self._ledger.follow()
        messages = [decision.item.message for decision in batch]
        candidates = [each.candidate_id for each in messages if isinstance(each, Candidate)]
        await self._ledger.recall(candidates)
        outputs: list[Message] = []
        finished: list[int] = []
        for decision in batch:
            try:
                made = decision.outputs()
                for each in made:
                    encode(each)
            except Exception as error:  # noqa: BLE001 - the boundary round one decision
                decision.decided.set_exception(error)
                continue
            self._ledger.expect(made)
            outputs += made
            finished.append(decision.item.sequence)
        try:
            if finished:
                await self._worker.mailbox.complete(finished, outputs)
                await self._write_snapshot()
        except LeaseLostError as error:
            log.warning("judgements_dropped", records=len(batch), reason=str(error))
            self._ledger = self._new_ledger()
            return False
        self._worker.reporter.done += len(finished)
        return True

    async def _write_snapshot(self) -> None:
        if snapshots := await self._ledger.snapshots.due(self._ledger.through):
            await self._worker.mailbox.append(snapshots)

    async def _examine_with_retries(self, candidate: Candidate) -> Findings:
        """Return the gates' findings; retry as long as simulators or the reader fail."""
        pause_s = PUT_BY_S
        while True:
            try:
                async with self._judging:
                    findings = await self._gates.examine(candidate)
                    if self._is_refused(findings):
                        return findings
                    read = await self._gates.read(candidate, findings)
                await self._reader_state.answered()
            except (SimulatorError, EndpointError) as error:
                if isinstance(error, EndpointError):
                    await self._reader_state.failed(error)
                self._worker.reporter.last_error = str(error)
                log.warning("not_examined", candidate=candidate.candidate_id, reason=str(error))
            else:
                return read
            await asyncio.sleep(pause_s)
            pause_s = min(2 * pause_s, LONGEST_PUT_BY_S)

    def _is_refused(self, findings: Findings) -> bool:
        """Return whether a candidate is refused already, so that no reader need be asked."""
        outcome = findings.outcome
        return isinstance(outcome, Refused) or bool(self._refusal(outcome.body))

    async def _candidate(self, candidate_id: str) -> Candidate:
        found = await self._reader.find(CANDIDATES_BY_ID, candidate_id, limit=1)
        if not found:
            raise JournalError(
                f"the journal holds no candidate {candidate_id!r}, although a probe refers to it"
            )
        return decode_as(found[0], Candidate)

    def _first_outcome(
        self, candidate: Candidate, findings: Findings, opinion: Opinion
    ) -> Sequence[Message]:
        """Return the refusal of a candidate, or the probe that a valid one needs."""
        if self._ledger.knows(candidate.candidate_id):
            return ()
        outcome = findings.outcome
        if isinstance(outcome, Sound):
            outcome = self._refusal(outcome.body) or outcome
        reading = findings.reading
        if isinstance(outcome, Sound) and (conflict := self._ledger.conflict(outcome.body)):
            reading = doubted(reading, conflict)
        views = Views(opinion, reading)
        judged = functools.partial(
            verdict, candidate, candidate.policy_version, findings.simulator_calls, views
        )
        if isinstance(outcome, Refused):
            return (judged(outcome),)
        tried = outcome.tried or self._unprobed(reading)
        if tried is not None:
            task = task_of(candidate, outcome.body, outcome.skills)
            return (*outcome.records, task, judged(admission(task, *tried)))
        return (self._first_probe(candidate, outcome, findings.simulator_calls, views),)

    def _unprobed(self, reading: Reading) -> tuple[int, int] | None:
        """Return the result of no probes if there is no room for probes that may be left out."""
        settings = self._settings
        if reading.outcome != "confirmed" or self._ledger.has_room_for_probes(
            settings.probes, settings.probe_share
        ):
            return None
        return 0, 0

    def _refusal(self, body: msgspec.Raw) -> Refused | None:
        """Return why a sound task is refused beside others, if it is."""
        conflict = self._ledger.conflict(body)
        if conflict and conflict.trusted:
            return Refused(gate="contradicted", found=conflict.found)
        return self._similarity_refusal(body)

    def _similarity_refusal(self, body: msgspec.Raw) -> Refused | None:
        if match := self._ledger.pool.nearest(body):
            found = f"similarity {match.degree:.2f} to {match.key}"
            return Refused(gate="duplicate", found=found)
        if self._held_out.overlapping(body):
            return Refused(gate="contaminated", found="it shares its requests with a held-out task")
        if match := self._held_out.nearest(body):
            # Do not reveal which held-out task matched.
            found = f"similarity {match.degree:.2f} to a held-out task"
            return Refused(gate="contaminated", found=found)
        return None

    def _first_probe(
        self, candidate: Candidate, sound: Sound, simulator_calls: int, views: Views
    ) -> ProbeRequest:
        probe_id = f"{candidate.candidate_id}/probe-0"
        return ProbeRequest(
            probe_id=probe_id,
            candidate_id=candidate.candidate_id,
            body=sound.body,
            skills=sound.skills,
            rollouts=self._settings.probes,
            seed=_seed(probe_id),
            policy_version_at_least=candidate.policy_version,
            simulator_calls=simulator_calls,
            opinion=views.opinion,
            reading=views.reading,
        )

    def _next_probe(self, last: ProbeRequest, version: int) -> ProbeRequest:
        """Return ``last`` again, for policy ``version`` or newer."""
        number = self._ledger.probes_asked(last.candidate_id)
        probe_id = f"{last.candidate_id}/probe-{number}"
        return msgspec.structs.replace(
            last, probe_id=probe_id, seed=_seed(probe_id), policy_version_at_least=version
        )

    def _probe_outcome(self, candidate: Candidate, report: ProbeReport) -> Sequence[Message]:
        """Return a probe's result: a task and its verdict, a parked candidate, or another probe."""
        asked = self._ledger.probe(report.candidate_id)
        if asked is None or asked.probe_id != report.probe_id:
            return ()
        if not report.rollouts and (
            self._ledger.probes_since_verdict(report.candidate_id) < FAILED_PROBES
        ):
            return (self._next_probe(asked, report.policy_version),)
        views = Views(asked.opinion, asked.reading)
        judged = functools.partial(
            verdict, candidate, report.policy_version, asked.simulator_calls, views
        )
        has_room = asked.reading.outcome == "confirmed" and self._ledger.has_room_for_not_yet(
            self._settings.not_yet_share
        )
        if report.rollouts and (report.successes or has_room):
            task = task_of(candidate, asked.body, asked.skills)
            return task, judged(admission(task, report.successes, report.rollouts))
        if self._ledger.parked() >= self._settings.parked_capacity:
            return (judged(self._unsolved(candidate)),)
        return (judged(Parked(probe_rollouts=report.rollouts)),)

    def _unsolved(self, candidate: Candidate) -> Refused:
        """Return the refusal of a candidate that cannot be parked any more."""
        probes = self._ledger.probes_asked(candidate.candidate_id)
        found = (
            f"none of its {probes} probes succeeded, and as many candidates are parked as "
            f"validator.parked_capacity = {self._settings.parked_capacity} allows"
        )
        return Refused(gate="unsolved", found=found)

    def _retries_due(self, version: PolicyVersion) -> Sequence[Message]:
        """Return further probes of candidates that were parked long enough ago."""
        since = version.version - self._settings.retry_after_versions
        due = islice(self._ledger.parked_until(since), self._settings.concurrent)
        return [self._next_probe(_without_reported(each), version.version) for each in due]


def _seed(probe_id: str) -> int:
    return int.from_bytes(hashlib.blake2b(probe_id.encode(), digest_size=4).digest())


def _without_reported(probe: ProbeRequest) -> ProbeRequest:
    """Return the probe without the calls and the opinion, which a verdict has already reported."""
    return msgspec.structs.replace(probe, simulator_calls=0, opinion=NO_OPINION)
