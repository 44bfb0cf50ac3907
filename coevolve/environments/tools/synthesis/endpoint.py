"""The synthesizer whose model is behind an OpenAI-compatible endpoint.

Its stages: reflect once; then, for all starts concurrently, explore step by step in the simulator
and abstract tasks from the calls; then execute each task to record its results.

If the answers of a round cannot be used, the round is left out and the others go on. A failure of
the endpoint or of a simulator, or an exceeded budget, ends the request. Tasks whose calls fail are
passed on without results: the validator refuses them, and so they are counted. Free exploration
(`Anything`) needs no reflection.

Model calls are numbered by their purpose, not by their time: two ordinals (the question and its
repetition) for the reflection, then for each round two per step and two for the abstraction. So a
recorded call is found again, independent of the pace of the rounds.
"""

import asyncio
from collections.abc import Sequence
from typing import NamedTuple

import msgspec
import structlog

from coevolve.environments.tools.interfaces import Simulator
from coevolve.environments.tools.synthesis.answers import (
    AbstractedTask,
    Move,
    read_reflection,
)
from coevolve.environments.tools.synthesis.brief import tool_context
from coevolve.environments.tools.synthesis.prompt_parts import example, reflect
from coevolve.environments.tools.synthesis.questions import CALLS, Questions
from coevolve.environments.tools.synthesis.structured_call import (
    ORDINALS,
    StructuredCall,
    Unrecorded,
)
from coevolve.environments.tools.task import ToolTask, ToolTurn
from coevolve.llm.client import Chat
from protocols.errors import AnswerError
from protocols.evolution import Candidate, Exploration, Reflection
from protocols.interfaces import CallLog
from protocols.rollouts import Action
from protocols.synthesis import Anything, Brief, Synthesis
from protocols.synthesizers import EndpointModel
from protocols.tasks import body_of

UNGUIDED = Reflection(
    summary="No weakness was named.",
    failure_cause="",
    instability_pattern="",
    focus_pattern=(),
    avoid_pattern=(),
)
"""Stands for a reflection if there is nothing to reflect on."""

log = structlog.get_logger()


class EndpointSynthesizer:
    """A `protocols.interfaces.Synthesizer`."""

    def __init__(
        self, model: EndpointModel, *, simulator: Simulator, questions: Questions = CALLS
    ) -> None:
        self._model = model
        self._chat = Chat(model)
        self._simulator = simulator
        self._asks = questions

    @property
    def name(self) -> str:
        """The endpoint's model."""
        return self._model.model

    async def check(self) -> None:
        """Make sure that the model answers, as `check_model` does."""
        await _reflect_on_example(self._chat, self._model)

    async def synthesize(self, brief: Brief, calls: CallLog) -> Synthesis:
        """Make candidates for ``brief``; see `protocols.interfaces.Synthesizer`.

        Raises:
            AnswerError: The reflection, or every round, got no usable answer.
            EndpointError: The model does not answer.
            OverBudgetError: The next call may exceed the budget.
            SimulatorError: A simulator failed.
        """
        structured = StructuredCall(
            self._chat, self._model, calls, signal_id=brief.signal_id, kind=brief.kind
        )
        reflection = UNGUIDED
        if not isinstance(brief.about, Anything):
            reflection = await structured.ask(0, "reflect", reflect(brief), read_reflection)
        means = _Means(self.name, self._simulator, self._asks)
        rounds = [
            _Round(brief, number, reflection, structured, means)
            for number in range(len(tool_context(brief).starts))
        ]
        try:
            async with asyncio.TaskGroup() as group:
                working = [group.create_task(each.work()) for each in rounds]
        except ExceptionGroup as errors:
            raise errors.exceptions[0] from None
        return _together(
            [each.result() for each in working], sum(each.simulator_calls for each in rounds)
        )

    def cpu_s(self) -> float:
        """Return 0: the model runs elsewhere."""
        return 0.0

    async def close(self) -> None:
        """Close the connections."""
        await self._chat.close()


async def check_model(model: EndpointModel) -> None:
    """Make sure that a model answers in the form that the work asks for.

    It reflects on an example. Raises EndpointError, or AnswerError for another form.
    """
    chat = Chat(model)
    try:
        await _reflect_on_example(chat, model)
    finally:
        await chat.close()


async def _reflect_on_example(chat: Chat, model: EndpointModel) -> None:
    structured = StructuredCall(chat, model, Unrecorded(), signal_id="example", kind="boundary")
    await structured.ask(0, "reflect", example(), read_reflection)


