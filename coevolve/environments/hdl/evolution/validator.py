"""The validator of runs on designs: turns candidates into verdicts, and sound ones into tasks.

Promises: a task is admitted on what was executed, and on nothing else; each candidate ends in one
verdict, with which its task and its design are written; a machine's failure refuses nothing before
the candidate was judged so often. Candidates are judged one after the other, since there are a
thousand times as many testbenches to be simulated. Policies are not probed: how the signal's
rollouts would have done on the new task is its label.
"""

import asyncio
from collections.abc import Sequence

import msgspec
import structlog

from coevolve.environments.hdl.evolution.gates import DesignGates, Findings, Sound
from coevolve.journal.fold import fold
from coevolve.parts.record_handler import AnsweringPart
from coevolve.parts.status import Standing
from protocols.config import RunConfig
from protocols.design_evolution import (
    DesignCandidate,
    DesignChange,
    DesignMade,
    DesignVariant,
    HarderThreshold,
    RegionGoal,
)
from protocols.errors import SimulatorError
from protocols.evolution import Admitted, CandidateVerdict, Label, Refused
from protocols.interfaces import Reader, Store
from protocols.journal import Message

PAUSE_S = 2.0
"""How long a candidate waits whose simulators broke: twice as long each time."""

TRIES = 6
"""So often a candidate is judged: what breaks every simulator is not to keep others waiting."""

log = structlog.get_logger()


def validator_part(
    config: RunConfig, store: Store, reader: Reader, gates: DesignGates
) -> AnsweringPart:
    """Return the validator as a part."""
    standing = Standing("validator")
    return AnsweringPart(
        DesignValidator(gates, reader, standing),
        standing,
        store=store,
        topic="design_candidate",
        awaited="candidates",
        lease_s=config.store.lease_s,
    )


class DesignValidator:
    """A `coevolve.parts.record_handler.Answerer`: one verdict for each candidate."""

    def __init__(self, gates: DesignGates, reader: Reader, standing: Standing) -> None:
        self._gates = gates
        self._reader = reader
        self._standing = standing
        self._known = _Known()

    async def begin(self) -> None:
        """Learn what was admitted before."""
        self._known = _Known()
        await fold(self._reader, ("design_candidate", "candidate_verdict"), self._known.fold)

    async def answer(self, message: Message) -> Sequence[Message]:
        """Return the verdict on a candidate, behind the task and the design that it admits."""
        assert isinstance(message, DesignCandidate)
        self._standing.waits_for(f"the gates of {message.candidate_id}")
        outputs = await self._judged(message)
        for each in (message, *outputs):
            self._known.fold(each)
        return outputs

    async def _judged(self, candidate: DesignCandidate) -> Sequence[Message]:
        twin = self._known.twin(candidate)
        if twin:
            refused = Refused(gate="duplicate", found=f"the same as {twin}")
            return (_verdict(candidate, Findings(outcome=refused, simulator_calls=0)),)
        findings = await self._examined(candidate)
        verdict = _verdict(candidate, findings)
        if not isinstance(findings.outcome, Sound):
            return (verdict,)
        task, made = findings.outcome.task, findings.outcome.made
        if made is None:
            return task, verdict
        parent = candidate.change.design
        design = DesignMade(design=made, parent=parent, candidate_id=candidate.candidate_id)
        return design, task, verdict

    async def _examined(self, candidate: DesignCandidate) -> Findings:
        """Return what the gates say, or that no simulator carries the candidate out."""
        for attempt in range(TRIES):
            try:
                return await self._gates.examine(candidate)
            except SimulatorError as error:
                self._standing.last_error = str(error)
                log.warning("simulator_failed", candidate=candidate.candidate_id, reason=str(error))
            await asyncio.sleep(PAUSE_S * 2**attempt)
        broke = f"simulators failed {TRIES} times: {self._standing.last_error}"
        return Findings(outcome=Refused(gate="replay_failed", found=broke), simulator_calls=0)


class _Known:
    """What was admitted already; a fold of the journal."""

    def __init__(self) -> None:
        self._open: dict[str, DesignChange] = {}
        self._admitted: dict[DesignChange, str] = {}

    def fold(self, message: Message) -> None:
        """Take in a candidate or a verdict; twice changes nothing."""
        match message:
            case DesignCandidate(candidate_id=candidate_id):
                self._open[candidate_id] = _essence(message.change)
            case CandidateVerdict(candidate_id=candidate_id, outcome=outcome):
                change = self._open.pop(candidate_id, None)
                if change is not None and isinstance(outcome, Admitted):
                    self._admitted[change] = outcome.task_id
            case _:
                pass

    def twin(self, candidate: DesignCandidate) -> str:
        """Return the task that asks for the same; empty where there is none."""
        return self._admitted.get(_essence(candidate.change), "")


def _essence(change: DesignChange) -> DesignChange:
    """Return the change without what makes no other task of it."""
    match change:
        case RegionGoal():
            return msgspec.structs.replace(change, start=0)
        case HarderThreshold():
            return msgspec.structs.replace(change, than="")
        case DesignVariant():
            return change


def _verdict(candidate: DesignCandidate, findings: Findings) -> CandidateVerdict:
    outcome = findings.outcome
    if isinstance(outcome, Sound):
        outcome = Admitted(
            task_id=outcome.task.task_id,
            label=_label(outcome),
            probe_successes=outcome.successes,
            probe_rollouts=outcome.rollouts,
        )
    return CandidateVerdict(
        candidate_id=candidate.candidate_id,
        signal_id=candidate.signal_id,
        synthesizer=candidate.synthesizer,
        outcome=outcome,
        policy_version=candidate.policy_version,
        simulator_calls=findings.simulator_calls,
    )


def _label(sound: Sound) -> Label:
    if not sound.successes:
        return "not_yet"
    return "mastered" if sound.successes == sound.rollouts else "learnable"
