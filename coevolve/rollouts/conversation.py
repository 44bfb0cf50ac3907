"""A conversation of a policy with an environment; agents of any kind build attempts from it.

async with Conversation(task, session, seed=seed, ...) as talk:
talk.hear(opening)                       # tokens that the environment writes
while (said := await talk.say()):        # tokens that the policy samples
talk.hear(answer_to(said))
return talk.episode(ended=..., reward=..., ...)
"""

import time
from collections.abc import Iterable
from types import TracebackType
from typing import Self

from coevolve.rollouts.agent import Episode, room_left, sampling_seed
from coevolve.rollouts.transcript import Transcript
from protocols.config import RolloutConfig
from protocols.generation import GenerationRequest
from protocols.interfaces import Generator
from protocols.rollouts import Action, Ending
from protocols.tasks import Task


class Conversation:
    """The growing tokens of one attempt; ``async with`` frees the engine's cache."""

    def __init__(
        self,
        task: Task,
        session: str,
        *,
        seed: int,
        generator: Generator,
        limits: RolloutConfig,
        stop_ids: tuple[int, ...],
        temperature: float,
    ) -> None:
        """Start without tokens. ``stop_ids`` end a message; temperature 0 is greedy."""
        self._task = task
        self._session = session
        self._seed = seed
        self._generator = generator
        self._limits = limits
        self._stop_ids = stop_ids
        self._temperature = temperature
        self._transcript = Transcript()
        self._turn_starts = [0]
        self._is_answered = False
        self._began_s = time.monotonic()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._generator.release(self._session)

    def hear(self, token_ids: Iterable[int]) -> None:
        """Add tokens of the environment, which are never trained on."""
        self._transcript.feed(token_ids)

    def begin_turn(self) -> None:
        """Mark the start of a further turn, for turn-level credit."""
        self._turn_starts.append(len(self._transcript.token_ids))

    async def say(self) -> tuple[int, ...] | None:
        """Let the policy write a message, and return its tokens; the last one ends the message.

        Returns None if there is no room for another message, or if this one was truncated.

        Raises:
            SimulatorError: There is no room for a first message.
            GeneratorError: The engine failed.
        """
        length = len(self._transcript.token_ids)
        if self._is_answered and length >= self._limits.max_tokens:
            return None
        room = room_left(self._limits, self._task.task_id, length)
        self._is_answered = True
        generation = await self._generator.generate(
            GenerationRequest(
                conversation_id=self._session,
                prompt_ids=tuple(self._transcript.token_ids),
                max_tokens=min(room, self._limits.max_call_tokens),
                stop_ids=self._stop_ids,
                temperature=self._temperature,
                seed=sampling_seed(self._seed, length),
            )
        )
        self._transcript.add(generation)
        return generation.token_ids if generation.stopped else None

    def episode(
        self,
        *,
        ended: Ending,
        reward: float,
        turns_passed: int,
        turns_total: int,
        actions: Iterable[Action] = (),
    ) -> Episode:
        """Return the attempt. Raises ContractError if the policy wrote nothing."""
        return Episode(
            tokens=self._transcript.tokens(),
            actions=tuple(actions),
            turns_passed=turns_passed,
            turns_total=turns_total,
            reward=reward,
            ended=ended,
            turn_starts=tuple(self._turn_starts),
            versions=tuple(self._transcript.sampled_versions()),
            oldest_version=self._transcript.oldest_version(),
            wall_s=time.monotonic() - self._began_s,
        )
