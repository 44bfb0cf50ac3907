"""The interface for attempts at tasks, and the record of an attempt."""

import hashlib
from dataclasses import dataclass, field
from typing import Protocol

import msgspec

from protocols.config import RolloutConfig
from protocols.errors import ContractError, SimulatorError
from protocols.rollouts import (
    NO_TRAFFIC,
    Action,
    Ending,
    Rollout,
    RolloutRequest,
    Tokens,
    Traffic,
)
from protocols.tasks import NOTHING, Task


@dataclass(frozen=True, kw_only=True)
class Episode:
    """A finished attempt."""

    tokens: Tokens
    """The first conversation."""

    actions: tuple[Action, ...]
    turns_passed: int
    turns_total: int
    reward: float
    ended: Ending
    turn_starts: tuple[int, ...] = (0,)
    """Token position in the first conversation at which each started turn begins."""

    further: tuple[Tokens, ...] = ()
    """The conversations after the first one. Each sampled token has mask 1 in exactly one
    conversation of the attempt."""

    versions: tuple[int, ...]
    """The policy version of each sampled token of all conversations; at least one entry."""

    oldest_version: int
    """Oldest policy version that sampled a token or computed keys and values for one."""

    wall_s: float
    outcome: msgspec.Raw = field(default_factory=lambda: NOTHING)
    outcome_key: str = ""
    """As in `protocols.rollouts.Rollout`."""

    simulator_cpu_s: float = 0.0
    """CPU seconds of grading; 0 if the result was already known."""

    traffic: Traffic = NO_TRAFFIC

    @property
    def succeeded(self) -> bool:
        """Whether every turn passed."""
        return self.turns_passed == self.turns_total

    @property
    def conversations(self) -> tuple[Tokens, ...]:
        """All conversations, in the order in which they began."""
        return (self.tokens, *self.further)


class Agent(Protocol):
    """Attempts tasks with the policy or with another author."""

    async def attempt(self, task: Task, session: str, *, seed: int) -> Episode:
        """Attempt a task once. ``session`` identifies it in simulator and engine.

        Raises:
            SimulatorError: A simulator failed; the result says nothing about the policy.
            GeneratorError: The engine failed; likewise.
        """
        ...


def rollout_of(request: RolloutRequest, episode: Episode, attempt: int = 0) -> Rollout:
    """Return the record of an attempt, the first of which is number 0.

    Raises ContractError if the attempt is invalid.
    """
    try:
        return _rollout(request, episode, attempt)
    except (TypeError, ValueError) as error:
        raise ContractError(f"task {request.task_id}: {error}; fix the agent") from error


def _rollout(request: RolloutRequest, episode: Episode, attempt: int) -> Rollout:
    return Rollout(
        group_id=request.group_id,
        group=request.group,
        index=request.index,
        group_size=request.group_size,
        task_id=request.task_id,
        seed=seed_of(request.seed, attempt),
        tokens=episode.tokens,
        actions=episode.actions,
        turns_passed=episode.turns_passed,
        turns_total=episode.turns_total,
        reward=episode.reward,
        version_min=episode.oldest_version,
        version_max=max(episode.versions),
        ended=episode.ended,
        turn_starts=episode.turn_starts,
        further=episode.further,
        wall_s=episode.wall_s,
        outcome=episode.outcome,
        outcome_key=episode.outcome_key,
        author=request.author,
        instance=request.instance,
        imitable=request.imitable,
        simulator_cpu_s=episode.simulator_cpu_s,
        tries=attempt + 1,
        traffic=episode.traffic,
    )


def seed_of(seed: int, attempt: int) -> int:
    """Return the seed of an attempt at a request with ``seed``; the first one is number 0.

    A machine fault may come from what was sampled, and would then come back with the same tokens.
    The seed depends on the request and the number of the attempt only.
    """
    if not attempt:
        return seed
    digest = hashlib.blake2b(f"{seed}/{attempt}".encode(), digest_size=4).digest()
    return int.from_bytes(digest) >> 1


def room_left(limits: RolloutConfig, task_id: str, prompt: int) -> int:
    """Return how many tokens may be sampled after a prompt of ``prompt`` tokens, at least 1.

    Raises SimulatorError if there is no room for any token.
    """
    room = limits.max_tokens - prompt
    if room < 1:
        raise SimulatorError(
            f"task {task_id}: a prompt must be shorter than rollout.max_tokens = "
            f"{limits.max_tokens}, found {prompt} tokens; raise it, or shorten the prompt"
        )
    return room


def sampling_seed(seed: int, position: int) -> int:
    """Return the sampling seed for tokens from ``position`` on, in a rollout with ``seed``.

    Different turns get different seeds, which depend only on the request and the position.
    """
    return seed * 1_000_003 + position
