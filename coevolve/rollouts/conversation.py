"""One attempt of the policy at a task; with tools a conversation, from instruction to verdict.

Token-in token-out: what the engine sampled is what the next request extends and what the learner
trains on; text is only ever read from it. The environment's tokens are masked. A conversation ends
at the first turn that fails, since it cannot succeed any more.
"""

import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

from protocols import columns
from protocols.config import RolloutConfig
from protocols.generation import Generation, GenerationRequest
from protocols.hardware import reward_of
from protocols.interfaces import Generator, Renderer, Simulator
from protocols.rollouts import Action, Ending, Rollout, RolloutRequest, Tokens
from protocols.simulation import Failed
from protocols.tasks import CoverageTask, TaskBody
from protocols.transitions import Graded


@dataclass(frozen=True, kw_only=True)
class Played:
    """A conversation that came to its end."""

    tokens: Tokens
    actions: tuple[Action, ...]
    turns_passed: int
    turns_total: int
    ended: Ending
    turn_starts: tuple[int, ...] = (0,)
    """Where each turn that was begun starts among the tokens."""

    versions: tuple[int, ...]
    """The policy version of each sampled token, at least one."""

    oldest_version: int
    """Of those and of the keys and values that they were sampled over."""

    wall_s: float
    graded: Graded | None = None
    """The testbench, where coverage is the task."""

    partial_reward: float = 0.0
    """What a conversation that failed is worth, 0 or more and below 1."""

    goal_share: float | None = None
    """Share of the points that are the task's goal; None where it has none."""

    simulator_cpu_s: float = 0.0
    """CPU seconds of grading it; 0 where it had been graded before."""

    @property
    def succeeded(self) -> bool:
        """Whether every turn passed."""
        return self.turns_passed == self.turns_total

    @property
    def reward(self) -> float:
        """1 for success, else what the tools gave, mostly 0; for a testbench what Verilator gave.

        With a goal half of what is above 1 is for its points, and half for coverage as a whole.
        """
        if self.graded is None:
            return 1.0 if self.succeeded else self.partial_reward
        reward = reward_of(self.graded.outcome)
        if reward == 0 or self.goal_share is None:
            return reward
        return (reward + 1 + self.goal_share) / 2


class Player(Protocol):
    """Lets the policy attempt tasks."""

    async def play(self, task: TaskBody | CoverageTask, session: str, *, seed: int) -> Played:
        """Attempt a task once. ``session`` names it in the simulator and in the engine's cache.

        Raises:
            SimulatorError: A simulator broke; nothing is known about the policy.
            GeneratorError: The engine broke; likewise.
        """
        ...


@dataclass(frozen=True, kw_only=True)
class Arena:
    """Where conversations take place: an engine, the simulators, and the limits of both."""

    generator: Generator
    simulator: Simulator
    renderer: Renderer
    limits: RolloutConfig
    temperature: float
    """0 is greedy."""

    async def play(self, task: TaskBody | CoverageTask, session: str, *, seed: int) -> Played:
        """Attempt a task with tools once; see `Player`."""
        if isinstance(task, CoverageTask):
            raise TypeError(f"an arena needs a task with tools, found {task.task_id}")
        started = time.monotonic()
        conversation = _Conversation(self, task, session, seed)
        ended = await conversation.hold()
        return Played(
            tokens=conversation.transcript.tokens(),
            actions=tuple(conversation.actions),
            turns_passed=conversation.turns_passed,
            partial_reward=conversation.partial_reward,
            turns_total=len(task.turns),
            ended=ended,
            turn_starts=tuple(conversation.turn_starts),
            versions=tuple(conversation.transcript.sampled_versions()),
            oldest_version=conversation.transcript.oldest_version(),
            wall_s=time.monotonic() - started,
        )


def rollout_of(request: RolloutRequest, played: Played) -> Rollout:
    """Return what is recorded of an attempt."""
    return Rollout(
        group_id=request.group_id,
        group=request.group,
        index=request.index,
        group_size=request.group_size,
        task_id=request.task_id,
        seed=request.seed,
        tokens=played.tokens,
        actions=played.actions,
        turns_passed=played.turns_passed,
        turns_total=played.turns_total,
        reward=played.reward,
        version_min=played.oldest_version,
        version_max=max(played.versions),
        ended=played.ended,
        turn_starts=played.turn_starts,
        wall_s=played.wall_s,
        graded=played.graded,
        author=request.author,
        simulator_cpu_s=played.simulator_cpu_s,
    )


