"""One conversation of the policy with a task's simulator, from first instruction to verdict.

Token-in token-out: what the engine sampled is what the next request extends and what the learner
trains on; text is only ever read from it. The environment's tokens are masked. A conversation ends
at the first turn that fails, since it cannot succeed any more.
"""

import time
from collections.abc import Iterable
from typing import Literal

from protocols import columns
from protocols.config import RolloutConfig
from protocols.generation import Generation, GenerationRequest
from protocols.interfaces import Generator, Renderer, Simulator
from protocols.rollouts import Action, Rollout, RolloutRequest, Tokens
from protocols.simulation import Failed
from protocols.tasks import Task

Ending = Literal["finished", "wrong", "malformed", "too_long", "too_many_calls"]


class Transcript:
    """The columns of a conversation while it grows."""

    def __init__(self) -> None:
        self.token_ids: list[int] = []
        self._mask: list[int] = []
        self._logprobs: list[float] = []
        self._versions: list[int] = []

    def feed(self, token_ids: Iterable[int]) -> None:
        """Add what the environment wrote."""
        ids = tuple(token_ids)
        self.token_ids.extend(ids)
        self._mask.extend([0] * len(ids))
        self._logprobs.extend([0.0] * len(ids))
        self._versions.extend([-1] * len(ids))

    def add(self, generation: Generation) -> None:
        """Add what the policy sampled."""
        self.token_ids.extend(generation.token_ids)
        self._mask.extend([1] * len(generation.token_ids))
        self._logprobs.extend(generation.logprobs)
        self._versions.extend(generation.versions)

    def tokens(self) -> Tokens:
        """Return the finished columns."""
        return Tokens(
            token_ids=columns.int32(self.token_ids),
            mask=columns.uint8(self._mask),
            logprobs=columns.float32(self._logprobs),
            versions=columns.int32(self._versions),
        )

    def sampled_versions(self) -> list[int]:
        """Return the policy versions that wrote something, in order, with repeats."""
        return [version for version in self._versions if version >= 0]


class Conversation:
    """A rollout in progress. ``session`` names it in the simulator and in the engine's cache."""

    def __init__(
        self,
        task: Task,
        session: str,
        *,
        seed: int,
        temperature: float,
        generator: Generator,
        simulator: Simulator,
        renderer: Renderer,
        limits: RolloutConfig,
    ) -> None:
        self._task = task
        self._session = session
        self._seed = seed
        self._temperature = temperature
        self._generator = generator
        self._simulator = simulator
        self._renderer = renderer
        self._limits = limits
        self.transcript = Transcript()
        self.actions: list[Action] = []
        self.turns_passed = 0

    async def hold(self) -> Ending:
        """Carry the conversation to its end and say how it ended.

        Raises:
            SimulatorError: A simulator broke.
            GeneratorError: The engine broke.
        """
        turns = self._task.body.turns
        await self._simulator.reset(self._session, self._task.body)
        self.transcript.feed(self._renderer.opening(self._task.body))
        try:
            for turn in range(len(turns)):
                if turn > 0:
                    self.transcript.feed(self._renderer.instruction(turns[turn].instruction))
                ending = await self._take_turn(turn)
                if ending != "finished":
                    return ending
                if isinstance(await self._simulator.grade(self._session), Failed):
                    return "wrong"
                self.turns_passed += 1
            return "finished"
        finally:
            await self._generator.release(self._session)
            await self._simulator.release(self._session)

    async def _take_turn(self, turn: int) -> Ending:
        for calls in range(self._limits.max_calls_per_turn + 1):
            room = self._limits.max_tokens - len(self.transcript.token_ids)
            if room < 1:
                return "too_long"
            generation = await self._generate(min(room, self._limits.max_call_tokens))
            if not generation.stopped:
                return "too_long"
            try:
                call = self._renderer.parse(generation.token_ids)
            except ValueError:
                return "malformed"
            if call is None:
                return "finished"
            if calls == self._limits.max_calls_per_turn:
                break
            observed = await self._simulator.act(self._session, call)
            self.actions.append(
                Action(turn=turn, text=call, result=observed.result, failed=observed.failed)
            )
            self.transcript.feed(self._renderer.observation(observed.result))
        return "too_many_calls"

    async def _generate(self, max_tokens: int) -> Generation:
        position = len(self.transcript.token_ids)
        generation = await self._generator.generate(
            GenerationRequest(
                conversation_id=self._session,
                prompt_ids=tuple(self.transcript.token_ids),
                max_tokens=max_tokens,
                stop_ids=self._renderer.stop_ids,
                temperature=self._temperature,
                # Each turn's draws differ, and depend on nothing but the request and the position.
                seed=self._seed * 1_000_003 + position,
            )
        )
        self.transcript.add(generation)
        return generation


async def roll_out(
    request: RolloutRequest,
    task: Task,
    session: str,
    *,
    temperature: float,
    generator: Generator,
    simulator: Simulator,
    renderer: Renderer,
    limits: RolloutConfig,
) -> Rollout:
    """Attempt ``task`` once and return the graded rollout; reward 1 for success, else 0.

    Raises:
        SimulatorError: A simulator broke; nothing is known about the policy.
        GeneratorError: The engine broke; likewise.
    """
    started = time.monotonic()
    conversation = Conversation(
        task,
        session,
        seed=request.seed,
        temperature=temperature,
        generator=generator,
        simulator=simulator,
        renderer=renderer,
        limits=limits,
    )
    ending = await conversation.hold()
    versions = conversation.transcript.sampled_versions()
    turns_total = len(task.body.turns)
    return Rollout(
        group_id=request.group_id,
        group=request.group,
        index=request.index,
        group_size=request.group_size,
        task_id=request.task_id,
        purpose=request.purpose,
        seed=request.seed,
        tokens=conversation.transcript.tokens(),
        actions=tuple(conversation.actions),
        turns_passed=conversation.turns_passed,
        turns_total=turns_total,
        reward=float(conversation.turns_passed == turns_total),
        version_min=min(versions),
        version_max=max(versions),
        ended=ending,
        wall_s=time.monotonic() - started,
    )
