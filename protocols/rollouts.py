"""The request for one attempt of the policy at a task, and its result."""

import math
from typing import Annotated, Literal

import msgspec

from protocols.columns import FLOAT32_BYTES, INT32_BYTES
from protocols.tasks import NOTHING

Ending = Literal[
    "finished",
    "wrong",
    "malformed",
    "too_long",
    "too_many_calls",
    "too_many_conversations",
    "program_stopped",
]
"""Why an attempt ended; every value but ``finished`` is the policy's failure."""

Writer = Literal["policy", "teacher", "grammar"]
"""Who attempts tasks in a run. ``teacher``: another model. ``grammar``: uniform sampling from the
grammar of a tiny policy."""


class RolloutRequest(msgspec.Struct, frozen=True, kw_only=True, tag="rollout_request"):
    """A request for one rollout of a group. The curriculum appends a group's requests together."""

    group_id: str
    """Unique per group, never shared by two groups of one task."""

    group: Annotated[int, msgspec.Meta(ge=0)]
    """The group's number, counted from 0 in the order of requests."""

    index: Annotated[int, msgspec.Meta(ge=0)]
    """Position within the group."""

    group_size: Annotated[int, msgspec.Meta(ge=1)]
    task_id: str

    seed: int
    """Seeds the sampling of this rollout only."""

    policy_version_at_least: Annotated[int, msgspec.Meta(ge=0)]

    instance: Annotated[int, msgspec.Meta(ge=0)] = 0
    """The instance of the task (`protocols.tasks.attempted`); 0 is the task as given."""

    author: Writer = "policy"
    """Who writes the rollout. The learner only imitates rollouts of other authors than the
    policy."""

    imitable: bool = True
    """Whether the learner may imitate the task's reference. False for a made task until a reader,
    or a success of the policy, has confirmed that its instructions ask for it."""

    def __post_init__(self) -> None:
        """Refuse a position outside the group."""
        if self.index >= self.group_size:
            raise ValueError(
                f"a rollout request needs index < group_size, got {self.index} of {self.group_size}"
            )


class Tokens(msgspec.Struct, frozen=True, kw_only=True):
    """A whole conversation as the policy read and wrote it, one column per property.

    All columns have the same number of entries T; logprobs, versions and mask describe the token at
    the same position.
    """

    token_ids: bytes
    """int32, T entries."""

    mask: bytes
    """uint8, T entries: 1 where the policy sampled the token, 0 where the environment wrote it."""

    logprobs: bytes
    """float32, T entries: natural-log probability under the sampling distribution; 0 where ``mask``
    is 0."""

    versions: bytes
    """int32, T entries: the policy version that sampled the token; -1 where ``mask`` is 0."""

    cache_versions: bytes = b""
    """int32, T entries: the oldest policy version that computed the keys and values the token
    attended to; -1 where ``mask`` is 0. Empty if the sampling version computed all of them."""

    def __post_init__(self) -> None:
        """Refuse columns of different lengths."""
        size = len(self.mask) * INT32_BYTES
        if not len(self.token_ids) == len(self.logprobs) == len(self.versions) == size:
            counts = {
                "token_ids": len(self.token_ids) / INT32_BYTES,
                "mask": len(self.mask),
                "logprobs": len(self.logprobs) / FLOAT32_BYTES,
                "versions": len(self.versions) / INT32_BYTES,
            }
            raise ValueError(f"token columns need equal lengths, got {counts}")
        if len(self.cache_versions) not in (0, size):
            raise ValueError(
                f"cache_versions needs 0 or {len(self.mask)} entries, got "
                f"{len(self.cache_versions) / INT32_BYTES}"
            )

    @property
    def count(self) -> int:
        """T, the number of tokens."""
        return len(self.mask)

    @property
    def sampled(self) -> int:
        """The number of tokens that the policy sampled."""
        return self.mask.count(1)


class Action(msgspec.Struct, frozen=True, kw_only=True):
    """One action of the policy, with the simulator's answer."""

    turn: int
    text: str
    result: str

    failed: bool
    """Whether the simulator answered with an error (the policy's fault, not the
    infrastructure's)."""


