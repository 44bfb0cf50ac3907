"""An agent that holds a conversation with tools, from the first instruction to the verdict.

The conversation ends at the first turn that fails, because the task can no longer succeed. A
malformed call is answered by what is wrong with it, as a tool answers, and recorded as an action
that failed; one more than `ToolAgent.answered_errors` ends the conversation.
"""

from dataclasses import dataclass
from typing import Literal

from coevolve.environments.tools.chat.call_text import MalformedCallsError
from coevolve.environments.tools.commands import Failed, Observed
from coevolve.environments.tools.interfaces import Renderer, Simulator
from coevolve.environments.tools.task import ToolTask, tool_task
from coevolve.rollouts.agent import Episode
from coevolve.rollouts.conversation import Conversation
from protocols.config import RolloutConfig
from protocols.interfaces import Generator
from protocols.rollouts import Action, Ending
from protocols.tasks import Task


@dataclass(frozen=True, kw_only=True)
class ToolAgent:
    """An agent with an engine, the simulators, and the limits of a conversation."""

    generator: Generator
    simulator: Simulator
    renderer: Renderer
    limits: RolloutConfig
    temperature: float
    """0 means greedy decoding."""

    answered_errors: int = 0
    """Malformed calls of an attempt that are answered."""

    async def attempt(self, task: Task, session: str, *, seed: int) -> Episode:
        """Attempt a task with tools once; see `coevolve.rollouts.agent.Agent`."""
        body = tool_task(task)
        talk = Conversation(
            task,
            session,
            seed=seed,
            generator=self.generator,
            limits=self.limits,
            stop_ids=self.renderer.stop_ids,
            temperature=self.temperature,
        )
        attempt = _Attempt(self, talk, body, session)
        async with talk:
            try:
                ended = await attempt.carry_out()
            finally:
                await self.simulator.release(session)
        return talk.episode(
            ended=ended,
            reward=1.0 if ended == "finished" else attempt.partial_reward,
            turns_passed=attempt.turns_passed,
            turns_total=len(body.turns),
            actions=attempt.actions,
        )


class _Attempt:
    """An attempt in progress."""

    def __init__(self, agent: ToolAgent, talk: Conversation, body: ToolTask, session: str) -> None:
        self._agent = agent
        self._talk = talk
        self._body = body
        self._session = session
        self.actions: list[Action] = []
        self.turns_passed = 0
        self.partial_reward = 0.0
        self._answered_errors = 0
        self._said: tuple[int, ...] = ()
        """The policy's last message."""

        self._words = ""
        """The policy's words at the end of its last turn."""

    async def carry_out(self) -> Ending:
        """Hold the conversation to its end; return how it ended."""
        agent, turns = self._agent, self._body.turns
        await agent.simulator.reset(self._session, self._body)
        self._talk.hear(agent.renderer.opening(self._body))
        for turn in range(len(turns)):
            if turn > 0:
                self._talk.begin_turn()
                self._talk.hear(agent.renderer.instruction(self._body, turn, self._said))
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

    async def _take_turn(self, turn: int) -> Ending:
        agent = self._agent
        made = 0
        while True:
            said = await self._talk.say()
            if said is None:
                return "too_long"
            self._said = said
            calls = self._read(turn, said)
            if calls is None:
                continue
            if isinstance(calls, str):
                return calls
            if not calls:
                self._words = agent.renderer.words(said)
                return "finished"
            made += len(calls)
            if made > agent.limits.max_calls_per_turn:
                return "too_many_calls"
            answers: list[Observed] = []
            for call in calls:
                answers.append(await self._act(turn, call))
                if answers[-1].ended:
                    return "finished"
            results = [each.result for each in answers]
            self._talk.hear(agent.renderer.observation(results, said))

    def _read(
        self, turn: int, said: tuple[int, ...]
    ) -> tuple[str, ...] | Literal["malformed"] | None:
        """Return the calls of a message; None if they could not be read, and that was answered."""
        agent = self._agent
        try:
            return agent.renderer.parse(said, self._body.classes)
        except MalformedCallsError as error:
            if self._answered_errors == agent.answered_errors:
                return "malformed"
            self._answered_errors += 1
            words, answer = agent.renderer.words(said), f"Error: {error}"
            self.actions.append(Action(turn=turn, text=words, result=answer, failed=True))
            self._talk.hear(agent.renderer.observation([answer], said))
            return None
        except ValueError:
            return "malformed"

    async def _act(self, turn: int, call: str) -> Observed:
        """Execute a call and return its answer."""
        observed = await self._agent.simulator.act(self._session, call)
        self.actions.append(
            Action(turn=turn, text=call, result=observed.result, failed=observed.failed)
        )
        return observed
