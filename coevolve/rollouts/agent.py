"""The interface for attempts at tasks, and the record of an attempt."""

import hashlib
from typing import Protocol

from protocols.config import RolloutConfig
from protocols.errors import ContractError, SimulatorError
from protocols.rollouts import Attempted, Rollout, RolloutRequest
from protocols.tasks import Task


class Episode(Attempted, frozen=True, kw_only=True):
    """A finished attempt."""

    versions: tuple[int, ...]
    """The policy version of each sampled token of all conversations; at least one entry."""

    oldest_version: int
    """Oldest policy version that sampled a token or computed keys and values for one."""


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
        version_min=episode.oldest_version,
        version_max=max(episode.versions),
        author=request.author,
        instance=request.instance,
        imitable=request.imitable,
        tries=attempt + 1,
        **{name: getattr(episode, name) for name in Attempted.__struct_fields__},
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
