"""Messages of the evolving task distribution, from a weakness in rollouts to a task in the pool."""

from typing import Annotated, Literal

import msgspec

from protocols.rollouts import Action, Writer
from protocols.synthesizers import SynthesizerModel
from protocols.tasks import NOTHING

RuleKind = Literal["forgetting", "boundary", "unsolved", "rare", "uncertainty"]
"""Kinds of signal that rules raise."""

SignalKind = Literal[RuleKind, "cold_start"]
"""``cold_start``: no rule has fired for some time, and the synthesizer explores freely."""

PatternKind = str
"""Named by the environment, for example ``tool_bigram``."""


class PatternCount(msgspec.Struct, frozen=True, kw_only=True):
    """Number of occurrences of one pattern in the rollouts of a group."""

    kind: PatternKind
    pattern: str
    count: Annotated[int, msgspec.Meta(ge=1)]


class SkillCount(msgspec.Struct, frozen=True, kw_only=True):
    """How the rollouts of a group did at one skill of their task."""

    skill: str
    """In the environment's words, for example the tools that a turn needs."""

    passed: Annotated[int, msgspec.Meta(ge=0)]
    attempts: Annotated[int, msgspec.Meta(ge=1)]
    """Rollouts that got as far as this skill."""


class GroupTraffic(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What programs did at the policy's endpoint in the rollouts of a group."""

    further: int = 0
    """Conversations besides the first one of each rollout."""

    broken_tokens: int = 0
    """As in `protocols.rollouts.Traffic`."""

    rollouts: dict[str, dict[str, int]] = {}
    """By a field of `protocols.rollouts.Traffic`, and by the names in it, the number of rollouts in
    which it happened."""


NO_GROUP_TRAFFIC = GroupTraffic()


class GroupSummary(msgspec.Struct, frozen=True, kw_only=True, tag="group_summary"):
    """Summary of a finished group; signals and task weights are computed from summaries only.

    Failed rollouts are only counted. The summary outlives its rollouts in the journal.
    """

    group_id: str
    group: int
    task_id: str

    root: str
    """The first task of the chain; see `protocols.tasks.Task.root`."""

    author: Writer = "policy"

    version_min: int
    """Oldest and newest policy version that sampled any token of the group."""

    version_max: int

    successes: int
    rollouts: int
    """Number of rollouts that did not fail."""

    errors: int

    retried: int = 0
    """Number of the rollouts that a later try than the first made."""

    surprise: float
    """Mean negative natural-log probability of the policy's own tokens; 0 if there are none."""

    sampled_tokens: int
    """Tokens that an engine of the run sampled; a teacher's tokens are counted with its calls."""

    calls: int
    """Number of calls that simulators executed."""

    patterns: tuple[PatternCount, ...] = ()

    skills: tuple[SkillCount, ...] = ()
    """The skills that the group's rollouts came to; each once."""

    evidence: tuple[int, ...]
    """Journal sequences of the group's rollouts, by index; failed rollouts are left out."""

    details: msgspec.Raw = NOTHING
    """Other data that the environment keeps of the group, as msgpack of its own type."""

    traffic: GroupTraffic = NO_GROUP_TRAFFIC

    def __post_init__(self) -> None:
        """Refuse more successes than rollouts."""
        if not 0 <= self.successes <= self.rollouts:
            raise ValueError(
                f"a group needs 0 <= successes <= rollouts, got {self.successes} of {self.rollouts}"
            )


SKILL = "skill"
"""The kind of a pattern that is a skill of tasks (`SkillCount`), not something that was done."""


class OnTask(msgspec.Struct, frozen=True, kw_only=True, tag="on_task"):
    """The signal is about one task."""

    task_id: str


class OnPattern(msgspec.Struct, frozen=True, kw_only=True, tag="on_pattern"):
    """The signal is about a pattern in the policy's actions, or about a `SKILL` of tasks."""

    kind: PatternKind
    pattern: str


class Anything(msgspec.Struct, frozen=True, kw_only=True, tag="anything"):
    """Names no weakness: explore freely (a cold start, or the control without signals)."""


class Signal(msgspec.Struct, frozen=True, kw_only=True, tag="signal"):
    """A weakness of the policy, with the evidence for it; or a cold start, without any."""

    signal_id: str
    kind: SignalKind
    about: OnTask | OnPattern | Anything
    score: float
    """How strongly the rule fired, 0..1; comparable within one rule."""

    rule: str
    """The rule that fired, with its parameters and its input values."""

    evidence: tuple[int, ...]
    """Journal sequences of the supporting rollouts; empty if the pattern never occurred."""

    policy_version: int


class Reflection(msgspec.Struct, frozen=True, kw_only=True):
    """A synthesizer's analysis of a signal (CoEvolve's signal-conditioned summary)."""

    summary: str
    failure_cause: str
    instability_pattern: str
    focus_pattern: tuple[str, ...]
    """Behaviour to explore again."""

    avoid_pattern: tuple[str, ...]
    """Mistakes to avoid."""


class Exploration(msgspec.Struct, frozen=True, kw_only=True, tag="exploration"):
    """One exploration of a train-split state for a signal."""

    exploration_id: str
    signal_id: str
    synthesizer: str
    reflection: Reflection
    start: str
    """Start of the exploration, for example the id of a training task or ``grammar:world:17``."""

    steps: tuple[Action, ...]
    """Actions taken, with the simulator's answers."""


class Candidate(msgspec.Struct, frozen=True, kw_only=True, tag="candidate"):
    """A synthesized task that the validator has not judged yet."""

    candidate_id: str
    signal_id: str
    exploration_id: str = ""
    """The exploration that produced it; empty if none was needed."""

    synthesizer: str
    """The model that made it, for example ``policy@17`` or the endpoint's model name."""

    body: msgspec.Raw
    """Content of the future task, as msgpack of the environment's own type."""

    policy_version: int


class EnvironmentRecord(msgspec.Struct, frozen=True, kw_only=True, tag="environment_record"):
    """Data that an environment made for new tasks and will read again, such as a new world."""

    kind: str
    key: str
    """Unique within the kind."""

    body: msgspec.Raw
    """Content, as msgpack of the environment's own type."""


class SignalSettled(msgspec.Struct, frozen=True, kw_only=True, tag="signal_settled"):
    """The synthesizer finished a signal; written together with the signal's candidates."""

    signal_id: str
    kind: SignalKind
    outcome: Literal["synthesized", "nothing_found", "expired", "over_budget", "failed"]
    """``expired``: the policy has changed too much since, or newer signals took precedence.
    ``failed``: the synthesizer's model or a simulator failed."""

    reason: str
    """The cause, in one sentence; empty if the outcome is enough."""

    synthesizer: str
    candidates: int
    simulator_calls: int


Label = Literal["mastered", "learnable", "not_yet", "unprobed"]
"""The policy solved all, some or none of a candidate's probes; ``unprobed``: there were none."""


class Admitted(msgspec.Struct, frozen=True, kw_only=True, tag="admitted"):
    """The candidate became a task."""

    task_id: str
    label: Label
    probe_successes: int
    probe_rollouts: int
    """Probes of the policy on the candidate, or the environment's own estimate without probes."""


class Parked(msgspec.Struct, frozen=True, kw_only=True, tag="parked"):
    """The candidate is valid but still too hard for the policy; it will be probed again."""

    probe_rollouts: int


Gate = str
"""Reason for refusing a candidate, in the environment's words. The core itself uses ``duplicate``,
``contaminated`` (too similar to a held-out task), and ``unsolved`` (no probe solved it, and the
most candidates that may be parked are)."""


class Refused(msgspec.Struct, frozen=True, kw_only=True, tag="refused"):
    """The candidate failed a gate of the validator."""

    gate: Gate
    found: str
    """What the gate found."""


class Opinion(msgspec.Struct, frozen=True, kw_only=True):
    """A model's opinion of a candidate. It does not affect the verdict, which execution decides."""

    judge: str
    """The model; empty if none was asked."""

    success: bool
    reason: str


NO_OPINION = Opinion(judge="", success=False, reason="")


class Reading(msgspec.Struct, frozen=True, kw_only=True):
    """What a reader of a candidate's instructions found, who was not told its reference."""

    reader: str
    """The model; empty if none was asked."""

    outcome: Literal["confirmed", "refuted", "unread", "none"]
    """``refuted``: by the reader the instructions ask for something else; this refuses a candidate.
    ``unread``: the reader cannot tell, its answers are unusable, or its budget is used up; then the
    candidate is admitted only if the policy solves it. ``none``: the run has no reader; this
    counts as unread."""

    found: str
    """The evidence."""

    agreement: float = 0.0
    """How far instructions and reference agree, 0..1; comparable within one kind of reader."""


NO_READING = Reading(reader="", outcome="none", found="")


class CandidateVerdict(msgspec.Struct, frozen=True, kw_only=True, tag="candidate_verdict"):
    """The validator's verdict on a candidate."""

    candidate_id: str
    signal_id: str
    synthesizer: str
    outcome: Admitted | Parked | Refused
    policy_version: int
    """Policy version of the probes; that of the candidate if it was refused before any probe."""

    simulator_calls: int
    """Simulator calls of the validation, without those of the probes."""

    opinion: Opinion = NO_OPINION
    reading: Reading = NO_READING


class ProbeRequest(msgspec.Struct, frozen=True, kw_only=True, tag="probe_request"):
    """A request to measure how hard a candidate is for the policy, without training on it."""

    probe_id: str
    candidate_id: str
    body: msgspec.Raw
    """Body of the task to attempt."""

    skills: tuple[str, ...] = ()
    """Skills of the future task."""

    rollouts: Annotated[int, msgspec.Meta(ge=1)]
    seed: int
    policy_version_at_least: Annotated[int, msgspec.Meta(ge=0)]

    simulator_calls: int = 0
    """Simulator calls of the validation before this probe that no verdict has reported yet."""

    opinion: Opinion = NO_OPINION
    """The judge's opinion, for the verdict that follows."""

    reading: Reading = NO_READING
    """The reader's finding, for every verdict that follows."""


class ProbeReport(msgspec.Struct, frozen=True, kw_only=True, tag="probe_report"):
    """Result of probing a candidate with the policy."""

    probe_id: str
    candidate_id: str
    successes: int
    rollouts: int
    """Number of rollouts that did not fail."""

    errors: int
    policy_version: int
    """Newest version that sampled a token; the requested version if all rollouts failed."""

    sampled_tokens: int
    calls: int


CallKind = SignalKind | Literal["teaching"]
CallPurpose = Literal["reflect", "explore", "abstract", "judge", "read", "teach"]


class ModelCall(msgspec.Struct, frozen=True, kw_only=True, tag="model_call"):
    """One call of a synthesizer's or teacher's model, recorded so that it is not repeated."""

    signal_id: str
    """The signal of the call. For a teacher, the task and seed of the rollout instead."""

    ordinal: Annotated[int, msgspec.Meta(ge=0)]
    """Number of the call within its signal, counted from 0 in the order of requests."""

    purpose: CallPurpose
    kind: CallKind
    """Kind of the signal; budgets are kept per kind."""

    model: str
    """The caller's `protocols.interfaces.Synthesizer.name` at that time, or the teacher's name."""

    prompt: str
    """The prompt, as JSON of the chat's messages or as the policy's own text."""

    answer: str
    prompt_tokens: Annotated[int, msgspec.Meta(ge=0)]
    answer_tokens: Annotated[int, msgspec.Meta(ge=0)]
    cost_usd: Annotated[float, msgspec.Meta(ge=0.0)]
    wall_s: float


class CallFailed(msgspec.Struct, frozen=True, kw_only=True, tag="call_failed"):
    """A call of a synthesizer's or teacher's model got no answer; the same call may be repeated."""

    signal_id: str
    ordinal: Annotated[int, msgspec.Meta(ge=0)]
    purpose: CallPurpose
    model: str
    reason: str
    """What the server did, in one sentence."""


class SwapRequested(msgspec.Struct, frozen=True, kw_only=True, tag="swap_requested"):
    """An attached user requests another synthesizer model."""

    request_id: str
    model: SynthesizerModel


class SynthesizerSwapped(msgspec.Struct, frozen=True, kw_only=True, tag="synthesizer_swapped"):
    """Another model synthesizes from the next candidate on; a resumed run keeps it."""

    request_id: str
    model: SynthesizerModel
    synthesizer: str
    """The name that its candidates carry."""


class SwapRefused(msgspec.Struct, frozen=True, kw_only=True, tag="swap_refused"):
    """The new model does not answer; the old one continues."""

    request_id: str
    reason: str


class ModelRests(msgspec.Struct, frozen=True, kw_only=True, tag="model_rests"):
    """The synthesizer's model failed several times in a row: signals wait until it answers."""

    synthesizer: str
    failures: int
    """Failures in a row."""

    reason: str
    """The last one, in one sentence."""


class ModelAnswers(msgspec.Struct, frozen=True, kw_only=True, tag="model_answers"):
    """The synthesizer's model gives usable answers again."""

    synthesizer: str


class ReaderRests(msgspec.Struct, frozen=True, kw_only=True, tag="reader_rests"):
    """The reader of instructions failed several times in a row: candidates wait for it."""

    failures: int
    """Failures in a row."""

    reason: str
    """The last one, in one sentence."""


class ReaderAnswers(msgspec.Struct, frozen=True, kw_only=True, tag="reader_answers"):
    """The reader of instructions answers again."""