class Traffic(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What the policy's endpoint counted while a program talked to it in one attempt."""

    branches: dict[str, int] = {}
    """Conversations after the first one, by why they began."""

    notes: dict[str, int] = {}
    """What the client changed in its history without effect, by name."""

    refused: dict[str, int] = {}
    """Requests that were refused, by their code."""

    ignored: dict[str, int] = {}
    """Requests with a field that would have changed how is sampled, by the field's name."""

    retries: int = 0
    """Requests that a client sent again, and that got the same answer."""

    broken_tokens: int = 0
    """Sampled tokens in conversations that a client broke off: it edited their history, and went on
    with that."""


NO_TRAFFIC = Traffic()
"""Of an attempt without an endpoint."""


class Attempted(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What an attempt came to, whoever asked for it.

    An attempt may have several conversations: those of helpers, and those that a summary or an
    edited history began. They have one reward. Each token that the policy sampled has mask 1 in
    exactly one of them; a conversation that begins as another one did repeats its tokens with mask
    0.
    """

    tokens: Tokens
    """The first conversation."""

    actions: tuple[Action, ...]

    turns_passed: int
    turns_total: int

    reward: float
    """The environment's reward; a success gets more than a failure."""

    ended: Ending

    wall_s: float
    """Seconds from the first token to the verdict."""

    turn_starts: tuple[int, ...] = (0,)
    """Token position in the first conversation at which each started turn begins, including its
    instruction. Further conversations belong to the last turn."""

    further: tuple[Tokens, ...] = ()
    """The conversations after the first one, in the order in which they began."""

    outcome: msgspec.Raw = NOTHING
    """The result, as msgpack of the environment's own type."""

    outcome_key: str = ""
    """Key under which the environment finds the outcome again; empty if it does not store it."""

    simulator_cpu_s: float = 0.0
    """CPU seconds of grading; 0 if the environment does not measure them, or knew the result."""

    traffic: Traffic = NO_TRAFFIC

    @property
    def succeeded(self) -> bool:
        """Whether every turn passed."""
        return self.turns_passed == self.turns_total

    @property
    def conversations(self) -> tuple[Tokens, ...]:
        """All conversations, in the order in which they began."""
        return (self.tokens, *self.further)

    @property
    def token_count(self) -> int:
        """The number of tokens of all conversations."""
        return sum(each.count for each in self.conversations)

    @property
    def sampled_tokens(self) -> int:
        """The number of tokens that the policy sampled, in all conversations."""
        return sum(each.sampled for each in self.conversations)


class Rollout(Attempted, frozen=True, kw_only=True, tag="rollout", omit_defaults=True):
    """A finished, graded rollout."""

    group_id: str
    group: int
    index: int
    group_size: int
    task_id: str
    seed: int
    """Seeded the sampling: that of the request at the first try, another one at each later try."""

    version_min: int
    """Oldest policy version that sampled a token or computed keys and values for one. The staleness
    bound applies to it."""

    version_max: int
    author: Writer = "policy"

    instance: int = 0
    """As in the request."""

    imitable: bool = True
    """That of the request."""

    tries: int = 1
    """Number of the try that made it; machine faults ended the earlier ones."""

    def __post_init__(self) -> None:
        """Refuse impossible turn counts and rewards that are not finite."""
        if not 0 <= self.turns_passed <= self.turns_total:
            raise ValueError(
                "a rollout needs 0 <= turns_passed <= turns_total, "
                f"got {self.turns_passed} of {self.turns_total}"
            )
        if not math.isfinite(self.reward):
            raise ValueError(f"a rollout needs a finite reward, got {self.reward}")


class FailedRollout(msgspec.Struct, frozen=True, kw_only=True, tag="failed_rollout"):
    """A rollout that ended by an infrastructure failure: counted, without reward or signal."""

    group_id: str
    group: int
    index: int
    group_size: int
    task_id: str

    reason: str
    """The cause, in one sentence."""

    tries: int
    """Number of attempts."""
