"""How the data distribution evolves: from a weakness in rollouts to a task in the pool."""

from typing import Annotated, Literal

import msgspec

from protocols.rollouts import Action, Writer
from protocols.synthesizers import SynthesizerModel
from protocols.tasks import NOTHING

SignalKind = Literal["forgetting", "boundary", "rare", "uncertainty"]
PatternKind = str
"""In the environment's words, for example ``tool_bigram``."""


class PatternCount(msgspec.Struct, frozen=True, kw_only=True):
    """How often one pattern occurred in the rollouts of a group."""

    kind: PatternKind
    pattern: str
    count: Annotated[int, msgspec.Meta(ge=1)]


class GroupSummary(msgspec.Struct, frozen=True, kw_only=True, tag="group_summary"):
    """What a finished group says of its task: all that signals and weights are computed from.

    Failed rollouts are counted and say nothing else. Outlives the rollouts that it sums up.
    """

    group_id: str
    group: int
    task_id: str

    root: str
    """The task that this work began with; see `protocols.tasks.Task.root`."""

    author: Writer = "policy"

    version_min: int
    """Oldest and newest policy version that sampled any token of the group."""

    version_max: int

    successes: int
    rollouts: int
    """Rollouts that did not fail."""

    errors: int

    surprise: float
    """Mean negative natural-log probability of the policy's own tokens; 0 without any."""

    sampled_tokens: int
    """Tokens that an engine of the run sampled; a teacher's are counted by call."""

    calls: int
    """Calls that simulators carried out."""

    patterns: tuple[PatternCount, ...] = ()

    evidence: tuple[int, ...]
    """Journal sequences of the group's rollouts, by index; failed ones are left out."""

    details: msgspec.Raw = NOTHING
    """What else the environment remembers of the group, as msgpack of its own type."""

    def __post_init__(self) -> None:
        """Refuse more successes than rollouts."""
        if not 0 <= self.successes <= self.rollouts:
            raise ValueError(
                f"a group needs 0 <= successes <= rollouts, got {self.successes} of {self.rollouts}"
            )


class OnTask(msgspec.Struct, frozen=True, kw_only=True, tag="on_task"):
    """The signal is about one task."""

    task_id: str


class OnPattern(msgspec.Struct, frozen=True, kw_only=True, tag="on_pattern"):
    """The signal is about a pattern in what the policy does."""

    kind: PatternKind
    pattern: str


class Signal(msgspec.Struct, frozen=True, kw_only=True, tag="signal"):
    """A weakness of the policy, with the evidence for it."""

    signal_id: str
    kind: SignalKind
    about: OnTask | OnPattern
    score: float
    """How strongly the rule fired, 0..1; comparable within one rule."""

    rule: str
    """The rule that fired, with its parameters and what it saw."""

    evidence: tuple[int, ...]
    """Journal sequences of the rollouts that it rests on; empty for what was never seen."""

    policy_version: int


class Reflection(msgspec.Struct, frozen=True, kw_only=True):
    """What a synthesizer makes of a signal (CoEvolve's signal-conditioned summary)."""

    summary: str
    failure_cause: str
    instability_pattern: str
    focus_pattern: tuple[str, ...]
    """What to explore again."""

    avoid_pattern: tuple[str, ...]
    """Mistakes not to repeat."""


class Exploration(msgspec.Struct, frozen=True, kw_only=True, tag="exploration"):
    """One round of exploring a train-split state under a signal's goal."""

    exploration_id: str
    signal_id: str
    synthesizer: str
    reflection: Reflection
    start: str
    """Where it began, for example the id of a training task or ``grammar:world:17``."""

    steps: tuple[Action, ...]
    """What was done and what the simulator answered."""


class Candidate(msgspec.Struct, frozen=True, kw_only=True, tag="candidate"):
    """A synthesized task that nobody has judged yet."""

    candidate_id: str
    signal_id: str
    exploration_id: str = ""
    """The exploration that it comes of; empty where none was needed."""

    synthesizer: str
    """Which model made it, for instance ``policy@17`` or the endpoint's model name."""

    body: msgspec.Raw
    """What the task would be made of, as msgpack of the environment's own type."""

    policy_version: int


class EnvironmentRecord(msgspec.Struct, frozen=True, kw_only=True, tag="environment_record"):
    """Something that an environment made for new tasks and needs again, such as another world."""

    kind: str
    key: str
    """Unique within the kind."""

    body: msgspec.Raw
    """As msgpack of the environment's own type."""


class SignalSettled(msgspec.Struct, frozen=True, kw_only=True, tag="signal_settled"):
    """The synthesizer is done with a signal; written together with its candidates."""

    signal_id: str
    kind: SignalKind
    outcome: Literal["synthesized", "nothing_found", "expired", "over_budget", "failed"]
    """``expired``: the policy has moved on, or newer signals came first. ``failed``: the
    synthesizer's model or a simulator broke."""

    reason: str
    """In one sentence; empty where the outcome says it all."""

    synthesizer: str
    candidates: int
    simulator_calls: int


