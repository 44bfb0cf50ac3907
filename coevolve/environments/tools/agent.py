"""A conversation with tools, from the first instruction to the verdict.

It ends at the first turn that fails, since it cannot succeed any more.
"""

import time
from dataclasses import dataclass

from coevolve.environments.tools.commands import Failed
from coevolve.environments.tools.interfaces import Renderer, Simulator
from coevolve.environments.tools.task import ToolTask, tool_task
from coevolve.rollouts.agent import Episode, room_left, sampling_seed
from coevolve.rollouts.transcript import Transcript
from protocols.config import RolloutConfig
from protocols.generation import Generation, GenerationRequest
from protocols.interfaces import Generator
from protocols.rollouts import Action, Ending
from protocols.tasks import Task


@dataclass(frozen=True, kw_only=True)
class ToolAgent:
    """Where conversations take place: an engine, the simulators, and the limits of both."""

    generator: Generator
    simulator: Simulator
    renderer: Renderer
    limits: RolloutConfig
    temperature: float
    """0 is greedy."""

    async def attempt(self, task: Task, session: str, *, seed: int) -> Episode:
        """Attempt a task with tools once; see `coevolve.rollouts.agent.Agent`."""
        body = tool_task(task)
        started = time.monotonic()
        conversation = _Conversation(self, task, body, session, seed)
        ended = await conversation.hold()
        return Episode(
            tokens=conversation.transcript.tokens(),
            actions=tuple(conversation.actions),
            turns_passed=conversation.turns_passed,
            reward=1.0 if ended == "finished" else conversation.partial_reward,
            turns_total=len(body.turns),
            ended=ended,
            turn_starts=tuple(conversation.turn_starts),
            versions=tuple(conversation.transcript.sampled_versions()),
            oldest_version=conversation.transcript.oldest_version(),
            wall_s=time.monotonic() - started,
        )


class _Conversation:
    """A conversation in progress."""

    def __init__(
        self, agent: ToolAgent, task: Task, body: ToolTask, session: str, seed: int
    ) -> None:
        self._agent = agent
        self._task_id = task.task_id
        self._body = body
        self._session = session
        self._seed = seed
        self.transcript = Transcript()
        self.actions: list[Action] = []
        self.turn_starts = [0]
        self.turns_passed = 0
        self.partial_reward = 0.0
        self._words = ""
        """What the policy said at the end of its last turn."""

    async def hold(self) -> Ending:
        """Carry the conversation to its end and say how it ended."""
        agent, turns = self._agent, self._body.turns
        try:
            await agent.simulator.reset(self._session, self._body)
            self.transcript.feed(agent.renderer.opening(self._body))
            room_left(agent.limits, self._task_id, len(self.transcript.token_ids))
            for turn in range(len(turns)):
                if turn > 0:
                    self.turn_starts.append(len(self.transcript.token_ids))
                    self.transcript.feed(agent.renderer.instruction(self._body, turn))
                ending = await self._take_turn(turn)
                if ending != "finished":
                    return ending
                words = self._words if turn == len(turns) - 1 else ""
                verdict = await agent.simulator.grade(self._session, words)
                if isinstance(verdict, Failed):
                    self.partial_reward = verdict.reward
                    return "wrong"
                self.turns_passed += 1
            return "finished"
        finally:
            await agent.generator.release(self._session)
            await agent.simulator.release(self._session)

    async def _take_turn(self, turn: int) -> Ending:
        agent, limits = self._agent, self._agent.limits
        made = 0
        while True:
            room = limits.max_tokens - len(self.transcript.token_ids)
            if room < 1:
                return "too_long"
            generation = await self._generate(min(room, limits.max_call_tokens))
            if not generation.stopped:
                return "too_long"
            try:
                calls = agent.renderer.parse(generation.token_ids)
            except ValueError:
                return "malformed"
            if not calls:
                self._words = agent.renderer.words(generation.token_ids)
                return "finished"
            made += len(calls)
            if made > limits.max_calls_per_turn:
                return "too_many_calls"
            results = [await self._act(turn, call) for call in calls]
            self.transcript.feed(agent.renderer.observation(results))

    async def _act(self, turn: int, call: str) -> str:
        """Carry out a call and return the answer."""
        observed = await self._agent.simulator.act(self._session, call)
        self.actions.append(
            Action(turn=turn, text=call, result=observed.result, failed=observed.failed)
        )
        return observed.result

    async def _generate(self, max_tokens: int) -> Generation:
        position = len(self.transcript.token_ids)
        generation = await self._agent.generator.generate(
            GenerationRequest(
                conversation_id=self._session,
                prompt_ids=tuple(self.transcript.token_ids),
                max_tokens=max_tokens,
                stop_ids=self._agent.renderer.stop_ids,
                temperature=self._agent.temperature,
                seed=sampling_seed(self._seed, position),
            )
        )
        self.transcript.add(generation)
        return generation
