"""Messages of a run with synthesized tasks; fields that tests do not check are filled in."""

from collections.abc import Sequence

from coevolve.environments.tools.task import ToolTask, ToolTurn
from coevolve.history.lineage import TOPICS, LineageIndex
from coevolve.journal.codec import decode, encode
from coevolve.journal.fold import in_order
from coevolve.journal.journal import Journal
from protocols.control import StartMeasured
from protocols.evolution import (
    NO_READING,
    Admitted,
    Candidate,
    CandidateVerdict,
    Exploration,
    GroupSummary,
    ModelCall,
    OnPattern,
    OnTask,
    Parked,
    ProbeReport,
    Reading,
    Reflection,
    Refused,
    Signal,
    SignalKind,
    SignalSettled,
    SynthesizerSwapped,
)
from protocols.interfaces import Reader
from protocols.journal import Append, Message, Receipt
from protocols.learning import GroupDiscarded, StepReport, TrainedGroup
from protocols.rollouts import Action, RolloutRequest
from protocols.synthesizers import EndpointModel
from protocols.tasks import Seeded, Synthesized, Task, body_of

BODY = body_of(
    ToolTask(
        classes=("GorillaFileSystem",),
        world="{}",
        turns=(
            ToolTurn(instruction="List the files.", reference=("ls()",)),
            ToolTurn(instruction="Go to docs.", reference=("cd('docs')",)),
        ),
    )
)
ENDPOINT = EndpointModel(base_url="http://127.0.0.1:9/v1", model="glm")


def seed(task_id: str = "seed-1") -> Task:
    return Task(
        task_id=task_id,
        split="train",
        origin=Seeded(source="grammar:static"),
        skills=("ls", "cd"),
        body=BODY,
    )


def made(task_id: str, candidate: str, signal: str) -> Task:
    return Task(
        task_id=task_id,
        split="train",
        origin=Synthesized(candidate_id=candidate, signal_id=signal),
        skills=(),
        body=BODY,
    )


def visit(task: str, successes: int, version: int = 0, rollouts: int = 8) -> GroupSummary:
    return GroupSummary(
        group_id=f"g-{task}-{version}",
        group=version,
        task_id=task,
        root=task,
        version_min=version,
        version_max=version,
        successes=successes,
        rollouts=rollouts,
        errors=0,
        surprise=0.5,
        sampled_tokens=10,
        calls=2,
        patterns=(),
        evidence=(1, 2),
    )


def requested(group: int, task_id: str, version: int = 0) -> RolloutRequest:
    """Return the first request of a group."""
    return RolloutRequest(
        group_id=f"g{group}",
        group=group,
        index=0,
        group_size=8,
        task_id=task_id,
        seed=0,
        policy_version_at_least=version,
    )


def discarded(group: int) -> GroupDiscarded:
    return GroupDiscarded(
        group_id=f"g{group}",
        group=group,
        task_id="",
        reason="stale",
        successes=0,
        rollouts=8,
        groups_consumed=1,
    )


def signal(
    signal_id: str,
    about: str = "seed-1",
    kind: SignalKind = "forgetting",
    version: int = 3,
    *,
    pattern: str = "",
) -> Signal:
    return Signal(
        signal_id=signal_id,
        kind=kind,
        about=OnPattern(kind="tool", pattern=pattern) if pattern else OnTask(task_id=about),
        score=0.75,
        rule="posterior: P(drop > 0.2) = 0.97",
        evidence=(1, 2, 3),
        policy_version=version,
    )


def exploration(exploration_id: str, signal_id: str) -> Exploration:
    return Exploration(
        exploration_id=exploration_id,
        signal_id=signal_id,
        synthesizer="policy@0",
        reflection=Reflection(
            summary="It lists the wrong folder.",
            failure_cause="no cd before ls",
            instability_pattern="cd, ls",
            focus_pattern=("cd",),
            avoid_pattern=("ls",),
        ),
        start="seed-7",
        steps=(
            Action(turn=0, text="cd('docs')", result="{}", failed=False),
            Action(turn=0, text="ls()", result="['a']", failed=False),
        ),
    )


def candidate(candidate_id: str, signal_id: str, by: str = "policy@0") -> Candidate:
    return Candidate(
        candidate_id=candidate_id,
        signal_id=signal_id,
        exploration_id=f"e-{signal_id}",
        synthesizer=by,
        body=BODY,
        policy_version=3,
    )


def verdict(
    candidate_id: str,
    signal_id: str,
    outcome: Admitted | Parked | Refused,
    by: str = "policy@0",
    reading: Reading = NO_READING,
) -> CandidateVerdict:
    return CandidateVerdict(
        candidate_id=candidate_id,
        signal_id=signal_id,
        synthesizer=by,
        outcome=outcome,
        policy_version=4,
        simulator_calls=9,
        reading=reading,
    )