Label = Literal["mastered", "learnable", "not_yet"]
"""How the policy did on a candidate's probes: always, sometimes or never."""


class Admitted(msgspec.Struct, frozen=True, kw_only=True, tag="admitted"):
    """The candidate became a task."""

    task_id: str
    label: Label
    probe_successes: int
    probe_rollouts: int
    """Of the policy on the candidate; or what the environment knows without asking it."""


class Parked(msgspec.Struct, frozen=True, kw_only=True, tag="parked"):
    """Sound, but the policy cannot do it yet: to be probed again."""

    probe_rollouts: int


Gate = str
"""Why a candidate is refused, in the environment's words. The core's own: ``duplicate``,
``contaminated`` (too much like a held-out task)."""


class Refused(msgspec.Struct, frozen=True, kw_only=True, tag="refused"):
    """The candidate failed a gate of the validator."""

    gate: Gate
    found: str
    """What the gate saw."""


class Opinion(msgspec.Struct, frozen=True, kw_only=True):
    """What a model says of a candidate; the machine's facts decide."""

    judge: str
    """The model; empty where none was asked."""

    success: bool
    reason: str


NO_OPINION = Opinion(judge="", success=False, reason="")


class CandidateVerdict(msgspec.Struct, frozen=True, kw_only=True, tag="candidate_verdict"):
    """What the validator found."""

    candidate_id: str
    signal_id: str
    synthesizer: str
    outcome: Admitted | Parked | Refused
    policy_version: int
    """Of the probes; of the candidate where it was refused before any."""

    simulator_calls: int
    """Calls that judging took, without the probes'."""

    opinion: Opinion = NO_OPINION


class ProbeRequest(msgspec.Struct, frozen=True, kw_only=True, tag="probe_request"):
    """Measure how hard a candidate is for the policy, without training on it."""

    probe_id: str
    candidate_id: str
    body: msgspec.Raw
    """Of the task that is attempted."""

    skills: tuple[str, ...] = ()
    """Of the task that it becomes."""

    rollouts: Annotated[int, msgspec.Meta(ge=1)]
    seed: int
    policy_version_at_least: Annotated[int, msgspec.Meta(ge=0)]

    simulator_calls: int = 0
    """Calls that judging took before this probe and that no verdict has told yet."""

    opinion: Opinion = NO_OPINION
    """The judge's, for the verdict that follows."""


class ProbeReport(msgspec.Struct, frozen=True, kw_only=True, tag="probe_report"):
    """How the policy did on a candidate."""

    probe_id: str
    candidate_id: str
    successes: int
    rollouts: int
    """Rollouts that did not fail."""

    errors: int
    policy_version: int
    """Newest version that sampled any token; the requested one where all failed."""

    sampled_tokens: int
    calls: int


CallKind = SignalKind | Literal["teaching"]


class ModelCall(msgspec.Struct, frozen=True, kw_only=True, tag="model_call"):
    """One call of a model that synthesizes or teaches, recorded so that it is not made again."""

    signal_id: str
    """What it was made for; where a teacher was asked, task and seed of the rollout instead."""

    ordinal: Annotated[int, msgspec.Meta(ge=0)]
    """Calls for one signal are counted from 0, in the order in which they are asked."""

    purpose: Literal["reflect", "explore", "abstract", "judge", "teach"]
    kind: CallKind
    """Of the signal: budgets are kept by kind."""

    model: str
    """`protocols.interfaces.Synthesizer.name` of who asked, at that time, or the teacher's."""

    prompt: str
    """What was asked, as JSON of the chat's messages or as the policy's own text."""

    answer: str
    prompt_tokens: Annotated[int, msgspec.Meta(ge=0)]
    answer_tokens: Annotated[int, msgspec.Meta(ge=0)]
    cost_usd: Annotated[float, msgspec.Meta(ge=0.0)]
    wall_s: float


class SwapRequested(msgspec.Struct, frozen=True, kw_only=True, tag="swap_requested"):
    """Somebody who attached wants another model to synthesize."""

    request_id: str
    model: SynthesizerModel


class SynthesizerSwapped(msgspec.Struct, frozen=True, kw_only=True, tag="synthesizer_swapped"):
    """From the next candidate on, another model synthesizes; a resumed run keeps it."""

    request_id: str
    model: SynthesizerModel
    synthesizer: str
    """The name that its candidates carry."""


class SwapRefused(msgspec.Struct, frozen=True, kw_only=True, tag="swap_refused"):
    """The new model does not answer; the old one goes on."""

    request_id: str
    reason: str