def sampling_seed(seed: int, position: int) -> int:
    """Return the seed of what is sampled from ``position`` on of a rollout with ``seed``.

    The draws of different turns differ, and depend on nothing but the request and the position.
    """
    return seed * 1_000_003 + position


class Transcript:
    """The columns of a conversation while it grows."""

    def __init__(self) -> None:
        self.token_ids: list[int] = []
        self._mask: list[int] = []
        self._logprobs: list[float] = []
        self._versions: list[int] = []
        self._cache_versions: list[int] = []

    def feed(self, token_ids: Iterable[int]) -> None:
        """Add what the environment wrote."""
        ids = tuple(token_ids)
        self.token_ids.extend(ids)
        self._mask.extend([0] * len(ids))
        self._logprobs.extend([0.0] * len(ids))
        self._versions.extend([-1] * len(ids))
        self._cache_versions.extend([-1] * len(ids))

    def add(self, generation: Generation) -> None:
        """Add what the policy sampled."""
        self.token_ids.extend(generation.token_ids)
        self._mask.extend([1] * len(generation.token_ids))
        self._logprobs.extend(generation.logprobs)
        self._versions.extend(generation.versions)
        self._cache_versions.extend(generation.cache_versions or generation.versions)

    def tokens(self) -> Tokens:
        """Return the finished columns."""
        return Tokens(
            token_ids=columns.int32(self.token_ids),
            mask=columns.uint8(self._mask),
            logprobs=columns.float32(self._logprobs),
            versions=columns.int32(self._versions),
            cache_versions=columns.int32(self._cache_versions)
            if self._cache_versions != self._versions
            else b"",
        )

    def sampled_versions(self) -> list[int]:
        """Return the policy versions that wrote something, in order, with repeats."""
        return [version for version in self._versions if version >= 0]

    def oldest_version(self) -> int:
        """Return the oldest of them and of those whose keys and values they were sampled over."""
        return min(version for version in self._cache_versions if version >= 0)


class _Conversation:
    """A conversation in progress."""

    def __init__(self, arena: Arena, body: TaskBody, session: str, seed: int) -> None:
        self._arena = arena
        self._body = body
        self._session = session
        self._seed = seed
        self.transcript = Transcript()
        self.actions: list[Action] = []
        self.turn_starts = [0]
        self.turns_passed = 0
        self.partial_reward = 0.0

    async def hold(self) -> Ending:
        """Carry the conversation to its end and say how it ended."""
        arena, turns = self._arena, self._body.turns
        await arena.simulator.reset(self._session, self._body)
        self.transcript.feed(arena.renderer.opening(self._body))
        try:
            for turn in range(len(turns)):
                if turn > 0:
                    self.turn_starts.append(len(self.transcript.token_ids))
                    self.transcript.feed(arena.renderer.instruction(self._body, turn))
                ending = await self._take_turn(turn)
                if ending != "finished":
                    return ending
                verdict = await arena.simulator.grade(self._session)
                if isinstance(verdict, Failed):
                    self.partial_reward = verdict.reward
                    return "wrong"
                self.turns_passed += 1
            return "finished"
        finally:
            await arena.generator.release(self._session)
            await arena.simulator.release(self._session)

    async def _take_turn(self, turn: int) -> Ending:
        arena, limits = self._arena, self._arena.limits
        made = 0
        while True:
            room = limits.max_tokens - len(self.transcript.token_ids)
            if room < 1:
                return "too_long"
            generation = await self._generate(min(room, limits.max_call_tokens))
            if not generation.stopped:
                return "too_long"
            try:
                calls = arena.renderer.parse(generation.token_ids)
            except ValueError:
                return "malformed"
            if not calls:
                return "finished"
            made += len(calls)
            if made > limits.max_calls_per_turn:
                return "too_many_calls"
            results = [await self._act(turn, call) for call in calls]
            self.transcript.feed(arena.renderer.observation(results))

    async def _act(self, turn: int, call: str) -> str:
        """Carry out a call and return the answer."""
        observed = await self._arena.simulator.act(self._session, call)
        self.actions.append(
            Action(turn=turn, text=call, result=observed.result, failed=observed.failed)
        )
        return observed.result

    async def _generate(self, max_tokens: int) -> Generation:
        position = len(self.transcript.token_ids)
        generation = await self._arena.generator.generate(
            GenerationRequest(
                conversation_id=self._session,
                prompt_ids=tuple(self.transcript.token_ids),
                max_tokens=max_tokens,
                stop_ids=self._arena.renderer.stop_ids,
                temperature=self._arena.temperature,
                seed=sampling_seed(self._seed, position),
            )
        )
        self.transcript.add(generation)
        return generation