class _Found(NamedTuple):
    exploration: Exploration
    candidates: Sequence[Candidate]


class _Means(NamedTuple):
    synthesizer: str
    simulator: Simulator
    asks: Questions


class _Round:
    """One exploration of one start, with the candidates made from it."""

    simulator_calls: int
    """Number of calls so far, whatever their outcome."""

    def __init__(
        self,
        brief: Brief,
        number: int,
        reflection: Reflection,
        structured: StructuredCall,
        means: _Means,
    ) -> None:
        self._brief = brief
        self._start = tool_context(brief).starts[number]
        self._reflection = reflection
        self._call = structured
        self._synthesizer, self._simulator, self._asks = means
        self._id = f"{brief.signal_id}-r{number}"
        self._first_ordinal = ORDINALS * (1 + number * (brief.steps + 1))
        self.simulator_calls = 0

    async def work(self) -> _Found | AnswerError:
        """Return the result of the round, or the reason why it has none."""
        try:
            steps = await self._explore()
            tasks = await self._abstract(steps) if steps else ()
        except AnswerError as error:
            log.warning("round_left_out", round=self._id, reason=str(error))
            return error
        candidates = [await self._candidate(position, task) for position, task in enumerate(tasks)]
        exploration = Exploration(
            exploration_id=self._id,
            signal_id=self._brief.signal_id,
            synthesizer=self._synthesizer,
            reflection=self._reflection,
            start=self._start.origin,
            steps=tuple(steps),
        )
        return _Found(exploration, candidates)

    async def _explore(self) -> list[Action]:
        session = f"explore-{self._id}"
        steps: list[tuple[Move, Action]] = []
        await self._simulator.reset(session, self._start.task())
        try:
            for step in range(self._brief.steps):
                move = await self._call.ask(
                    self._first_ordinal + ORDINALS * step,
                    "explore",
                    self._asks.explore(self._brief, self._reflection, self._start, steps),
                    self._asks.read_move,
                )
                if move.done:
                    break
                observed = await self._simulator.act(session, move.action)
                self.simulator_calls += 1
                action = Action(
                    turn=0, text=move.action, result=observed.result, failed=observed.failed
                )
                steps.append((move, action))
        finally:
            await self._simulator.release(session)
        return [action for _, action in steps]

    async def _abstract(self, steps: Sequence[Action]) -> tuple[AbstractedTask, ...]:
        return await self._call.ask(
            self._first_ordinal + ORDINALS * self._brief.steps,
            "abstract",
            self._asks.abstract(self._brief, self._start, steps),
            self._asks.read_tasks,
        )

    async def _candidate(self, position: int, task: AbstractedTask) -> Candidate:
        """Return the task with the results of its calls; without results if a call fails."""
        turns = tuple(
            ToolTurn(instruction=turn.instruction, reference=turn.calls, revealed=turn.revealed)
            for turn in task.turns
        )
        body = self._body(turns, task.withheld)
        calls = [turn.calls for turn in task.turns]
        tried = await self._simulator.trial(f"{self._id}-t{position}", body, calls)
        self.simulator_calls += sum(map(len, calls))
        observed = [turn.observed for turn in tried.turns]
        if not any(answer.failed for turn in observed for answer in turn):
            answered = (
                msgspec.structs.replace(turn, results=tuple(each.result for each in answers))
                for turn, answers in zip(turns, observed, strict=True)
            )
            body = self._body(tuple(answered), task.withheld)
        return Candidate(
            candidate_id=f"{self._id}-t{position}",
            signal_id=self._brief.signal_id,
            exploration_id=self._id,
            synthesizer=self._synthesizer,
            body=body_of(body),
            policy_version=self._brief.policy_version,
        )

    def _body(self, turns: tuple[ToolTurn, ...], withheld: tuple[str, ...]) -> ToolTask:
        return msgspec.structs.replace(self._start.task(turns), withheld=withheld)


def _together(rounds: Sequence[_Found | AnswerError], simulator_calls: int) -> Synthesis:
    """Return the results of all rounds. Raises AnswerError if no round was usable."""
    usable = [each for each in rounds if isinstance(each, _Found)]
    for failed in rounds:
        if not usable and isinstance(failed, AnswerError):
            raise failed
    return Synthesis(
        explorations=tuple(each.exploration for each in usable),
        candidates=tuple(candidate for each in usable for candidate in each.candidates),
        simulator_calls=simulator_calls,
    )
