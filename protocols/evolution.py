"""How the data distribution evolves: from a weakness in rollouts to a task in the pool."""

from typing import Annotated, Literal

import msgspec

from protocols.tasks import TaskBody

SignalKind = Literal["forgetting", "boundary", "rare", "uncertainty", "worst_state"]


class OnTask(msgspec.Struct, frozen=True, kw_only=True, tag="on_task"):
    """The signal is about one task."""

    task_id: str


class OnPattern(msgspec.Struct, frozen=True, kw_only=True, tag="on_pattern"):
    """The signal is about a pattern in what the policy does."""

    kind: Literal["tool", "tool_bigram", "argument_shape", "error_class", "coverage_bin"]
    pattern: str


class Signal(msgspec.Struct, frozen=True, kw_only=True, tag="signal"):
    """A weakness of the policy, with the evidence for it."""

    signal_id: str
    kind: SignalKind
    about: OnTask | OnPattern
    score: float
    rule: str
    """The rule that fired, with its parameters."""

    evidence: tuple[int, ...]
    """Journal sequences of the rollouts that it rests on."""

    policy_version: int


class Candidate(msgspec.Struct, frozen=True, kw_only=True, tag="candidate"):
    """A synthesized task that nobody has judged yet."""

    candidate_id: str
    signal_id: str
    synthesizer: str
    """Which model made it, for instance ``policy@17`` or the endpoint's model name."""

    body: TaskBody
    policy_version: int


class Admitted(msgspec.Struct, frozen=True, kw_only=True, tag="admitted"):
    """The candidate became a task."""

    task_id: str
    probe_successes: int
    probe_rollouts: int


class Parked(msgspec.Struct, frozen=True, kw_only=True, tag="parked"):
    """Sound, but the policy cannot do it yet: to be probed again."""

    probe_rollouts: int


class Refused(msgspec.Struct, frozen=True, kw_only=True, tag="refused"):
    """The candidate failed a gate of the validator."""

    gate: str
    found: str
    """What the gate saw."""


class CandidateVerdict(msgspec.Struct, frozen=True, kw_only=True, tag="candidate_verdict"):
    """What the validator found."""

    candidate_id: str
    outcome: Admitted | Parked | Refused


class ModelCall(msgspec.Struct, frozen=True, kw_only=True, tag="model_call"):
    """One call of a synthesizer's model, recorded so that a run can be replayed without it."""

    purpose: Literal["reflect", "explore", "abstract", "judge"]
    model: str
    signal_id: str
    prompt: str
    answer: str
    prompt_tokens: Annotated[int, msgspec.Meta(ge=0)]
    answer_tokens: Annotated[int, msgspec.Meta(ge=0)]


class SynthesizerSwapped(msgspec.Struct, frozen=True, kw_only=True, tag="synthesizer_swapped"):
    """From the next candidate on, another model synthesizes; a resumed run keeps it."""

    model: str
    base_url: str
