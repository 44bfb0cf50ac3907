"""One attempt at a task, by whoever writes."""

from dataclasses import dataclass, field
from typing import Protocol

import msgspec

from protocols.config import RolloutConfig
from protocols.errors import ContractError, SimulatorError
from protocols.rollouts import Action, Ending, Rollout, RolloutRequest, Tokens
from protocols.tasks import NOTHING, Task


@dataclass(frozen=True, kw_only=True)
class Episode:
    """An attempt that came to its end."""

    tokens: Tokens
    actions: tuple[Action, ...]
    turns_passed: int
    turns_total: int
    reward: float
    ended: Ending
    turn_starts: tuple[int, ...] = (0,)
    """Where each turn that was begun starts among the tokens."""

    versions: tuple[int, ...]
    """The policy version of each sampled token, at least one."""

    oldest_version: int
    """Of those and of the keys and values that they were sampled over."""

    wall_s: float
    outcome: msgspec.Raw = field(default_factory=lambda: NOTHING)
    outcome_key: str = ""
    """As in `protocols.rollouts.Rollout`."""

    simulator_cpu_s: float = 0.0
    """CPU seconds of grading it; 0 where it had been graded before."""

    @property
    def succeeded(self) -> bool:
        """Whether every turn passed."""
        return self.turns_passed == self.turns_total


class Agent(Protocol):
    """Lets somebody attempt tasks."""

    async def attempt(self, task: Task, session: str, *, seed: int) -> Episode:
        """Attempt a task once. ``session`` names it in the simulator and in the engine's cache.

        Raises:
            SimulatorError: A simulator broke; nothing is known about the policy.
            GeneratorError: The engine broke; likewise.
        """
        ...


def rollout_of(request: RolloutRequest, episode: Episode) -> Rollout:
    """Return what is recorded of an attempt. Raises ContractError where that cannot be."""
    try:
        return _rollout(request, episode)
    except (TypeError, ValueError) as error:
        raise ContractError(f"task {request.task_id}: {error}; mend the agent") from error


def _rollout(request: RolloutRequest, episode: Episode) -> Rollout:
    return Rollout(
        group_id=request.group_id,
        group=request.group,
        index=request.index,
        group_size=request.group_size,
        task_id=request.task_id,
        seed=request.seed,
        tokens=episode.tokens,
        actions=episode.actions,
        turns_passed=episode.turns_passed,
        turns_total=episode.turns_total,
        reward=episode.reward,
        version_min=episode.oldest_version,
        version_max=max(episode.versions),
        ended=episode.ended,
        turn_starts=episode.turn_starts,
        wall_s=episode.wall_s,
        outcome=episode.outcome,
        outcome_key=episode.outcome_key,
        author=request.author,
        simulator_cpu_s=episode.simulator_cpu_s,
    )


def room_left(limits: RolloutConfig, task_id: str, prompt: int) -> int:
    """Return how many tokens may be sampled after a prompt of ``prompt`` tokens, at least 1.

    Raises SimulatorError where the policy could not say a word.
    """
    room = limits.max_tokens - prompt
    if room < 1:
        raise SimulatorError(
            f"task {task_id}: a prompt needs to be shorter than rollout.max_tokens = "
            f"{limits.max_tokens}, found {prompt} tokens; raise it, or shorten the prompt"
        )
    return room


def sampling_seed(seed: int, position: int) -> int:
    """Return the seed of what is sampled from ``position`` on of a rollout with ``seed``.

    The draws of different turns differ, and depend on nothing but the request and the position.
    """
    return seed * 1_000_003 + position