CONFIRMED = Reading(reader="scripted", outcome="confirmed", found="picked 1 of 5 options")


def admitted(task_id: str, successes: int = 2) -> Admitted:
    return Admitted(
        task_id=task_id,
        label="learnable" if 0 < successes < 4 else "mastered" if successes else "not_yet",
        probe_successes=successes,
        probe_rollouts=4,
    )


def admission(candidate_id: str, signal_id: str, task_id: str) -> tuple[Task, CandidateVerdict]:
    """Return the validator's records for a candidate that becomes a task."""
    return made(task_id, candidate_id, signal_id), verdict(
        candidate_id, signal_id, admitted(task_id)
    )


def probed(candidate_id: str, successes: int) -> ProbeReport:
    return ProbeReport(
        probe_id=f"p-{candidate_id}-{successes}",
        candidate_id=candidate_id,
        successes=successes,
        rollouts=4,
        errors=0,
        policy_version=4,
        sampled_tokens=40,
        calls=8,
    )


def settled(
    signal_id: str, candidates: int = 0, by: str = "policy@0", kind: SignalKind = "forgetting"
) -> SignalSettled:
    return SignalSettled(
        signal_id=signal_id,
        kind=kind,
        outcome="synthesized" if candidates else "nothing_found",
        reason="",
        synthesizer=by,
        candidates=candidates,
        simulator_calls=24,
    )


def called(signal_id: str, model: str = "policy@0", tokens: int = 100) -> ModelCall:
    return ModelCall(
        signal_id=signal_id,
        ordinal=0,
        purpose="reflect",
        kind="forgetting",
        model=model,
        prompt="?",
        answer="!",
        prompt_tokens=tokens - 10,
        answer_tokens=10,
        cost_usd=0.5,
        wall_s=0.1,
    )


def stepped(step: int, *tasks: str) -> StepReport:
    return StepReport(
        step=step,
        groups=tuple(
            TrainedGroup(
                group_id=f"g-{task}-{step}",
                group=step,
                task_id=task,
                sequences=(),
                successes=1,
                use="policy_gradient",
            )
            for task in tasks
        ),
        weights_digest="",
        groups_consumed=len(tasks),
        metrics={},
    )


def swapped(request_id: str = "r1", to: str = "glm") -> SynthesizerSwapped:
    return SynthesizerSwapped(request_id=request_id, model=ENDPOINT, synthesizer=to)


def measured(seconds: float) -> StartMeasured:
    """Return what a start used in so many seconds of training; 60 % of the CPU time is models'."""
    return StartMeasured(
        start_s=8.0,
        training_s=seconds,
        model_cpu_s=0.6 * seconds,
        simulator_cpu_s=0.3 * seconds,
        rest_cpu_s={"ray": 0.1 * seconds},
    )


def story() -> list[Message]:
    """Return the story of a forgotten task: one candidate admitted, one parked, one refused."""
    return [
        seed(),
        visit("seed-1", 6, version=0),
        visit("seed-1", 1, version=3),
        stepped(3, "seed-1"),
        signal("s1"),
        signal("s2", kind="rare", version=4, pattern="mkdir"),
        called("s1"),
        called("s1", tokens=300),
        exploration("e-s1", "s1"),
        settled("s1", candidates=3),
        candidate("c1", "s1"),
        candidate("c2", "s1"),
        candidate("c3", "s1"),
        probed("c1", 0),
        verdict("c1", "s1", Parked(probe_rollouts=4)),
        verdict("c2", "s1", Parked(probe_rollouts=4)),
        verdict("c3", "s1", Refused(gate="duplicate", found="0.93 like seed-1")),
        probed("c1", 2),
        verdict("c1", "s1", admitted("made-1")),
        made("made-1", "c1", "s1"),
        visit("made-1", 2, version=5),
        visit("made-1", 5, version=7),
        visit("seed-1", 8, version=7),
        stepped(7, "made-1", "seed-1"),
        stepped(8, "made-1"),
    ]


def write(journal: Journal, messages: Sequence[Message]) -> None:
    """Append ``messages``, each with its own sequence number."""
    for number, message in enumerate(messages, 1):
        receipt = Receipt(producer="test", counter=number)
        journal.append(Append(records=(encode(message),), receipt=receipt)).result(10)


async def whole_fold(reader: Reader) -> LineageIndex:
    """Return the lineage of all records in the journal so far."""
    evolution = LineageIndex()
    async for record in in_order(reader, TOPICS):
        evolution.fold(decode(record), record.time_ns)
    return evolution
